"""Fig. 3: the gain of the sketch, and Oja-SON with diagonal adaptation against AdaGrad."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sonline.paper.experiments.cells import Cell, Setup
from sonline.paper.experiments.drawing import logarithmic
from sonline.paper.experiments.exhibit import Exhibit
from sonline.paper.experiments.published import ERROR_COLUMNS, ERROR_RATES
from sonline.paper.experiments.table_error import TableError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (
    ("(a) sketch of size 10 against none", "m = 0", "m = 10"),
    ("(b) with diagonal adaptation against AdaGrad", "AdaGrad", "m = 10, diagonal"),
)
TEXT = """
Points under the diagonal are data sets on which the method of the vertical axis makes fewer
mistakes. Filled: ours; hollow: the paper's numbers, joined to ours by a line.

Oja-SON (m = 10, diagonal) is at least as good as AdaGrad on {ours} of {sets} data sets here, and on
{paper} of the same in the paper ({all_sets} of its 23).
"""


@dataclass(frozen=True)
class Fig3:
    """Points of the table of error rates against each other, one for each data set."""

    table: TableError = field(default_factory=TableError)
    name: str = "fig3"

    def plan(self, setup: Setup) -> list[Cell]:
        """Return the cells of the table."""
        return self.table.plan(setup)

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return both scatter plots, the paper's points beside ours."""
        comparisons = {(c.dataset, c.column): c for c in self.table.comparisons(setup, value)}
        names = list(dict.fromkeys(name for name, _ in comparisons))
        records: list[dict[str, Any]] = [
            {
                "panel": title[:3],
                "dataset": name,
                "x": across,
                "y": up,
                "x_ours": comparisons[name, across].ours.rate,
                "y_ours": comparisons[name, up].ours.rate,
                "x_paper": comparisons[name, across].paper,
                "y_paper": comparisons[name, up].paper,
            }
            for title, across, up in PANELS
            for name in names
        ]
        second = [r for r in records if r["panel"] == "(b)"]

        def draw(figure: Figure) -> None:
            for axes, (title, across, up) in zip(figure.subplots(1, 2), PANELS, strict=True):
                _scatter(axes, [r for r in records if r["panel"] == title[:3]])
                axes.set(title=title, xlabel=f"error, {across}", ylabel=f"error, {up}")

        return Exhibit(
            self.name,
            "Fig. 3: sketch sizes, and Oja-SON against AdaGrad",
            TEXT.format(
                ours=sum(r["y_ours"] <= r["x_ours"] for r in second),
                paper=sum(r["y_paper"] <= r["x_paper"] for r in second),
                sets=len(names),
                all_sets=_wins(),
            ),
            records,
            draw=draw if names else None,
            size=(9.0, 4.4),
            missing=setup.missing(self.table.names),
        )


def _wins() -> int:
    """Return on how many of the 23 sets the paper's Oja-SON is at least as good as AdaGrad."""
    ours, theirs = ERROR_COLUMNS.index(PANELS[1][2]), ERROR_COLUMNS.index(PANELS[1][1])
    return sum(row[ours] <= row[theirs] for row in ERROR_RATES.values())


def _scatter(axes: Axes, records: list[dict[str, Any]]) -> None:
    for who, face in (("paper", "none"), ("ours", "tab:blue")):
        axes.scatter(
            [r[f"x_{who}"] for r in records],
            [r[f"y_{who}"] for r in records],
            facecolors=face,
            edgecolors="tab:orange" if who == "paper" else "tab:blue",
            label="the paper's" if who == "paper" else "ours",
        )
    for r in records:
        axes.plot(
            [r["x_paper"], r["x_ours"]], [r["y_paper"], r["y_ours"]], "0.6", linewidth=0.6, zorder=0
        )
        axes.annotate(
            r["dataset"],
            (r["x_ours"], r["y_ours"]),
            fontsize=6,
            xytext=(3, 3),
            textcoords="offset points",
        )
    axes.axline((0.1, 0.1), (1, 1), color="0.7", linewidth=0.8)
    for which in "xy":
        logarithmic(
            axes, which, [r[f"{which}_{who}"] for r in records for who in ("ours", "paper")]
        )
    axes.margins(x=0.12)  # room for the names
    axes.legend(fontsize=7)
