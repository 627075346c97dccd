"""Sides of a column: how it takes part in pairs (cpp/sonline/pairs.hpp)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sonline.rows import Floats

LEVEL = 0.7  # of few values, as in pairs.hpp


@dataclass(frozen=True)
class Sides:
    """How a column takes part in pairs.

    Attributes
    ----------
    points : array
        The few values of the column, each a side of its own. Or three numbers: the lowest value,
        the median and the highest; the sides are below and above the median.
    few : bool
        Whether these are few values.
    """

    points: Floats
    few: bool

    @property
    def corners(self) -> Floats:
        """The value on each side where the column counts most."""
        return self.points if self.few else self.points[[0, 2]]

    def heights(self, values: Floats) -> Floats:
        """Return, for each value, how much it counts on each side; one number is not 0."""
        x = np.asarray(values, dtype=np.float64)[:, np.newaxis]
        if self.few:
            limits = 0.5 * self.points[:-1] + 0.5 * self.points[1:]
            own = (x >= limits).sum(axis=1)
            return np.asarray(LEVEL * np.eye(self.points.size)[own])
        low, middle, high = self.points
        right = x >= middle
        heights = np.where(right, (x - middle) / (high - middle), (x - middle) / (low - middle))
        return np.asarray(np.minimum(heights, 1.0) * np.hstack([~right, right]))
