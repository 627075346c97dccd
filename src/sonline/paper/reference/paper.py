"""Algorithms 1-3 and the full-matrix methods of the paper, statement by statement.

Nothing here is clever: ``S``, ``H``, ``A`` are formed and multiplied as printed. Comments give the
algorithm and line ("Init" and "Update" are SketchInit and SketchUpdate, which the paper numbers
separately); "departure" marks what differs and says why.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sonline.paper.reference.losses import Loss
from sonline.paper.reference.sketches import Array, orthonormalise, tau

Schedule = Callable[[int], float]
"""A number for every round t = 1, 2, ..."""


class SketchContract(Protocol):
    """What Algorithm 1 needs of ``A = alpha I + S'S``."""

    @property
    def alpha(self) -> float:
        """The regulariser."""

    @property
    def S(self) -> Array:  # noqa: N802 - the paper's letter
        """The sketch."""

    @property
    def H(self) -> Array:  # noqa: N802 - the paper's letter
        """``(alpha I + S S')^-1``."""

    def update(self, ghat: Array) -> None:
        """SketchUpdate."""


class OnlineMethod(ABC):
    """A method that predicts a row, then learns its label.

    Parameters
    ----------
    loss : Loss
        The loss.
    bound : float
        ``C``; ``math.inf`` does not project.
    sigma : float, optional
        ``sigma_t``, constant; by default what the loss guarantees on ``[-C, C]``.
    eta : float or callable, default=0.0
        ``eta_t``, constant or a function of the round.
    """

    def __init__(
        self, loss: Loss, bound: float, sigma: float | None = None, eta: float | Schedule = 0.0
    ) -> None:
        self.loss = loss
        self.bound = bound
        self.sigma = loss.sigma(bound) if sigma is None else sigma
        self.eta = eta
        self.t = 0

    def next_curvature(self) -> float:
        """Return ``sigma_t + eta_t`` of the next round."""
        self.t += 1
        return self.sigma + (self.eta(self.t) if callable(self.eta) else self.eta)

    @abstractmethod
    def step(self, x: Array, y: float) -> float:
        """Run one round: predict ``x``, learn ``y``, return the prediction."""


def run(method: OnlineMethod | DiagonalAdaptation, X: ArrayLike, y: ArrayLike) -> Array:
    """Feed a whole stream to a method; return the predictions made before each update.

    Examples
    --------
    >>> from sonline.paper.reference import LowRank, make_loss
    >>> descent = SketchedOnlineNewton(LowRank(d=1, alpha=2.0), make_loss("squared"), bound=9.0)
    >>> print(run(descent, [[1.0], [1.0]], [1.0, 1.0]))
    [0.  0.5]
    """
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    return np.array([method.step(x, float(label)) for x, label in zip(rows, labels, strict=True)])


class SketchedOnlineNewton(OnlineMethod):
    """Algorithm 1, SON: online Newton steps in the metric of a sketch.

    Parameters
    ----------
    sketch : SketchContract
        Alg. 1 l.2 has been done: a fresh sketch (it knows alpha and m).
    loss, bound, **curvature
        See `OnlineMethod`.

    Attributes
    ----------
    w : array
        Weights: ``u_t`` before a projection, ``w_t`` after it.
    """

    def __init__(self, sketch: SketchContract, loss: Loss, bound: float, **curvature: Any) -> None:
        super().__init__(loss, bound, **curvature)
        self.sketch = sketch  # Alg. 1 l.2
        self.w: Array = np.zeros(sketch.S.shape[1])  # Alg. 1 l.1

    def predict(self, x: Array) -> float:
        """Lines 5-6: move to ``w_t`` and predict."""
        S, H, u = self.sketch.S, self.sketch.H, self.w
        excess = tau(float(u @ x), self.bound)
        if excess != 0.0:  # departure: where tau is 0 nothing moves, and x = 0 would be 0/0
            xhat = S @ x  # Alg. 1 l.5
            gamma = excess / float(x @ x - xhat @ H @ xhat)  # Alg. 1 l.5
            self.w = u - gamma * (x - S.T @ (H @ xhat))  # Alg. 1 l.5
        return float(self.w @ x)  # Alg. 1 l.6

    def update(self, x: Array, derivative: float) -> None:
        """Lines 7-9: learn ``x`` given ``l'`` at the prediction."""
        g = derivative * x  # Alg. 1 l.7
        ghat = math.sqrt(self.next_curvature()) * g  # Alg. 1 l.7
        self.sketch.update(ghat)  # Alg. 1 l.8
        S, H = self.sketch.S, self.sketch.H  # Alg. 1 l.8
        self.w = self.w - (g - S.T @ (H @ (S @ g))) / self.sketch.alpha  # Alg. 1 l.9

    def step(self, x: Array, y: float) -> float:
        """Run one round; return the prediction."""
        z = self.predict(x)
        self.update(x, self.loss.derivative(z, y))
        return z


