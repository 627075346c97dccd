"""How accurate the eigenvalues of Oja's sketch are on real data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sonline.paper.experiments.cells import Cell, Setup
from sonline.paper.experiments.conventions import Method
from sonline.paper.experiments.drawing import compare
from sonline.paper.experiments.eigenvalues import eigenvalue_cell
from sonline.paper.experiments.exhibit import Exhibit, Table
from sonline.paper.experiments.published import EIGENVALUE_ERRORS
from sonline.paper.experiments.table_error import DIAGONAL, OJA

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (
    Method(label="Oja", changes=OJA | DIAGONAL),
    Method(label="isotropic", changes={"sketch": "isotropic", "sketch_size": 10} | DIAGONAL),
)
ALPHA = 1.0

TEXT = """
Largest relative error among the ten largest eigenvalues after one pass, sketch of size 10, diagonal
adaptation, 1/alpha = 1. The exact matrix is the sum of the outer products of what was sketched. The
paper states neither its step size nor against which matrix it compares, and starts from random
directions; the isotropic sketch is not in the paper.
"""


@dataclass(frozen=True)
class TableEigen:
    """The ten data sets of the paper's table."""

    names: Sequence[str] = tuple(EIGENVALUE_ERRORS)
    name: str = "table-eigen"

    @staticmethod
    def _cell(setup: Setup, name: str, method: Method) -> Cell:
        return eigenvalue_cell(setup.source(name), method, ALPHA)

    def plan(self, setup: Setup) -> list[Cell]:
        """Return the cells of the available data sets."""
        return [self._cell(setup, n, m) for n in setup.present(self.names) for m in METHODS]

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return the table."""
        records: list[dict[str, Any]] = [
            {
                "dataset": name,
                "method": method.label,
                "paper": EIGENVALUE_ERRORS[name] if method is METHODS[0] else None,
                "ours": round(value(self._cell(setup, name, method))[0], 4),
            }
            for name in setup.present(self.names)
            for method in METHODS
        ]
        rows = [
            [oja["dataset"]]
            + [
                f"{number:.2f}"
                for number in (oja["ours"], oja["paper"], oja["ours"] - oja["paper"])
            ]
            + [f"{isotropic['ours']:.2f}"]
            for oja, isotropic in zip(records[::2], records[1::2], strict=True)
        ]
        return Exhibit(
            self.name,
            "Eigenvalues by Oja's rule",
            TEXT,
            records,
            [Table(["data set", "Oja, ours", "paper", "difference", "isotropic"], rows)],
            draw=partial(_draw, records) if records else None,
            size=(8.0, 3.2),
            missing=setup.missing(self.names),
        )


def _draw(records: list[dict[str, Any]], figure: Figure) -> None:
    title = "largest relative error, {}".format
    compare(figure, [(title(r["method"]), r["dataset"], r["paper"], r["ours"]) for r in records])
