"""Fig. 2: error of the sketch's eigenvalues against the rows seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sonline.paper.experiments.cells import Cell, Setup, ill_conditioned_source
from sonline.paper.experiments.conventions import Method
from sonline.paper.experiments.eigenvalues import eigenvalue_cell
from sonline.paper.experiments.exhibit import Exhibit, Table
from sonline.paper.experiments.streams import DIMENSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (
    Method(label="Oja, step 1/t (paper)", changes={"sketch": "oja", "sketch_size": 10}),
    Method(
        label="Oja, scale-free step",
        changes={"sketch": "oja", "sketch_size": 10, "oja_step": "scale-free"},
    ),
    Method(label="FD m = 11", changes={"sketch": "fd", "sketch_size": 11}),
    Method(label="isotropic", changes={"sketch": "isotropic", "sketch_size": 10}),
)
ALPHA = "relative:1"

TEXT = """
Largest relative error among the ten largest eigenvalues on the stream of Fig. 1 with condition
number {kappa}, mean over seeds {seeds}, sketches with ten directions, alpha equal to the mean
squared norm of the rows. The paper, whose figure has no numbers and does not name the condition
number, says that the error "drops quickly after seeing just 500 examples". Here at about 500 rows:
{middle}; at the end: {last}. FD subtracts from every eigenvalue what it cannot keep, so that its
smallest is near 0 by design.
"""


@dataclass(frozen=True)
class Fig2:
    """Condition number, seeds and rows."""

    kappa: int = 100
    seeds: Sequence[int] = (0, 1, 2)
    marks: Sequence[int] = (25, 50, 100, 200, 350, 500, 750, 1000, 1500, 2500, 4000, 6000, 10_000)
    name: str = "fig2"

    def _cell(self, method: Method, seed: int) -> Cell:
        source = ill_conditioned_source(self.name, self.kappa, self.marks[-1], DIMENSION, seed)
        return eigenvalue_cell(source, method, ALPHA, self.marks)

    def plan(self, setup: Setup) -> list[Cell]:
        """Return a cell for each method and seed."""
        return [self._cell(method, seed) for method in METHODS for seed in self.seeds]

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return the curves."""
        curves = {
            method.label: np.mean([value(self._cell(method, s)) for s in self.seeds], axis=0)
            for method in METHODS
        }
        records = [
            {"method": label, "rows": rows, "error": float(error)}
            for label, curve in curves.items()
            for rows, error in zip(self.marks, curve, strict=True)
        ]

        def draw(figure: Figure) -> None:
            axes = figure.subplots()
            for label, curve in curves.items():
                axes.plot(self.marks, curve, marker=".", label=label)
            axes.set(
                xlabel="rows seen", ylabel="largest relative error", xscale="log", yscale="log"
            )
            axes.legend(fontsize=8)

        middle = int(np.argmin(np.abs(np.array(self.marks) - 500)))

        def at(index: int) -> str:
            return ", ".join(f"{label} {curve[index]:.2f}" for label, curve in curves.items())

        return Exhibit(
            self.name,
            "Fig. 2: recovery of the eigenvalues",
            TEXT.format(
                kappa=self.kappa,
                seeds=", ".join(map(str, self.seeds)),
                middle=at(middle),
                last=at(-1),
            ),
            records,
            [
                Table(
                    ["rows", *curves],
                    [
                        [f"{rows}", *(f"{curve[i]:.3f}" for curve in curves.values())]
                        for i, rows in enumerate(self.marks)
                    ],
                )
            ],
            draw=draw,
        )