class PaperFrequentDirections:
    """Algorithm 2 as printed: ``S`` is m x d and ``S'S`` is eigendecomposed every round."""

    def __init__(self, d: int, alpha: float, m: int) -> None:
        self.alpha, self.m = alpha, m
        self.S: Array = np.zeros((m, d))  # Alg. 2 Init l.1
        self.H: Array = np.eye(m) / alpha  # Alg. 2 Init l.1

    def update(self, ghat: Array) -> None:
        """SketchUpdate."""
        m = self.m
        self.S[-1] = ghat  # Alg. 2 Update l.1: the last row is always 0 before
        values, vectors = np.linalg.eigh(self.S.T @ self.S)  # Alg. 2 Update l.2
        # departure: S'S is d x d, the paper means its m largest eigenvalues; when d < m the
        # missing ones are 0. Rounding may leave tiny negative ones.
        top = max(len(values) - m, 0)
        Sigma = np.zeros(m)
        V = np.zeros((m, len(ghat)))
        Sigma[: len(values) - top] = np.maximum(values[top:][::-1], 0.0)
        V[: len(values) - top] = vectors[:, top:].T[::-1]
        self.S = np.sqrt(Sigma - Sigma[-1])[:, None] * V  # Alg. 2 Update l.2
        self.H = np.diag(1.0 / (self.alpha + Sigma - Sigma[-1]))  # Alg. 2 Update l.3


class PaperOja:
    """Algorithm 3 as printed: any orthonormal start, any diagonal step sizes, QR every round.

    Parameters
    ----------
    alpha : float
        The regulariser.
    V0 : array of shape (m, d)
        The start, with orthonormal rows.
    steps : callable
        ``steps(t)`` is the diagonal of ``Gamma_t`` (or one number for all of it).
    """

    def __init__(
        self, alpha: float, V0: Array, steps: Callable[[int], float | Array] = lambda t: 1.0 / t
    ) -> None:
        m = len(V0)
        self.alpha = alpha
        self.steps = steps
        self.t = 0  # Alg. 3 Init l.1
        self.Lambda: Array = np.zeros(m)  # Alg. 3 Init l.1
        self.H: Array = np.eye(m) / alpha  # Alg. 3 Init l.1
        self.V: Array = np.array(V0)  # Alg. 3 Init l.1
        self.S: Array = np.zeros_like(self.V)  # Alg. 3 Init l.2

    def update(self, ghat: Array) -> None:
        """SketchUpdate."""
        self.t += 1  # Alg. 3 Update l.1
        Gamma = np.broadcast_to(self.steps(self.t), self.Lambda.shape)
        projected = self.V @ ghat
        self.Lambda = (1.0 - Gamma) * self.Lambda + Gamma * projected**2  # Eq. 4, left
        self.V = orthonormalise(self.V + np.outer(Gamma * projected, ghat))  # Eq. 4, right
        self.S = np.sqrt(self.t * self.Lambda)[:, None] * self.V  # Alg. 3 Update l.2
        self.H = np.diag(1.0 / (self.alpha + self.t * self.Lambda))  # Alg. 3 Update l.3


