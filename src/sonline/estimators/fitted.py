"""What a fitted classifier knows: its classes, its weights, and how to write them to a file."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from sonline import persistence
from sonline.classes import ClassLearner
from sonline.errors import InvalidInputError, ModelFileError
from sonline.estimators.base import Floats, OnlineEstimator
from sonline.estimators.labels import ClassTable, Labels, as_labels
from sonline.evaluate import Mean


class FittedClassifier(OnlineEstimator):
    """Base class of `SONClassifier`; only that is public."""

    _learning: ClassLearner
    _table: ClassTable
    _right: Mean  # whether predictions were right

    @property
    def classes_(self) -> Labels:
        """The labels, sorted."""
        self._attribute("classes_")
        return self._table.labels

    @property
    def progressive_score_(self) -> float:
        """Accuracy of the predictions made before each row was learnt for the first time."""
        self._attribute("progressive_score_")
        return self._right.value

    @property
    def coef_(self) -> Floats:
        """Weights of the features, a row per class (one row for two classes)."""
        learner: ClassLearner = self._attribute("coef_")
        weights = self._table.in_order(learner.weights())
        return self._by_column([int(f) for f in learner.features()], weights[:, 1:])

    @property
    def intercept_(self) -> Floats:
        """Weights of the constant feature."""
        learner: ClassLearner = self._attribute("intercept_")
        return self._table.in_order(learner.weights())[:, 0]

    def weights(self, label: Any = None) -> dict[str | int, float]:
        """Return the weight of each feature seen, by name (by column, where X had no names).

        Parameters
        ----------
        label : optional
            For which class; may be left out for two classes, where it is ``classes_[1]``.
        """
        learner: ClassLearner = self._learner()
        lines = self._table.in_order(learner.weights())[:, 1:]
        if label is None and self.classes_.size != 2:
            raise InvalidInputError(
                f"label must be one of {self.classes_.tolist()}, got None; each class has weights"
            )
        sign, line = 1.0, 0
        if label is not None:
            codes, new = self._table.codes(as_labels("label", [label]))
            if new[0]:
                raise InvalidInputError(
                    f"label must be one of {self.classes_.tolist()}, got {label!r}"
                )
            line = int(codes[0])
            if self.classes_.size == 2:
                sign, line = (1.0 if line == 1 else -1.0), 0
        names = [self._feature_name(int(feature)) for feature in learner.features()]
        return dict(zip(names, (sign * lines[line]).tolist(), strict=True))

    def spectra(self) -> list[Floats]:
        """Return the eigenvalues that each learner's sketch holds, in the order of `coef_`."""
        learner: ClassLearner = self._learner()
        spectra = learner.spectra()
        return (
            spectra if learner.outputs == 1 else [spectra[number] for number in self._table.numbers]
        )

    def value_limits(self) -> Floats:
        """Return, for each feature, the size beyond which `predict` cuts values (see `scaling`)."""
        learner: ClassLearner = self._learner()
        limits = learner.limits()[np.newaxis, 1:]
        return self._by_column([int(feature) for feature in learner.features()], limits).ravel()

    def prediction_range(self) -> tuple[Floats, Floats]:
        """Return the lowest and highest raw predictions that ``bound`` and ``clip`` allow.

        One of each for every row of `coef_`.
        """
        low, high = (self._table.in_order(ends) for ends in self._learner().ranges())
        return np.minimum(low, high), np.maximum(low, high)

    # -- merging ---------------------------------------------------------------------------------

    def _take_merged(self, every: list[Self], start: Self | None, learners: list[Any]) -> None:
        common = [] if start is None else [start]
        table = every[0]._table
        for one in every[1:] + common:
            _, new = table.codes(one._table.labels)
            if new.any():
                if not every[0]._learning.growing:
                    raise InvalidInputError(
                        f"the estimators to be merged have different classes, such as "
                        f"{table.labels.tolist()} and {one._table.labels.tolist()}; name all of "
                        "them in partial_fit, or make the estimators with discover_classes=True"
                    )
                table = table.grown(one._table.labels[new])
        ready = [
            learner.arranged(one._table.places_of(table)) if learner.growing else learner
            for one, learner in zip(every + common, learners, strict=True)
        ]
        begun = None if start is None else ready.pop()
        self._table = table
        self._learning = ready[0].merge(ready[1:], begun)
        self._right = every[0]._right.merge(
            [one._right for one in every[1:]], None if start is None else start._right
        )

    # -- files -----------------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        return {"classes": self._table.as_dict(), "right": self._right.as_dict()}

    def _restore(self, document: dict[str, Any], tensors: persistence.Tensors) -> None:
        self._table = ClassTable.from_dict(document["classes"])
        self._right = Mean.from_dict(document["right"])
        learner = ClassLearner.__new__(ClassLearner)
        learner.__setstate__((document["learner"], tensors))
        if learner.classes != self._table.labels.size:
            raise ModelFileError("classes and learners do not fit together")
        self._learning = learner
