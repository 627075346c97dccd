"""Rows that are never learnt: how good the model is after each pass, and which pass was best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sonline import streams
from sonline.evaluate import Progress, measures
from sonline.labels import NEW
from sonline.model import Model
from sonline.training.settings import THREADS
from sonline.training.task import stream_options, targets_of


class Validation:
    """Measures a model after each pass and keeps the best one.

    Parameters
    ----------
    data : sequence of str
        The files.
    patience : int
        After so many passes without a smaller loss it is enough.
    options : dict
        More options of the stream.
    """

    def __init__(self, data: Sequence[str], patience: int, options: dict[str, Any]) -> None:
        self._data, self._patience, self._options = list(data), patience, options
        self._loss = math.inf
        self._best: bytes | None = None
        self._worse = 0
        self.passes = 0
        self.best_pass = 0
        self.last: dict[str, float] = {}  # the measures of the last pass

    def enough(self, model: Model) -> bool:
        """Measure the model after a pass; whether more passes are in vain."""
        progress = self._measure(model)
        self.passes += 1
        self.last = {"validation_loss": progress.loss.average}
        if progress.error.rows:
            self.last["validation_error"] = progress.error.average
        if progress.loss.average < self._loss:
            self._loss = progress.loss.average
            self._best, self.best_pass, self._worse = model.to_bytes(), self.passes, 0
        else:
            self._worse += 1
        return self._worse >= self._patience

    def best(self, model: Model) -> Model:
        """Return the model of the best pass, which may be the one given."""
        if self._best is None or self.best_pass == self.passes:
            return model
        return Model.from_bytes(self._best)

    def _measure(self, model: Model) -> Progress:
        progress = Progress()
        options = stream_options(model, frozen=True) | self._options
        with streams.open(self._data, **options) as stream:
            for batch in stream:
                targets = targets_of(model, batch)
                known = ~np.isnan(targets) if model.table is None else targets != NEW
                raw = model.predict(batch, threads=THREADS)[:, known]
                loss, wrong = measures(model.parameters, raw, targets[known], model.classes)
                weights = None if batch.weights is None else batch.weights[known]
                progress.update(loss, None if model.table is None else wrong, weights)
        return progress
