"""Pictures of tables: a row for each data set, the paper's numbers hollow and ours filled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER_COLOUR = "tab:orange"
OUR_COLOUR = "tab:blue"


def compare(
    figure: Figure,
    numbers: Sequence[tuple[str, str, float | None, float]],
    *,
    sharex: bool = False,
) -> None:
    """Draw a panel per title of (title, data set, the paper's number or None, ours)."""
    titles = list(dict.fromkeys(title for title, *_ in numbers))
    panels = figure.subplots(1, len(titles), sharex=sharex, sharey=True, squeeze=False)[0]
    for axes, title in zip(panels, titles, strict=True):
        names, paper, ours = zip(*(rest for first, *rest in numbers if first == title), strict=True)
        _compare(axes, names, paper, ours, title)
    panels[0].legend(fontsize=7)


def _compare(
    axes: Axes,
    names: Sequence[str],
    paper: Sequence[float | None],
    ours: Sequence[float],
    title: str,
) -> None:
    """Draw two numbers for each name, on a logarithmic scale."""
    positions = range(len(names))
    published = [position for position in positions if paper[position] is not None]
    if published:
        axes.scatter(
            [float(paper[position] or 0) for position in published],
            published,
            facecolors="none",
            edgecolors=PAPER_COLOUR,
            s=45,
            label="the paper's",
        )
    axes.scatter(ours, positions, color=OUR_COLOUR, s=12, label="ours")
    axes.set_title(title, fontsize=9)
    axes.set_yticks(list(positions), list(names), fontsize=7)
    logarithmic(axes, "x", [*(number for number in paper if number is not None), *ours])
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(visible=True, alpha=0.3)
    axes.margins(y=0.06)
    if not axes.yaxis_inverted():
        axes.invert_yaxis()


def logarithmic(axes: Axes, which: str, numbers: Sequence[float]) -> None:
    """Make an axis logarithmic, with a place for zeros if there are any."""
    positive = [number for number in numbers if number > 0 and math.isfinite(number)]
    if not positive:
        return
    scale, limits = (
        (axes.set_xscale, axes.set_xlim) if which == "x" else (axes.set_yscale, axes.set_ylim)
    )
    if any(number == 0 for number in numbers):
        scale("symlog", linthresh=min(positive))
        limits(-min(positive) / 2, 2 * max(positive))  # none is negative; marks are not cut
    else:
        scale("log")
