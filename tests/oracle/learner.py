"""`OracleLearner`: what a lone weight vector of `sonline.OnlineLearner` computes.

It is the reference of the paper behind the inputs of the library: scales, a warm-up that starts
again with what the first rows have shown, rows that the sketch leaves out, and forgetting.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from oracle.inputs import Inputs
from oracle.warm_up import WARM_UP_ROWS, choose
from sonline.paper.reference import ReferenceLearner
from sonline.paper.reference.sketches import Array


class OracleLearner(ReferenceLearner):
    """The reference with ``scaling``, ``sketch_every`` and ``half_life`` of `OnlineLearner`."""

    scalings = ("auto", "rms", "none", "gradient")
    inputs: Inputs

    def __init__(
        self,
        *args: Any,
        sketch_every: int | Literal["auto"] = 1,
        half_life: float | None = None,
        **others: Any,
    ) -> None:
        super().__init__(*args, **others)
        self.sketch_every: int | Literal["auto"] = sketch_every
        self.kept = 1.0 if half_life is None else 2.0 ** (-1.0 / half_life)
        # Kept until they show what the features are like.
        self.first_rows: list[tuple[Array, float, float]] | None = None
        if self.scaling == "auto":
            self.first_rows = []

    def _inputs(self, d: int, unit: float = 0.0, centres: Array | None = None) -> Inputs:
        every = self.sketch_every
        return Inputs(
            self.scaling, d, self.intercept, every, unit=unit, centres=centres, kept=self.kept
        )

    def _learn_row(self, x: Array, y: float, weight: float) -> float:
        prediction = self._round(x, y, weight)
        if self.first_rows is not None:
            self.first_rows.append((x, y, weight))
            if len(self.first_rows) == WARM_UP_ROWS:
                self._start_again(self.first_rows)
                self.first_rows = None
        return prediction

    def _round(self, x: Array, y: float, weight: float) -> float:
        prediction = super()._learn_row(x, y, weight)
        self.inputs.commit()
        self.sketch.forget(self.kept)
        return prediction

    def _start_again(self, rows: list[tuple[Array, float, float]]) -> None:
        """Learn the first rows once more, with the unit and the centres that they show."""
        X = np.array([x for x, _, _ in rows])
        choices = choose(X, self.sketch_size, self.intercept)
        self._start(self._inputs(X.shape[1], choices.unit, choices.centres))
        for row in rows:
            self._round(*row)
