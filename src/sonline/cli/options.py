"""Options that commands share; the options of the learner come from its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sonline.constructors import first_sentence
from sonline.errors import ParameterError
from sonline.parameters import AUTO, LOSSES, SKETCHES, Parameters
from sonline.streams import FORMATS, ON_ERROR

CHOICES: dict[str, tuple[str, ...]] = {"loss": tuple(LOSSES), "sketch": SKETCHES} | {
    known.name: known.metadata["choices"]
    for known in fields(Parameters)
    if known.metadata["choices"]
}
INTEGERS = [known.name for known in fields(Parameters) if known.metadata["kind"].startswith("int")]


def choice(name: str, values: Iterable[str]) -> Any:
    """Return a type that takes one of these words."""
    return StrEnum(name, {value: value for value in values})


Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Files, globs, URLs, or - for standard input; plain, gzip, bz2, xz or zstd.",
        show_default=False,
    ),
]
ModelFile = Annotated[Path, typer.Option("--model", "-m", help="Model file.", show_default=False)]
if TYPE_CHECKING:  # enumerations made at run time are no types for a checker
    FormatName = str
    ErrorMode = str
else:
    FormatName = choice("FormatName", ["auto", *FORMATS])
    ErrorMode = choice("ErrorMode", ON_ERROR)
Format = Annotated[
    FormatName,
    typer.Option(
        "--format",
        help="Format of the data. auto detects it from the name or the content.",
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option("--label", help="Tables: the label column [default: label].")
]
# For a model that has been trained.
OtherLabelColumn = Annotated[
    str | None, typer.Option("--label", help="Tables: the label column [default: as in training].")
]
WeightColumn = Annotated[
    str | None,
    typer.Option(
        "--weight",
        help="Tables: the column of sample weights. svmlight: label, if labels are written as "
        "LABEL:WEIGHT.",
    ),
]
OffsetColumn = Annotated[
    str | None,
    typer.Option(
        "--offset",
        help="Tables: the column of what is added to the raw prediction, such as the logarithm of "
        "the exposure for --loss poisson.",
    ),
]
TagColumn = Annotated[
    str | None,
    typer.Option("--tag", help="Tables: the column with a name for each row. predict prints it."),
]
TextColumns = Annotated[
    list[str] | None,
    typer.Option("--text", help="Tables: treat this column as categories. May be repeated."),
]
IgnoredColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        help="Leave out this column; for .vw, the first letter of a namespace. May be repeated.",
    ),
]
Interactions = Annotated[
    list[str] | None,
    typer.Option("--interactions", help="Columns to multiply, such as age*city. May be repeated."),
]
Ngrams = Annotated[
    list[str] | None,
    typer.Option(
        "--ngrams",
        help="COLUMN:N, such as title:2: split a text column into words and n-grams of up to N "
        "words. For .vw with --hash-bits: a namespace (its first letter) instead of a column. "
        "May be repeated.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", help="CSV: the delimiter [default: detected from the first lines]."
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option(
        "--no-header", help="CSV, TSV: there is no header. Columns are called c1, c2, ..."
    ),
]
NaValues = Annotated[
    list[str] | None,
    typer.Option(
        "--na-values",
        help="CSV, TSV: treat this text as a missing cell, besides ?, NA, ... May be repeated.",
    ),
]
Amounts = Annotated[
    list[str] | None,
    typer.Option(
        "--amount",
        help="Tables: read this column as numbers with separators, currency signs or per cent, "
        "such as 1,234.50 € or 12 %. May be repeated.",
    ),
]
OnError = Annotated[
    ErrorMode,
    typer.Option(
        "--on-error",
        help="Bad rows: stop with an error, or skip and count them.",
    ),
]
BadRows = Annotated[
    Path | None,
    typer.Option("--bad-rows", help="With --on-error skip: write bad rows to this file."),
]
Json = Annotated[bool, typer.Option("--json", help="Print only the results, as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Terse = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors.")]


READING: dict[str, tuple[Any, Any]] = {
    "format": (Format, "auto"),
    "label": (LabelColumn, None),
    "weight": (WeightColumn, None),
    "offset": (OffsetColumn, None),
    "tag": (TagColumn, None),
    "text": (TextColumns, None),
    "ignore": (IgnoredColumns, None),
    "interactions": (Interactions, None),
    "ngrams": (Ngrams, None),
    "delimiter": (Delimiter, None),
    "no_header": (NoHeader, False),
    "na_values": (NaValues, None),
    "amounts": (Amounts, None),
    "on_error": (OnError, "stop"),
}


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for reading any format to a command, as the argument ``reading``."""
    added = [added_option(name, kind, default) for name, (kind, default) in READING.items()]

    def collected(values: dict[str, Any]) -> dict[str, Any]:
        values |= {
            name: values[name] or []
            for name in ("text", "ignore", "na_values", "amounts", "interactions", "ngrams")
        }
        if values.pop("no_header"):
            values["header"] = False
        if values["delimiter"] is not None:
            values["delimiter"] = values["delimiter"].replace("\\t", "\t")
            if len(values["delimiter"].encode()) != 1:
                raise ParameterError("--delimiter must be one character, such as ';'")
        return values | {name: str(values[name]) for name in ("format", "on_error")}

    return with_options(command, "reading", added, collected)


