"""Training as Vowpal Wabbit counts: its losses, its weights of rows, its predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.model import LearnResult, Model
from sonline.rows import Floats
from sonline.streams import Batch
from sonline.training import THREADS, Training

SQUARED_SCALE = 2.0  # its squared loss is (p - y)^2, twice that of sonline


def loss_scale(model: Model) -> float:
    """Return what Vowpal Wabbit's loss is times that of sonline."""
    return SQUARED_SCALE if model.parameters.loss == "squared" else 1.0


def start_range(model: Model) -> None:
    """Clip predictions to the labels seen and 0 or, with the logistic loss, to ±50."""
    limit = 50.0 if model.parameters.loss == "logistic" else 0.0
    model.start_label_range(-limit, limit)


class VWTraining(Training):
    """Trains with the arithmetic of Vowpal Wabbit; ``row_weight`` is in the face of the model.

    Every row counts in the reported loss, the first one of a regression, too.
    """

    more_classes = "use --oaa K with K classes, labelled 1 to K"

    def __init__(self, *arguments: Any, predict_as: str, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.predict_as = predict_as

    def learn(self, model: Model, batch: Batch, weights: Floats | None) -> LearnResult:
        """Learn a batch with weights times that of the model."""
        factor = float(model.face.get("row_weight", 1.0))
        if factor != 1:
            weights = factor * (np.ones(len(batch)) if weights is None else weights)
        return model.learn_batch(batch, weights, THREADS)

    def losses(self, model: Model, learned: LearnResult) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Return Vowpal Wabbit's loss of each prediction, and whether a class was wrong."""
        loss, wrong = model.measures(learned)
        return loss_scale(model) * loss, wrong

    def counted(self, learned: LearnResult, batch: Batch) -> Floats | None:
        """Return the weights of the rows."""
        return batch.weights
