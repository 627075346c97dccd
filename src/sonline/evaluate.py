"""Progressive evaluation: metrics of predictions that were made before each row was learnt.

Every metric takes batches through ``update(labels, predictions, weights)`` and keeps a few numbers,
never the rows. Sums run in the order of the rows, so a stream gives the same result however it is
cut into batches. Predictions are raw ones (``w.x``); labels of classification are -1 and +1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sonline import _core
from sonline.errors import InvalidInputError, ModelFileError
from sonline.parameters import LOSSES, Parameters
from sonline.rows import Floats, contiguous

FEW = 4  # rows that are added up faster without NumPy

__all__ = [
    "AUC",
    "R2",
    "Curve",
    "Error",
    "LogLoss",
    "Loss",
    "Mean",
    "Metric",
    "Point",
    "Progress",
    "losses",
    "measures",
]


class Metric(Protocol):
    """What every metric of this module has."""

    def update(
        self, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Take in a batch of labels, raw predictions and weights (all 1 without)."""

    @property
    def value(self) -> float:
        """The metric over all rows so far; NaN where it is not defined yet."""


def losses(
    loss: str, labels: ArrayLike, predictions: ArrayLike, quantile: float = Parameters.quantile
) -> Floats:
    """Return the loss of each raw prediction.

    Examples
    --------
    >>> from sonline.evaluate import losses
    >>> losses("squared", [1.0, 2.0], [0.0, 2.0]).tolist()
    [0.5, 0.0]
    """
    if loss not in LOSSES:
        raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}")
    y, z, _ = _batch(labels, predictions, None)
    out = np.empty(z.size)
    _core.loss_values(loss, z, y, quantile, out)
    return out


