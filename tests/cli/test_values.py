"""Options are converted as Typer converts them, values that it refuses included."""

from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
import typer.core

from sonline.cli.values import PlainValue

coercion = pytest.importorskip("typer._coercion")  # versions before it convert otherwise

Colour = StrEnum("Colour", {"red": "red", "blue": "blue"})
WORDS = ["1", "-3", "+7", "0", "99", "1.5", "1e3", "1e400", "nan", "", " 2", "2 ", "1_0", "٣"]
WORDS += ["red", "RED", "green", "a/b.svm", "-", "true", "9" * 30, "0x1", ".5", "5."]
KINDS = [
    (str, typer.Option()),
    (int, typer.Option()),
    (int, typer.Option(min=1, max=50)),
    (float, typer.Option()),
    (float, typer.Option(min=0)),
    (bool, typer.Option()),
    (Path, typer.Option()),
    (Path, typer.Option(exists=True)),
    (Colour, typer.Option()),
    (str, typer.Option(parser=str.upper)),
]


def answer(converter: Any, value: Any, several: bool) -> Any:
    """Return the converted value, or the error message."""
    parameter = SimpleNamespace(multiple=several, nargs=1, name="x", opts=["--x"])
    try:
        return converter.coerce(value, param=parameter, ctx=None)
    except Exception as error:  # noqa: BLE001 - of whatever kind
        return type(error), str(error)


@pytest.mark.parametrize(("kind", "info"), KINDS)
def test_values_are_those_of_typer(kind: Any, info: Any) -> None:
    for annotation, several in ((kind, False), (list[kind], True)):
        described = coercion.resolve_type_descriptor(annotation, info)
        plain, theirs = (
            PlainValue(described, coercion.build_runtime_param),
            coercion.build_runtime_param(described),
        )
        for value in [*WORDS, 3, 2.5, True, None]:
            options = [value] if several and value is not None else value
            ours, expected = answer(plain, options, several), answer(theirs, options, several)
            assert repr(ours) == repr(expected), value  # NaN is not itself
            assert type(ours) is type(expected), value
