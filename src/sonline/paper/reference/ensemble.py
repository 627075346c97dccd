"""`ReferenceEnsemble`: what ``alpha="auto"`` of `sonline.OnlineLearner` computes, in plain NumPy.

Several weight vectors ("experts") share one sketch. Each has its own alpha and its own memory.
Their blend, by exponential weights with a fixed share, is the prediction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sonline.paper.reference.learner import ReferenceLearner, times_to_absorb
from sonline.paper.reference.sketches import Array

WORST_LOSS = 5.0
FIXED_SHARE = 1e-3
SHORT_MEMORY = 1000  # rows
COUNTED = 0.5  # of what an expert with a short memory gains
PERIOD, LEARNED = 150, 100  # an expert with a short memory learns LEARNED of PERIOD rows
RECENT, USUAL, PRIOR = 50, 3000, 10  # rows
SHRINKING: Array = np.array([1.0, 0.5, 0.25, 0.1])  # factors of the blend that compete
SHRINKING_PRIOR: Array = np.array([1 - 0.01, 0.01 / 3, 0.01 / 3, 0.01 / 3])
FIRST_LABELS = 16
YOUNG_ROWS = 64
FOLLOWER_ALPHA = 0.03
YOUNG_LOSS, OUTLIER_LOSS = 16, 1024
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


class ReferenceEnsemble(ReferenceLearner):
    """Experts over one sketch; the parameters are those of `ReferenceLearner` but for alpha.

    Parameters
    ----------
    experts : sequence of (float, float)
        The relative alpha of each expert, and its memory: the number of rows that its A counts at
        most, 0 for all.
    follow_labels : bool
        Whether what `learn` returns is blended with a guess from the last labels alone.
    **parameters
        Those of `ReferenceLearner`.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.paper.reference import ReferenceEnsemble
    >>> learner = ReferenceEnsemble([(0.1, 0), (0.1, 1000)], sketch="isotropic")
    >>> X = np.array([[1.0, 2.0], [2.0, -1.0]])
    >>> learner.learn(X, [1.0, -1.0]).shape
    (2,)
    """

    def __init__(
        self,
        experts: list[tuple[float, float]],
        *,
        follow_labels: bool = False,
        **parameters: Any,
    ) -> None:
        super().__init__(alpha="relative:1", **parameters)
        self.experts = experts
        self.follow_labels = follow_labels
        self.unit_free = not self.loss.binary and math.isinf(self.bound)
        self.shares: Array = np.full(len(experts), 1.0 / len(experts))
        self.shrinking_shares: Array = SHRINKING_PRIOR.copy()
        self.mean_loss, self.mean_loss_count = 0.0, 0.0
        self.weight_sum, self.weight_squares = 0.0, 0.0
        self.recent_label, self.usual_label = 0.0, 0.0  # means of the labels -1 and 1
        self.offset = 0.0
        self.follower, self.follower_shares = 0.0, np.array([0.5, 0.5])

    def _start(self, d: int) -> None:
        super()._start(d)
        self.W: Array = np.zeros((len(self.shares), d))

    def _round(self, x: Array, y: float, weight: float) -> float:
        times = times_to_absorb(self.rounds + 1, self.sketch_every)
        beyond = self._excess(x), self._limits()
        scales = self._take_in(x)
        margins = self._project_experts(x * scales)
        z = blend = float(self.shares @ margins)
        answer = prediction = self._clipped(self._factor() * z)
        if self.follow_labels:
            prediction = float(self.follower_shares @ [prediction, self.follower])
        prediction += self.offset

        self._take_label(y)
        y -= self.offset
        self.seen |= x != 0.0
        z = self._clipped(z)
        if not self.loss.binary:
            y = self._take_loss(z, y)
        slope = weight * self.loss.derivative(z, y)
        # Steps end at the kink of a hinge again and again: rounding must not decide on its slope.
        root = math.sqrt(weight * self._curvature(z * (1 + 1e-6), y))

        if self.scaling == "gradient":
            scales = self._take_gradient(x, slope)
            margins = self.W @ (x * scales)
        scaled = x * scales
        margins = np.array([self._clipped(float(m)) for m in margins])
        self.rounds += 1
        self.weight_sum += weight
        self.weight_squares += weight * weight
        self.nonzeros += int(np.count_nonzero(x))
        self.mean_norm2 += (float(scaled @ scaled) - self.mean_norm2) / self.rounds
        self.sketch.dimension = int(self.seen.sum())

        moved = self._step_experts(margins, scaled, y, weight)
        if self.hessian:  # the curvature where the step ends
            root = math.sqrt(weight * self._curvature(float(self.shares @ moved), y))
        self.sketch.update_times(root * scaled, times)
        held_out = [self._is_held_out(e) for e in range(margins.size)]
        self._update_shares(np.where(held_out, moved, margins), y, weight)
        self._learn_shrinkage(blend, y, weight)
        if self.follow_labels:
            both = np.array([answer, self.follower])
            losses = self._losses(both, y)
            self.follower_shares = self._new_shares(self.follower_shares, losses, weight)
            self.follower = self._ahead(self.follower, y, weight / FOLLOWER_ALPHA)
        self._choose_unit()
        self._raise_limits(*beyond)
        return prediction

    def _step_experts(self, margins: Array, scaled: Array, y: float, weight: float) -> Array:
        """Take the step of each expert with the A of before; return the margins after it.

        Of an expert that does not learn the row: the margin at which it is evaluated.
        """
        pull = weight * self._pull_of_labels()
        moved = margins.copy()
        for e, margin in enumerate(margins):
            if self._is_held_out(e):  # evaluated as if it were no more confident than the others
                most = max(1.0, float(np.abs(np.delete(margins, e)).max()))
                moved[e] = np.clip(margin, -most, most)
                continue
            direction = self._solve(e, scaled)
            balance = self._balance(y) if self._has_short_memory(e) else 1.0
            step = self._implicit_step(direction, scaled, float(margin), y, pull * balance)
            move = -float(step @ scaled)
            moved[e] += move
            rows = self._effective_rows()
            if self.loss.binary and rows < YOUNG_ROWS and abs(move) > rows:
                step *= rows / abs(move)
            self.W[e] -= step
        return moved

    def _factor(self) -> float:
        """Return by which factor the blend is made smaller: as has fitted the labels better."""
        return 1.0 if len(self.experts) == 1 else float(self.shrinking_shares @ SHRINKING)

    def _learn_shrinkage(self, z: float, y: float, weight: float) -> None:
        predictions = np.array([self._clipped(float(factor) * z) for factor in SHRINKING])
        losses = self._losses(predictions, y)
        self.shrinking_shares = self._new_shares(
            self.shrinking_shares, losses, weight, SHRINKING_PRIOR
        )

    def _unit_of_weights(self) -> float:
        """Return the weight of one effective row."""
        normal = SMALLEST_NORMAL <= self.weight_squares < math.inf
        return self.weight_squares / self.weight_sum if normal else 1.0

    def _effective_rows(self) -> float:
        """Return how many rows of equal weight tell as much (Kish)."""
        return self.weight_sum / self._unit_of_weights()

    def _predict(self, x: Array) -> float:
        margins = np.clip(self.W @ (x * self._scales_for(x)), -self.bound, self.bound)
        return self.offset + self._clipped(self._factor() * float(self.shares @ margins))

    def _clipped(self, z: float) -> float:
        return super()._clipped(z + self.offset) - self.offset if self.clip else z

    def _take_label(self, y: float) -> None:
        low, high = self.label_range or (y, y)
        self.label_range = (min(low, y), max(high, y))
        if self.unit_free and self.intercept and self.rounds < FIRST_LABELS:
            self.offset += (y - self.offset) / (self.rounds + 1)

    def _take_loss(self, z: float, y: float) -> float:
        """Take in what the prediction of a number cost; return the label to learn."""
        loss = self.loss.value(z, y)
        if self.mean_loss_count >= YOUNG_LOSS and loss > OUTLIER_LOSS * self.mean_loss > 0.0:
            limit = OUTLIER_LOSS * self.mean_loss
            if self.unit_free and self.loss.second_derivative is not None:
                y = z + (y - z) * math.sqrt(limit / loss)
            loss = limit
            self.mean_loss_count = max(self.mean_loss_count / 2, YOUNG_LOSS)
        self.mean_loss_count += 1
        self.mean_loss += (loss - self.mean_loss) / self.mean_loss_count
        return y

    def _pull_of_labels(self) -> float:
        """Return the unit of the slope of a loss that grows like ``|y - z|``."""
        linear = not self.loss.binary and self.loss.second_derivative is None
        return 2.0 * self.mean_loss if self.unit_free and linear else 1.0

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
        """``A^-1 x`` of one expert, whose A is ``alpha I + part S``."""
        factor, part = self.experts[e][0], self._remembered(e)
        self.sketch.base_alpha = factor * self.mean_norm2 * self._unit_of_weights() / part
        return self.sketch.solve(x) / part

    def _remembered(self, e: int) -> float:
        """Return the part of A that an expert keeps."""
        memory, rows = self.experts[e][1], self._effective_rows()
        if self.loss.binary and memory < SHORT_MEMORY:
            memory /= self._label_information()
        return memory / rows if 0 < memory < rows else 1.0

    def _has_short_memory(self, e: int) -> bool:
        short = self.loss.binary and self.experts[e][1] < SHORT_MEMORY
        return short and self._remembered(e) < 1

    def _is_held_out(self, e: int) -> bool:
        return self._has_short_memory(e) and self.rounds % PERIOD >= LEARNED

    def _label_information(self) -> float:
        """Return 4p(1 - p) of the usual labels."""
        return (1 - self.usual_label) * (1 + self.usual_label)

    def _balance(self, y: float) -> float:
        """Return the weight that gives the labels of the last rows their usual odds, at most 1."""
        prior = PRIOR / self._label_information()
        recent = (RECENT * self.recent_label + prior * self.usual_label) / (RECENT + prior)
        odds = (1 + recent) / (1 - recent) * (1 - self.usual_label) / (1 + self.usual_label)
        return min(1.0, float(odds ** -math.copysign(1.0, y)))

    def _update_shares(self, margins: Array, y: float, weight: float) -> None:
        losses = self._losses(margins, y)
        for e in range(losses.size):
            if self._has_short_memory(e):  # part of a gain counts, nothing if it learned the row
                likelihood, others = np.exp(-np.delete(losses, e)), np.delete(self.shares, e)
                neutral = -math.log(float(others @ likelihood) / float(others.sum()))
                gain = neutral - losses[e] if self._is_held_out(e) else 0.0
                losses[e] = neutral - min(gain, COUNTED * gain)
        if self.loss.binary:
            self.recent_label += (y - self.recent_label) / min(RECENT, self.rounds + 1)
            self.usual_label += (y - self.usual_label) / min(USUAL, self.rounds + 1)
        self.shares = self._new_shares(self.shares, losses, weight)

    def _losses(self, margins: Array, y: float) -> Array:
        losses = np.array([self.loss.value(float(m), y) for m in margins])
        return np.minimum(losses, 30.0) if self.loss.binary else losses

    def _new_shares(
        self, shares: Array, losses: Array, weight: float, prior: Array | None = None
    ) -> Array:
        prior = np.full(len(shares), 1.0 / len(shares)) if prior is None else prior
        unit = 1.0 if self.loss.binary else 2.0 * self.mean_loss
        excess = (losses - losses.min()) / unit if unit > 0.0 else np.zeros_like(losses)
        rows = weight / self._unit_of_weights()
        remaining = shares * np.exp(-rows * np.minimum(excess, WORST_LOSS))
        mixed = FIXED_SHARE * min(rows, 1.0)
        return np.asarray((1.0 - mixed) * remaining / remaining.sum() + mixed * prior)

    def raw_blend(self) -> Array:
        """Return the weights of the blend for unscaled features, the intercept first."""
        blend = self._raw(self._factor() * (self.shares @ self.W))
        if self.intercept:
            blend[0] += self.offset
        return blend
