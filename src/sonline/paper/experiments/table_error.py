"""The table of error rates: 23 data sets, with and without sketch and diagonal adaptation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sonline.paper import datasets
from sonline.paper.experiments.cells import Cell, Setup
from sonline.paper.experiments.conventions import STEPS, Method
from sonline.paper.experiments.drawing import compare
from sonline.paper.experiments.exhibit import Exhibit, Table
from sonline.paper.experiments.published import ERROR_COLUMNS, ERROR_RATES
from sonline.paper.experiments.searches import Best, best, search_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIAGONAL = {"scaling": "gradient"}
OJA = {"sketch": "oja", "sketch_size": 10}
METHODS = (
    Method(label="m = 0", changes={"sketch": "none"}),
    Method(label="m = 10", changes=OJA),
    Method(label="m = 0, diagonal", changes={"sketch": "none"} | DIAGONAL),
    Method(label="m = 10, diagonal", changes=OJA | DIAGONAL),
    Method(label="AdaGrad", changes={"sketch": "adagrad"}),
)
TARGETS = ("m = 0", "m = 0, diagonal")  # the columns without random numbers

WIDER = tuple(2.0**j for j in range(7, 13))
WIDER_METHOD = METHODS[2]
WIDER_LABEL = "m = 0, diagonal, 1/alpha to 2^12"

TEXT = """
Each cell: our error rate, the paper's, the difference in per cent of the paper's, and a tick where
they differ by at most three mistakes or five per cent. Both are the best of {steps} step sizes,
which learn in one reading of the rows.

In agreement: {counts}. Data sets on which both columns with m = 0 agree: {both} of {sets}.

m = 10 is not expected to agree: the paper starts Oja's rule from random directions over the whole
hash table, which on sparse data never meet the gradients (its columns m = 0 and m = 10 are equal on
many sets); here it starts from the first gradients.
"""


@dataclass(frozen=True)
class Comparison:
    """A published error rate and ours."""

    dataset: str
    column: str
    paper: float
    ours: Best

    @property
    def mistakes_paper(self) -> float:
        """Mistakes behind the published rate, on as many rows as ours."""
        return self.paper * self.ours.rows

    @property
    def agrees(self) -> bool:
        """Whether they differ by at most three mistakes or five per cent."""
        tolerance = max(3.5, 0.05 * self.mistakes_paper)  # rates are rounded: half a mistake
        return abs(self.ours.mistakes - self.mistakes_paper) <= tolerance


@dataclass(frozen=True)
class TableError:
    """All available data sets, or those that are named."""

    names: Sequence[str] = tuple(ERROR_RATES)
    methods: Sequence[Method] = METHODS
    name: str = "table-error"

    def cells(self, setup: Setup, dataset: str) -> list[Cell]:
        """Return the cells of a row; last the one with wider steps, if it has the method."""
        source = setup.source(dataset)
        row = [search_cell(source, method) for method in self.methods]
        if WIDER_METHOD in self.methods:
            row.append(search_cell(source, WIDER_METHOD, [1 / step for step in WIDER]))
        return row

    def plan(self, setup: Setup) -> list[Cell]:
        """Return the cells of all available data sets."""
        return [c for name in setup.present(self.names) for c in self.cells(setup, name)]

    def comparisons(self, setup: Setup, value: Callable[[Cell], Any]) -> list[Comparison]:
        """Return every published number of an available data set beside ours."""
        comparisons = []
        for name in setup.present(self.names):
            cells = self.cells(setup, name)
            for method, cell in zip(self.methods, cells, strict=False):
                paper = ERROR_RATES[name][ERROR_COLUMNS.index(method.label)]
                ours = best(value(cell))
                comparisons.append(Comparison(name, method.label, paper, ours))
                if method is WIDER_METHOD:
                    more = best(value(cells[-1]), WIDER)
                    ours = min(ours, more, key=lambda b: b.mistakes)
                    comparisons.append(Comparison(name, WIDER_LABEL, paper, ours))
        return comparisons

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return the table with the paper's number, ours and the difference in each cell."""
        comparisons = self.comparisons(setup, value)
        notes = {n: value(self.cells(setup, n)[0])["note"] for n in setup.present(self.names)}
        counts = [
            f"{column}: {sum(c.agrees for c in comparisons if c.column == column)} of "
            f"{sum(c.column == column for c in comparisons)}"
            for column in dict.fromkeys(c.column for c in comparisons)
        ]
        both = sum(
            all(c.agrees for c in comparisons if c.dataset == name and c.column in TARGETS)
            for name in notes
        )
        return Exhibit(
            self.name,
            "Error rates (table of the paper's appendix)",
            TEXT.format(steps=len(STEPS), counts="; ".join(counts), both=both, sets=len(notes))
            + "".join(f"\n\n{name}: {note}." for name, note in notes.items() if note),
            [self._record(c) for c in comparisons],
            [_wide(comparisons)],
            draw=partial(_draw, comparisons) if comparisons else None,
            size=(12.0, 1.5 + 0.25 * len(notes)),
            missing=setup.missing(self.names),
        )

    @staticmethod
    def _record(c: Comparison) -> dict[str, Any]:
        return {
            "dataset": c.dataset,
            "task": datasets.info(c.dataset).task,
            "method": c.column,
            "rows": c.ours.rows,
            "paper": c.paper,
            "ours": round(c.ours.rate, 6),
            "difference": round(c.ours.rate - c.paper, 6),
            "mistakes_paper": round(c.mistakes_paper, 1),
            "mistakes_ours": c.ours.mistakes,
            "step": c.ours.step,
            "agrees": c.agrees,
        }


def _draw(comparisons: Sequence[Comparison], figure: Figure) -> None:
    compare(
        figure,
        [(c.column.replace(", ", ",\n"), c.dataset, c.paper, c.ours.rate) for c in comparisons],
    )


def _wide(comparisons: Sequence[Comparison]) -> Table:
    columns = list(dict.fromkeys(c.column for c in comparisons))
    rows: dict[str, dict[str, str]] = {}
    for c in comparisons:
        rows.setdefault(c.dataset, {})[c.column] = (
            f"{c.ours.rate:.6f} ({c.paper:.6f}, {percent(c.ours.rate, c.paper)})"
            + (" ✓" if c.agrees else "")
        )
    return Table(
        ["data set", *columns],
        [[name, *(row.get(column, "") for column in columns)] for name, row in rows.items()],
    )


def percent(ours: float, paper: float) -> str:
    """Return the difference in per cent of the paper's number."""
    if math.isnan(ours):
        return "all steps diverged"
    return f"{100 * (ours / paper - 1):+.1f} %"
