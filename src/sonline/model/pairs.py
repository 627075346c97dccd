"""Pairs of columns as maps: what two columns do together, beside their curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sonline.rows import Floats
from sonline.rows.sides import Sides


@dataclass(frozen=True)
class Pair:
    """What two columns add to a raw prediction together, beside what each adds by itself.

    A column of numbers has two sides, below and above its median. The map is 0 at the medians, and
    in each of the four quarters it grows with both distances. A column of few values, or a
    category, has a side for each value.

    Attributes
    ----------
    features : tuple
        The two columns.
    values : tuple of two arrays
        The value on each side where the column counts most: the lowest and the highest, or each of
        the few values.
    contributions : array of shape (sides, sides)
        What the pair adds to the raw prediction at these values.
    rows : array of shape (sides, sides)
        How many rows have been there since the pair was chosen.
    importance : float
        The root mean square of the contributions over these rows.
    sides : tuple of two Sides
        Where the sides are.
    """

    features: tuple[str | int, str | int]
    values: tuple[Floats, Floats]
    contributions: Floats
    rows: Floats
    importance: float
    sides: tuple[Sides, Sides]

    @property
    def name(self) -> str:
        """The name of the part in explanations: ``"a × b"``."""
        return " × ".join(str(feature) for feature in self.features)

    def at(self, first: Floats, second: Floats) -> Floats:
        """Return the contributions of rows with these values of both columns.

        A row in which one of them is 0 or missing has none.

        Parameters
        ----------
        first, second : array
            Values of both columns, one for each row.
        """
        a, b = self.sides
        of_a, of_b = (
            side.heights(np.asarray(x)) / side.heights(side.corners).max()
            for side, x in ((a, first), (b, second))
        )
        return np.asarray(((of_a @ self.contributions) * of_b).sum(axis=1))


def pair_of(
    features: tuple[str | int, str | int],
    sides: tuple[Sides, Sides],
    weights: Floats,
    rows: Floats,
) -> Pair:
    """Return a pair; ``weights`` are those of its features, which are not 1 at the corners."""
    a, b = sides
    shape = a.corners.size, b.corners.size
    highest = a.heights(a.corners).max() * b.heights(b.corners).max()
    contributions, rows = highest * weights.reshape(shape), rows.reshape(shape)
    total = rows.sum()
    square = float((rows * contributions**2).sum() / total) if total else 0.0
    values = (a.corners, b.corners)
    return Pair(features, values, contributions, rows, float(np.sqrt(square)), sides)