def with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each parameter of the learner to a command, as ``parameters``.

    The argument is a dict of the options that the user set, by field of `Parameters`.
    """
    added, values_of = [], {}  # flags that stand for a value of a parameter
    for field in fields(Parameters):
        flag = field.name.replace("_", "-")
        settings: dict[str, Any] = {
            "help": f"{first_sentence(field.name)} [default: {_shown(field.default)}]",
            "show_default": False,
            "rich_help_panel": "Learner",
        }
        kind: Any = str
        names = [f"--{flag}"]
        if field.name in CHOICES:
            kind = choice(field.name, CHOICES[field.name])
        elif field.metadata["kind"].startswith("bool"):
            kind = bool
            names = [f"--{flag}/--no-{flag}"]
            for word in set(re.findall(r'"(.+?)"', field.metadata["kind"])) - {AUTO}:
                text = f"The same as {field.name}={word!r} in Python."
                option = typer.Option(f"--{word}", help=text, rich_help_panel="Learner")
                added.append(added_option(word, Annotated[bool, option], False))
                values_of[word] = field.name
        else:
            number = "INTEGER" if field.name in INTEGERS else "NUMBER"
            words = re.findall(r'"(.+?)"', field.metadata["kind"])  # such as int or "auto"
            settings["metavar"] = "|".join([number, *words])
        added.append(
            added_option(field.name, Annotated[kind | None, typer.Option(*names, **settings)], None)
        )

    def collected(values: dict[str, Any]) -> dict[str, Any]:
        for word, name in values_of.items():
            if values.pop(word):
                if values[name] is False:
                    raise ParameterError(f"--{word} and --no-{name}: choose one of them")
                values[name] = word
        return {name: parsed(name, value) for name, value in values.items() if value is not None}

    return with_options(command, "parameters", added, collected)


def added_option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """Return an option, or an argument, for `with_options`."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def with_options(
    command: Callable[..., None],
    name: str,
    added: list[inspect.Parameter],
    collected: Callable[[dict[str, Any]], dict[str, Any]],
) -> Callable[..., None]:
    """Replace an argument of a command by options; the argument gets their collected values."""
    signature = inspect.signature(command, eval_str=True)

    def run(**arguments: Any) -> None:
        arguments[name] = collected({option.name: arguments.pop(option.name) for option in added})
        command(**arguments)

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    parameters = list(signature.parameters.values())
    position = [option.name for option in parameters].index(name)
    options = parameters[:position] + added + parameters[position + 1 :]
    run.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def parsed(name: str, value: Any) -> Any:
    """Return the value of a parameter from its text.

    Examples
    --------
    >>> parsed("alpha", "0.5"), parsed("alpha", "auto"), parsed("sketch_size", "20")
    (0.5, 'auto', 20)
    """
    if not isinstance(value, str):
        return value
    if name in CHOICES:
        return str(value)
    if value.lower() == "none":
        return None
    if name in INTEGERS and value != AUTO:
        if not re.fullmatch(r"[+-]?\d+", value):
            flag = name.replace("_", "-")
            raise ParameterError(f"--{flag} must be an integer, got {value!r}")
        return int(value)
    try:
        return float(value)
    except ValueError:
        return value


def _shown(default: Any) -> str:
    words = {True: "yes", False: "no", None: "none"}
    return words[default] if isinstance(default, (bool, type(None))) else str(default)


def label_column(reading: dict[str, Any], label: str | None) -> dict[str, Any]:
    """Return options of a stream with another label column than the model was trained with."""
    if label is None:
        return {}
    # The label column of the training is never a feature.
    others = {reading.get("label") or "label"} - {label}
    return {"label": label, "ignore": [*reading.get("ignore", []), *others]}
