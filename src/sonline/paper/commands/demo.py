"""``sonline demo``: a live comparison on the paper's ill-conditioned stream."""

from __future__ import annotations

import importlib.util
import json as jsonlib
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import sonline
from sonline.cli import command_app
from sonline.errors import ParameterError
from sonline.paper.demonstration import display
from sonline.paper.demonstration.comparison import CONTENDERS, Plan, Results, compare

DEFAULT_PICTURE = Path("sonline-demo.png")
PICTURES = (".png", ".svg", ".pdf")
GET_MATPLOTLIB = 'pip install "sonline[plot]"'

app = command_app()


@app.command()
def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"File for the picture ({', '.join(PICTURES)}) [default: {DEFAULT_PICTURE}].",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the streams.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller run that takes a few seconds.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print only the results, as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the table.")] = False,
) -> None:
    """Compare gradient descent, AdaGrad and two sketches on an ill-conditioned stream.

    The data is that of Fig. 1 of the paper. All methods see the same rows once, in the same order,
    and are compared by the predictions that they make before they are trained on a row.

    Example: sonline demo --out demo.svg
    """
    can_draw = importlib.util.find_spec("matplotlib") is not None
    target = _picture_path(out, can_draw)
    plan = Plan.quick(seed) if quick else Plan.whole(seed)
    # Standard output has only what programs read.
    console = Console(stderr=json, highlight=False)
    if not (quiet or json):
        console.print(display.introduction(plan), end="\n\n")

    start = time.monotonic()
    results = _run(plan, console, silent=quiet or (json and not console.is_terminal))
    seconds = time.monotonic() - start
    if can_draw:
        display.picture(results, target)
    if json:
        document = {
            "sonline": sonline.__version__,
            **results.as_dict(),
            "seconds": round(seconds, 1),
            "picture": str(target) if can_draw else None,
        }
        typer.echo(jsonlib.dumps(document, indent=2))
        return
    console.print(display.table(results))
    if quiet:
        return
    console.print()
    for line in display.notes(results):
        console.print(f"• {line}")
    console.print()
    where = f"Picture: {target}" if can_draw else f"For a picture as well: {GET_MATPLOTLIB}"
    console.print(f"{where}  ({seconds:.0f} s in all)", soft_wrap=True, markup=False)


def _picture_path(out: Path | None, can_draw: bool) -> Path:
    """Return where the picture goes; complain before the work rather than after."""
    if out is None:
        return DEFAULT_PICTURE
    if out.suffix.lower() not in PICTURES:
        raise ParameterError(
            f"--out {out}: the name must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}"
        )
    if not out.absolute().parent.is_dir():
        raise ParameterError(f"--out {out}: there is no folder {out.absolute().parent}; make it")
    if not can_draw:
        raise ParameterError(f"--out needs matplotlib: {GET_MATPLOTLIB}")
    return out


def _run(plan: Plan, console: Console, silent: bool) -> Results:
    """Run the plan with a live table on a terminal, or a line for each number elsewhere."""
    results = Results(plan)
    if silent:
        for trial in compare(plan):
            results.add(trial)
    elif console.is_terminal:
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        task = progress.add_task("", total=plan.trials)
        with Live(console=console, transient=True, refresh_per_second=10) as live:
            for trial in compare(plan):
                results.add(trial)
                progress.update(task, advance=1, description=trial.contender.name)
                # A new cell is drawn at once: on a fast machine it may be final at the next turn.
                new = results.tried[trial.contender.name, trial.kappa] == 1
                live.update(Group(display.table(results), progress), refresh=new)
    else:
        for trial in compare(plan):
            results.add(trial)
            if results.finished(trial.contender, trial.kappa):
                best = results.best[trial.contender.name, trial.kappa]
                setting = "not tuned"
                if trial.contender.tuned:
                    setting = f"{best.setting['loss']}, alpha {best.setting['alpha']}"
                error = display.percent(best.error)
                console.print(
                    f"κ = {trial.kappa:<4} {best.contender.name:18} {error:>7}  {setting}"
                )
                if trial.contender is CONTENDERS[-1] and trial.kappa == plan.kappas[-1]:
                    console.print()
    return results
