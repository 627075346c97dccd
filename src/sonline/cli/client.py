"""``sonline client``: send rows to a service from the command line."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from sonline import streams
from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.convert import rows_of
from sonline.errors import DataFormatError, SonlineError, require
from sonline.labels import label_of
from sonline.streams.sources import format_of_name

app = command_app()
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of the model.", show_default=False)
]
Rows = Annotated[str, typer.Argument(metavar="FILE", help="JSON lines, or - for standard input.")]
Table = Annotated[
    str, typer.Argument(metavar="FILE", help="JSON lines or a table, or - for standard input.")
]
Url = Annotated[str, typer.Option(help="URL of the service.", envvar="SONLINE_URL")]
Secret = Annotated[
    str | None,
    typer.Option(
        "--token", help="Access token. Safer in the environment variable.", envvar="SONLINE_TOKEN"
    ),
]
LOCAL = "http://127.0.0.1:8765"


def _client(url: str, model: str, token: str | None) -> Any:
    require("httpx", "serve")
    from sonline.service.client import Client  # noqa: PLC0415 - an extra

    return Client(url, model, token)


def _rows(name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of JSON lines with the numbers of their lines."""
    with sys.stdin if name == "-" else open(name, encoding="utf-8") as file:  # noqa: PTH123
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = jsonlib.loads(line)
            except jsonlib.JSONDecodeError as error:
                raise DataFormatError(str(error), file=name, line=number) from None
            if not isinstance(row, dict):
                raise DataFormatError("expected an object", file=name, line=number)
            yield number, row


def _labelled(name: str, options: dict[str, Any], lines: list[int]) -> Iterator[dict[str, Any]]:
    """Yield rows with labels; ``lines`` gets the line of each if the file has the service's rows.

    Files of all other formats are read as ``sonline train`` reads them.
    """
    kind = options["format"]
    named = format_of_name(name) if kind == "auto" else kind
    if named in (None, "jsonl") and kind == "auto" and (name == "-" or _has_requests(name)):
        for number, row in _rows(name):
            lines.append(number)
            yield row
        return
    chosen = {key: value for key, value in options.items() if value}
    with streams.open([name], features="name", dtype="float64", tokens=True, **chosen) as stream:
        indexed = stream.options.format == "svmlight"
        for label, weight, tag, features in rows_of(stream):
            x = [[int(key), value] for key, value in features] if indexed else dict(features)
            body = {"x": x, "y": label_of(label or "")} | ({"id": tag} if tag else {})
            yield body | ({"weight": weight} if weight != 1 else {})


def _has_requests(name: str) -> bool:
    """Return whether a file of JSON lines holds rows as the service takes them, with x and y."""
    with open(name, encoding="utf-8") as file:  # noqa: PTH123
        first = next((line for line in file if line.strip()), "")
    try:
        row = jsonlib.loads(first)
    except jsonlib.JSONDecodeError:
        return first.lstrip().startswith("{")  # the error names the line
    return isinstance(row, dict) and isinstance(row.get("x"), (dict, list))


@app.command()
def learn(
    model: Model,
    file: Table = "-",
    *,
    url: Url = LOCAL,
    token: Secret = None,
    format: shared.Format = "auto",  # noqa: A002 - the name of the option
    label: shared.LabelColumn = None,
    weight: shared.WeightColumn = None,
    tag: Annotated[
        str | None, typer.Option("--id", help="Tables: the column with the id of each row.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows per request.")] = 1000,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Send rows with labels, such as {"x": {"price": 3.5}, "y": 1}, or a table.

    A table (CSV, Parquet, ...), and JSON lines with a label column as convert writes them, are read
    as train reads them; on standard input, name their format. Rows get an id if they have none, so
    that nothing is learned twice when a request is repeated.

    Example: sonline client learn clicks rows.ndjson
    """
    with _client(url, model, token) as client:
        options = {"format": str(format), "label": label, "weight": weight, "tag": tag}
        lines: list[int] = []
        try:
            learned = client.learn_many(_labelled(file, options, lines), batch)
        except SonlineError as error:
            row = getattr(error, "row", None)
            reason = getattr(error, "reason", None)  # of a ServiceError
            if row is None or reason is None or not lines:
                raise
            raise DataFormatError(reason, file=file, line=lines[row - 1]) from None
    if json:
        typer.echo(jsonlib.dumps({"learned": learned}))
    elif not quiet:
        typer.echo(f"{learned} learned")


@app.command()
def predict(
    model: Model,
    file: Rows = "-",
    *,
    url: Url = LOCAL,
    token: Secret = None,
    json: shared.Json = True,
    quiet: shared.Terse = False,
) -> None:
    """Predict rows such as {"x": {"price": 3.5}, "id": "a"}, and print one answer per line.

    Example: sonline client predict clicks
    """
    with _client(url, model, token) as client:
        for _, row in _rows(file):
            typer.echo(jsonlib.dumps(client.predict(row.get("x", {}), row.get("id"))))


@app.command()
def label(
    model: Model,
    file: Rows = "-",
    *,
    url: Url = LOCAL,
    token: Secret = None,
    json: shared.Json = True,
    quiet: shared.Terse = False,
) -> None:
    """Send labels of rows that were predicted, such as {"id": "a", "y": 1}.

    Example: sonline client label clicks
    """
    with _client(url, model, token) as client:
        for _, row in _rows(file):
            typer.echo(
                jsonlib.dumps(client.label(row.get("id"), row.get("y"), row.get("weight", 1.0)))
            )


@app.command("list")
def list_models(
    *,
    url: Url = LOCAL,
    token: Secret = None,
    json: shared.Json = False,
    quiet: shared.Terse = False,
) -> None:
    """List the models of a service.

    Example: sonline client list
    """
    with _client(url, "", token) as client:
        found = client.models()
    if json:
        typer.echo(jsonlib.dumps(found, indent=2))
        return
    for model in found:
        learned = model["versions"][str(model["champion"])]["learned"]
        typer.echo(
            f"{model['name']}: {learned} rows learned{'' if model['ready'] else ', not ready'}"
        )


@app.command()
def show(
    model: Model,
    *,
    url: Url = LOCAL,
    token: Secret = None,
    json: shared.Json = True,
    quiet: shared.Terse = False,
) -> None:
    """Show the versions of a model and their scores.

    Example: sonline client show clicks
    """
    with _client(url, model, token) as client:
        typer.echo(jsonlib.dumps(client.describe(), indent=2))
