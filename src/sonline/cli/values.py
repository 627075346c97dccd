"""Values of options, converted without pydantic: its import takes a third of a short run.

Later versions of Typer convert with pydantic. Plain words, numbers and paths are converted here;
Typer converts all other values and reports errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

import typer.core

NUMBERS = {int: r"[+-]?\d{1,18}", float: r"[+-]?\d{1,18}(\.\d{1,18})?(e[+-]?\d{1,2})?"}
NAME = "build_runtime_param"
CHECKS = ("exists", "resolve_path", "writable", "allow_dash")  # of paths, which Typer makes
NOT_PLAIN = object()  # a value for Typer


class PlainValue:
    """Converts the values of one parameter; ``of_typer`` makes Typer's converter for the rest."""

    def __init__(self, descriptor: Any, of_typer: Callable[[Any], Any]) -> None:
        self._descriptor, self._of_typer = descriptor, of_typer
        self._type, self._info = descriptor.annotation, descriptor.parameter_info

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as the command takes it."""
        is_list = param.multiple or param.nargs == -1
        if value is None:
            return () if is_list else None
        converted = self._values(value) if is_list else self._value(value, self._type)
        if converted is NOT_PLAIN:
            return self._of_typer(self._descriptor).coerce(value, param=param, ctx=ctx)
        return converted

    def _values(self, values: Any) -> Any:
        if get_origin(self._type) is not list or not isinstance(values, (list, tuple)):
            return NOT_PLAIN
        converted = [self._value(value, get_args(self._type)[0]) for value in values]
        return NOT_PLAIN if NOT_PLAIN in converted else converted

    def _value(self, value: Any, kind: Any) -> Any:
        """Return one value; `NOT_PLAIN` if Typer has to look at it."""
        if self._info.parser is not None or not isinstance(kind, type):
            return NOT_PLAIN
        if kind in NUMBERS:
            return self._number(value, kind)
        if type(value) is kind and kind in (str, bool):
            return value
        if type(value) is not str:
            return NOT_PLAIN
        if issubclass(kind, Enum):
            return kind(value) if value in {choice.value for choice in kind} else NOT_PLAIN
        checked = any(getattr(self._info, name, False) for name in CHECKS)
        return Path(value) if kind is Path and not checked else NOT_PLAIN

    def _number(self, value: Any, kind: Any) -> Any:
        """Return a number within the limits of the option."""
        if type(value) is str and re.fullmatch(NUMBERS[kind], value, re.ASCII):
            value = kind(value)
        low, high = self._info.min, self._info.max
        if type(value) is not kind or self._info.clamp:
            return NOT_PLAIN
        within = (low is None or value >= low) and (high is None or value <= high)
        return value if within else NOT_PLAIN


def convert_plainly() -> None:
    """Let Typer convert plain values without pydantic, from now on in this process."""
    of_typer = getattr(typer.core, NAME, None)  # versions without it do without pydantic
    if of_typer is not None and not isinstance(of_typer, partial):
        setattr(typer.core, NAME, partial(PlainValue, of_typer=of_typer))
