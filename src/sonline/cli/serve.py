"""``sonline serve``: a service that learns from events, and a page to watch it."""

from __future__ import annotations

import json as jsonlib
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.errors import ParameterError, require

app = command_app()


@app.command()
def serve(
    *,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for models and tokens. Created if missing."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FILE: start with this model file, unless the model already exists."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Other addresses than localhost need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8765,
    demo: Annotated[
        bool, typer.Option("--demo", help="Train a demonstration model on a stream with drift.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Only predict, with the models of the process that serves this folder."
        ),
    ] = False,
    accept_loss: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Start this model with what is left of its events. The error that asks for it "
            "says what is lost.",
        ),
    ] = None,
    models: Annotated[int, typer.Option(min=1, help="How many models may be created.")] = 1000,
    label_hours: Annotated[
        float, typer.Option(min=0.0, help="How long a row is stored until its label arrives.")
    ] = 24.0,
    label_megabytes: Annotated[
        int,
        typer.Option(min=1, help="Memory for rows that wait for labels; the oldest are dropped."),
    ] = 256,
    keep_gigabytes: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="Largest file of a model; old events are removed, but those that snapshots need.",
        ),
    ] = 10.0,
    keep_days: Annotated[
        float | None,
        typer.Option(min=0.0, help="Keep events this long, and all that snapshots need."),
    ] = None,
    snapshot_minutes: Annotated[
        float, typer.Option(min=0.1, help="Minutes between snapshots.")
    ] = 5.0,
    body_megabytes: Annotated[int, typer.Option(min=1, help="Largest request body.")] = 16,
    rate: Annotated[
        float, typer.Option(min=0.0, help="Requests per second and token; 0 is no limit.")
    ] = 0.0,
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM file, for HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file, for HTTPS.")] = None,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Serve models over HTTP: predict, train when labels arrive, and watch a live page.

    Events are on disk before they are acknowledged; labels may arrive later, by id.

    Example: sonline serve --demo
    """
    for package in ("uvicorn", "msgspec", "prometheus_client"):
        require(package, "serve")
    from sonline.service.bodies import Limits  # noqa: PLC0415 - an extra
    from sonline.service.records import check_name  # noqa: PLC0415
    from sonline.service.server import run  # noqa: PLC0415
    from sonline.service.settings import Settings  # noqa: PLC0415

    if data is None and not demo:
        raise ParameterError("--data is missing: the folder for models and logs (or try --demo)")
    if follow and (demo or model or accept_loss or data is None):
        raise ParameterError(
            "--follow needs --data, and goes with none of --demo, --model and --accept-loss"
        )
    if (tls_certificate is None) != (tls_key is None):
        raise ParameterError("--tls-certificate and --tls-key go together")
    files = {}
    for word in model or []:
        name, equals, file = word.partition("=")
        if not equals or not file:
            raise ParameterError(f"--model must be NAME=FILE, got {word!r}")
        files[check_name(name)] = Path(file)

    def started(url: str) -> None:
        if json:
            typer.echo(jsonlib.dumps({"url": url}))
        elif not quiet:
            typer.echo(f"Open {url}")

    temporary = tempfile.TemporaryDirectory() if data is None else None
    try:
        run(
            data or Path(temporary.name if temporary else ""),
            host=host,
            port=port,
            settings=Settings(
                label_seconds=label_hours * 3600,
                label_bytes=label_megabytes << 20,
                keep_bytes=int(keep_gigabytes * (1 << 30)),
                keep_seconds=None if keep_days is None else keep_days * 86400,
                snapshot_seconds=snapshot_minutes * 60,
                models=models,
            ),
            limits=Limits(body=body_megabytes << 20),
            models=files,
            accept_loss=accept_loss or (),
            rate=rate,
            certificate=tls_certificate,
            key=tls_key,
            with_demo=demo,
            follow=follow,
            started=started,
        )
    finally:
        if temporary is not None:
            temporary.cleanup()
