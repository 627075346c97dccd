"""`Inputs`: how a row becomes ``(x - centre) / scale``, in plain NumPy."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sonline.paper.reference.sketches import Array

COUNT_CAP = 2**24
YOUNG, SETTLED, FAR, COMMON = 16, 128, 8, 4
CENTRED_SQUARES = 4
ALIKE, NOT_ALIKE = 16, 64
FIRST_RARE, MOST_RARE = 1024, 32


class Inputs:
    """The features of a stream and their scales, for dense rows.

    Parameters
    ----------
    scaling : {"none", "gradient", "rms", "auto"}
        As for `sonline.OnlineLearner`. "gradient" depends on labels: here it is "none".
    d : int
        Columns, the constant feature included.
    intercept : bool
        Whether column 0 is the constant feature.
    sketch_every : int or "auto"
        How often features are there is known from the rows that the sketch takes in, see
        `times_to_absorb`.
    unit : float
        The squared size that features which are alike share; 0 if there is none.
    centres : array of shape (d,), optional
        What is subtracted from the features.
    kept : float
        What a row still counts in the next one.

    Attributes
    ----------
    rounds : int
        Rows counted so far.
    rows, nonzeros : float
        What is left of them, and of their values.
    mean_norm2 : float
        Running mean of the squared norms that `count` was given.
    seen : array of bool
        Which features have had a value.

    Examples
    --------
    >>> inputs = Inputs("rms", d=2, intercept=False)
    >>> print(inputs.take(np.array([3.0, 0.0])), inputs.take(np.array([-4.0, 2.0])))
    [1. 0.] [-1.13137085  1.        ]
    """

    def __init__(
        self,
        scaling: str,
        d: int,
        intercept: bool = True,
        sketch_every: int | Literal["auto"] = 1,
        *,
        unit: float = 0.0,
        centres: Array | None = None,
        kept: float = 1.0,
    ) -> None:
        self.scaling = scaling
        self.intercept = intercept
        self.sketch_every: int | Literal["auto"] = sketch_every
        self.unit = unit
        self.centres: Array = np.zeros(d) if centres is None else centres
        self.kept = kept
        self.rounds = 0
        self.rows = self.nonzeros = 0.0
        self.mean_norm2 = 0.0
        self.seen = np.zeros(d, dtype=bool)
        self.counts: Array = np.zeros(d)
        self.squares: Array = np.zeros(d)  # mean squares where a feature is not 0
        self.raised: Array = np.zeros(d)  # squared limits beyond the first
        self.beyond: tuple[Array, Array] = np.zeros(d), np.zeros(d)

    @property
    def counts_rows(self) -> bool:
        """Whether the scales know how often each feature was there."""
        return self.scaling in ("rms", "auto")

    @property
    def features(self) -> int:
        """How many features have had a value."""
        return int(self.seen.sum())

    def times(self) -> int:
        """Return how often the next row counts in the sketch."""
        return times_to_absorb(self.rounds + 1, self.sketch_every, self.rows)

    def apply(self, row: Array) -> Array:
        """Return the scaled row, for a prediction.

        RMS scales include the row for features that have been counted rarely, and other values
        are cut at a multiple of their scale; without that the scaled row would be unbounded.
        """
        x = row - self.centres
        return x * self._inverse(self._mean_squares(x)[0])

    def take(self, row: Array) -> Array:
        """Take a row to be learned into the scales; return it scaled as `apply` does."""
        x = row - self.centres
        self.beyond = self._excess(x), self._limits()
        used, stored, counts = self._mean_squares(x)
        scaled = x * self._inverse(used)
        if self.counts_rows:
            self.squares, self.counts = stored, counts
        return scaled

    def count(self, row: Array, scaled: Array) -> None:
        """Count a row that `take` took in, with the squared norm of ``scaled``."""
        present = row - self.centres != 0.0
        self.seen |= present
        self.rounds += 1
        self.rows = self.kept * self.rows + 1
        self.nonzeros = self.kept * self.nonzeros + int(present.sum())
        self.mean_norm2 += (float(scaled @ scaled) - self.mean_norm2) / self.rows

    def commit(self) -> None:
        """End the round: double the limits of large values, and forget.

        A feature that is young again has no limit.
        """
        excess, limits = self.beyond
        large, far = (excess > 1) & (excess <= 4), excess > 4
        self.raised = np.where(large, 4 * limits, self.raised)
        self.raised = np.where(far & self._young(), 0.0, self.raised)
        self.counts = self.kept * self.counts

    def raw(self, w: Array) -> Array:
        """Return weights for unscaled features, with the centres in that of the constant."""
        weights: Array = w * self._inverse(self._in_unit(self.squares))
        if self.centres.any():
            weights[0] -= self.centres @ weights
        return weights

    def _inverse(self, squares: Array) -> Array:
        """Return ``1/s``; 0 for a feature without a scale yet, whose weight is 0 anyhow."""
        if not self.counts_rows:
            return np.ones_like(squares)
        root = np.sqrt(squares * self._common())
        return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)

    def _common(self) -> Array | float:
        """Return the factor of the squared scales of features that are unusually frequent."""
        if self.scaling != "auto" or self.nonzeros == 0:
            return 1.0
        mean_count = self.nonzeros / self.features
        return np.sqrt(np.maximum(self.counts / (COMMON * mean_count), 1.0))

    def _in_unit(self, squares: Array) -> Array:
        """Return ``unit`` for mean squares like it, others as they are, a line in between.

        Those of centred features are multiplied by a constant.
        """
        if self.unit > 0.0:
            large = squares > self.unit
            with np.errstate(divide="ignore"):
                ratio = np.where(large, squares / self.unit, self.unit / squares)
            slope = (NOT_ALIKE - 1) / (NOT_ALIKE - ALIKE)
            factor = np.maximum(1.0, np.minimum(ratio, slope * (ratio - ALIKE) + 1))
            scales = np.where(large, self.unit * factor, self.unit / factor)
            if self.intercept:
                scales[0] = squares[0]
        else:
            scales = squares
        return np.where(self.centres != 0.0, CENTRED_SQUARES * squares, scales)

    def _mean_squares(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the squared scales for this row, and mean squares and counts after it.

        An RMS scale is the mean of the first values of its feature, and later ones only count. A
        value beyond the limit of its feature is cut, and halves the count that the scale rests on;
        up to twice the limit it counts as the limit.
        """
        if not self.counts_rows:
            return self.squares, self.squares, self.counts
        every, drawn = group_of(self.rows, self.sketch_every), self.times() > 0
        present, young = x != 0.0, self._young()
        settles = (self.counts < SETTLED) | (self.squares == 0.0)
        excess = self._excess(x)
        large, far = (excess > 1) & (excess <= 4), excess > 4
        counts = self.counts + np.where(settles, 1, every)
        moved = self.squares + (x**2 - self.squares) / counts
        taken = present & ~large & ~far
        at_limit = self.squares + (self._limits() - self.squares) / np.maximum(self.counts, YOUNG)
        stored = np.select([large, taken & settles], [at_limit, moved], self.squares)
        counts = np.select(
            [far, large, taken & (settles | drawn)],
            [self.counts / 2, np.maximum(self.counts / 2, YOUNG), counts],
            self.counts,
        )
        used = self._in_unit(np.where(present & young, moved, self.squares))
        # A value that is cut has the scale that makes it as large as its limit.
        return used * np.maximum(excess, 1), stored, np.minimum(counts, COUNT_CAP)

    def _young(self) -> NDArray[np.bool_]:
        return np.asarray((self.counts < YOUNG) | (self.squares == 0.0))

    def _limits(self) -> Array:
        """Return up to which square a value counts as it is."""
        return np.asarray(np.maximum(FAR**2 * self.squares, self.raised))

    def _excess(self, x: Array) -> Array:
        """Return each squared value over its limit; 0 for features without one."""
        if not self.counts_rows:
            return np.zeros_like(x)
        return np.divide(x**2, self._limits(), out=np.zeros_like(x), where=~self._young())


def group_of(rows: float, every: int | Literal["auto"]) -> int:
    """Return of how many rounds one is taken into the sketch, after so many rows.

    "auto" is 1 up to row 1,024, then 2, 4, 8, 16 and 32, doubled when the rows are.
    """
    if every != "auto":
        return every
    group = 1
    while group < MOST_RARE and rows >= FIRST_RARE * group:
        group *= 2
    return group


def times_to_absorb(t: int, every: int | Literal["auto"], rows: float | None = None) -> int:
    """Return how often round ``t`` (from 1) counts in the sketch: 0, or the rounds it stands for.

    Of each group of rounds one is drawn. ``rows`` are what is left of the rounds before.

    Examples
    --------
    >>> [times_to_absorb(t, 3) for t in range(1, 10)]
    [3, 0, 0, 0, 0, 3, 0, 3, 0]
    """
    at, group = t - 1, group_of(t - 1 if rows is None else rows, every)
    return group if at % group == _mixed_bits(at // group) % group else 0


def _mixed_bits(x: int) -> int:
    """As `mix_bits` of the core: numbers that look random, the same everywhere."""
    for _ in range(2):
        x = ((x ^ (x >> 32)) * 0xD6E8FEB86659FD93) % 2**64
    return x ^ (x >> 32)
