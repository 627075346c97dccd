"""``sonline client``: send rows to a service from the command line."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.errors import DataFormatError, require

app = command_app()
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of the model.", show_default=False)
]
Rows = Annotated[str, typer.Argument(metavar="FILE", help="JSON lines, or - for standard input.")]
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


def _rows(name: str) -> Iterator[dict[str, Any]]:
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
            yield row


@app.command()
def learn(
    model: Model,
    file: Rows = "-",
    *,
    url: Url = LOCAL,
    token: Secret = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows per request.")] = 1000,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Send rows with labels, such as {"x": {"price": 3.5}, "y": 1}.

    Rows get an id if they have none, so that nothing is learned twice when a request is repeated.

    Example: sonline client learn clicks rows.ndjson
    """
    with _client(url, model, token) as client:
        learned = client.learn_many(_rows(file), batch)
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
        for row in _rows(file):
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
        for row in _rows(file):
            typer.echo(
                jsonlib.dumps(client.label(row.get("id"), row.get("y"), row.get("weight", 1.0)))
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
