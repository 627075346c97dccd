"""Sketches that work in epochs: Algorithms 6, 7 and 11, and Oja's rule updated in blocks."""

from __future__ import annotations

import math

import numpy as np

from sonline.paper.reference.sketches import GROWTH_TOLERANCE, Array, Oja, orthonormalise

RELATIVE_ZERO = 1e-12
"""A residual below this multiple of its vector counts as 0."""

GRAM_ZERO = 1e-14
"""A squared norm below this multiple of the terms that it is summed from counts as 0."""


def decompose(P: Array, K: Array) -> tuple[Array, Array]:
    """Gram-Schmidt of the rows of ``PR`` without ``R``, from ``K = RR'`` only (Algorithm 11).

    ``K`` is n x n (the paper prints m x m). Returns ``L`` (m x r) and ``Q`` (r x n) such that
    ``LQR = PR``, the rows of ``QR`` are orthonormal and ``r`` is the rank of ``PR``. A Gram matrix
    knows lengths only to the root of the rounding: a row that leaves the span of those before it
    by less than about 1e-7 of its length counts as inside.

    Examples
    --------
    >>> R = np.array([[3.0, 4.0]])
    >>> L, Q = decompose(np.array([[2.0], [1.0]]), R @ R.T)
    >>> print(L.ravel(), Q @ R)
    [10.  5.] [[0.6 0.8]]
    """
    m, n = P.shape
    L = np.zeros((m, m))  # Alg. 11 l.1
    Q = np.zeros((m, n))  # Alg. 11 l.1
    nonzero = np.zeros(m, dtype=bool)
    for i in range(m):  # Alg. 11 l.2
        p = P[i]  # Alg. 11 l.3
        a = Q @ K @ p  # Alg. 11 l.4
        beta = p - Q.T @ a  # Alg. 11 l.4
        # departure: a second pass, without which the rows are orthogonal only to cond(PR) eps
        again = Q @ K @ beta
        a, beta = a + again, beta - Q.T @ again
        c2 = float(beta @ K @ beta)  # Alg. 11 l.4
        # departure: in floating point c is never 0 and c^2 may be negative, so ask whether it is
        # more than the rounding of its own terms and than that of the subtraction before
        rounding = GRAM_ZERO * float(np.abs(beta) @ np.abs(K) @ np.abs(beta))
        if c2 > max(rounding, RELATIVE_ZERO**2 * float(p @ K @ p)):  # Alg. 11 l.5
            c = math.sqrt(c2)  # Alg. 11 l.4
            Q[i] = beta / c  # Alg. 11 l.6
            nonzero[i] = True
        else:
            c = 0.0
        a[i] = c  # Alg. 11 l.8
        L[i] = a  # Alg. 11 l.8
    return L[:, nonzero], Q[nonzero]  # Alg. 11 l.10-11


def top_eigensystem(D2: Array, M: Array, L: Array, m: int) -> tuple[Array, Array]:
    """Line 3 of Algorithms 7 and 10: top eigenvectors (as rows) and eigenvalues."""
    k, r = len(D2), L.shape[1]
    ML = np.hstack([M, L])
    small = np.diag(np.concatenate([D2, np.zeros(r)])) + ML.T @ ML
    values, vectors = np.linalg.eigh(small)
    top = min(m, k + r)
    return vectors[:, ::-1][:, :top].T, np.maximum(values[::-1][:top], 0.0)


def compute_eigen_system(D2: Array, V: Array, G: Array) -> tuple[Array, Array]:
    """Algorithm 7, ComputeEigenSystem: the top eigensystem of ``V' D^2 V + G'G``.

    ``D2`` holds the squares of the diagonal of ``D``. Returns ``V'`` and the diagonal of
    ``Sigma``, largest first, with as many rows as ``G`` has.
    """
    M = G @ V.T  # Alg. 7 l.1
    outside = G - M @ V
    # departure: a second pass, and what is left of rows inside the span of V is rounding, which
    # Gram-Schmidt would blow up to directions that are not orthogonal to V
    again = outside @ V.T
    M, outside = M + again, outside - again @ V
    small = np.linalg.norm(outside, axis=1) <= RELATIVE_ZERO * np.linalg.norm(G, axis=1)
    L, Q = decompose(np.where(small[:, None], 0.0, outside), np.eye(V.shape[1]))  # Alg. 7 l.2
    U, Sigma = top_eigensystem(D2, M, L, len(G))  # Alg. 7 l.3
    return U @ np.vstack([V, Q]), Sigma  # Alg. 7 l.4


