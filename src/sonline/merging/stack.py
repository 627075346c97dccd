"""The directions of several sketches below each other, and one sketch out of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from sonline.merging.state import Floats, Knowledge, capacity
from sonline.parameters import Parameters

NEGLIGIBLE = 1e-14  # eigenvalues below, relative to the largest, are dropped, as the core does
PIECE = 4096  # features at a time: some 40 rows of them stay in the cache
PARALLEL = 1e-12  # squared length below which a direction is a combination of the others


class Stack:
    """The directions of several learners, one below the other: R.

    They are never copied into one matrix; sums over features run piece by piece, in the cache.

    Parameters
    ----------
    models : sequence of Knowledge
        Whose directions.
    """

    def __init__(self, models: Sequence[Knowledge]) -> None:
        self.parts = [one.V for one in models]
        self.values = np.concatenate([one.ev for one in models])
        self.lengths = [len(part) for part in self.parts]

    @cached_property
    def products(self) -> Floats:
        """R Rᵀ."""
        return self.gram()

    def gram(self, weights: Floats | None = None) -> Floats:
        """Return R diag(weights) Rᵀ."""
        total = np.zeros((self.values.size, self.values.size))
        for first in range(0, self.parts[0].shape[1], PIECE):
            rows = np.vstack([part[:, first : first + PIECE] for part in self.parts])
            other = rows if weights is None else rows * weights[first : first + PIECE]
            total += other @ rows.T
        return total

    def times(self, vector: Floats) -> Floats:
        """Return R v."""
        return np.concatenate([part @ vector for part in self.parts])

    def back(self, small: Floats) -> Floats:
        """Return Rᵀ c, or C R for a matrix."""
        cuts = np.cumsum(self.lengths)[:-1]
        parts = zip(self.parts, np.split(small, cuts, axis=-1), strict=True)
        return np.asarray(sum(own @ part for part, own in parts))

    def spectrum(self, factors: Floats) -> tuple[Floats, Floats]:
        """Return T and ev, largest first: V = T R are the eigenvectors of Rᵀ diag(values) R.

        The values are the eigenvalues of each learner times its factor, which is negative for what
        is taken away.
        """
        lengths = np.sqrt(np.diag(self.products))
        values = self.values * np.repeat(factors, self.lengths)
        there = np.flatnonzero(lengths * (values != 0))
        T = np.zeros((0, lengths.size))
        if not there.size:
            return T, np.zeros(0)
        lengths = lengths[there]
        # Unit rows have a Gram matrix that says which of them are combinations of the others.
        unit = self.products[np.ix_(there, there)] / np.outer(lengths, lengths)
        size, mix = np.linalg.eigh(unit)
        own = size > PARALLEL * there.size
        basis = (mix[:, own] / np.sqrt(size[own])).T
        inside = (mix[:, own] * np.sqrt(size[own])).T
        eigenvalues, turn = np.linalg.eigh((inside * values[there] * lengths**2) @ inside.T)
        # What the start had and no learner has any more is 0, not less.
        kept = np.flatnonzero(eigenvalues > NEGLIGIBLE * max(eigenvalues[-1], 0.0))[::-1]
        T = np.zeros((kept.size, self.values.size))
        T[:, there] = (turn[:, kept].T @ basis) / lengths
        return T, eigenvalues[kept]


def cut(parameters: Parameters, merged: Knowledge, stack: Stack, factors: Floats) -> Knowledge:
    """Sketch the sum again with as many directions as one learner has."""
    T, ev = stack.spectrum(factors)
    m = capacity(parameters)
    left, merged.ev = ev[m:], ev[:m].copy()
    if left.size and parameters.sketch == "isotropic":
        seen = merged.keys.size - (not parameters.intercept)
        merged.numbers["sketch.tail"] += float(left.sum()) / max(seen - m, 1.0)
    elif left.size and parameters.sketch in ("fd", "rfd"):
        merged.ev -= left[0]
        if parameters.sketch == "rfd":
            merged.numbers["sketch.tail"] += float(left[0]) / 2
        merged.ev = merged.ev[merged.ev > NEGLIGIBLE * ev[0]]  # they fall: the last ones go
    merged.V = stack.back(T[: merged.ev.size])
    return merged
