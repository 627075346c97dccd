"""`ReferenceLearner`: what the native `sonline.OnlineLearner` computes, in plain NumPy.

It is Algorithm 1 of the paper in the conventions of the library (constant feature, scaling,
sample weights, clipping, relative alpha). It is the oracle of the kernel's tests: dense, slow and
as exact as float64 allows.
"""

from __future__ import annotations

import copy
import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sonline.paper.reference.losses import make_loss
from sonline.paper.reference.sketches import (
    AdaGrad,
    Array,
    FrequentDirections,
    FullMatrix,
    Isotropic,
    LowRank,
    Oja,
    RobustFrequentDirections,
    Sketch,
)

SKETCHES = ("none", "adagrad", "oja", "fd", "rfd", "isotropic", "full")
SCALINGS = ("auto", "rms", "none", "gradient")
CURVATURES = ("auto", "gradient", "hessian")
STEPS = ("explicit", "implicit")
RMS_COUNT_CAP = 2**24
GRADIENT_SCALE_START = 0.1
FIRST_RARE, MOST_RARE = 1024, 32
RMS_YOUNG, RMS_FAR, RMS_COMMON = 16, 8, 4
CENTRE_ROWS, CENTRE_OFFSET, CENTRE_LARGE_OFFSET = 32, 9, 1000
CENTRE_STEP, CENTRE_ROUNDING, CENTRE_SQUARES, CENTRE_MOST = 1.2, 1e-24, 4, 256
UNIT_ROWS, UNIT_MOST, UNIT_ALIKE, UNIT_NOT_ALIKE = 16, 0.8, 16, 64


