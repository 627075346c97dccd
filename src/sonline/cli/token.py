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


def _store(data: Path, create: bool = False) -> Any:
    from sonline.service.store import Store  # noqa: PLC0415 - with the extra only

    if not create and not (data / "store.db").is_file():
        raise ParameterError(f"{data}: there is no service in this folder")
    return Store(data / "store.db")


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
    with _store(data, create=True) as store:
        secret = store.add_token(scope or ["predict", "learn"], note)
    typer.echo(jsonlib.dumps({"token": secret}) if json else secret)


@app.command("list")
def list_(*, data: Data, json: shared.Json = False, quiet: shared.Terse = False) -> None:
    """List the tokens, without their secrets.

    Example: sonline token list --data service
    """
    with _store(data) as store:
        tokens = store.tokens()
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
    with _store(data) as store:
        removed = store.remove_token(token)
    if not removed:
        raise ParameterError(f"there is no token {token!r}; 'sonline token list' shows them")
    if json:
        typer.echo(jsonlib.dumps({"removed": token}))
