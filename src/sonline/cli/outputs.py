"""Checks of the files that a command writes, before it starts to work."""

from __future__ import annotations

import os
from pathlib import Path

from sonline.errors import ParameterError
from sonline.files import check_writable, is_replaced
from sonline.streams.sources import expand
from sonline.training.outputs import STDOUT


def model_file(path: Path) -> str:
    """Return the name of a model file; raise an error about a folder."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a model file, such as {path}/m.son")
    return str(path)


def check_outputs(data: list[str], **outputs: Path | None) -> None:
    """Raise an error if an output cannot be written, is also an input, or is named twice."""
    read = [name for name in expand(data) if os.path.isfile(name)]  # noqa: PTH113 - may be remote
    written: dict[str, str] = {}
    for name, path in outputs.items():
        if path is None or str(path) == STDOUT:
            continue
        flag = f"--{name.replace('_', '-')}"
        if path.is_file() and any(path.samefile(other) for other in read):
            raise ParameterError(f"{flag} {path}: this file is read; name another one")
        target = os.path.realpath(path)
        if target in written and is_replaced(path):
            raise ParameterError(f"{flag} {path}: {written[target]} is the same file")
        written[target] = flag
        try:
            check_writable(path)
        except OSError as error:
            raise type(error)(f"{flag} {error}") from None
