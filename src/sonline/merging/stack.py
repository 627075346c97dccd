"""The directions of several sketches, stacked as rows, and their merged sketch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from sonline.merging.state import Knowledge
from sonline.parameters import Parameters
from sonline.rows import Floats

NEGLIGIBLE = 1e-14  # smaller eigenvalues, relative to the largest, are dropped, as in the core
PIECE = 4096  # features at a time, so that about 40 rows of them fit in the cache
PARALLEL = 1e-12  # squared length below which a direction is a combination of the others


class Stack:
    """The directions of several learners, stacked as the rows of R; a column per feature."""

    def __init__(self, rows: Floats, models: Sequence[Knowledge]) -> None:
        self.rows = rows
        self.values = np.concatenate([model.ev for model in models])
        self.lengths = [model.ev.size for model in models]

    @cached_property
    def products(self) -> Floats:
        """R Rᵀ."""
        return self.gram()

    def gram(self, weights: Floats | None = None) -> Floats:
        """Return R diag(weights) Rᵀ."""
        if weights is None:
            return np.asarray(self.rows @ self.rows.T)
        total = np.zeros((self.values.size, self.values.size))
        space = np.empty((self.values.size, PIECE))  # reused, because allocating is slow
        for first in range(0, weights.size, PIECE):
            rows, part = self.rows[:, first : first + PIECE], weights[first : first + PIECE]
            total += np.multiply(rows, part, out=space[:, : part.size]) @ rows.T
        return total

    def times(self, vector: Floats) -> Floats:
        """Return R v."""
        return np.asarray(self.rows @ vector)

    def back(self, small: Floats) -> Floats:
        """Return Rᵀ c, or C R for a matrix."""
        return np.asarray(small @ self.rows)

    def spectrum(self, factors: Floats) -> tuple[Floats, Floats]:
        """Return T and ev, largest first: V = T R are the eigenvectors of Rᵀ diag(values) R.

        The values are the eigenvalues of each learner times its factor, which is negative for the
        start, because it is subtracted.
        """
        lengths = np.sqrt(np.diag(self.products))
        values = self.values * np.repeat(factors, self.lengths)
        present = np.flatnonzero(lengths * (values != 0))
        T = np.zeros((0, lengths.size))
        if not present.size:
            return T, np.zeros(0)
        lengths = lengths[present]
        # The Gram matrix of unit rows shows which of them are combinations of the others.
        unit = self.products[np.ix_(present, present)] / np.outer(lengths, lengths)
        size, mix = np.linalg.eigh(unit)
        independent = size > PARALLEL * present.size
        basis = (mix[:, independent] / np.sqrt(size[independent])).T
        inside = (mix[:, independent] * np.sqrt(size[independent])).T
        eigenvalues, vectors = np.linalg.eigh((inside * values[present] * lengths**2) @ inside.T)
        # Directions that only the start had get 0, not a negative value.
        positive = np.flatnonzero(eigenvalues > NEGLIGIBLE * max(eigenvalues[-1], 0.0))[::-1]
        T = np.zeros((positive.size, self.values.size))
        T[:, present] = (vectors[:, positive].T @ basis) / lengths
        return T, eigenvalues[positive]


def cut(parameters: Parameters, merged: Knowledge, stack: Stack, factors: Floats) -> Knowledge:
    """Reduce the sum to as many directions as one learner has."""
    T, ev = stack.spectrum(factors)
    m = merged.capacity
    left, merged.ev = ev[m:], ev[:m].copy()
    if left.size and parameters.sketch == "isotropic":
        seen = merged.keys.size - (not parameters.intercept)
        merged.numbers["tail"] += float(left.sum()) / max(seen - m, 1.0)
    elif left.size and parameters.sketch in ("fd", "rfd"):
        merged.ev -= left[0]
        if parameters.sketch == "rfd":
            merged.numbers["tail"] += float(left[0]) / 2
        merged.ev = merged.ev[merged.ev > NEGLIGIBLE * ev[0]]  # in descending order
    merged.V = stack.back(T[: merged.ev.size])
    return merged
