"""Fig. 1: error on ill-conditioned streams, for all sketches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sonline.paper.experiments.cells import Cell, Setup, ill_conditioned_source
from sonline.paper.experiments.conventions import Method
from sonline.paper.experiments.exhibit import Exhibit, Table
from sonline.paper.experiments.searches import best, search_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT = 10  # the stream has ten large directions; FD and RFD keep one less than their size
HESSIAN = {"curvature": "hessian"}
METHODS = (
    Method(label="AdaGrad", changes={"sketch": "adagrad"}),
    Method(label="Oja m = 0", changes={"sketch": "none"}),
    Method(label="Oja m = 5", changes={"sketch": "oja", "sketch_size": 5}),
    Method(label="Oja m = 10", changes={"sketch": "oja", "sketch_size": KEPT}),
    Method(label="FD m = 11", changes={"sketch": "fd", "sketch_size": KEPT + 1}),
    Method(label="RFD m = 11", changes={"sketch": "rfd", "sketch_size": KEPT + 1}),
    Method(label="isotropic m = 10", changes={"sketch": "isotropic", "sketch_size": KEPT}),
    Method(
        label="isotropic m = 10, Hessian",
        changes={"sketch": "isotropic", "sketch_size": KEPT} | HESSIAN,
    ),
)
EXACT = (
    Method(label="full matrix", changes={"sketch": "full"}),
    Method(label="full matrix, Hessian", changes={"sketch": "full"} | HESSIAN),
)
EXACT_STYLES = {EXACT[0].label: "k--", EXACT[1].label: "k:"}
FACTORS = tuple(2.0**j for j in range(-6, 6))
EXACT_FACTORS = tuple(2.0**j for j in (-6, -3, 0, 3))

TEXT = """
Mean error rate over seeds {seeds} after {rounds:,} rows of dimension {dimension}, best alpha of
{factors} in units of the mean squared norm of the rows (its root for AdaGrad): the paper's own grid
ends far above the steps that win here. Labels are the same at every condition number, so a learner
that is invariant to linear maps has a flat line. FD and RFD of size 11 keep ten directions, as the
others of size 10. The full matrix has O(d^2) cost and is run for condition numbers {exact} with
seed {exact_seeds} and {exact_factors} values of alpha only. "Hessian" sketches the second
derivative of the loss instead of its gradient; RFD, isotropic and Hessian are not in the paper.

The paper's figure has no numbers; its text says that AdaGrad degrades, that m = 0 is worse still,
that m = 5 improves greatly and that m = 10 "hardly worsens" with the condition number. Here from
the first condition number to the last: {summary}.
"""


@dataclass(frozen=True)
class Fig1:
    """Condition numbers, seeds and rows."""

    kappas: Sequence[int] = tuple(range(10, 201, 10))
    seeds: Sequence[int] = (0, 1, 2)
    rounds: int = 10_000
    dimension: int = 100
    exact_kappas: Sequence[int] = (10, 50, 100, 150, 200)
    exact_seeds: Sequence[int] = (0,)
    name: str = "fig1"

    def _cells(self, method: Method) -> dict[int, list[Cell]]:
        """Return the cells of a method by condition number, one for each seed."""
        kappas, seeds = self.kappas, self.seeds
        if method in EXACT:
            kappas, seeds = self.exact_kappas, self.exact_seeds
        alphas = [f"relative:{factor!r}" for factor in _factors(method)]

        def cell(kappa: int, seed: int) -> Cell:
            source = ill_conditioned_source(self.name, kappa, self.rounds, self.dimension, seed)
            return search_cell(source, method, alphas)

        return {kappa: [cell(kappa, seed) for seed in seeds] for kappa in kappas}

    def plan(self, setup: Setup) -> list[Cell]:
        """Return the cells of all methods."""
        return [
            cell
            for method in (*METHODS, *EXACT)
            for cells in self._cells(method).values()
            for cell in cells
        ]

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return the curves and a table of some of their points."""
        records: list[dict[str, Any]] = []
        for method in (*METHODS, *EXACT):
            for kappa, cells in self._cells(method).items():
                results = [best(value(cell), _factors(method)) for cell in cells]
                errors = [each.rate for each in results]
                records.append(
                    {
                        "method": method.label,
                        "kappa": kappa,
                        "error": float(np.mean(errors)),
                        "lowest": min(errors),
                        "highest": max(errors),
                        "seeds": len(errors),
                        "alpha_factor": float(np.median([each.step for each in results])),
                    }
                )
        curves: dict[str, dict[int, float]] = {}
        for r in records:
            curves.setdefault(r["method"], {})[r["kappa"]] = r["error"]

        def draw(figure: Figure) -> None:
            axes = figure.subplots()
            for label, curve in curves.items():
                style = EXACT_STYLES.get(label, "-")
                axes.plot(list(curve), list(curve.values()), style, label=label)
            axes.set(xlabel="condition number", ylabel="error rate", ylim=(0, None))
            axes.legend(fontsize=7, ncols=2)

        shown = [k for k in self.kappas if k in self.exact_kappas] or list(self.kappas)
        return Exhibit(
            self.name,
            "Fig. 1: error against the condition number",
            TEXT.format(
                seeds=", ".join(map(str, self.seeds)),
                rounds=self.rounds,
                dimension=self.dimension,
                factors=len(FACTORS),
                exact=", ".join(map(str, self.exact_kappas)),
                exact_seeds=", ".join(map(str, self.exact_seeds)),
                exact_factors=len(EXACT_FACTORS),
                summary="; ".join(
                    f"{label} {100 * c[min(c)]:.1f} to {100 * c[max(c)]:.1f} %"
                    for label, c in curves.items()
                ),
            ),
            records,
            [
                Table(
                    ["method", *(f"{kappa}" for kappa in shown), "worst"],
                    [_line(label, curve, shown) for label, curve in curves.items()],
                    "Error rates by condition number",
                )
            ],
            draw=draw,
        )


def _factors(method: Method) -> Sequence[float]:
    return EXACT_FACTORS if method in EXACT else FACTORS


def _line(label: str, curve: dict[int, float], shown: Sequence[int]) -> list[str]:
    numbers = [curve.get(kappa) for kappa in shown]
    worst = max(curve.values())
    return [label, *("" if n is None else f"{n:.4f}" for n in [*numbers, worst])]
