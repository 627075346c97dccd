"""``sonline datasets``: which data sets of the paper there are, and fetching them."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.paper import datasets

app = command_app()

SHOWN = (
    *("name", "title", "rows", "features", "nonzeros", "task"),
    *("page", "urls", "licence", "fingerprint", "note"),
)

DataDir = Annotated[
    Path | None, typer.Option(help="Folder with data sets [default: SONLINE_DATA and the cache].")
]


@app.command("list")
def _list(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Data sets to describe in full.", show_default=False
        ),
    ] = None,
    data_dir: DataDir = None,
    json: Annotated[bool, typer.Option("--json", help="Print all details as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the names.")] = False,
) -> None:
    """List the data sets of the paper: size, task, licence, and the file if it is here.

    Of sets that are named also source, checksum, and how their labels become two classes.

    Example: sonline datasets list heart --data-dir data
    """
    paths = {name: datasets.locate(name, data_dir) for name in names or datasets.names()}
    if json:
        typer.echo(jsonlib.dumps([_record(name, path) for name, path in paths.items()], indent=1))
    elif quiet:
        typer.echo("\n".join(paths))
    elif names:
        for name, path in paths.items():
            _describe(name, path)
    else:
        _table(paths)


def _table(paths: Mapping[str, Path | None]) -> None:
    table = Table(box=None, header_style="bold")
    for column in ("name", "rows", "features"):
        table.add_column(column, no_wrap=True, justify="left" if column == "name" else "right")
    for column in ("task", "licence", "file"):
        table.add_column(column, overflow="fold")
    for name, path in paths.items():
        dataset = datasets.info(name)
        here = str(path) if path else "-"
        table.add_row(
            name, f"{dataset.rows}", f"{dataset.features}", dataset.task, dataset.licence, here
        )
    Console().print(table)


def _describe(name: str, path: Path | None) -> None:
    dataset = datasets.info(name)
    lines = {
        "rows": f"{dataset.rows}, {dataset.features} features, "
        f"{dataset.nonzeros:g} not zero in a row",
        "task": dataset.task,
        "labels": f"{', '.join(f'{label:g}' for label in sorted(dataset.positive))} become +1",
        "source": dataset.page,
        "files": "\n".join(dataset.urls) or dataset.note,
        "licence": dataset.licence,
        "checksum": dataset.fingerprint,
        "note": dataset.note if dataset.urls else "",
        "here": str(path) if path else f"no; sonline datasets fetch {name}",
    }
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for what, text in lines.items():
        if text:
            table.add_row(f"  {what}", text)
    console = Console()
    console.print(f"[bold]{name}[/bold]: {dataset.title}")
    console.print(table)


def _record(name: str, path: Path | None) -> dict[str, object]:
    dataset = datasets.info(name)
    record = {field: getattr(dataset, field) for field in SHOWN}
    return record | {"positive": sorted(dataset.positive), "file": str(path) if path else None}


@app.command("fetch")
def _fetch(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names of data sets, or all.")
    ],
    mirror: Annotated[
        str | None, typer.Option(help="URL of a folder with the publishers' files.")
    ] = None,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Fetch data sets from their publishers into the cache; interrupted downloads resume.

    Example: sonline datasets fetch heart splice
    """
    chosen = datasets.names() if "all" in names else names
    for name in chosen:
        datasets.info(name)  # all names are checked before anything is fetched
    with Progress(
        TextColumn("{task.description}"),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        disable=quiet,
    ) as bar:
        files = {}
        for name in chosen:
            task = bar.add_task(name, total=None)

            def report(url: str, have: int, total: int | None, task: int = task) -> None:
                label = url.rsplit("/", 1)[-1]
                bar.update(bar.tasks[task].id, description=label, completed=have, total=total)

            path = files[name] = datasets.fetch(name, mirror=mirror, progress=report)
            if not (json or quiet):
                typer.echo(path)
    if json:
        typer.echo(jsonlib.dumps({name: str(path) for name, path in files.items()}, indent=1))
