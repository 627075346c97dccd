"""Validation: the loss on other rows after each pass, and the model of the best pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sonline import streams
from sonline.errors import InvalidInputError, ParameterError
from sonline.evaluate import Progress, measures
from sonline.files import replacing
from sonline.model import Model
from sonline.training.outputs import best_of
from sonline.training.task import NumberCheck, have_targets, stream_options, targets_of


class Validation:
    """Evaluates a model after each pass and keeps the best one.

    Training stops after ``patience`` passes without a smaller loss. If there is a checkpoint, the
    best model is stored beside it.
    """

    def __init__(
        self,
        data: Sequence[str],
        patience: int,
        options: dict[str, Any],
        checkpoint: Path | None = None,
    ) -> None:
        self._data, self._patience, self._options = list(data), patience, options
        self._file = None if checkpoint is None else best_of(checkpoint)
        self._loss = math.inf
        self._best: bytes | None = None
        self._worse = 0
        self.passes = 0
        self.best_pass = 0
        self.last: dict[str, float] = {}  # measures of the last pass

    def enough(self, model: Model, final: bool = False) -> bool:
        """Evaluate the model after a pass, and return whether training should stop.

        Unless this is the final pass, the best model is written to a file for a resumed run.
        """
        progress = self._measure(model)
        self.passes += 1
        self.last = {"validation_loss": progress.loss.average}
        if progress.error.rows:
            self.last["validation_error"] = progress.error.average
        if progress.loss.average < self._loss:
            self._loss = progress.loss.average
            self._best, self.best_pass, self._worse = model.to_bytes(), self.passes, 0
            if self._file is not None and not final:
                with replacing(self._file) as file:
                    file.write(self._best)
        else:
            self._worse += 1
        return self._worse >= self._patience

    def best(self, model: Model) -> Model:
        """Return the model of the best pass, which may be ``model`` itself."""
        if self._best is None or self.best_pass == self.passes:
            return model
        return Model.from_bytes(self._best)

    def as_dict(self) -> dict[str, Any]:
        """Return the state for a resumed run, without the best model."""
        return {
            "files": self._data,
            "loss": self._loss if self.best_pass else None,
            "worse": self._worse,
            "passes": self.passes,
            "best_pass": self.best_pass,
        }

    def resume(self, stored: dict[str, Any] | None, path: Path) -> None:
        """Continue from the state that an earlier run stored in a file."""
        files = None if stored is None else stored["files"]
        if stored is None or files != self._data:
            raise ParameterError(
                f"resume: {path} was saved by a run with validation {files}, this run has "
                f"{self._data}; repeat the same run"
            )
        self._worse, self.passes = int(stored["worse"]), int(stored["passes"])
        self.best_pass = int(stored["best_pass"])
        if self.best_pass and self._file is not None:
            self._loss = float(stored["loss"])
            self._best = self._file.read_bytes()

    def _measure(self, model: Model) -> Progress:
        progress = Progress()
        options = stream_options(model, frozen=True) | self._options
        with streams.open(self._data, **options) as stream:
            for batch in stream:
                if model.table is None:
                    batch.checked(NumberCheck(model).reasons(batch), "stop")
                targets = targets_of(model, batch)
                has_target = have_targets(model, targets)
                raw = model.predict(batch)[:, has_target]
                loss, wrong = measures(model.parameters, raw, targets[has_target], model.classes)
                weights = None if batch.weights is None else batch.weights[has_target]
                progress.update(loss, None if model.table is None else wrong, weights)
        if not progress.loss.rows:
            files = ", ".join(self._data)
            raise InvalidInputError(
                f"validation: no row of {files} has a label that the model knows"
                if model.table is not None
                else f"validation: {files}: there are no rows"
            )
        return progress