class EpochFrequentDirections:
    """Frequent Directions with one eigendecomposition every ``m`` rounds (Algorithm 6).

    Parameters
    ----------
    d, alpha, m
        Dimension (at least ``m``), regulariser and sketch size; ``S`` has ``2m`` rows.
    V0 : array of shape (m, d), optional
        "Any matrix whose rows are orthonormal"; the first unit vectors by default.
    tail_share : float, default=0.0
        0.5 is robust FD: that share of every ``rho`` goes to alpha when an epoch ends.

    Attributes
    ----------
    shrunk : float
        The sum of all ``rho = Sigma_mm``, at most ``Omega_k/(m-k)`` for every ``k < m``.
    """

    def __init__(
        self, d: int, alpha: float, m: int, V0: Array | None = None, tail_share: float = 0.0
    ) -> None:
        self.alpha, self.m, self.tail_share = alpha, m, tail_share
        self.shrunk = 0.0
        self.tau = 1  # Alg. 6 Init l.1
        self.D: Array = np.zeros(m)  # Alg. 6 Init l.1
        self.G: Array = np.zeros((m, d))  # Alg. 6 Init l.1
        self.H: Array = np.eye(2 * m) / alpha  # Alg. 6 Init l.1
        self.V: Array = np.eye(m, d) if V0 is None else np.array(V0)  # Alg. 6 Init l.1

    @property
    def S(self) -> Array:  # noqa: N802 - the paper's letter
        """The 2m x d sketch (Alg. 6 Init l.2, Update l.13)."""
        return np.vstack([self.D[:, None] * self.V, self.G])

    def update(self, ghat: Array) -> None:
        """SketchUpdate."""
        m, tau = self.m, self.tau
        self.G[tau - 1] = ghat  # Alg. 6 Update l.1
        if tau < m:  # Alg. 6 Update l.2
            self.H = insert_row(self.H, self.S @ ghat, m + tau - 1)  # Alg. 6 Update l.3-4
            self.tau += 1  # Alg. 6 Update l.5
        else:
            self.V, Sigma = compute_eigen_system(self.D**2, self.V, self.G)  # Alg. 6 Update l.7
            self.D = np.sqrt(Sigma - Sigma[-1])  # Alg. 6 Update l.8
            self.shrunk += float(Sigma[-1])
            self.alpha += self.tail_share * float(Sigma[-1])  # robust FD, not in the paper
            inverse = np.concatenate([self.alpha + self.D**2, np.full(m, self.alpha)])
            self.H = np.diag(1.0 / inverse)  # Alg. 6 Update l.9
            self.G = np.zeros_like(self.G)  # Alg. 6 Update l.10
            self.tau = 1  # Alg. 6 Update l.11


def insert_row(H: Array, S_ghat: Array, row: int) -> Array:
    """Lines 3-4 of Algorithms 6 and 9: ``(alpha I + SS')^-1`` after ``S[row]`` became ghat.

    ``S_ghat = S ghat`` with the new ``S``, so ``S_ghat[row]`` is ``|ghat|^2``.
    """
    e = np.zeros(len(H))
    e[row] = 1.0  # l.3
    q = S_ghat - 0.5 * S_ghat[row] * e  # l.3
    H = H - np.outer(H @ q, e @ H) / (1.0 + e @ H @ q)  # l.4
    return np.asarray(H - np.outer(H @ e, q @ H) / (1.0 + q @ H @ e))  # l.4


class BlockOja(Oja):
    """Oja's sketch that is updated only every ``block`` rounds, with all their vectors at once.

    The paper suggests ``block = m``, which makes the cost of the orthonormalisation O(md) per
    round, and gives no pseudo-code. Here a block ``G`` does

        ev += sum (V ghat)^2,     V <-orth- V + (1/t) V G'G,

    with ``t`` the rounds so far. While there are fewer than ``m`` rows, vectors that point out of
    their span become rows instead, as in `Oja`. Between blocks the sketch does not change.
    """

    def __init__(self, d: int, alpha: float, m: int, block: int, V0: Array | None = None) -> None:
        super().__init__(d, alpha, m, V0=V0)
        self.block = block
        self.buffer: list[Array] = []

    def update(self, ghat: Array) -> None:
        """Buffer the vector; work off the buffer when it is full."""
        self.t += 1
        self.buffer.append(ghat)
        if len(self.buffer) < self.block:
            return
        rotating = []
        for row in self.buffer:
            p, residual = self.split(row)
            rho2 = float(residual @ residual)
            if len(self.V) < self.m and rho2 > GROWTH_TOLERANCE * float(row @ row):
                self.ev = np.append(self.ev + p * p, rho2)
                self.V = np.vstack([self.V, residual / math.sqrt(rho2)])
            else:
                rotating.append(row)
        self.buffer = []
        if rotating:
            G = np.array(rotating)
            P = G @ self.V.T
            self.ev = self.ev + np.sum(P * P, axis=0)
            self.V = orthonormalise(self.V + (P.T @ G) / self.t)
