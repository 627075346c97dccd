"""``sonline client``: send rows to a service from the command line."""

from __future__ import annotations

import inspect
import io
import json as jsonlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from sonline import streams
from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.convert import rows_of
from sonline.errors import DataFormatError, ParameterError, SonlineError, require
from sonline.labels import label_of
from sonline.streams.files import SourceFile
from sonline.streams.sources import format_of_name, open_source

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
Identity = Annotated[
    str | None, typer.Option("--id", help="Tables: the column with the id of each row.")
]
Batch = Annotated[int, typer.Option(min=1, help="Rows per request.")]
LOCAL = "http://127.0.0.1:8765"


def _client(url: str, model: str, token: str | None) -> Any:
    require("httpx", "serve")
    from sonline.service.client import Client  # noqa: PLC0415 - an extra

    return Client(url, model, token)


def _connected(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take a model and a service in place of its argument ``client``.

    A command without the argument ``json`` prints JSON in any case.
    """
    added = [
        shared.added_option("model", Model, inspect.Parameter.empty),
        shared.added_option("url", Url, LOCAL),
        shared.added_option("token", Secret, None),
    ]
    if "json" not in inspect.signature(command).parameters:
        added += [
            shared.added_option("json", shared.Json, True),
            shared.added_option("quiet", shared.Terse, False),
        ]

    @wraps(command)
    def run(*, client: Any, **arguments: Any) -> None:
        with client:
            command(client=client, **arguments)

    def connect(values: dict[str, Any]) -> Any:
        return _client(values["url"], values["model"], values["token"])

    return shared.with_options(run, "client", added, connect)


@contextmanager
def _lines(name: str) -> Iterator[Iterable[str | bytes]]:
    """Open JSON lines: standard input, or a file that may be compressed."""
    if name == "-":
        yield sys.stdin
        return
    with closing(open_source(name)) as source:
        yield io.BufferedReader(SourceFile(source))


def _rows(name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of JSON lines with the numbers of their lines."""
    with _lines(name) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = jsonlib.loads(line)
            except ValueError as error:  # also of text that is not UTF-8
                raise DataFormatError(str(error), file=name, line=number) from None
            if not isinstance(row, dict):
                raise DataFormatError("expected an object", file=name, line=number)
            yield number, row


def _requests(
    name: str, options: dict[str, Any], lines: list[int], labelled: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield rows as the service takes them; ``lines`` gets their lines if the file has such rows.

    Files of all other formats are read as ``sonline train`` and ``sonline predict`` read them.
    """
    kind = options["format"]
    named = format_of_name(name) if kind == "auto" else kind
    if named in (None, "jsonl") and kind == "auto" and (name == "-" or _has_requests(name)):
        for number, row in _rows(name):
            lines.append(number)
            yield row
        return
    chosen = {key: value for key, value in options.items() if value}
    chosen |= {"features": "name", "dtype": "float64", "tokens": True, "unlabelled": not labelled}
    with streams.open([name], **chosen) as stream:
        indexed = stream.options.format == "svmlight"
        for read in rows_of(stream):
            x: Any = dict(read.features)
            if indexed:
                x = [[int(key), value] for key, value in read.features]
            body: dict[str, Any] = {"x": x} | ({"id": read.tag} if read.tag else {})
            body |= {} if read.offset is None else {"offset": read.offset}
            if labelled:
                body |= {"y": label_of(read.label or "")}
                body |= {"weight": read.weight} if read.weight != 1 else {}
            yield body


def _has_requests(name: str) -> bool:
    """Return whether a file of JSON lines holds rows as the service takes them, with x and y."""
    with _lines(name) as file:
        first = next((line for line in file if line.strip()), b"")
    try:
        row = jsonlib.loads(first)
    except ValueError:
        return first.lstrip()[:1] in ("{", b"{")  # the error names the line
    return isinstance(row, dict) and isinstance(row.get("x"), (dict, list))


@app.command()
@_connected
def learn(
    *,
    client: Any,
    file: Table = "-",
    format: shared.Format = "auto",  # noqa: A002 - the name of the option
    label: shared.LabelColumn = None,
    weight: shared.WeightColumn = None,
    offset: shared.OffsetColumn = None,
    tag: Identity = None,
    batch: Batch = 1000,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Send rows with labels, such as {"x": {"price": 3.5}, "y": 1}, or a table.

    A table (CSV, Parquet, ...), and JSON lines with a label column as convert writes them, are read
    as train reads them; on standard input, name their format. Rows get an id if they have none, so
    that nothing is learned twice when a request is repeated.

    Example: sonline client learn clicks rows.ndjson
    """
    options = {"format": str(format), "label": label, "weight": weight, "offset": offset}
    options["tag"] = tag
    lines: list[int] = []
    try:
        learned = client.learn_many(_requests(file, options, lines), batch)
    except SonlineError as error:
        raise _located(error, file, lines) from None
    if json:
        typer.echo(jsonlib.dumps({"learned": learned}))
    elif not quiet:
        typer.echo(f"{learned} learned")


def _located(error: SonlineError, file: str, lines: list[int]) -> SonlineError:
    """Return an error with the line of the row that the service refused, if it is known."""
    row = getattr(error, "row", None)
    reason = getattr(error, "reason", None)  # of a ServiceError
    if row is None or reason is None or not lines:
        return error
    return DataFormatError(reason, file=file, line=lines[row - 1])


@app.command()
@_connected
def predict(
    *,
    client: Any,
    file: Table = "-",
    format: shared.Format = "auto",  # noqa: A002 - the name of the option
    label: shared.LabelColumn = None,
    offset: shared.OffsetColumn = None,
    tag: Identity = None,
    batch: Batch = 1000,
) -> None:
    """Predict rows such as {"x": {"price": 3.5}, "id": "a"}, or a table; one answer per line.

    A table is read as predict reads it: it needs no labels, and its label column is left out.

    Example: sonline client predict clicks rows.csv
    """
    options = {"format": str(format), "label": label, "offset": offset, "tag": tag}
    lines: list[int] = []
    one_by_one = file == "-" and sys.stdin.isatty()
    try:
        rows = _requests(file, options, lines, labelled=False)
        for answer in client.predict_many(rows, 1 if one_by_one else batch):
            typer.echo(jsonlib.dumps(answer))
    except SonlineError as error:
        raise _located(error, file, lines) from None


@app.command()
@_connected
def label(*, client: Any, file: Rows = "-") -> None:
    """Send labels of rows that were predicted, such as {"id": "a", "y": 1}.

    Example: sonline client label clicks
    """
    for _, row in _rows(file):
        answer = client.label(row.get("id"), row.get("y"), row.get("weight", 1.0))
        typer.echo(jsonlib.dumps(answer))


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
@_connected
def show(*, client: Any) -> None:
    """Show the versions of a model and their scores.

    Example: sonline client show clicks
    """
    typer.echo(jsonlib.dumps(client.describe(), indent=2))


@app.command()
@_connected
def create(
    *,
    client: Any,
    task: Annotated[str, typer.Option(help="binary, classes or regression.")] = "binary",
    file: Annotated[
        Path | None, typer.Option("--model", help="Start with this model file.")
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of OnlineLearner. May be repeated."),
    ] = None,
) -> None:
    """Create a model.

    Example: sonline client create clicks --task classes --parameter sketch_size=5
    """
    chosen = {}
    for word in parameter or []:
        name, equals, value = word.partition("=")
        if not equals:
            raise ParameterError(f"--parameter must be NAME=VALUE, got {word!r}")
        try:
            chosen[name] = jsonlib.loads(value)
        except jsonlib.JSONDecodeError:
            chosen[name] = value
    typer.echo(jsonlib.dumps(client.create(task, parameters=chosen, file=file), indent=2))


@app.command()
@_connected
def promote(
    *,
    client: Any,
    version: Annotated[int, typer.Argument(help="Number of the version.", show_default=False)],
) -> None:
    """Make a version the champion, which answers requests.

    Example: sonline client promote clicks 2
    """
    typer.echo(jsonlib.dumps({"champion": client.promote(version)}))


@app.command()
@_connected
def rollback(*, client: Any) -> None:
    """Make the previous champion the champion again.

    Example: sonline client rollback clicks
    """
    typer.echo(jsonlib.dumps({"champion": client.roll_back()}))


@app.command()
@_connected
def snapshot(*, client: Any) -> None:
    """Write snapshots of all versions now.

    Example: sonline client snapshot clicks
    """
    typer.echo(jsonlib.dumps({"events": client.snapshot()}))
