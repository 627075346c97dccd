"""`ReferenceEnsemble`: what ``alpha="auto"`` of `sonline.OnlineLearner` computes, in plain NumPy.

Several weight vectors ("experts") share one sketch. Each has its own alpha; the plain ones do
not use the sketch at all, and the constant one moves the intercept only. Their blend, by
exponential weights with a fixed share, is the prediction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

from sonline.paper.reference.learner import ReferenceLearner, times_to_absorb
from sonline.paper.reference.sketches import Array

WORST_LOSS = 5.0
FIXED_SHARE = 1e-3


class ReferenceEnsemble(ReferenceLearner):
    """Experts over one sketch; the parameters are those of `ReferenceLearner` but for alpha.

    Parameters
    ----------
    experts : sequence of (float, bool)
        The relative alpha of each expert, and whether it is plain.
    constant : float or None
        The alpha of one more expert that moves the intercept only; None for no such expert.
    **parameters
        Those of `ReferenceLearner`.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.paper.reference import ReferenceEnsemble
    >>> learner = ReferenceEnsemble([(0.1, False), (0.1, True)], sketch="isotropic")
    >>> X = np.array([[1.0, 2.0], [2.0, -1.0]])
    >>> learner.learn(X, [1.0, -1.0]).shape
    (2,)
    """

    def __init__(
        self,
        experts: list[tuple[float, bool]],
        constant: float | None = None,
        **parameters: Any,
    ) -> None:
        super().__init__(alpha="relative:1", **parameters)
        self.experts = experts
        self.constant = constant
        count = len(experts) + (constant is not None)
        self.shares: Array = np.full(count, 1.0 / count)
        self.mean_loss = 0.0

    def _start(self, d: int) -> None:
        super()._start(d)
        self.W: Array = np.zeros((len(self.shares), d))

    def _round(self, x: Array, y: float, weight: float) -> float:
        times = times_to_absorb(self.rounds + 1, self.sketch_every)
        scales = self._take_in(x)
        margins = self._project_experts(x * scales)
        z = float(self.shares @ margins)
        prediction = self._clipped(z)
        low, high = self.label_range or (y, y)
        self.label_range = (min(low, y), max(high, y))
        self.seen |= x != 0.0
        at = self._clipped(z)
        slope = weight * self.loss.derivative(at, y)
        root = math.sqrt(weight * self._curvature(at, y))

        if self.scaling == "gradient":
            scales = self._take_gradient(x, slope)
            margins = self.W @ (x * scales)
        scaled = x * scales
        margins = np.array([self._clipped(float(m)) for m in margins])
        self.rounds += 1
        self.mean_norm2 += (float(scaled @ scaled) - self.mean_norm2) / self.rounds
        self.sketch.dimension = int(self.seen.sum())

        for e, margin in enumerate(margins):  # with A from before this round
            direction = self._solve(e, scaled)
            self.W[e] -= self._implicit_step(direction, scaled, float(margin), y, weight)
        self.sketch.update_times(root * scaled, times)
        self._learn_shares(margins, at, y, weight)
        return prediction

    def _predict(self, x: Array) -> float:
        margins = np.clip(self.W @ (x * self._scales_for(x)), -self.bound, self.bound)
        return self._clipped(float(self.shares @ margins))

    def _project_experts(self, scaled: Array) -> Array:
        margins: Array = self.W @ scaled
        if self.rounds == 0:
            return margins
        for e, margin in enumerate(margins):
            if abs(margin) > self.bound:
                direction = self._solve(e, scaled)
                excess = margin - math.copysign(self.bound, margin)
                self.W[e] -= excess / float(scaled @ direction) * direction
                margins[e] = math.copysign(self.bound, margin)
        return margins

    def _solve(self, e: int, x: Array) -> Array:
        """``A^-1 x`` of one expert."""
        if e == len(self.experts) and self.constant is not None:
            direction = np.zeros_like(x)
            direction[0] = 1.0 / (self.constant * x[0])
            return direction
        factor, plain = self.experts[e]
        if plain:
            return x / (factor * self.mean_norm2)
        self.sketch.base_alpha = factor * self.mean_norm2
        return self.sketch.solve(x)

    def _learn_shares(self, margins: Array, z: float, y: float, weight: float) -> None:
        losses = weight * np.array([self._cost(float(m), y) for m in margins])
        unit = 1.0
        if not self.loss.binary:
            self.mean_loss += (weight * self.loss.value(z, y) - self.mean_loss) / self.rounds
            unit = 2.0 * self.mean_loss
        excess = (losses - losses.min()) / unit if unit > 0.0 else np.zeros_like(losses)
        kept = self.shares * np.exp(-np.minimum(excess, WORST_LOSS))
        even = 1.0 / len(kept)
        self.shares = (1.0 - FIXED_SHARE) * kept / kept.sum() + FIXED_SHARE * even

    def _cost(self, margin: float, y: float) -> float:
        """Return what a margin costs in the shares: the Brier score, or the loss."""
        if not self.loss.binary:
            return self.loss.value(margin, y)
        return 2.0 * float(expit(-y * margin)) ** 2

    def raw_blend(self) -> Array:
        """Return the weights of the blend for unscaled features, the intercept first."""
        blend: Array = self.shares @ self.W
        return blend * self._inverse(self.squares)
