"""Sparse FD-SON: Algorithms 8, 9 and 10 in a form that works.

As printed they cannot run: ``Delta = N1^-1 N2``, but ``N1 = Sigma^-1 U1 D^2 F`` exactly, and
``D_mm = 0`` after every shrink (``D = 0`` before the first), so ``N1`` is singular. What is
different here:

* only rows with ``D > 0`` are kept, starting with none, so ``Z`` is k x d with ``k < m``;
* when ``k`` changes or ``N1`` is nearly singular the method rebases, that is it materialises
  ``Z = N1 Z + N2 G`` and folds ``Z'b`` into ``wbar``, instead of inverting ``N1``;
* the weight update needs the old ``G`` for ``G' Delta' b`` (SketchUpdate has emptied the new one,
  so as printed the term is always 0 and ``w`` jumps at the end of every epoch).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sonline.paper.reference.epochs import decompose, insert_row, top_eigensystem
from sonline.paper.reference.losses import Loss
from sonline.paper.reference.paper import OnlineMethod
from sonline.paper.reference.sketches import DROP_TOLERANCE, Array, tau


def compute_sparse_eigen_system(
    D2: Array, F: Array, Z: Array, G: Array, K: Array
) -> tuple[Array, Array, Array]:
    """Algorithm 10: ``N1, N2, Sigma`` with ``N1 Z + N2 G`` the top eigenvectors of ``S'S``.

    ``S = (DFZ; G)``, ``K = ZZ'``; ``D2`` holds the squares of the diagonal of ``D``. As many
    eigenvectors as ``G`` has rows, or fewer if the rank is smaller.
    """
    k = len(Z)
    GZ = G @ Z.T
    M = GZ @ F.T  # Alg. 10 l.1
    P = np.hstack([-M @ F, np.eye(len(G))])
    L, Q = decompose(P, np.block([[K, GZ.T], [GZ, G @ G.T]]))  # Alg. 10 l.2
    U, Sigma = top_eigensystem(D2, M, L, len(G))  # Alg. 10 l.3
    N1 = U[:, :k] @ F + U[:, k:] @ Q[:, :k]  # Alg. 10 l.4
    N2 = U[:, k:] @ Q[:, k:]  # Alg. 10 l.4
    return N1, N2, Sigma  # Alg. 10 l.5


class SparseFrequentDirections(OnlineMethod):
    """Algorithm 8: sparse SON with Frequent Directions; equal to Algorithm 1 with Algorithm 6.

    Parameters
    ----------
    d, alpha, m
        Dimension, regulariser and sketch size.
    loss, bound, **curvature
        See `OnlineMethod`.
    tail_share : float, default=0.0
        0.5 is robust FD.
    growth_limit : float, default=100.0
        Largest ``|N1^-1|``, which is the size that ``Z`` would get; beyond it the method rebases.
        Errors grow with the square of it.

    Attributes
    ----------
    epochs, rebases : int
        How many epochs ended, and how many of them with a rebase.
    """

    def __init__(
        self,
        d: int,
        alpha: float,
        m: int,
        loss: Loss,
        bound: float,
        *,
        tail_share: float = 0.0,
        growth_limit: float = 100.0,
        **curvature: Any,
    ) -> None:
        super().__init__(loss, bound, **curvature)
        self.wbar: Array = np.zeros(d)  # Alg. 8 l.1 (one array for ubar and wbar)
        self.alpha, self.m = alpha, m
        self.tail_share = tail_share
        self.growth_limit = growth_limit
        self.epochs = self.rebases = 0
        # Alg. 9 Init l.1, with 0 rows instead of m rows of eigenvalue 0.
        self.tau = 1
        self.D2: Array = np.zeros(0)
        self.F: Array = np.zeros((0, 0))
        self.K: Array = np.zeros((0, 0))
        self.Z: Array = np.zeros((0, d))
        self.b: Array = np.zeros(0)
        self.G: Array = np.zeros((m, d))
        self.H: Array = np.eye(m) / alpha

    @property
    def w(self) -> Array:
        """The weights themselves."""
        return self.wbar + self.b @ self.Z

    def sketched(self, v: Array) -> Array:
        """``Sv`` with ``S = (DFZ; G)``, without forming ``S`` (Alg. 8 l.2)."""
        return np.concatenate([np.sqrt(self.D2) * (self.F @ (self.Z @ v)), self.G @ v])

    def descend(self, v: Array, size: float) -> None:
        """``w -= size (v - S'HSv)``, split between ``wbar`` and ``b`` (Alg. 8 l.6 and l.10)."""
        k = len(self.b)
        HSv = self.H @ self.sketched(v)  # rows H1 and H2 of Alg. 8 l.3
        self.wbar = self.wbar + size * (HSv[k:] @ self.G - v)
        self.b = self.b + size * (self.F.T @ (np.sqrt(self.D2) * HSv[:k]))

    def step(self, x: Array, y: float) -> float:
        """Run one round; return the prediction."""
        excess = tau(float(self.wbar @ x + self.b @ (self.Z @ x)), self.bound)
        if excess != 0.0:  # departure: nothing moves otherwise, and x = 0 would be 0/0
            xhat = self.sketched(x)  # Alg. 8 l.6
            self.descend(x, excess / float(x @ x - xhat @ self.H @ xhat))  # Alg. 8 l.6
        z = float(self.wbar @ x + self.b @ (self.Z @ x))  # Alg. 8 l.7
        g = self.loss.derivative(z, y) * x  # Alg. 8 l.8
        self.update(math.sqrt(self.next_curvature()) * g)  # Alg. 8 l.8-9, and G'Delta'b of l.10
        self.descend(g, 1.0 / self.alpha)  # Alg. 8 l.10
        return z

    def update(self, ghat: Array) -> None:
        """Algorithm 9, SketchUpdate; leaves ``w`` what it is."""
        m, k, tau = self.m, len(self.b), self.tau
        self.G[tau - 1] = ghat  # Alg. 9 Update l.1
        if tau < m:  # Alg. 9 Update l.2
            self.H = insert_row(self.H, self.sketched(ghat), k + tau - 1)  # Alg. 9 Update l.3-4
            self.tau += 1  # Alg. 9 Update l.6
            return
        N1, N2, Sigma = compute_sparse_eigen_system(self.D2, self.F, self.Z, self.G, self.K)  # l.8
        rho = float(Sigma[m - 1]) if len(Sigma) == m else 0.0
        shrunk = Sigma - rho  # Alg. 9 Update l.11
        # departure: no rows of eigenvalue 0
        keep = shrunk > DROP_TOLERANCE * Sigma.max(initial=0.0)
        self.D2, N1, N2 = shrunk[keep], N1[keep], N2[keep]
        self.epochs += 1
        smallest = np.linalg.svd(N1, compute_uv=False).min(initial=1.0) if len(N1) == k else 0.0
        if self.growth_limit * smallest > 1.0:
            Delta = np.linalg.solve(N1, N2)  # Alg. 9 Update l.9
            self.wbar = self.wbar - (self.b @ Delta) @ self.G  # Alg. 8 l.10, with the old G
            cross = Delta @ (self.G @ self.Z.T)
            self.K = self.K + cross + cross.T + Delta @ (self.G @ self.G.T) @ Delta.T  # l.10
            self.F, self.Z = N1, self.Z + Delta @ self.G  # Alg. 9 Update l.11
        else:  # departure: rebase
            self.wbar = self.w
            self.Z = N1 @ self.Z + N2 @ self.G
            self.b = np.zeros(len(self.Z))
            self.K = self.Z @ self.Z.T
            _, self.F = decompose(np.eye(len(self.Z)), self.K)
            self.rebases += 1
        self.alpha += self.tail_share * rho  # robust FD, not in the paper
        inverse = np.concatenate([self.alpha + self.D2, np.full(m, self.alpha)])
        self.H = np.diag(1.0 / inverse)  # Alg. 9 Update l.12
        self.G = np.zeros_like(self.G)  # Alg. 9 Update l.13
        self.tau = 1  # Alg. 9 Update l.14
