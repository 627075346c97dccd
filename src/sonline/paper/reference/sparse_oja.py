"""Sparse Oja-SON: Algorithms 4 and 5 with ``V = FZ`` and ``w = wbar + Z'b``.

The vectors are dense here, but every statement outside `SparseOja.rebase` changes ``Z`` and
``wbar`` only where ``x`` is not 0, which is the point of this form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sonline.paper.reference.epochs import decompose
from sonline.paper.reference.losses import Loss
from sonline.paper.reference.paper import OnlineMethod
from sonline.paper.reference.sketches import Array, tau


class SparseOjaSketch:
    """Algorithm 5: eigenvalues ``t Lambda``, eigenvectors ``FZ``.

    Parameters
    ----------
    alpha : float
        The regulariser.
    Z0 : array of shape (m, d)
        Any matrix with orthonormal rows.
    steps : callable
        ``steps(t)`` is the diagonal of ``Gamma_t`` (or one number for all of it).
    """

    def __init__(
        self, alpha: float, Z0: Array, steps: Callable[[int], float | Array] = lambda t: 1.0 / t
    ) -> None:
        m = len(Z0)
        self.alpha = alpha
        self.steps = steps
        self.t = 0  # Alg. 5 Init l.1
        self.Lambda: Array = np.zeros(m)  # Alg. 5 Init l.1
        self.F: Array = np.eye(m)  # Alg. 5 Init l.1
        self.K: Array = np.eye(m)  # Alg. 5 Init l.1
        self.H: Array = np.full(m, 1.0 / alpha)  # Alg. 5 Init l.1 (diagonal)
        self.Z: Array = np.array(Z0)  # Alg. 5 Init l.1

    def update(self, ghat: Array) -> Array:
        """SketchUpdate; returns delta, with ``Z += delta ghat'``."""
        self.t += 1  # Alg. 5 Update l.1
        Gamma = np.broadcast_to(self.steps(self.t), self.Lambda.shape)
        Zg = self.Z @ ghat
        projected = self.F @ Zg
        self.Lambda = (1.0 - Gamma) * self.Lambda + Gamma * projected**2  # Alg. 5 Update l.1
        # Erratum: the paper prints A^-1, its appendix derives F^-1. Alg. 5 Update l.2
        delta = np.asarray(np.linalg.solve(self.F, Gamma * projected))
        cross = np.outer(delta, Zg)
        self.K = self.K + cross + cross.T + (ghat @ ghat) * np.outer(delta, delta)
        self.Z = self.Z + np.outer(delta, ghat)  # Alg. 5 Update l.3
        _, self.F = decompose(self.F, self.K)  # Alg. 5 Update l.4
        self.H = 1.0 / (self.alpha + self.t * self.Lambda)  # Alg. 5 Update l.5
        return delta  # Alg. 5 Update l.6


class SparseOja(OnlineMethod):
    """Algorithm 4: sparse SON with Oja's sketch.

    Parameters
    ----------
    sketch : SparseOjaSketch
        Alg. 4 l.2 has been done.
    loss, bound, **curvature
        See `OnlineMethod`.
    growth_limit : float, default=1e4
        Rebase when an entry of ``K = ZZ'`` exceeds it. Not in the paper, which cannot do
        without: ``Z_t = Z_0 prod (I + Gamma ghat ghat')`` is a power method without
        orthonormalisation, its rows all turn to the top eigenvector and their entries grow
        without limit.

    Attributes
    ----------
    rebases : int
        How often that happened.
    """

    def __init__(
        self,
        sketch: SparseOjaSketch,
        loss: Loss,
        bound: float,
        *,
        growth_limit: float = 1e4,
        **curvature: Any,
    ) -> None:
        super().__init__(loss, bound, **curvature)
        self.sketch = sketch  # Alg. 4 l.2
        m, d = sketch.Z.shape
        self.wbar: Array = np.zeros(d)  # Alg. 4 l.1 (one array for ubar and wbar)
        self.b: Array = np.zeros(m)  # Alg. 4 l.1
        self.growth_limit = growth_limit
        self.rebases = 0

    @property
    def w(self) -> Array:
        """The weights themselves."""
        return self.wbar + self.b @ self.sketch.Z

    def step(self, x: Array, y: float) -> float:
        """Run one round; return the prediction."""
        sketch, alpha = self.sketch, self.sketch.alpha
        t = sketch.t + 1
        Zx = sketch.Z @ x
        excess = tau(float(self.wbar @ x + self.b @ Zx), self.bound)
        if excess != 0.0:  # departure: nothing moves otherwise, and x = 0 would be 0/0
            xhat = sketch.F @ Zx  # Alg. 4 l.5
            damped = (t - 1) * sketch.Lambda * sketch.H * xhat
            gamma = excess / float(x @ x - xhat @ damped)  # Alg. 4 l.5
            self.wbar = self.wbar - gamma * x  # Alg. 4 l.5
            self.b = self.b + gamma * (sketch.F.T @ damped)  # Alg. 4 l.5
        z = float(self.wbar @ x + self.b @ Zx)  # Alg. 4 l.6
        g = self.loss.derivative(z, y) * x  # Alg. 4 l.7
        ghat = math.sqrt(self.next_curvature()) * g  # Alg. 4 l.7
        delta = sketch.update(ghat)  # Alg. 4 l.8
        self.wbar = self.wbar - g / alpha - float(delta @ self.b) * ghat  # Alg. 4 l.9
        damped = t * sketch.Lambda * sketch.H * (sketch.F @ (sketch.Z @ g))
        self.b = self.b + sketch.F.T @ damped / alpha  # Alg. 4 l.9
        if np.abs(sketch.K).max() > self.growth_limit:
            self.rebase()
        return z

    def rebase(self) -> None:
        """Fold ``Z'b`` into ``wbar`` and ``F`` into ``Z``; ``w`` and ``V`` stay what they are.

        ``K`` is computed anew, so that orthonormality lost to rounding comes back.
        """
        sketch = self.sketch
        self.wbar = self.w
        self.b = np.zeros_like(self.b)
        sketch.Z = sketch.F @ sketch.Z
        sketch.K = sketch.Z @ sketch.Z.T
        _, sketch.F = decompose(np.eye(len(sketch.K)), sketch.K)
        self.rebases += 1
