"""Columns as curves: what a column adds to predictions, at each of its knots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sonline.rows import Floats

_BEYOND = 0.01  # of the rows, which a picture of a curve leaves out at each end
_HIGHEST = 5.0  # a bar of the density, in terms of the middle one; higher ones are cut
_NARROW = 0.02  # the width of the bar of zeros, in terms of the picture


@dataclass(frozen=True)
class Curve:
    """What a column adds to a raw prediction, as a function of its value.

    It is a line between two knots. Beyond the outermost ones it goes on as the weight of the column
    says.

    Attributes
    ----------
    feature : str or int
        The column.
    values : array of shape (n,)
        Its knots, ascending. A column without a curve has two points of its line here: 0, or the
        centre less the usual distance from it, and its usual size.
    contributions : array of shape (n,)
        What it adds to the raw prediction at each of them, less the mean over the rows learned.
    rows : array of shape (n + 1,)
        How many rows were below the first knot, between each two, and from the last one on.
    zeros : float
        In about how many further rows it was 0 or missing. Missing values that are marked
        (``missing="mark"``) are features of their own, and are not counted.
    mean : float
        The mean that was subtracted.
    slope : float
        The weight of the column, by which the curve goes on beyond the knots.
    limits : tuple of two floats
        The values beyond which its line does not rise or fall any more.
    importance : float
        The standard deviation of the contributions over the rows learned.
    """

    feature: str | int
    values: Floats
    contributions: Floats
    rows: Floats
    zeros: float
    mean: float
    slope: float
    limits: tuple[float, float]
    importance: float

    def at(self, values: Any) -> Floats:
        """Return the contributions of any values.

        Parameters
        ----------
        values : array
            Values of the column.
        """
        x = np.asarray(values, dtype=np.float64)
        inside = np.clip(x, self.values[0], self.values[-1])
        beyond = np.clip(x, *self.limits) - np.clip(inside, *self.limits)
        known = np.interp(inside, self.values, self.contributions)
        return np.asarray(known + self.slope * beyond)

    def shown(self) -> slice:
        """Return the knots for a picture: without those that less than 1 % of the rows are beyond.

        Examples
        --------
        >>> import numpy as np
        >>> knots = np.array([0.0, 1.0, 2.0, 1000.0])
        >>> rows = np.array([0.0, 500.0, 400.0, 2.0, 1.0])
        >>> curve = curve_of("a", knots, knots, rows, slope=0.0)
        >>> curve.values[curve.shown()].tolist()
        [0.0, 1.0, 2.0]
        """
        few = _BEYOND * (self.rows.sum() + self.zeros)
        below, above = np.cumsum(self.rows), np.cumsum(self.rows[::-1])[::-1]
        # A knot stays if one further inside would leave too many rows outside. 0 is a knot.
        first = int(np.argmax(below[1:] > few)) if (below[1:] > few).any() else 0
        after = above[:-1] > few
        last = int(after.size - np.argmax(after[::-1])) if after.any() else self.values.size
        if self.zeros > few and self.values[0] <= 0 <= self.values[-1]:
            zero = int(np.searchsorted(self.values, 0.0))
            first, last = min(first, zero), max(last, zero + 1)
        first = min(first, self.values.size - 2)
        return slice(first, max(last, first + 2))

    def bars(self) -> list[tuple[float, float, float]]:
        """Return how dense the rows are for a picture: from, to, and height, which is 1 at most.

        There is a bar for each piece that is shown, one as wide as its neighbour at each end for
        all rows beyond, and a narrow one for the rows in which the column is 0 or missing. Bars
        that are more than five times as high as the middle one are cut.
        """
        shown = self.shown()
        knots = self.values[shown]
        widths = np.diff(knots)
        rows = self.rows[shown.start + 1 : shown.stop]
        below, above = self.rows[: shown.start + 1].sum(), self.rows[shown.stop :].sum()
        narrow = _NARROW * (knots[-1] - knots[0])
        places = [
            (knots[0] - widths[0], knots[0], below),
            *zip(knots[:-1], knots[1:], rows, strict=True),
            (knots[-1], knots[-1] + widths[-1], above),
        ]
        if self.zeros > _BEYOND * (self.rows.sum() + self.zeros) and knots[0] <= 0 <= knots[-1]:
            places.append((-narrow / 2, narrow / 2, self.zeros))
        density = np.array([count / (end - start) for start, end, count in places])
        filled = density[density > 0]
        if not filled.size:
            return []
        highest = min(filled.max(), _HIGHEST * float(np.median(filled)))
        heights = np.minimum(density / highest, 1.0)
        return [
            (float(start), float(end), float(height))
            for (start, end, _), height in zip(places, heights, strict=True)
            if height > 0
        ]

    def ends(self) -> tuple[float, float]:
        """Return the lowest and the highest value in a picture."""
        knots = self.values[self.shown()]
        bars = self.bars()
        return (
            min([float(knots[0]), *(start for start, _, _ in bars)]),
            max([float(knots[-1]), *(end for _, end, _ in bars)]),
        )

    def line(self) -> tuple[Floats, Floats]:
        """Return values and contributions for a picture: all that is shown, from end to end.

        Examples
        --------
        >>> import numpy as np
        >>> knots, rows = np.array([0.0, 1.0]), np.array([0.0, 500.0, 400.0])
        >>> values, contributions = curve_of("a", knots, np.zeros(2), rows, slope=3.0).line()
        >>> values.tolist(), contributions.tolist()
        ([0.0, 1.0, 2.0], [0.0, 0.0, 3.0])
        """
        values = np.unique([*self.ends(), *self.values[self.shown()]])
        return values, self.at(values)


def curve_of(
    feature: str | int,
    values: Floats,
    parts: Floats,
    rows: Floats,
    *,
    slope: float,
    zeros: float = 0.0,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Curve:
    """Return the curve of a column.

    ``parts`` are its contributions, not centred. In the rows that ``zeros`` counts it adds nothing.
    """
    # Pieces by their middle; the outermost by their knots.
    middle = np.concatenate([parts[:1], (parts[1:] + parts[:-1]) / 2, parts[-1:]])
    weight = np.append(rows, max(zeros, 0.0))
    middle = np.append(middle, 0.0)
    total = weight.sum()
    mean = float(weight @ middle / total) if total else 0.0
    spread = float(np.sqrt(weight @ (middle - mean) ** 2 / total)) if total else 0.0
    centred = parts - mean
    return Curve(feature, values, centred, rows, float(weight[-1]), mean, slope, limits, spread)
