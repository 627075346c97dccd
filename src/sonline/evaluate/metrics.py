"""Metrics that take batches of labels and predictions, and keep a few numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sonline.evaluate.losses import checked, losses
from sonline.evaluate.sums import running_sum, to_json
from sonline.parameters import Parameters
from sonline.rows import Floats


class Metric(Protocol):
    """The interface of all metrics."""

    def update(
        self, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Add a batch of labels, raw predictions and weights (default: all 1)."""

    @property
    def value(self) -> float:
        """The metric over all rows so far; NaN where it is not defined yet."""


@dataclass
class Mean:
    """A running weighted mean.

    Examples
    --------
    >>> from sonline.evaluate import Mean
    >>> mean = Mean()
    >>> mean.add([1.0, 2.0, 6.0])
    >>> mean.value
    3.0
    """

    total: float = 0.0
    weight: float = 0.0

    def add(self, values: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add values and their weights (default: all 1)."""
        values = np.asarray(values)
        if weights is not None:
            weights = np.asarray(weights, dtype=np.float64)
            self.weight = running_sum(self.weight, weights)
            self.total = running_sum(self.total, values * weights)
            return
        self.weight += values.size
        if values.dtype == np.bool_ and self.total.is_integer():
            self.total += int(np.count_nonzero(values))  # whole numbers need no order
        else:
            self.total = running_sum(self.total, values.astype(np.float64, copy=False))

    def merge(self, others: Iterable[Mean]) -> Mean:
        """Return the mean over all values."""
        parts = [self, *others]
        return Mean(sum(part.total for part in parts), sum(part.weight for part in parts))

    @property
    def value(self) -> float:
        """The mean so far; NaN without any."""
        return self.total / self.weight if self.weight > 0 else math.nan


class Loss:
    """Mean of a loss.

    Examples
    --------
    >>> from sonline.evaluate import Loss
    >>> metric = Loss("squared")
    >>> metric.update([1.0, 2.0], [0.0, 2.0])
    >>> metric.value
    0.25
    """

    def __init__(self, loss: str = Parameters.loss, quantile: float = Parameters.quantile) -> None:
        self.loss = loss
        self.quantile = quantile
        self._mean = Mean()

    def update(
        self, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Add a batch."""
        y, z, w = checked(labels, predictions, weights)
        self._mean.add(losses(self.loss, y, z, self.quantile), w)

    @property
    def value(self) -> float:
        """The mean so far."""
        return self._mean.value


class LogLoss(Loss):
    """Mean of ``log(1 + exp(-y z))``: minus the log-likelihood of the logistic model."""

    def __init__(self) -> None:
        super().__init__("logistic")


class Error:
    """Share of rows on the wrong side of 0; a prediction of exactly 0 counts as -1.

    Examples
    --------
    >>> from sonline.evaluate import Error
    >>> metric = Error()
    >>> metric.update([1, -1, 1, 1], [0.3, -2.0, -0.1, 5.0])
    >>> metric.value
    0.25
    """

    def __init__(self) -> None:
        self._mean = Mean()

    def update(
        self, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Add a batch."""
        y, z, w = checked(labels, predictions, weights)
        self._mean.add((y > 0) != (z > 0), w)

    @property
    def value(self) -> float:
        """The share so far."""
        return self._mean.value


class AUC:
    """Area under the ROC curve, in constant memory.

    It is the exact area for the predictions rounded to 11 significant bits (float16), computed from
    a histogram with one bin for each of these 65,536 numbers. Pairs in the same bin count half.

    Examples
    --------
    >>> from sonline.evaluate import AUC
    >>> metric = AUC()
    >>> metric.update([1, -1, 1, -1], [2.0, 1.0, 0.5, -1.0])
    >>> metric.value
    0.75
    """

    def __init__(self) -> None:
        self._histogram = np.zeros((2, 1 << 16))  # negatives, positives, by rising prediction

    def update(
        self, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Add a batch."""
        y, z, w = checked(labels, predictions, weights)
        with np.errstate(over="ignore", under="ignore"):
            bits = (z.astype(np.float16) + np.float16(0)).view(np.int16).astype(np.int64)  # no -0
        bins = np.where(bits >= 0, bits, -1 - (bits & 0x7FFF)) + 0x8000
        np.add.at(self._histogram, ((y > 0).astype(np.intp), bins), 1.0 if w is None else w)

    @property
    def value(self) -> float:
        """The area so far; NaN until both classes have been seen."""
        negative, positive = self._histogram
        below = np.cumsum(negative) - negative / 2
        pairs = negative.sum() * positive.sum()
        return float(positive @ below / pairs) if pairs > 0 else math.nan


@dataclass(repr=False, eq=False)
class R2:
    """Coefficient of determination: 1 - squared error / variance of the labels.

    Examples
    --------
    >>> from sonline.evaluate import R2
    >>> metric = R2()
    >>> metric.update([1.0, 2.0, 3.0], [1.0, 2.0, 2.0])
    >>> metric.value
    0.5
    """

    square_error: float = 0.0
    # Moments about the first label, so that a large mean does not cancel the variance.
    origin: float | None = None
    weight: float = 0.0
    first: float = 0.0
    second: float = 0.0

    def update(
        self, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Add a batch."""
        y, z, w = checked(labels, predictions, weights)
        if not y.size:
            return
        w = np.ones(y.size) if w is None else w
        if self.origin is None:
            self.origin = float(y[0])
        offset = y - self.origin
        self.square_error = running_sum(self.square_error, w * (y - z) ** 2)
        self.weight = running_sum(self.weight, w)
        self.first = running_sum(self.first, w * offset)
        self.second = running_sum(self.second, w * offset**2)

    @property
    def value(self) -> float:
        """The coefficient so far; NaN while all labels are equal."""
        if not self.weight > 0:
            return math.nan
        variation = self.second - self.first * self.first / self.weight
        return float(1 - self.square_error / variation) if variation > 0 else math.nan

    def merge(self, others: Iterable[R2], start: R2 | None = None) -> R2:
        """Return the metric over all rows; those of a common start count once."""
        parts = [self, *others]
        origin = next((part.origin for part in parts if part.origin is not None), 0.0)
        first = (start or R2())._moments(origin)
        total = first + sum(part._moments(origin) - first for part in parts)
        square_error, weight, first_moment, second_moment = total.tolist()
        return R2(square_error, origin, weight, first_moment, second_moment)

    def _moments(self, origin: float) -> Floats:
        """Return the sums with the moments about another label."""
        shift = (origin if self.origin is None else self.origin) - origin
        second = self.second + 2 * shift * self.first + shift * shift * self.weight
        return np.array([self.square_error, self.weight, self.first + shift * self.weight, second])

    def as_dict(self) -> dict[str, float | str | None]:
        """Return the metric as values that JSON can hold."""
        return {n: None if v is None else to_json(v) for n, v in vars(self).items()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> R2:
        """Make a metric from the result of `as_dict`."""
        origin = None if plain["origin"] is None else float(plain["origin"])
        sums = {name: float(plain[name]) for name in ("square_error", "weight", "first", "second")}
        return cls(origin=origin, **sums)


class Confusion:
    """Confusion matrix of weights, with precision, recall and F1 of each class.

    Examples
    --------
    >>> from sonline.evaluate import Confusion
    >>> confusion = Confusion()
    >>> confusion.update([1, 1, 0, 0], [1, 0, 0, 0], 2)
    >>> confusion.matrix.tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    >>> confusion.precision.tolist(), confusion.recall.tolist()
    ([0.6666666666666666, 1.0], [1.0, 0.5])
    """

    def __init__(self) -> None:
        self.matrix: Floats = np.zeros((0, 0))  # by number of the class, and of the predicted one

    def update(
        self,
        targets: ArrayLike,
        predicted: ArrayLike,
        classes: int,
        weights: ArrayLike | None = None,
    ) -> None:
        """Add a batch of class numbers; ``classes`` is the number of classes known so far."""
        if classes > len(self.matrix):
            more = classes - len(self.matrix)
            self.matrix = np.pad(self.matrix, (0, more))
        cells = np.asarray(targets, np.int64), np.asarray(predicted, np.int64)
        np.add.at(self.matrix, cells, 1.0 if weights is None else np.asarray(weights))

    @property
    def precision(self) -> Floats:
        """Of the rows predicted as each class, the share that is right; 0 if there are none."""
        return _ratio(np.diag(self.matrix), self.matrix.sum(axis=0))

    @property
    def recall(self) -> Floats:
        """Of the rows of each class, the share predicted correctly; 0 if there are none."""
        return _ratio(np.diag(self.matrix), self.matrix.sum(axis=1))

    @property
    def f1(self) -> Floats:
        """For each class, the harmonic mean of precision and recall; 0 if it has no rows."""
        both = self.matrix.sum(axis=0) + self.matrix.sum(axis=1)
        return _ratio(2 * np.diag(self.matrix), both)


def _ratio(part: Floats, total: Floats) -> Floats:
    return np.divide(part, total, out=np.zeros(part.size), where=total > 0)
