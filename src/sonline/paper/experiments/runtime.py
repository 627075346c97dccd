"""Running time of Oja-SON in times of AdaGrad."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sonline.paper.experiments.cells import Cell, Setup
from sonline.paper.experiments.conventions import Method, make
from sonline.paper.experiments.exhibit import Exhibit, Table
from sonline.paper.experiments.published import ERROR_RATES, RUNTIME_RATIO
from sonline.paper.experiments.table_error import DIAGONAL, OJA

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (
    Method(label="AdaGrad", changes={"sketch": "adagrad"}),
    Method(label="m = 0, diagonal", changes={"sketch": "none"} | DIAGONAL),
    Method(label="Oja m = 10, diagonal", changes=OJA | DIAGONAL),
    Method(
        label="isotropic m = 10, diagonal",
        changes={"sketch": "isotropic", "sketch_size": 10} | DIAGONAL,
    ),
)
ALPHA = 1.0
AT_LEAST_SECONDS = 0.2
AT_MOST_REPEATS = 20

TEXT = """
Time to learn all rows once from memory, one thread, the best of up to {repeats} repetitions, in
nanoseconds for each non-zero feature (the constant one included) and in times of AdaGrad.
1/alpha = 1, diagonal adaptation. The paper: Oja-SON with m = 10 is "about {paper:g} times slower"
than AdaGrad, on average. Here, on average over the data sets: {ratios}.
"""


@dataclass(frozen=True)
class Runtime:
    """All available data sets, or those that are named."""

    names: Sequence[str] = tuple(ERROR_RATES)
    name: str = "runtime"

    @staticmethod
    def _cell(setup: Setup, name: str) -> Cell:
        source = setup.source(name)

        def compute() -> dict[str, Any]:
            rows = source.rows()
            seconds = {}
            for method in METHODS:
                times: list[float] = []
                while len(times) < AT_MOST_REPEATS and sum(times) < AT_LEAST_SECONDS:
                    learner = make(method.settings(ALPHA))
                    started = time.perf_counter()
                    learner.learn(rows.X, rows.y)
                    times.append(time.perf_counter() - started)
                seconds[method.label] = min(times)
            return {
                "nonzeros": int(sp.csr_matrix(rows.X).nnz + rows.y.size),
                "seconds": seconds,
            }

        methods = [method.settings(ALPHA) for method in METHODS]
        key = {"what": "runtime", **source.key, "methods": methods}
        return Cell(key, f"{name} running time", compute)

    def plan(self, setup: Setup) -> list[Cell]:
        """Return a cell for each available data set."""
        return [self._cell(setup, name) for name in setup.present(self.names)]

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return the table and a bar chart of the ratios."""
        results = {n: value(self._cell(setup, n)) for n in setup.present(self.names)}
        base = METHODS[0].label
        records: list[dict[str, Any]] = [
            {
                "dataset": name,
                "method": label,
                "nanoseconds_per_nonzero": round(1e9 * seconds / cell["nonzeros"], 2),
                "times_adagrad": round(seconds / cell["seconds"][base], 3),
            }
            for name, cell in results.items()
            for label, seconds in cell["seconds"].items()
        ]
        ratios = {
            method.label: float(
                np.mean([r["times_adagrad"] for r in records if r["method"] == method.label])
            )
            for method in METHODS[1:]
            if records
        }

        def draw(figure: Figure) -> None:
            axes = figure.subplots()
            number = np.arange(len(results))
            for i, label in enumerate(ratios):
                heights = [r["times_adagrad"] for r in records if r["method"] == label]
                axes.bar(number + 0.27 * (i - 1), heights, 0.25, label=label)
            axes.axhline(
                RUNTIME_RATIO, color="0.5", linestyle=":", label="the paper's average, m = 10"
            )
            axes.set(ylabel="time in times of AdaGrad", xticks=number)
            axes.set_xticklabels(list(results), rotation=45, ha="right", fontsize=7)
            axes.legend(fontsize=7)

        by_name = {
            name: [
                f"{r['nanoseconds_per_nonzero']:.1f} ({r['times_adagrad']:.1f}×)"
                for r in records
                if r["dataset"] == name
            ]
            for name in results
        }
        return Exhibit(
            self.name,
            "Running time against AdaGrad",
            TEXT.format(
                repeats=AT_MOST_REPEATS,
                paper=RUNTIME_RATIO,
                ratios=", ".join(f"{label} {ratio:.1f}×" for label, ratio in ratios.items()),
            ),
            records,
            [
                Table(
                    ["data set", *(f"{m.label}, ns" for m in METHODS)],
                    [[name, *cells] for name, cells in by_name.items()],
                )
            ],
            draw=draw if results else None,
            size=(8.0, 4.2),
            missing=setup.missing(self.names),
        )