class OnlineNewton(OnlineMethod):
    """Equations 1-2 with the full matrix; with ``alpha = 0`` equation 7, "truly invariant".

    Parameters
    ----------
    d : int
        Dimension.
    alpha : float
        The regulariser; 0 takes pseudo-inverses and the projection of Lemma 2.
    loss, bound, **curvature
        See `OnlineMethod`.
    as_printed : bool, default=False
        For ``alpha = 0`` and ``x`` outside the range of ``A``: whether to take the minimiser that
        Lemma 2 writes down, which depends on the coordinates, or (departure) the one that
        predicts 0, which makes the method invariant; see `FullMatrix`.
    """

    def __init__(
        self,
        d: int,
        alpha: float,
        loss: Loss,
        bound: float,
        *,
        as_printed: bool = False,
        **curvature: Any,
    ) -> None:
        super().__init__(loss, bound, **curvature)
        self.A: Array = alpha * np.eye(d)  # Eq. 2
        self.w: Array = np.zeros(d)
        self.alpha = alpha
        self.as_printed = as_printed

    def inverse(self) -> Array:
        """``A^-1``, or ``A^+`` when alpha is 0."""
        if self.alpha > 0.0:
            return np.asarray(np.linalg.inv(self.A))
        return np.asarray(np.linalg.pinv(self.A, rcond=1e-12, hermitian=True))

    def predict(self, x: Array) -> float:
        """Right half of Eq. 1 (Eq. 7): project onto ``|w.x| <= C`` in the norm of ``A``."""
        inverse = self.inverse()
        z = float(self.w @ x)
        excess = tau(z, self.bound)
        outside = x - inverse @ (self.A @ x)  # (I - A^+ A) x
        if float(outside @ outside) > 1e-16 * float(x @ x):  # Lemma 2, x not in range(A)
            excess = excess if self.as_printed else z
            self.w = self.w - excess / float(x @ outside) * outside
        elif excess != 0.0:  # Lemma 1; Lemma 2, x in range(A)
            self.w = self.w - excess / float(x @ inverse @ x) * (inverse @ x)
        return float(self.w @ x)

    def update(self, x: Array, derivative: float) -> None:
        """Left half of Eq. 1 (Eq. 7)."""
        g = derivative * x
        self.A = self.A + self.next_curvature() * np.outer(g, g)  # Eq. 2
        self.w = self.w - self.inverse() @ g  # Eq. 1, left

    def step(self, x: Array, y: float) -> float:
        """Run one round; return the prediction."""
        z = self.predict(x)
        self.update(x, self.loss.derivative(z, y))
        return z


class DiagonalAdaptation:
    """The paper's diagonal adaptation of any method: features divided by ``D_t^(1/2)``.

    ``D_t`` is 0.1 plus the sum of the squared gradients with respect to the raw features before
    round t. (Departure: the paper's footnote has ``D_1 = 0.1 I`` only, which divides by 0 for a
    feature that round 1 did not have.)

    Parameters
    ----------
    method : SketchedOnlineNewton or OnlineNewton
        The method to adapt.
    as_in_text : bool, default=False
        The text feeds ``D_t^(-1/2) x_t`` to everything. The code of its experiments predicts with
        ``D_t``, then takes in the current gradient, and updates with ``D_(t+1)^(-1/2) x_t``.
    """

    def __init__(
        self, method: SketchedOnlineNewton | OnlineNewton, *, as_in_text: bool = False
    ) -> None:
        self.method = method
        self.as_in_text = as_in_text
        self.D: Array = np.full(len(method.w), 0.1)  # footnote on D_1

    def step(self, x: Array, y: float) -> float:
        """Run one round; return the prediction."""
        old = x / np.sqrt(self.D)
        z = self.method.predict(old)
        derivative = self.method.loss.derivative(z, y)
        self.D = self.D + (derivative * x) ** 2
        new = x / np.sqrt(self.D)
        self.method.update(old if self.as_in_text else new, derivative)
        return z
