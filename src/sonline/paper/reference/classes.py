"""`ReferenceClass`: one of several classes that share a sketch, in plain NumPy.

Where rows are wide, the classes of a model share one sketch of the rows themselves. A class scales
it by the mean curvature of its loss. The shared sketch does not depend on labels, so here every
class simply has a copy of it.
"""

from __future__ import annotations

from typing import Any

from sonline.paper.reference.ensemble import SHORT_MEMORY, ReferenceEnsemble
from sonline.paper.reference.learner import times_to_absorb
from sonline.paper.reference.sketches import Array

LEAST_CURVATURE = 1e-12
DIRECTIONS, MOST_DIRECTIONS = 3, 64  # times those of one learner, up to a limit


class ReferenceClass(ReferenceEnsemble):
    """A class with ``A = alpha I + s S``: S sums up ``x x'``, s is its mean curvature.

    Parameters
    ----------
    experts : sequence of (float, float)
        As for `ReferenceEnsemble`.
    sketch_size : int
        The number of directions of a learner with a separate sketch; the shared sketch has three
        times as many, up to 64.
    **parameters
        Those of `ReferenceEnsemble`. The loss takes labels -1 and +1 and has a second derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.paper.reference import ReferenceClass
    >>> learner = ReferenceClass([(0.1, 0)], sketch_size=2, loss="logistic")
    >>> learner.learn(np.eye(2), [1.0, -1.0]).shape
    (2,)
    """

    def __init__(
        self, experts: list[tuple[float, float]], *, sketch_size: int, **parameters: Any
    ) -> None:
        size = max(sketch_size, min(DIRECTIONS * sketch_size, MOST_DIRECTIONS))
        super().__init__(experts, sketch="isotropic", sketch_size=size, **parameters)
        self.curvature_sum, self.curvature_rows = 0.0, 0.0

    def _round(self, x: Array, y: float, weight: float) -> float:
        times = times_to_absorb(self.rounds + 1, self.sketch_every)
        prediction = super()._round(x, y, weight)
        self.curvature_sum += times * weight * self.last_curvature
        self.curvature_rows += times * weight
        return prediction

    def _curvature(self, z: float, y: float) -> float:
        """Return 1, which is what the sketch takes in; the last one of a row is kept."""
        self.last_curvature = super()._curvature(z, y)
        return 1.0

    def _remembered(self, e: int) -> float:
        """Return the part of S that an expert of this class keeps, with its curvature."""
        return super()._remembered(e) * self._mean_curvature()

    def _mean_curvature(self) -> float:
        if self.curvature_rows == 0.0:
            return 1.0
        return max(self.curvature_sum / self.curvature_rows, LEAST_CURVATURE)

    def _has_short_memory(self, e: int) -> bool:
        return self.experts[e][1] < SHORT_MEMORY and super()._remembered(e) < 1
