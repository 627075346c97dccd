"""``sonline token``: who may use a service."""

from __future__ import annotations

import json as jsonlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.errors import ParameterError

app = command_app()
Data = Annotated[Path, typer.Option(help="The folder of the service.", show_default=False)]


def _tokens(data: Path, create: bool = False) -> Any:
    from sonline.service.tokens import FILE, Tokens  # noqa: PLC0415 - with the extra only

    if create:
        data.mkdir(parents=True, exist_ok=True)
    elif not (data / FILE).is_file():
        raise ParameterError(f"{data}: there is no service in this folder")
    return Tokens(data)


@app.command()
def add(
    *,
    data: Data,
    scope: Annotated[
        list[str] | None, typer.Option(help="predict, learn or admin. May be repeated.")
    ] = None,
    note: Annotated[str, typer.Option(help="Who uses this token.")] = "",
    json: shared.Json = False,
    quiet: shared.Terse = False,
) -> None:
    """Create a token and print it. It is shown once: only its hash is stored.

    Example: sonline token add --data service --scope predict --scope learn
    """
    secret = _tokens(data, create=True).add(scope or ["predict", "learn"], note)
    typer.echo(jsonlib.dumps({"token": secret}) if json else secret)


@app.command("list")
def list_(*, data: Data, json: shared.Json = False, quiet: shared.Terse = False) -> None:
    """List the tokens, without their secrets.

    Example: sonline token list --data service
    """
    tokens = _tokens(data).all()
    if json:
        typer.echo(jsonlib.dumps([asdict(token) for token in tokens]))
        return
    for token in tokens:
        created = time.strftime("%Y-%m-%d %H:%M", time.localtime(token.created))
        typer.echo(f"{token.id}  {created}  {','.join(token.scopes):22}  {token.note}".rstrip())


@app.command()
def remove(
    *,
    data: Data,
    token: Annotated[str, typer.Argument(help="The first column of `sonline token list`.")],
    json: shared.Json = False,
    quiet: shared.Terse = False,
) -> None:
    """Remove a token; a running service refuses it within seconds.

    Example: sonline token remove --data service 1f0c2a9b7d3e
    """
    known = _tokens(data)
    if not known.remove(token):
        raise ParameterError(f"there is no token {token!r}; 'sonline token list' shows them")
    if not known.all() and not quiet:
        typer.echo("it was the last token: nobody can use the service until you add one", err=True)
    if json:
        typer.echo(jsonlib.dumps({"removed": token}))