def measures(
    parameters: Parameters, raw: Floats, targets: NDArray[Any], classes: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the loss of each row, and whether its class is wrong: for all faces the same.

    Parameters
    ----------
    parameters : Parameters
        Whose loss it is.
    raw : array of shape (outputs, rows)
        Raw predictions: one output for numbers and two classes, otherwise one per class.
    targets : array
        Numbers, or numbers of classes.
    classes : int
        How many classes there are; 0 for numbers, which are never wrong. With more than two, the
        loss is the mean over "this class or not".

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.evaluate import measures
    >>> from sonline.parameters import Parameters
    >>> raw = np.array([[2.0, -1.0], [-1.0, 0.5], [-1.0, 0.25]])
    >>> loss, wrong = measures(Parameters(loss="hinge"), raw, np.array([0, 2]), 3)
    >>> loss.tolist(), wrong.tolist()
    ([0.0, 0.75], [False, True])
    """
    loss, level = parameters.loss, parameters.quantile
    values = np.empty(targets.size)
    if not classes:
        _core.loss_values(loss, contiguous(raw[0]), targets, level, values)
        return values, np.zeros(targets.size, np.bool_)
    if classes == 2:
        second = targets == 1
        _core.loss_values(loss, contiguous(raw[0]), 2.0 * second - 1.0, level, values)
        return values, (raw[0] > 0) != second
    total = np.zeros(targets.size)
    for number, line in enumerate(raw):
        signs = 2.0 * (targets == number) - 1.0
        _core.loss_values(loss, contiguous(line), signs, level, values)
        total += values
    return total / raw.shape[0], raw.argmax(axis=0) != targets


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
        """Take in values and their weights (all 1 without)."""
        values = np.asarray(values)
        if weights is not None:
            weights = np.asarray(weights, dtype=np.float64)
            self.weight = _sum(self.weight, weights)
            self.total = _sum(self.total, values * weights)
            return
        self.weight += values.size
        if values.dtype == np.bool_ and self.total.is_integer():
            self.total += int(np.count_nonzero(values))  # whole numbers need no order
        else:
            self.total = _sum(self.total, values.astype(np.float64, copy=False))

    def merge(self, others: Iterable[Mean], start: Mean | None = None) -> Mean:
        """Return the mean over all values; those of a common start count once."""
        every = [self, *others]
        first = start or Mean()
        return Mean(
            *(
                getattr(first, name)
                + sum(getattr(one, name) - getattr(first, name) for one in every)
                for name in ("total", "weight")
            )
        )

    @property
    def value(self) -> float:
        """The mean so far; NaN without any."""
        return self.total / self.weight if self.weight > 0 else math.nan

    def as_dict(self) -> dict[str, float | str]:
        """Return all of it as values that JSON can hold."""
        return {"total": _to_json(self.total), "weight": _to_json(self.weight)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Mean:
        """Make a mean from what `as_dict` returned."""
        return cls(float(plain["total"]), float(plain["weight"]))


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
        """Take in a batch."""
        y, z, w = _batch(labels, predictions, weights)
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
        """Take in a batch."""
        y, z, w = _batch(labels, predictions, weights)
        self._mean.add((y > 0) != (z > 0), w)

    @property
    def value(self) -> float:
        """The share so far."""
        return self._mean.value


class AUC:
    """Area under the ROC curve, in constant memory.

    It is the exact area for the predictions rounded to 11 significant bits (float16): a histogram
    with a place for each of those 65,536 numbers. Pairs that fall into one place count half.

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
        """Take in a batch."""
        y, z, w = _batch(labels, predictions, weights)
        with np.errstate(over="ignore", under="ignore"):
            bits = (z.astype(np.float16) + np.float16(0)).view(np.int16).astype(np.int64)  # no -0
        place = np.where(bits >= 0, bits, -1 - (bits & 0x7FFF)) + 0x8000
        np.add.at(self._histogram, ((y > 0).astype(np.intp), place), 1.0 if w is None else w)

    @property
    def value(self) -> float:
        """The area so far; NaN until both classes have been seen."""
        negative, positive = self._histogram
        below = np.cumsum(negative) - negative / 2
        pairs = negative.sum() * positive.sum()
        return float(positive @ below / pairs) if pairs > 0 else math.nan


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

    def __init__(self) -> None:
        self._square_error = 0.0
        # Moments about the first label, so that a large mean does not cancel the variance.
        self._origin: float | None = None
        self._weight = 0.0
        self._first = 0.0
        self._second = 0.0

    def update(
        self, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Take in a batch."""
        y, z, w = _batch(labels, predictions, weights)
        if not y.size:
            return
        w = np.ones(y.size) if w is None else w
        if self._origin is None:
            self._origin = float(y[0])
        offset = y - self._origin
        self._square_error = _sum(self._square_error, w * (y - z) ** 2)
        self._weight = _sum(self._weight, w)
        self._first = _sum(self._first, w * offset)
        self._second = _sum(self._second, w * offset**2)

    @property
    def value(self) -> float:
        """The coefficient so far; NaN while all labels are equal."""
        if not self._weight > 0:
            return math.nan
        variation = self._second - self._first * self._first / self._weight
        return float(1 - self._square_error / variation) if variation > 0 else math.nan

    def merge(self, others: Iterable[R2], start: R2 | None = None) -> R2:
        """Return the metric over all rows; those of a common start count once."""
        every = [self, *others]
        origin = next((one._origin for one in every if one._origin is not None), 0.0)
        first = (start or R2())._moments(origin)
        total = first + sum(one._moments(origin) - first for one in every)
        merged = R2()
        merged._origin = origin
        merged._square_error, merged._weight, merged._first, merged._second = total.tolist()
        return merged

    def _moments(self, origin: float) -> Floats:
        """Return the sums with the moments about another label."""
        shift = (origin if self._origin is None else self._origin) - origin
        second = self._second + 2 * shift * self._first + shift * shift * self._weight
        return np.array(
            [self._square_error, self._weight, self._first + shift * self._weight, second]
        )

    def as_dict(self) -> dict[str, float | str | None]:
        """Return all of it as values that JSON can hold."""
        return {
            "square_error": _to_json(self._square_error),
            "origin": self._origin,
            "weight": _to_json(self._weight),
            "first": _to_json(self._first),
            "second": _to_json(self._second),
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> R2:
        """Make a metric from what `as_dict` returned."""
        metric = cls()
        metric._square_error = float(plain["square_error"])
        metric._origin = None if plain["origin"] is None else float(plain["origin"])
        metric._weight = float(plain["weight"])
        metric._first = float(plain["first"])
        metric._second = float(plain["second"])
        return metric


@dataclass(frozen=True)
class Point:
    """One point of a `Curve`: after how many rows, the mean so far and since the point before."""

    rows: int
    average: float
    since_last: float


@dataclass
class Curve:
    """A progressive average with points after 1, 2, 4, 8, ... rows.

    Examples
    --------
    >>> from sonline.evaluate import Curve
    >>> curve = Curve()
    >>> for point in curve.update([1.0, 3.0, 5.0]):
    ...     print(point.rows, point.average, point.since_last)
    1 1.0 1.0
    2 2.0 3.0
    >>> curve.now
    Point(rows=3, average=3.0, since_last=5.0)
    """

    points: list[Point] = field(default_factory=list)
    rows: int = 0
    total: float = 0.0
    weight: float = 0.0
    _last: tuple[float, float] = (0.0, 0.0)  # total and weight at the last point
    _next: int = 1

    def update(self, values: ArrayLike, weights: ArrayLike | None = None) -> list[Point]:
        """Take in the losses of a batch of rows; the points that they completed."""
        losses = np.asarray(values, dtype=np.float64)
        first = len(self.points)
        if losses.size <= FEW:
            given = [1.0] * losses.size if weights is None else np.asarray(weights).tolist()
            for value, importance in zip(losses.tolist(), given, strict=True):
                self.rows += 1
                self.total += value * importance
                self.weight += importance
                if self.rows == self._next:
                    self._close()
            return self.points[first:]
        importance = None if weights is None else np.asarray(weights, dtype=np.float64)
        totals = _running(self.total, losses if importance is None else losses * importance)
        sums = None if importance is None else _running(self.weight, importance)
        start = self.weight
        while True:  # to each point, and then to the end
            place = min(self._next - self.rows, losses.size)
            self.total = float(totals[place])
            self.weight = start + place if sums is None else float(sums[place])
            if self._next > self.rows + losses.size:
                break
            self._close()
        self.rows += losses.size
        return self.points[first:]

    def merge(self, others: Iterable[Curve], start: Curve | None = None) -> Curve:
        """Return the average over all rows of curves that went on from a common start side by side.

        Its points are those of the start, and one for all that came since.

        Examples
        --------
        >>> from sonline.evaluate import Curve
        >>> one, other = Curve(), Curve()
        >>> points = one.update([1.0, 3.0]), other.update([5.0])
        >>> one.merge([other]).now
        Point(rows=3, average=3.0, since_last=nan)
        """
        every = [self, *others]
        first = start or Curve()
        rows, total, weight = (
            getattr(first, name) + sum(getattr(one, name) - getattr(first, name) for one in every)
            for name in ("rows", "total", "weight")
        )
        merged = Curve(list(first.points), rows, total, weight, first._last, max(rows, 1))
        if rows > first.rows:
            merged._close()
        return merged

    @property
    def average(self) -> float:
        """The mean over all rows; NaN without rows."""
        return self.total / self.weight if self.weight > 0 else math.nan

    @property
    def now(self) -> Point:
        """The point after the last row so far."""
        return self._point(self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold."""
        numbers = [
            [p.rows, *(None if math.isnan(v) else _to_json(v) for v in (p.average, p.since_last))]
            for p in self.points
        ]
        return {
            "points": numbers,
            "rows": self.rows,
            "total": _to_json(self.total),
            "weight": _to_json(self.weight),
            "last": [_to_json(number) for number in self._last],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Curve:
        """Make a curve from what `as_dict` returned."""
        points = [
            Point(int(rows), *(math.nan if v is None else float(v) for v in values))
            for rows, *values in plain["points"]
        ]
        total, weight = plain["last"]
        rows = int(plain["rows"])
        marks = [0, *(point.rows for point in points), rows + 1]
        if any(after <= before for before, after in itertools.pairwise(marks)):
            raise ModelFileError(f"points after {marks[1:-1]} of {rows} rows must be in order")
        return cls(
            points,
            rows,
            float(plain["total"]),
            float(plain["weight"]),
            (float(total), float(weight)),
            2 * points[-1].rows if points else 1,
        )

    def _close(self) -> None:
        """Add the point of the row that is the next power of two."""
        self.points.append(self._point(self._next))
        self._last = self.total, self.weight
        self._next *= 2

    def _point(self, rows: int) -> Point:
        total, weight = self.total - self._last[0], self.weight - self._last[1]
        return Point(rows, self.average, total / weight if weight > 0 else math.nan)


@dataclass
class Progress:
    """Measures of predictions made before rows were learnt: loss, mistakes and, of numbers, R².

    Examples
    --------
    >>> from sonline.evaluate import Progress
    >>> progress = Progress()
    >>> points = progress.update([0.5, 0.25], [True, False])
    >>> progress.loss.average, progress.error.average
    (0.375, 0.5)
    """

    loss: Curve = field(default_factory=Curve)
    error: Curve = field(default_factory=Curve)
    r2: R2 = field(default_factory=R2)

    def update(
        self, loss: ArrayLike, wrong: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> list[Point]:
        """Take in losses and mistakes of rows; the points of the loss that they completed."""
        if wrong is not None:
            self.error.update(wrong, weights)
        return self.loss.update(loss, weights)

    @property
    def accuracy(self) -> float:
        """Share of right classes; NaN without rows."""
        error = self.error
        return (error.weight - error.total) / error.weight if error.weight > 0 else math.nan

    def merge(self, others: Iterable[Progress], start: Progress | None = None) -> Progress:
        """Return the measures over all rows; those of a common start count once."""
        every = list(others)
        first = start or Progress()
        return Progress(
            self.loss.merge([one.loss for one in every], first.loss),
            self.error.merge([one.error for one in every], first.error),
            self.r2.merge([one.r2 for one in every], first.r2),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold."""
        return {name: part.as_dict() for name, part in vars(self).items()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Progress:
        """Make measures from what `as_dict` returned."""
        return cls(
            Curve.from_dict(plain["loss"]),
            Curve.from_dict(plain["error"]),
            R2.from_dict(plain["r2"]),
        )


def _to_json(number: float) -> float | str:
    """Return a number as JSON can hold it: sums of losses may be infinite, and are kept so."""
    return float(number) if math.isfinite(number) else str(float(number))


def _sum(start: float, values: Floats) -> float:
    """Return ``start`` and the values, added one after another."""
    if values.size <= FEW:
        for value in values.tolist():
            start += value
        return start
    return float(_running(start, values)[-1])


def _running(start: float, values: Floats) -> Floats:
    """Return ``start`` and its sums with the values, added one after another."""
    sums = np.empty(values.size + 1)
    sums[0] = start
    sums[1:] = values
    return np.cumsum(sums, out=sums)


def _batch(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats, Floats | None]:
    y = contiguous(labels, np.float64)
    z = contiguous(predictions, np.float64)
    w = None if weights is None else contiguous(weights, np.float64)
    for name, array in (("predictions", z), ("weights", w)):
        if array is not None and (array.shape != y.shape or y.ndim != 1):
            raise InvalidInputError(
                f"{name} and labels must be vectors of one length, got shapes {array.shape} and "
                f"{y.shape}"
            )
    return y, z, w
