"""Weights of classes: rows count as often as their label says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sonline.errors import ParameterError
from sonline.labels import ClassTable
from sonline.rows import Floats
from sonline.streams import Batch


class ClassWeights:
    """The weight of each class of a run; others have the weight 1.

    Parameters
    ----------
    weights : mapping
        From label to weight.
    """

    def __init__(self, weights: Mapping[Any, float]) -> None:
        self.weights = weights

    def of(self, batch: Batch) -> Floats | None:
        """Return the weights of rows times those of their classes."""
        if not self.weights or batch.codes is None:
            return batch.weights
        labels = batch.stream_labels()
        factors = np.array([self.weights.get(label, 1.0) for label in labels])[batch.codes]
        return factors if batch.weights is None else batch.weights * factors

    def check(self, table: ClassTable | None) -> None:
        """Raise an error about weights of classes that cannot occur."""
        if table is None and self.weights:
            raise ParameterError("class_weight (--class-weight) needs classes: this is regression")
        if table is None or table.growing:
            return
        classes = (-1, 0, 1) if table.undecided else table.labels
        for label in self.weights:
            if label not in classes:
                known = ", ".join(map(str, classes[:10])) + (", ..." if len(classes) > 10 else "")
                raise ParameterError(
                    f"class_weight (--class-weight): {label!r} is not among the classes {known}"
                )

    def unused(self, table: ClassTable | None) -> list[str]:
        """Return the labels with a weight that no row has had."""
        known = {} if table is None else table.numbers
        return [str(label) for label in self.weights if label not in known]

    def as_list(self) -> list[dict[str, Any]]:
        """Return the weights as JSON can hold them."""
        return [{"label": label, "weight": float(w)} for label, w in self.weights.items()]
