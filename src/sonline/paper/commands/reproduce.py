"""``sonline reproduce``: the figures and tables of the paper beside its numbers."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.errors import require
from sonline.paper.experiments.cells import Cell, Setup
from sonline.paper.experiments.report import missing
from sonline.paper.experiments.runner import EXPERIMENTS, choose, reproduce

app = command_app()

LOG_SECONDS = 10.0  # between lines where there is no terminal to draw a bar on


@app.command()
def _reproduce(
    *,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPERIMENT...",
            help=f"Any of {', '.join(EXPERIMENTS)}, or all.",
            show_default=False,
        ),
    ],
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with data sets such as a9a.svm.gz [default: SONLINE_DATA and the cache]."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results. An interrupted run continues from it.")
    ] = Path("reproduction"),
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Download missing data sets from their publishers.")
    ] = False,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Run the paper's experiments and write CSV, PNG, SVG and an HTML report.

    Example: sonline reproduce fig1 table-error --data-dir data --out results
    """
    experiments = choose(names)
    require("matplotlib", "plot")  # before hours of work
    console = Console(stderr=True, quiet=quiet)
    started = time.perf_counter()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as bar:
        task = bar.add_task("planning", total=None)
        logged = started

        def watch(done: int, total: int, cell: Cell) -> None:
            nonlocal logged
            bar.update(task, completed=done, total=total, description=cell.label)
            if not console.is_terminal and time.perf_counter() - logged >= LOG_SECONDS:
                logged = time.perf_counter()
                console.print(f"{done} of {total} done, now {cell.label}", soft_wrap=True)

        try:
            exhibits = reproduce(experiments, out, Setup(data_dir, fetch), watch)
        except KeyboardInterrupt:
            done = int(bar.tasks[0].completed)
            console.print(
                f"interrupted: {done} results are in {out}; run the same command to continue",
                soft_wrap=True,
            )
            raise
        cells = bar.tasks[0].total or 0
        bar.update(task, completed=cells, total=cells, description="done")
    seconds = time.perf_counter() - started
    absent = missing(exhibits)
    if absent:
        console.print(f"Missing data sets, left out: {', '.join(absent)}")
    files = [*(f"{out / exhibit.name}.csv" for exhibit in exhibits), str(out / "report.html")]
    if json:
        facts = {"files": files, "missing": list(absent), "seconds": round(seconds, 3)}
        typer.echo(jsonlib.dumps(facts, indent=1))
    elif not quiet:
        typer.echo("\n".join(files))
    console.print(f"{seconds:.0f} s")
