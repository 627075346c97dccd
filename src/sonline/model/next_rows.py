"""How well a model predicts the next rows if it is not trained on them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sonline.evaluate import Progress
from sonline.model.model import Model
from sonline.model.predictions import LearnResult
from sonline.rows import Floats

REPORTED_ROWS = 100  # fewer predictions of the frozen model say nothing about its error
EVERY = 10  # about one batch in this many is also predicted by the frozen model
WORSE = 1.25  # warn if the frozen error is this many times the progressive one, beyond chance


class NextRows:
    """Compares the frozen model with the model that keeps learning, on the same rows.

    About one row in ten, in whole batches, is also predicted by the model as it was before the
    batch. Like a deployed model, it does not see the labels of the batch.

    Attributes
    ----------
    frozen, live : Progress
        Measures of the predictions of both.
    """

    def __init__(self) -> None:
        self.frozen, self.live = Progress(), Progress()
        self._next = 0  # row

    def is_due(self, count: int, rows: int) -> bool:
        """Return whether to measure a batch of ``count`` rows after ``rows`` others."""
        # A young model improves within a batch, and the comparison would show that instead.
        if rows < max(self._next, EVERY * count):
            return False
        self._next = rows + EVERY * count
        return True

    def compare(
        self, model: Model, learned: LearnResult, raw: Floats, weights: Floats | None = None
    ) -> None:
        """Add the predictions of a batch: ``raw`` those of the frozen model."""
        if len(learned.class_counts) > 1 or raw.shape != learned.raw.shape:
            return  # the batch had new classes
        for progress, result in ((self.frozen, replace(learned, raw=raw)), (self.live, learned)):
            model.update_progress(result, weights, progress)

    def as_dict(self) -> dict[str, Any]:
        """Return the measures of the frozen model, if it has predicted enough rows."""
        if self.frozen.loss.rows < REPORTED_ROWS:
            return {}
        curves = {"frozen_loss": self.frozen.loss, "frozen_error": self.frozen.error}
        measures = {name: curve.average for name, curve in curves.items() if curve.weight > 0}
        return measures | {"frozen_rows": self.frozen.loss.rows}

    def warning(self, hint: str = "") -> str:
        """Return a warning if the frozen model is clearly worse, otherwise an empty string."""
        frozen, live = self.frozen.error, self.live.error
        if frozen.weight == 0:
            return ""
        chance = 3 * math.sqrt(max(live.average * (1 - live.average), 0.0) / live.weight)
        if frozen.average <= WORSE * live.average + chance:
            return ""
        return (
            f"the error is {live.average:.4f} while learning, but {frozen.average:.4f} if the "
            "model is frozen and predicts the next rows: the order of the rows matters, so judge "
            f"the model on later rows{hint}, or shuffle the rows"
        )
