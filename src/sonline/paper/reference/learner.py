"""`ReferenceLearner`: Algorithm 1 in the conventions of `sonline.OnlineLearner`, in NumPy.

These are a constant feature, sample weights, clipping, a relative alpha and implicit steps. It is
an oracle of the kernel's tests: dense, slow and as exact as float64 allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sonline.paper.reference.losses import Loss, make_loss
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

# How each sketch is made: of the features, alpha and the size, and for Oja of its options.
SKETCHES: dict[str, Callable[..., Sketch]] = {
    "none": lambda d, alpha, m, **_: LowRank(d, alpha),
    "adagrad": lambda d, alpha, m, **_: AdaGrad(d, alpha),
    "oja": lambda d, alpha, m, step=1.0, V0=None: Oja(d, alpha, m, V0=V0, step=step),
    "fd": lambda d, alpha, m, **_: FrequentDirections(d, alpha, m),
    "rfd": lambda d, alpha, m, **_: RobustFrequentDirections(d, alpha, m),
    "isotropic": lambda d, alpha, m, **_: Isotropic(d, alpha, m),
    "full": lambda d, alpha, m, **_: FullMatrix(d, alpha),
}
SCALINGS = ("none", "gradient")
CURVATURES = ("auto", "gradient", "hessian")
STEPS = ("explicit", "implicit")
GRADIENT_SCALE_START = 0.1
BESIDE_KINK = 1 + 1e-6


class Inputs:
    """Rows as they are, and what is counted of them.

    Parameters
    ----------
    d : int
        Columns, the constant feature included.

    Attributes
    ----------
    rounds : int
        Rows counted so far.
    mean_norm2 : float
        Running mean of the squared norms that `count` was given.
    seen : array of bool
        Which features have had a value.
    """

    def __init__(self, d: int) -> None:
        self.rounds = 0
        self.mean_norm2 = 0.0
        self.seen = np.zeros(d, dtype=bool)

    @property
    def rows(self) -> float:
        """What the rows still count."""
        return self.rounds

    @property
    def features(self) -> int:
        """How many features have had a value."""
        return int(self.seen.sum())

    def times(self) -> int:
        """Return how often the next row counts in the sketch."""
        return 1

    def apply(self, row: Array) -> Array:
        """Return the row for a prediction."""
        return row

    def take(self, row: Array) -> Array:
        """Return a row to be learned."""
        return row

    def count(self, row: Array, scaled: Array) -> None:
        """Count a row that `take` took in, with the squared norm of ``scaled``."""
        self.seen |= row != 0.0
        self.rounds += 1
        self.mean_norm2 += (float(scaled @ scaled) - self.mean_norm2) / self.rounds

    def raw(self, w: Array) -> Array:
        """Return weights for the features as they are."""
        return w


class ReferenceLearner:
    """Sketched Online Newton for dense rows, one row at a time.

    Parameters
    ----------
    loss : str
        The loss, one of `LOSSES`.
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
    scaling : {"none", "gradient"}
        Divide each feature by the root of its summed squared gradients.
    intercept : bool
        Whether a constant feature 1 is added (coordinate 0).
    quantile : float
        Level of the quantile and of the expectile loss.
    power, delta, epsilon : float
        Of the tweedie, the huber and the epsilon-insensitive loss.

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

    scalings = SCALINGS

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
        power: float = 1.5,
        delta: float = 1.345,
        epsilon: float = 0.1,
        step: str = "explicit",
        V0: Array | None = None,
    ) -> None:
        self.loss = make_loss(loss, quantile, power, delta, epsilon)
        _one_of("sketch", sketch, tuple(SKETCHES))
        _one_of("scaling", scaling, self.scalings)
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
        self.scaling = scaling
        self.intercept = intercept

    def _start(self, inputs: Inputs) -> None:
        """Lines 1-2 of Algorithm 1, once the dimension is known."""
        d = len(inputs.seen)
        self.inputs = inputs
        self.w: Array = np.zeros(d)
        self.D: Array = np.full(d, GRADIENT_SCALE_START)  # of "gradient" scaling
        self.label_range: tuple[float, float] | None = None
        self.sketch = SKETCHES[self.sketch_name](
            d, self._alpha(), self.sketch_size, step=self.oja_step, V0=self.V0
        )

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
        _, z = self.sketch.project(self.w, self.inputs.apply(x) * self._adapted(), self.bound)
        return self._clipped(z)

    def _learn_row(self, x: Array, y: float, weight: float) -> float:
        # 1. Alg. 1 l.5-6, with the alpha of the rounds before.
        times = self.inputs.times()
        raw = self.inputs.take(x)
        self.w, z = self.sketch.project(self.w, raw * self._adapted(), self.bound)
        prediction = self._clipped(z)

        # 2. Alg. 1 l.7: g = slope * x. The label counts in the range that predictions are cut to.
        low, high = self.label_range or (y, y)
        self.label_range = (min(low, y), max(high, y))
        z = self._clipped(z)
        slope = weight * self.loss.derivative(z, y)
        scaled = raw
        if self.scaling == "gradient":
            self.D = self.D + (slope * raw) ** 2
            scaled = raw * self._adapted()
        self.inputs.count(x, scaled)
        self.sketch.base_alpha = self._alpha()
        self.sketch.dimension = self.inputs.features

        # 3. Alg. 1 l.8 and 9, in this order or the other. A round that is left out counts, with
        # nothing to take in.
        if self.explicit and times > 0:
            self._absorb(scaled, slope, self._curvature(z, z, y), weight, times)
            if slope != 0.0 and scaled.any():
                self.w = self.w - slope * self.sketch.solve(scaled)
        else:
            if self.scaling == "gradient":  # the step starts where the new scales put it
                z = self._clipped(float(self.w @ scaled))
                slope = weight * self.loss.derivative(z, y)
            if self.sketch_name == "adagrad":  # it has nothing along a new feature
                self._absorb(scaled, slope, 0.0, weight, times)
                self._implicit_step(scaled, z, y, weight)
            else:
                end = self._implicit_step(scaled, z, y, weight)
                curvature = self._curvature(end, BESIDE_KINK * z, y)
                self._absorb(scaled, slope, curvature, weight, times)
        return prediction

    def _absorb(
        self, scaled: Array, slope: float, curvature: float, weight: float, times: int
    ) -> None:
        factor = slope if self.sketch_name == "adagrad" else math.sqrt(weight * curvature)
        self.sketch.update_times(factor * scaled, times)

    def _curvature(self, end: float, z: float, y: float) -> float:
        """Return the second derivative at ``end``, or what stands for it from the slope at z."""
        if self.hessian and self.loss.second_derivative is not None:
            return self.loss.second_derivative(end, y)
        return (self.sigma + self._eta()) * self.loss.derivative(z, y) ** 2

    def _implicit_step(self, scaled: Array, z: float, y: float, weight: float) -> float:
        """Step by ``l'(z') A^-1 x`` with the gradient where the step ends; return that z'."""
        if not scaled.any():
            return z
        direction = self.sketch.solve(scaled)
        energy = float(scaled @ direction)
        if energy <= 0.0:
            return z
        end = step_ahead(self.loss, z, y, weight * energy)
        self.w = self.w - (z - end) / energy * direction
        return end

    def _adapted(self) -> Array | float:
        """Return ``1/s`` of the paper's diagonal adaptation."""
        return 1.0 / np.sqrt(self.D) if self.scaling == "gradient" else 1.0

    def _clipped(self, z: float) -> float:
        if not self.clip or self.label_range is None:
            return z
        low, high = self.label_range
        if self.loss.power is not None:  # predictions are logarithms
            low, high = (math.log(max(label, 1e-300)) for label in (low, high))
        return min(max(min(max(z, low), high), -self.bound), self.bound)

    def _alpha(self) -> float:
        if not self.relative_alpha:
            return self.alpha_factor
        norm2 = self.inputs.mean_norm2
        return self.alpha_factor * (math.sqrt(norm2) if self.sketch_name == "adagrad" else norm2)

    def _eta(self) -> float:
        """``eta_t`` of the round that was counted last."""
        if self.eta != "convex":
            return float(self.eta)
        m = self.inputs.features if self.sketch_name == "full" else self.sketch_size
        lipschitz = self.loss.lipschitz(self.loss_range)
        return math.sqrt(m / self.inputs.rows) / (self.loss_range * lipschitz)

    def _rows(self, X: ArrayLike) -> Array:
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2:
            raise ValueError(f"X must have two dimensions, got shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise ValueError("X must be finite")
        if self.intercept:
            rows = np.hstack([np.ones((len(rows), 1)), rows])
        if not hasattr(self, "w"):
            self._start(self._inputs(rows.shape[1]))
        if rows.shape[1] != len(self.w):
            expected = len(self.w) - self.intercept
            raise ValueError(
                f"X must have {expected} columns as before, got {rows.shape[1] - self.intercept}"
            )
        return rows

    def _inputs(self, d: int) -> Inputs:
        return Inputs(d)

    @property
    def rounds(self) -> int:
        """Rows learned so far."""
        return self.inputs.rounds if hasattr(self, "inputs") else 0

    @property
    def raw_weights(self) -> Array:
        """Weights for unscaled features, the intercept first."""
        return self.inputs.raw(self.w) * self._adapted()

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


def step_ahead(loss: Loss, z: float, y: float, q: float) -> float:
    """Return the ``z'`` with ``z' + q l'(z') = z``, by bisection: the left side increases.

    Examples
    --------
    >>> step_ahead(make_loss("squared"), 0.0, 3.0, q=2.0)
    2.0
    """
    far = z - q * loss.derivative(z, y)
    low, high = min(z, far), max(z, far)
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return middle
        if middle + q * loss.derivative(middle, y) < z:
            low = middle
        else:
            high = middle


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
