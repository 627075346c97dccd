"""How `sonline demo` shows its results: a table, a reading and a picture."""

from __future__ import annotations

import math
from pathlib import Path

from rich import box
from rich.table import Table

from sonline.paper.demonstration.comparison import CONTENDERS, Contender, Plan, Results
from sonline.paper.experiments.exhibit import new_figure


def introduction(plan: Plan) -> str:
    """Return a sentence about the run that follows."""
    searched = len(CONTENDERS[0].settings(plan.steps))
    return (
        f"One pass over {plan.rows:,} rows of {plan.features} features. Every row is predicted "
        "before the model is trained on it. The labels are always the same; κ says how much the "
        "rows are stretched: the largest variance of any direction divided by the smallest.\n"
        f"The first three methods get, at every κ, the best of {searched} settings in hindsight "
        f"(3 losses with {len(plan.steps)} step sizes each). The last one is OnlineLearner with "
        "its defaults, as you would type it. Nothing is tuned."
    )


def percent(error: float) -> str:
    """Return an error rate for people.

    Examples
    --------
    >>> percent(0.0523)
    '5.2 %'
    """
    return f"{_number(error)} %" if math.isfinite(error) else _number(error)


def _number(error: float) -> str:
    return f"{100 * error:.1f}" if math.isfinite(error) else "diverged"


def table(results: Results) -> Table:
    """Return the table as far as it is known; the best of a finished column is bold."""
    plan = results.plan
    seeds = "1 seed" if len(plan.seeds) == 1 else f"mean of {len(plan.seeds)} seeds"
    title = f"Rows predicted wrongly, in percent ({seeds})"
    grid = Table(
        title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False
    )
    grid.add_column("learner", no_wrap=True)
    for kappa in plan.kappas:
        grid.add_column(f"κ={kappa}", justify="right", no_wrap=True)
    complete = all(results.finished(c, k) for c in CONTENDERS for k in plan.kappas)
    if complete:
        grid.add_column("µs a row", justify="right", no_wrap=True)
    for contender in CONTENDERS:
        cells = [_cell(results, contender, kappa) for kappa in plan.kappas]
        time = [f"{results.microseconds(contender):.1f}"] if complete else []
        grid.add_row(contender.name, *cells, *time)
    return grid


def _cell(results: Results, contender: Contender, kappa: int) -> str:
    error = results.error(contender, kappa)
    if not results.finished(contender, kappa):
        return f"[dim]{_number(error)} …[/dim]" if math.isfinite(error) else ""
    column = [results.error(other, kappa) for other in CONTENDERS]
    finished = all(results.finished(other, kappa) for other in CONTENDERS)
    winner = finished and error == min(column)
    return f"[bold green]{_number(error)}[/bold green]" if winner else _number(error)


def notes(results: Results) -> list[str]:
    """Return where a wider range of step sizes might have been better."""
    return [
        f"{trial.contender.name}, κ = {trial.kappa}: "
        "the best step size is at the edge of its range."
        for trial in results.at_the_edge()
    ]


def picture(results: Results, path: Path) -> None:
    """Draw the errors over the condition number into a file; needs matplotlib."""
    plan = results.plan
    figure = new_figure((7.2, 4.2))
    axes = figure.add_subplot()
    ends = []
    for contender in CONTENDERS:
        trials = [results.best[contender.name, kappa] for kappa in plan.kappas]
        colour = contender.colour
        rates = [100 * trial.error for trial in trials]
        low = [100 * min(trial.errors) for trial in trials]
        high = [100 * max(trial.errors) for trial in trials]
        axes.fill_between(plan.kappas, low, high, color=colour, alpha=0.15, linewidth=0)
        thick = 1.6 if contender.tuned else 2.6
        axes.plot(plan.kappas, rates, color=colour, linewidth=thick, marker="o", markersize=4)
        settings = len(contender.settings(plan.steps))
        how = f"best of {settings} settings at each κ" if contender.tuned else "not tuned"
        ends.append((rates[-1], f"{contender.name}\n{how}", colour))
    gap = max(end for end, _, _ in ends) / 10  # two lines of text
    position = -gap
    for end, text, colour in sorted(ends):
        position = max(end, position + gap)
        axes.annotate(
            text,
            (plan.kappas[-1], position),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=8.5,
            annotation_clip=False,
        )
    axes.set_xlabel("how much the data is stretched (condition number κ)")
    axes.set_ylabel("rows predicted wrongly (%)")
    axes.set_ylim(bottom=0)
    axes.set_xscale("log")
    axes.set_xticks(plan.kappas, [str(kappa) for kappa in plan.kappas], minor=False)
    axes.set_xticks([], minor=True)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    seeds = "1 seed" if len(plan.seeds) == 1 else f"mean and range of {len(plan.seeds)} seeds"
    axes.set_title(
        f"One pass over {plan.rows:,} rows of {plan.features} features, {seeds}",
        loc="left",
        fontsize=10,
    )
    figure.savefig(path, dpi=200)
