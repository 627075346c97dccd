"""Algorithm 1 for several weight vectors over one sketch, with implicit steps: round.hpp."""

from __future__ import annotations

import math

import numpy as np

from oracle.config import Config, Seen, phase_of
from sonline.paper.reference.learner import BESIDE_KINK, SKETCHES, step_ahead
from sonline.paper.reference.sketches import Array


class Members:
    """Weight vectors; A of each is ``alpha I + part S``, part 1 or what its memory keeps."""

    def __init__(self, config: Config, d: int) -> None:
        self.config = config
        self.W: Array = np.zeros((len(config.members), d))
        self.sketch = SKETCHES[config.sketch](d, 1.0, config.size, step=config.oja_step)

    def predict(self, x: Array) -> Array:
        return np.clip(self.W @ x, -self.config.bound, self.config.bound)

    def begin(self, x: Array, before: Seen) -> Array:
        """Project onto the bound (Lemma 1) before a row is learned; return the predictions."""
        margins: Array = self.W @ x
        if before.count == 0:
            return margins
        for e, z in enumerate(margins):
            if abs(z) > self.config.bound:
                target = math.copysign(self.config.bound, z)
                direction = self._solve(e, x, before)
                self.W[e] -= (z - target) / float(x @ direction) * direction
                margins[e] = target
        return margins

    def learn(
        self,
        x: Array,
        margins: Array,
        y: float,
        *,
        weight: float,
        pull: float,
        times: int,
        seen: Seen,
    ) -> Array:
        """Take the steps with the A of before; then the sketch takes in the row.

        Return the square of each step, as A measures it.
        """
        squares = np.zeros(len(margins))
        config, end = self.config, float(margins[0])
        longest = seen.longest_move(config)
        for e, z in enumerate(margins):
            direction = self._solve(e, x, seen)
            energy = float(x @ direction)
            if energy <= 0.0:
                continue
            move = step_ahead(config.loss, float(z), y, weight * pull * energy) - float(z)
            squares[e] = move**2 / (pull * energy) if pull > 0 else 0.0
            move = min(max(move, -longest), longest)
            if config.members[e][2] != "later" or phase_of(seen.count) == "learn":
                self.W[e] += move / energy * direction
            if e == 0:
                end += move
        curvature = self._curvature(end, BESIDE_KINK * float(margins[0]), y, seen)
        self.sketch.dimension = seen.features
        self.sketch.update_times(math.sqrt(weight * curvature) * x, times)
        self.sketch.forget(config.kept)
        return squares

    def _solve(self, e: int, x: Array, seen: Seen) -> Array:
        """Return ``A^-1 x`` of a weight vector."""
        alpha, memory, _ = self.config.members[e]
        if self.config.relative:
            alpha *= seen.mean_energy
        if self.config.blended:
            alpha *= seen.unit
        part = min(1.0, memory / seen.effective)
        if alpha == 0.0:  # all rows so far were empty
            return np.zeros_like(x)
        if part == 0.0:
            return x / alpha
        self.sketch.base_alpha = alpha / part
        return self.sketch.solve(x) / part

    def _curvature(self, end: float, z: float, y: float, seen: Seen) -> float:
        loss = self.config.loss
        if self.config.hessian and loss.second_derivative is not None:
            return loss.second_derivative(end, y)
        eta = self.config.eta
        if self.config.eta_convex:
            bound = self.config.bound if math.isfinite(self.config.bound) else 1.0
            size = seen.features if self.config.sketch == "full" else self.config.size
            eta = math.sqrt(size / seen.rows) / (bound * loss.lipschitz(bound))
        return float((self.config.sigma + eta) * loss.derivative(z, y) ** 2)