class ReferenceLearner:
    """Sketched Online Newton for dense rows, one row at a time.

    Parameters
    ----------
    loss : {"squared", "logistic", "hinge", "squared_hinge", "quantile"}
        The loss; all but "squared" and "quantile" take labels -1 and +1.
    sketch : {"none", "adagrad", "oja", "fd", "rfd", "isotropic", "full"}
        How ``A`` is kept. A sketch of size 0 is "none", but "isotropic" of size 0 still learns
        its alpha.
    sketch_size : int
        ``m``.
    alpha : float or str
        The regulariser, or "relative:c": c times the running mean of the squared norm of the
        scaled rows (of its root for "adagrad"). 0 only with "full".
    bound : float or None
        ``C`` of the projection onto ``|w.x| <= C``; None does not project.
    clip : bool
        Take the loss at the prediction clipped to the range of the labels seen.
    step : {"explicit", "implicit"}
        The step of Alg. 1, or one whose gradient is taken where it ends, with the ``A`` of before.
        alpha = 0 is always explicit.
    curvature : {"auto", "gradient", "hessian"}
        To-sketch vector ``sqrt(sigma + eta) l' x`` or ``sqrt(l'') x``; "auto" is "hessian" where
        the loss has a second derivative.
    sigma : float or None
        Curvature; None takes what the loss guarantees for the bound (for C = 1 without one).
    eta : float, "convex" or None
        ``eta_t``, or the paper's schedule ``sqrt(m/(C^2 L^2 t))`` for convex losses; None is 0
        where sigma is positive and the schedule otherwise.
    oja_step : float or "scale-free"
        See `sonline.paper.reference.Oja`.
    V0 : array of shape (sketch_size, features + intercept), optional
        The start of Oja's sketch; see `sonline.paper.reference.random_start`.
    sketch_every : int or "auto"
        The sketch takes in one row out of this many and counts it that often; see
        `times_to_absorb`.
        RMS scales are learned from the same rows, and from others as `_mean_squares` says.
    scaling : {"none", "gradient", "rms", "auto"}
        Divide each feature by the root of its summed squared gradients or of its mean square.
    intercept : bool
        Whether a constant feature 1 is added (coordinate 0).
    quantile : float
        Level of the quantile loss.

    Attributes
    ----------
    w : array of shape (features + intercept,)
        Weights in scaled coordinates, the intercept first.
    sketch : Sketch
        The matrix ``A``.
    rounds : int
        Rows learned so far.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    >>> learner = ReferenceLearner(loss="squared", sketch="none", alpha=2.0, intercept=False)
    >>> print(learner.learn(X, [1.0, 1.0, 1.0]))
    [0.  0.  0.5]
    >>> print(learner.raw_weights)
    [0.75 1.  ]
    """

    def __init__(  # noqa: PLR0917 - the parameters of `OnlineLearner`, in its order
        self,
        loss: str = "logistic",
        sketch: str = "oja",
        sketch_size: int = 10,
        alpha: float | str = 1.0,
        bound: float | None = None,
        clip: bool = False,
        curvature: str = "gradient",
        sigma: float | None = None,
        eta: float | Literal["convex"] | None = 0.0,
        oja_step: float | str = 1.0,
        scaling: str = "none",
        intercept: bool = True,
        quantile: float = 0.5,
        sketch_every: int | Literal["auto"] = 1,
        step: str = "explicit",
        V0: Array | None = None,
    ) -> None:
        self.loss = make_loss(loss, quantile)
        _one_of("sketch", sketch, SKETCHES)
        _one_of("scaling", scaling, SCALINGS)
        _one_of("curvature", curvature, CURVATURES)
        _one_of("step", step, STEPS)
        if sketch in ("oja", "fd", "rfd") and sketch_size == 0:
            sketch = "none"
        self.sketch_name = sketch
        self.sketch_size = sketch_size
        self.relative_alpha = isinstance(alpha, str)
        self.alpha_factor = _parse_alpha(alpha)
        if self.alpha_factor == 0.0 and sketch != "full":
            raise ValueError(f'alpha must be positive unless sketch="full", got {alpha!r}')
        self.explicit = step == "explicit" or self.alpha_factor == 0.0
        if bound is not None and not bound > 0.0:
            raise ValueError(f"bound must be a positive number or None, got {bound!r}")
        self.bound = math.inf if bound is None else float(bound)
        self.clip = clip
        has_hessian = self.loss.second_derivative is not None
        if curvature == "hessian" and not has_hessian:
            raise ValueError(f'curvature="hessian" needs a second derivative; {loss!r} has none')
        self.hessian = curvature == "hessian" or (curvature == "auto" and has_hessian)
        self.loss_range = 1.0 if bound is None else float(bound)  # the C of sigma and of eta
        self.sigma = self.loss.sigma(self.loss_range) if sigma is None else float(sigma)
        if eta is None:
            eta = 0.0 if self.sigma > 0.0 else "convex"
        self.eta: float | Literal["convex"] = eta
        self.oja_step = oja_step
        self.V0 = V0
        self.sketch_every: int | Literal["auto"] = sketch_every
        self.scaling = scaling
        self.intercept = intercept

        self.rounds = 0
        self.mean_norm2 = 0.0  # Q, running mean of the squared norm of the scaled rows
        self.nonzeros = 0  # values seen
        self.unit = 0.0  # squared, of the features that are alike
        self.label_range: tuple[float, float] | None = None

    def _start(self, d: int) -> None:
        """Lines 1-2 of Algorithm 1, once the dimension is known."""
        self.w: Array = np.zeros(d)
        self.seen = np.zeros(d, dtype=bool)
        self.counts = np.zeros(d)
        self.squares: Array = np.zeros(d)  # mean x^2 for "rms", 0.1 + sum (g x)^2 for "gradient"
        if self.scaling == "gradient":
            self.squares += GRADIENT_SCALE_START
        self.raised: Array = np.zeros(d)  # squared limits beyond the first
        self.centres: Array = np.zeros(d)  # what is subtracted from the features
        # Kept until they show which features are to be centred.
        self.first_rows: list[tuple[Array, float, float]] | None = None
        if self.scaling == "auto" and self.intercept:
            self.first_rows = []
        self.sketch = self._make_sketch(d)

    def _make_sketch(self, d: int) -> Sketch:
        alpha, m = self._alpha(), self.sketch_size
        match self.sketch_name:
            case "adagrad":
                return AdaGrad(d, alpha)
            case "oja":
                return Oja(d, alpha, m, V0=self.V0, step=self.oja_step)
            case "fd":
                return FrequentDirections(d, alpha, m)
            case "rfd":
                return RobustFrequentDirections(d, alpha, m)
            case "isotropic":
                return Isotropic(d, alpha, m)
            case "full":
                return FullMatrix(d, alpha)
            case _:
                return LowRank(d, alpha)

    def learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Array:
        """Learn the rows in order; return the predictions made before each update.

        Parameters
        ----------
        X : array of shape (rows, features)
            Zeros are absent features.
        y : array of shape (rows,)
            Labels.
        sample_weight : array of shape (rows,), optional
            Weights; a row of weight 0 is only predicted.

        Returns
        -------
        array of shape (rows,)
            One prediction per row.
        """
        rows = self._rows(X)
        labels = np.asarray(y, dtype=np.float64)
        weights = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, float)
        if labels.shape != (len(rows),) or weights.shape != (len(rows),):
            raise ValueError(
                f"y and sample_weight must have one entry for each of the {len(rows)} rows of X, "
                f"got shapes {labels.shape} and {weights.shape}"
            )
        if not (np.isfinite(labels).all() and np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError("y must be finite, sample_weight finite and not negative")
        if self.loss.binary and not np.isin(labels, (-1.0, 1.0)).all():
            raise ValueError(f"labels of the {self.loss.name} loss must be -1 or +1")
        return np.array(
            [
                self._learn_row(x, float(label), float(weight))
                if weight > 0
                else self._predict_row(x)
                for x, label, weight in zip(rows, labels, weights, strict=True)
            ]
        )

    def predict(self, X: ArrayLike) -> Array:
        """Return what `learn` would predict for each row, and change nothing.

        Parameters
        ----------
        X : array of shape (rows, features)
            Zeros are absent features.

        Returns
        -------
        array of shape (rows,)
            One prediction per row.
        """
        return np.array([self._predict_row(x) for x in self._rows(X)])

    def _predict_row(self, x: Array) -> float:
        return self._predict(x - self.centres)

    def _learn_row(self, x: Array, y: float, weight: float) -> float:
        prediction = self._round(x - self.centres, y, weight)
        if self.first_rows is not None:
            self.first_rows.append((x, y, weight))
            if np.count_nonzero(x[1:]) > CENTRE_MOST:
                self.first_rows = None
            elif len(self.first_rows) == CENTRE_ROWS:
                self._centre_features(self.first_rows)
                self.first_rows = None
        return prediction

    def _centre_features(self, rows: list[tuple[Array, float, float]]) -> None:
        """Start again, with the first rows centred, if features have large offsets."""
        X = np.array([x for x, _, _ in rows])
        mean, variance = X.mean(axis=0), X.var(axis=0)
        always = np.all(X != 0.0, axis=0)
        always[0] = False  # the intercept
        in_some = int(np.any(X != 0.0, axis=0)[1:].sum())
        many = int(always.sum()) > self.sketch_size or in_some > 2 * self.sketch_size
        offset = CENTRE_OFFSET if many else CENTRE_LARGE_OFFSET
        in_order = np.sum(np.diff(X, axis=0) ** 2, axis=0) < CENTRE_STEP * variance * (len(X) - 1)
        large = (mean**2 > offset * variance) & (variance > CENTRE_ROUNDING * mean**2)
        slots = np.cumsum(self.seen) - 1  # as in a table, where all features are in the first row
        centred = always & large & ~in_order & (slots <= CENTRE_MOST)
        if not centred.any():
            return
        unit, start = self.unit, self._untrained
        vars(self).update(vars(copy.deepcopy(start)))
        self.unit = unit
        self.centres = np.where(centred, mean.astype(np.float32), 0.0)
        self.first_rows = None
        for x, y, weight in rows:
            self._round(x - self.centres, y, weight)

    def _round(self, x: Array, y: float, weight: float) -> float:
        # 1. Alg. 1 l.5-6, with the alpha of the rounds before.
        times = times_to_absorb(self.rounds + 1, self.sketch_every)
        beyond = self._excess(x), self._limits()
        scales = self._take_in(x)
        self.w, z = self.sketch.project(self.w, x * scales, self.bound)
        prediction = self._clipped(z)

        # 2. Alg. 1 l.7: g = slope * x, ghat = root * x.
        low, high = self.label_range or (y, y)
        self.label_range = (min(low, y), max(high, y))
        self.seen |= x != 0.0
        at = self._clipped(z)
        slope = weight * self.loss.derivative(at, y)
        root = math.sqrt(weight * self._curvature(at, y))

        # 3. Scales that need the gradient, counters and alpha.
        if self.scaling == "gradient":
            scales = self._take_gradient(x, slope)
            z = float(self.w @ (x * scales))
        scaled = x * scales
        self.rounds += 1
        self.nonzeros += int(np.count_nonzero(x))
        self.mean_norm2 += (float(scaled @ scaled) - self.mean_norm2) / self.rounds
        self.sketch.base_alpha = self._alpha()
        self.sketch.dimension = int(self.seen.sum())

        # 4. Alg. 1 l.8 and 9, in this order or the other. A round that is left out counts, with
        # nothing to take in.
        ghat = (slope if self.sketch_name == "adagrad" else root) * scaled
        ahead = not self.explicit or times == 0
        if ahead and self.sketch_name != "adagrad":
            self._step_ahead(scaled, self._clipped(z), y, weight)
        self.sketch.update_times(ghat, times)
        if ahead and self.sketch_name == "adagrad":
            self._step_ahead(scaled, self._clipped(z), y, weight)
        if not ahead and slope != 0.0 and scaled.any():
            self.w = self.w - slope * self.sketch.solve(scaled)
        self._choose_unit()
        self._raise_limits(*beyond)
        return prediction

    def _step_ahead(self, scaled: Array, margin: float, y: float, weight: float) -> None:
        if scaled.any():
            direction = self.sketch.solve(scaled)
            self.w = self.w - self._implicit_step(direction, scaled, margin, y, weight)

    def _curvature(self, z: float, y: float) -> float:
        if self.hessian and self.loss.second_derivative is not None:
            return self.loss.second_derivative(z, y)
        return (self.sigma + self._eta()) * self.loss.derivative(z, y) ** 2

    def _implicit_step(
        self, direction: Array, scaled: Array, margin: float, y: float, weight: float
    ) -> Array:
        """``l'(w'.x) A^-1 x``, direction ``A^-1 x``: with the gradient where the step ends."""
        energy = float(scaled @ direction)
        if energy <= 0.0:
            return np.zeros_like(direction)
        return (margin - self._ahead(margin, y, weight * energy)) / energy * direction

    def _ahead(self, z: float, y: float, q: float) -> float:
        """Return the ``z'`` with ``z' + q l'(z') = z``, by bisection: the left side increases."""
        far = z - q * self.loss.derivative(z, y)
        low, high = min(z, far), max(z, far)
        while True:
            middle = 0.5 * (low + high)
            if not low < middle < high:
                return middle
            if middle + q * self.loss.derivative(middle, y) < z:
                low = middle
            else:
                high = middle

    def _predict(self, x: Array) -> float:
        _, z = self.sketch.project(self.w, x * self._scales_for(x), self.bound)
        return self._clipped(z)

    def _clipped(self, z: float) -> float:
        if not self.clip or self.label_range is None:
            return z
        low, high = self.label_range
        return min(max(min(max(z, low), high), -self.bound), self.bound)

    def _scales_for(self, x: Array) -> Array:
        """Return ``1/s`` for a row to be predicted.

        RMS scales include the row for features that have been counted rarely, and other values
        are cut at a multiple of their scale; without that the scaled row would be unbounded.
        """
        return self._inverse(self._mean_squares(x)[0] * self._common())

    def _take_in(self, x: Array) -> Array:
        """Take a row into RMS scales; return ``1/s`` for this row, as `_scales_for`."""
        used, stored, counts = self._mean_squares(x)
        scales = self._inverse(used * self._common())
        if self.counts_rows:
            self.squares, self.counts = stored, counts
        return scales

    def _common(self) -> Array | float:
        """Return the factor of the squared RMS scales of features that are unusually frequent."""
        if self.scaling != "auto" or self.nonzeros == 0:
            return 1.0
        mean_count = self.nonzeros / int(self.seen.sum())
        return np.sqrt(np.maximum(self.counts / (RMS_COMMON * mean_count), 1.0))

    @property
    def counts_rows(self) -> bool:
        """Whether the scales know how often each feature was there."""
        return self.scaling in ("rms", "auto")

    def _choose_unit(self) -> None:
        """Choose the unit of features that are alike, if most of the first rows' are."""
        if self.scaling != "auto" or self.rounds != UNIT_ROWS or self.centres.any():
            return
        counts = self.counts.copy()
        if self.intercept:
            counts[0] = 0.0
        if counts.sum() > 0.0:
            unit = float(counts @ self.squares / counts.sum())
            limit = UNIT_ALIKE * np.maximum(1.0, RMS_YOUNG / (counts + 0.5))
            alike = (self.squares * limit >= unit) & (self.squares <= unit * limit)
            if counts @ alike >= UNIT_MOST * counts.sum():
                self.unit = unit

    def _in_unit(self, squares: Array) -> Array:
        """Return ``unit`` for mean squares like it, others as they are, a line in between.

        Those of centred features are multiplied by a constant.
        """
        if self.centres.any():
            return np.where(self.centres != 0.0, CENTRE_SQUARES * squares, self._alike(squares))
        return self._alike(squares)

    def _alike(self, squares: Array) -> Array:
        if self.unit == 0.0:
            return squares
        large = squares > self.unit
        with np.errstate(divide="ignore"):
            ratio = np.where(large, squares / self.unit, self.unit / squares)
        slope = (UNIT_NOT_ALIKE - 1) / (UNIT_NOT_ALIKE - UNIT_ALIKE)
        factor = np.maximum(1.0, np.minimum(ratio, slope * (ratio - UNIT_ALIKE) + 1))
        scales = np.where(large, self.unit * factor, self.unit / factor)
        if self.intercept:
            scales[0] = squares[0]
        return np.asarray(scales)

    def _take_gradient(self, x: Array, slope: float) -> Array:
        """Take a gradient into the scales of the paper's experiments; return the new ``1/s``."""
        self.squares = self.squares + (slope * x) ** 2
        return self._inverse(self.squares)

    def _mean_squares(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the squared scales for this row, and squared scales and counts after it.

        RMS scales are learned from the rows that the sketch takes in, which count for their group.
        But a feature that has been counted rarely takes in every row. A value beyond the limit of
        its feature is cut, and halves the count that the scale rests on; up to twice the limit it
        counts as the limit, in every row.
        """
        if not self.counts_rows:
            return self.squares, self.squares, self.counts
        every = group_of(self.rounds + 1, self.sketch_every)
        drawn = times_to_absorb(self.rounds + 1, self.sketch_every) > 0
        present, young = x != 0.0, self._young()
        excess = self._excess(x)
        large, far = (excess > 1) & (excess <= 4), excess > 4
        stands_for = np.where(young, 1, every)
        part = np.minimum(
            stands_for / (self.counts + stands_for), np.where(young, 1, 1 / RMS_YOUNG)
        )
        moved = self.squares + (x**2 - self.squares) * part
        at_limit = self.squares + (self._limits() - self.squares) / np.maximum(
            self.counts, RMS_YOUNG
        )
        counted = present & (young | drawn)
        stored = np.select([far, large, counted], [self.squares, at_limit, moved], self.squares)
        counts = np.select(
            [far, large, counted],
            [self.counts / 2, np.maximum(self.counts / 2, RMS_YOUNG), self.counts + stands_for],
            self.counts,
        )
        # A value that is cut has the scale that makes it as large as its limit.
        used = self._in_unit(np.where(present & young, moved, self.squares)) * np.maximum(excess, 1)
        return used, stored, np.minimum(counts, RMS_COUNT_CAP)

    def _young(self) -> NDArray[np.bool_]:
        return np.asarray((self.counts < RMS_YOUNG) | (self.squares == 0.0))

    def _limits(self) -> Array:
        """Return up to which square a value counts as it is."""
        return np.asarray(np.maximum(RMS_FAR**2 * self.squares, self.raised))

    def _excess(self, x: Array) -> Array:
        """Return each squared value over its limit; 0 for features without one."""
        if not self.counts_rows:
            return np.zeros_like(x)
        return np.divide(x**2, self._limits(), out=np.zeros_like(x), where=~self._young())

    def _raise_limits(self, excess: Array, limits: Array) -> None:
        """Double the limits of large values; a feature that is young again has no limit."""
        large, far = (excess > 1) & (excess <= 4), excess > 4
        self.raised = np.where(large, 4 * limits, self.raised)
        self.raised = np.where(far & self._young(), 0.0, self.raised)

    def _inverse(self, squares: Array) -> Array:
        """``1/s``; 0 for a feature without a scale yet ("rms"), whose weight is 0 anyhow."""
        if self.scaling == "none":
            return np.ones(len(self.w))
        root = np.sqrt(squares)
        return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)

    def _alpha(self) -> float:
        if not self.relative_alpha:
            return self.alpha_factor
        scale = math.sqrt(self.mean_norm2) if self.sketch_name == "adagrad" else self.mean_norm2
        return self.alpha_factor * scale

    def _eta(self) -> float:
        """``eta_t`` of the round that is about to be counted."""
        if self.eta != "convex":
            return float(self.eta)
        m = int(self.seen.sum()) if self.sketch_name == "full" else self.sketch_size
        lipschitz = self.loss.lipschitz(self.loss_range)
        return math.sqrt(m / (self.rounds + 1)) / (self.loss_range * lipschitz)

    def _rows(self, X: ArrayLike) -> Array:
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2:
            raise ValueError(f"X must have two dimensions, got shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise ValueError("X must be finite")
        if self.intercept:
            rows = np.hstack([np.ones((len(rows), 1)), rows])
        if not hasattr(self, "w"):
            self._start(rows.shape[1])
            self._untrained = copy.deepcopy(self)
        if rows.shape[1] != len(self.w):
            expected = len(self.w) - self.intercept
            raise ValueError(
                f"X must have {expected} columns as before, got {rows.shape[1] - self.intercept}"
            )
        return rows

    @property
    def raw_weights(self) -> Array:
        """Weights for unscaled features, the intercept first."""
        return self._raw(self.w)

    def _raw(self, w: Array) -> Array:
        weights: Array = w * self._inverse(self._in_unit(self.squares) * self._common())
        if self.centres.any():
            weights[0] -= self.centres @ weights
        return weights

    @property
    def alpha(self) -> float:
        """The regulariser in force, the sketch's tail included."""
        return self.sketch.alpha

    @property
    def V(self) -> Array:  # noqa: N802 - the paper's letter
        """Orthonormal rows of the sketch (none for "adagrad")."""
        if isinstance(self.sketch, LowRank | FullMatrix):
            return self.sketch.V
        return np.zeros((0, len(self.w)))

    @property
    def ev(self) -> Array:
        """Eigenvalues that belong to `V`."""
        if isinstance(self.sketch, LowRank | FullMatrix):
            return self.sketch.ev
        return np.zeros(0)


def group_of(t: int, every: int | Literal["auto"]) -> int:
    """Return of how many rounds one is taken into the sketch, at round ``t`` (from 1).

    "auto" is 1 up to round 1,024, then 2, 4, 8, 16 and 32, doubled when the rounds are.
    """
    if every != "auto":
        return every
    group = 1
    while group < MOST_RARE and t - 1 >= FIRST_RARE * group:
        group *= 2
    return group


def times_to_absorb(t: int, every: int | Literal["auto"]) -> int:
    """Return how often round ``t`` (from 1) counts in the sketch: 0, or the rounds it stands for.

    Of each group of rounds one is drawn.

    Examples
    --------
    >>> [times_to_absorb(t, 3) for t in range(1, 10)]
    [3, 0, 0, 0, 0, 3, 0, 3, 0]
    """
    at, group = t - 1, group_of(t, every)
    return group if at % group == _mixed_bits(at // group) % group else 0


def _mixed_bits(x: int) -> int:
    """As `mix_bits` of the core: numbers that look random, the same everywhere."""
    for _ in range(2):
        x = ((x ^ (x >> 32)) * 0xD6E8FEB86659FD93) % 2**64
    return x ^ (x >> 32)


def _one_of(argument: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{argument} must be one of {', '.join(allowed)}, got {value!r}")


def _parse_alpha(alpha: float | str) -> float:
    text = alpha.removeprefix("relative:") if isinstance(alpha, str) else alpha
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    is_bare_text = isinstance(alpha, str) and not alpha.startswith("relative:")
    if is_bare_text or not (factor >= 0.0 and math.isfinite(factor)):
        raise ValueError(f'alpha must be a number >= 0 or "relative:c" with c > 0, got {alpha!r}')
    return factor
