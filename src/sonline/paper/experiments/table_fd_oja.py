"""FD-SON against Oja-SON on small data sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sonline.paper.experiments.cells import Cell, Setup
from sonline.paper.experiments.conventions import Method
from sonline.paper.experiments.drawing import compare
from sonline.paper.experiments.exhibit import Exhibit, Table
from sonline.paper.experiments.published import FD_AND_OJA
from sonline.paper.experiments.searches import best, search_cell
from sonline.paper.experiments.table_error import DIAGONAL, OJA, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 10
METHODS = (
    Method(label="FD", changes={"sketch": "fd", "sketch_size": SIZE} | DIAGONAL),
    Method(label="m = 10, diagonal", changes=OJA | DIAGONAL),
)
BEYOND = (
    Method(label="RFD", changes={"sketch": "rfd", "sketch_size": SIZE} | DIAGONAL),
    Method(label="isotropic", changes={"sketch": "isotropic", "sketch_size": SIZE} | DIAGONAL),
)
TEXT = """
Our error rate, the paper's, the difference. Sketches of size 10 (FD and RFD keep 9 directions),
diagonal adaptation, best of the step sizes. RFD and the isotropic sketch are not in the paper.
"""


@dataclass(frozen=True)
class TableFdOja:
    """The five data sets of the paper's table; RFD and the isotropic sketch beside them."""

    names: Sequence[str] = tuple(FD_AND_OJA)
    name: str = "table-fd-oja"

    def plan(self, setup: Setup) -> list[Cell]:
        """Return the cells of the available data sets."""
        return [
            search_cell(setup.source(name), method)
            for name in setup.present(self.names)
            for method in (*METHODS, *BEYOND)
        ]

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return the table."""
        records: list[dict[str, Any]] = []
        rows = []
        for name in setup.present(self.names):
            line = [name]
            for method, paper in zip(
                (*METHODS, *BEYOND), (*FD_AND_OJA[name], None, None), strict=True
            ):
                ours = best(value(search_cell(setup.source(name), method)))
                label = "Oja" if method is METHODS[1] else method.label
                difference = None if paper is None else round(ours.rate - paper, 6)
                records.append(
                    {
                        "dataset": name,
                        "method": label,
                        "paper": paper,
                        "ours": round(ours.rate, 6),
                        "difference": difference,
                        "step": ours.step,
                    }
                )
                beside = "" if paper is None else f" ({paper:.3f}, {percent(ours.rate, paper)})"
                line.append(f"{ours.rate:.3f}{beside}")
            rows.append(line)
        return Exhibit(
            self.name,
            "FD-SON against Oja-SON",
            TEXT,
            records,
            [Table(["data set", "FD", "Oja", "RFD", "isotropic"], rows)],
            draw=partial(_draw, records) if records else None,
            size=(9.0, 2.2),
            missing=setup.missing(self.names),
        )


def _draw(records: list[dict[str, Any]], figure: Figure) -> None:
    title = "error rate, {}".format
    numbers = [(title(r["method"]), r["dataset"], r["paper"], r["ours"]) for r in records]
    compare(figure, numbers, sharex=True)
