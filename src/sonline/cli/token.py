"""``sonline token``: who may use a service."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sonline.cli import command_app
from sonline.errors import ParameterError

app = command_app()
Data = Annotated[Path, typer.Option(help="The folder that is served.", show_default=False)]


def _store(data: Path) -> Any:
    from sonline.service.store import Store  # noqa: PLC0415 - with the extra only

    return Store(data / "store.db")


@app.command()
def add(
    *,
    data: Data,
    scope: Annotated[
        list[str] | None, typer.Option(help="predict, learn or admin; several are possible.")
    ] = None,
    note: Annotated[str, typer.Option(help="For whom it is.")] = "",
) -> None:
    """Make a token and print it. It is shown once: only a hash of it is kept.

    Example: sonline token add --data service --scope predict --scope learn
    """
    with _store(data) as store:
        typer.echo(store.add_token(scope or ["predict", "learn"], note))


@app.command("list")
def list_(*, data: Data) -> None:
    """List the tokens, without their secrets."""
    with _store(data) as store:
        tokens = store.tokens()
    for token in tokens:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(token.created))
        typer.echo(f"{token.id}  {made}  {','.join(token.scopes):22}  {token.note}".rstrip())


@app.command()
def remove(
    *, data: Data, token: Annotated[str, typer.Argument(help="The first word of `list`.")]
) -> None:
    """Remove a token; a running service refuses it within seconds."""
    with _store(data) as store:
        removed = store.remove_token(token)
    if not removed:
        raise ParameterError(f"there is no token {token!r}; 'sonline token list' shows them")
