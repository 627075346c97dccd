"""Progressive averages, and their curves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sonline.errors import ModelFileError
from sonline.evaluate.metrics import R2
from sonline.evaluate.sums import LOOP_UP_TO, running_sums, to_json


@dataclass(frozen=True)
class Point:
    """One point of a `Curve`: after how many rows, the mean so far and since the point before."""

    rows: int
    average: float
    since_last: float


@dataclass(repr=False)
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

    def __repr__(self) -> str:
        points = f"{len(self.points)} points"
        return f"<Curve: {self.rows} rows, average {self.average:.6g}, {points}>"

    def update(self, values: ArrayLike, weights: ArrayLike | None = None) -> list[Point]:
        """Add the losses of a batch of rows; return the points that they completed."""
        losses = np.asarray(values, dtype=np.float64)
        first = len(self.points)
        if losses.size <= LOOP_UP_TO:
            importances = [1.0] * losses.size if weights is None else np.asarray(weights).tolist()
            for value, importance in zip(losses.tolist(), importances, strict=True):
                self.rows += 1
                self.total += value * importance
                self.weight += importance
                if self.rows == self._next:
                    self._close()
            return self.points[first:]
        importance = None if weights is None else np.asarray(weights, dtype=np.float64)
        totals = running_sums(self.total, losses if importance is None else losses * importance)
        sums = None if importance is None else running_sums(self.weight, importance)
        start = self.weight
        while True:  # to each point, and then to the end
            end = min(self._next - self.rows, losses.size)
            self.total = float(totals[end])
            self.weight = start + end if sums is None else float(sums[end])
            if self._next > self.rows + losses.size:
                break
            self._close()
        self.rows += losses.size
        return self.points[first:]

    def merge(self, others: Iterable[Curve], start: Curve | None = None) -> Curve:
        """Return the average over all rows of curves that continued from a common start.

        Its points are those of the start, and one for all rows since.

        Examples
        --------
        >>> from sonline.evaluate import Curve
        >>> one, other = Curve(), Curve()
        >>> points = one.update([1.0, 3.0]), other.update([5.0])
        >>> one.merge([other]).now
        Point(rows=3, average=3.0, since_last=nan)
        """
        curves = [self, *others]
        first = start or Curve()
        # A curve with fewer rows than the start did not continue from it.
        bases = [first if curve.rows >= first.rows else Curve() for curve in curves]
        rows, total, weight = (
            getattr(first, name)
            + sum(
                getattr(curve, name) - getattr(base, name)
                for curve, base in zip(curves, bases, strict=True)
            )
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
        """Return it as values that JSON can hold."""
        numbers = [
            [p.rows, *(None if math.isnan(v) else to_json(v) for v in (p.average, p.since_last))]
            for p in self.points
        ]
        return {
            "points": numbers,
            "rows": self.rows,
            "total": to_json(self.total),
            "weight": to_json(self.weight),
            "last": [to_json(number) for number in self._last],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Curve:
        """Make a curve from the result of `as_dict`."""
        points = [
            Point(int(rows), *(math.nan if v is None else float(v) for v in values))
            for rows, *values in plain["points"]
        ]
        total, weight = plain["last"]
        rows = int(plain["rows"])
        return cls(
            points,
            rows,
            float(plain["total"]),
            float(plain["weight"]),
            (float(total), float(weight)),
            2 * points[-1].rows if points else 1 << rows.bit_length(),
        )

    def check(self) -> None:
        """Raise an error if the points are not in order, as in a damaged file.

        During a merge, curves may have fewer rows than their points.
        """
        marks = [0, *(point.rows for point in self.points), self.rows + 1]
        if any(after <= before for before, after in itertools.pairwise(marks)):
            raise ModelFileError(f"points after {marks[1:-1]} of {self.rows} rows must be in order")

    def _close(self) -> None:
        """Add the point of the row that is the next power of two, if any row has counted."""
        if self.weight > 0:
            self.points.append(self._point(self._next))
        self._last = self.total, self.weight
        self._next *= 2

    def _point(self, rows: int) -> Point:
        total, weight = self.total - self._last[0], self.weight - self._last[1]
        return Point(rows, self.average, total / weight if weight > 0 else math.nan)


@dataclass(repr=False)
class Progress:
    """Progressive loss, error rate and, for regression, R².

    The models of all faces give the first row of a regression the weight 0, because a model without
    labels has nothing to predict from. Where several models start, as in partitions, that is the
    first row of each.

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

    def __repr__(self) -> str:
        measures = {
            "loss": self.loss.average,
            "error": self.error.average,
            "R²": self.r2.value,
        }
        parts = [f"{name} {value:.6g}" for name, value in measures.items() if not math.isnan(value)]
        return f"<Progress: {', '.join([f'{self.loss.rows} rows', *parts])}>"

    def update(
        self, loss: ArrayLike, wrong: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> list[Point]:
        """Add losses and mistakes of rows; return the loss points that they completed."""
        if wrong is not None:
            self.error.update(wrong, weights)
        return self.loss.update(loss, weights)

    @property
    def accuracy(self) -> float:
        """Share of rows whose class was predicted correctly; NaN if there are no rows."""
        error = self.error
        return (error.weight - error.total) / error.weight if error.weight > 0 else math.nan

    def merge(self, others: Iterable[Progress], start: Progress | None = None) -> Progress:
        """Return the measures over all rows; those of a common start count once."""
        parts = list(others)
        first = start or Progress()
        return Progress(
            self.loss.merge([part.loss for part in parts], first.loss),
            self.error.merge([part.error for part in parts], first.error),
            self.r2.merge([part.r2 for part in parts], first.r2),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as values that JSON can hold."""
        return {name: part.as_dict() for name, part in vars(self).items()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Progress:
        """Make measures from the result of `as_dict`."""
        return cls(
            Curve.from_dict(plain["loss"]),
            Curve.from_dict(plain["error"]),
            R2.from_dict(plain["r2"]),
        )
