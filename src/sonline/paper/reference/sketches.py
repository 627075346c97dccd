"""The sketches as dense NumPy objects: what they know is a matrix ``A`` that can be inverted.

A sketch keeps ``k`` orthonormal rows ``V`` and their eigenvalues ``ev``, and stands for

    A = alpha I + V' diag(ev) V,      S = diag(ev)^(1/2) V,      H = (alpha I + S S')^-1,

so ``(S, H)`` are the two matrices that Algorithm 1 of the paper asks of it. Line numbers are
those of "Efficient Second Order Online Learning by Sketching" (NIPS 2016); "Init" and "Update"
are SketchInit and SketchUpdate, whose lines the paper counts separately.

Departures that all sketches share:

* ``alpha`` may change between rounds and is not frozen into ``H`` by SketchInit;
* rows with eigenvalue 0 are not stored (the paper pads ``S`` with zero rows);
* ``A^-1 v`` is computed as ``residual/alpha + V'(Vv/(alpha+ev))``. The paper's
  ``(v - S'HSv)/alpha`` is the same number but cancels when ``ev >> alpha``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

GROWTH_TOLERANCE = 1e-12
"""A vector is a new direction when more than this share of its energy is outside the span."""

DROP_TOLERANCE = 1e-14
"""Eigenvalues below this multiple of the largest are rounding errors."""


def tau(z: float, bound: float) -> float:
    """Lemma 1: ``sgn(z) max(|z| - C, 0)``, by how much a prediction leaves ``[-C, C]``."""
    return math.copysign(max(abs(z) - bound, 0.0), z)


def split(V: Array, v: Array) -> tuple[Array, Array]:
    """Return the coordinates ``Vv`` and the part of ``v`` outside the span of orthonormal rows."""
    p = V @ v
    r = v - p @ V
    again = V @ r  # one more pass makes the residual orthogonal to rounding
    return p + again, r - again @ V


class Sketch(ABC):
    """A positive definite matrix ``A`` that learns from to-sketch vectors.

    Parameters
    ----------
    d : int
        Dimension of the vectors.
    alpha : float
        The regulariser of ``A``; may be set again before any round.

    Attributes
    ----------
    tail : float
        What the sketch itself adds to the regulariser (robust FD, isotropic).
    dimension : int
        Features that count as seen, ``d`` unless set; only the isotropic sketch divides by it.
    """

    def __init__(self, d: int, alpha: float) -> None:
        self.d = d
        self.base_alpha = float(alpha)
        self.tail = 0.0
        self.dimension = d

    @property
    def alpha(self) -> float:
        """The regulariser in force: the one given plus what the sketch added."""
        return self.base_alpha + self.tail

    @abstractmethod
    def update(self, ghat: Array) -> None:
        """SketchUpdate(ghat): absorb one to-sketch vector."""

    def update_times(self, ghat: Array, times: int) -> None:
        """Absorb one vector that stands for so many; none at all still counts as a round."""
        self.update(math.sqrt(times) * ghat)

    @abstractmethod
    def forget(self, kept: float) -> None:
        """Let all that was absorbed count ``kept`` times as much."""

    @abstractmethod
    def solve(self, v: Array) -> Array:
        """Return ``A^-1 v``."""

    def project(self, w: Array, x: Array, bound: float) -> tuple[Array, float]:
        """Lemma 1: the point of ``|w.x| <= C`` that is nearest to ``w`` in the norm of ``A``.

        Returns that point and its prediction, which is exactly ``C`` or ``-C`` if ``w`` moved:
        a loss may have its kink there.
        """
        z = float(w @ x)
        excess = tau(z, bound)
        if excess == 0.0:
            return w, z
        direction = self.solve(x)
        return w - (excess / float(x @ direction)) * direction, math.copysign(bound, z)


class LowRank(Sketch):
    """A sketch held as orthonormal rows ``V`` with eigenvalues ``ev``; on its own, ``alpha I``.

    Examples
    --------
    >>> descent = LowRank(d=2, alpha=4.0)
    >>> descent.update(np.array([1.0, 0.0]))
    >>> print(descent.solve(np.array([1.0, 2.0])))
    [0.25 0.5 ]
    """

    def __init__(self, d: int, alpha: float) -> None:
        super().__init__(d, alpha)
        self.V: Array = np.zeros((0, d))
        self.ev: Array = np.zeros(0)

    @property
    def S(self) -> Array:  # noqa: N802 - the paper's letter
        """The sketch matrix of the paper, without its zero rows."""
        return np.sqrt(self.ev)[:, None] * self.V

    @property
    def H(self) -> Array:  # noqa: N802 - the paper's letter
        """``(alpha I + S S')^-1``, diagonal because the rows of ``S`` are orthogonal."""
        return np.diag(1.0 / (self.alpha + self.ev))

    def split(self, v: Array) -> tuple[Array, Array]:
        """Return the coordinates ``Vv`` and the part of ``v`` outside the span of ``V``."""
        return split(self.V, v)

    def solve(self, v: Array) -> Array:
        """Return ``A^-1 v``, by Woodbury. What may be rounding is not divided by a small alpha."""
        p, r = self.split(v)
        if float(r @ r) <= GROWTH_TOLERANCE * float(v @ v):
            r = np.zeros_like(r)
        return r / self.alpha + (p / (self.alpha + self.ev)) @ self.V

    def forget(self, kept: float) -> None:
        """Shrink the eigenvalues and the tail."""
        self.ev = kept * self.ev
        self.tail *= kept

    def update(self, ghat: Array) -> None:
        """Absorb nothing: with ``m = 0`` SON is online gradient descent with step 1/alpha."""


class AdaGrad(Sketch):
    """Diagonal AdaGrad as a matrix: ``A = alpha diag(sqrt(G))``, ``G`` the sums of squares.

    It is the paper's baseline. ``update`` takes the gradient itself, not the to-sketch vector.
    A coordinate that never had a gradient has ``G = 0`` and weight 0: it is left alone.
    """

    def __init__(self, d: int, alpha: float) -> None:
        super().__init__(d, alpha)
        self.G: Array = np.zeros(d)

    def forget(self, kept: float) -> None:
        """Shrink the root of G, which is A."""
        self.G = kept**2 * self.G

    def update(self, ghat: Array) -> None:
        """Add the squares of a gradient."""
        self.G = self.G + ghat**2

    def solve(self, v: Array) -> Array:
        """Return ``A^-1 v``, 0 where ``A`` is 0."""
        root = np.sqrt(self.G)
        return np.divide(v, self.alpha * root, out=np.zeros_like(v), where=root > 0.0)


def oja_rotation(V: Array, p: Array, ghat: Array, step: float) -> Array:
    """Orthonormalise the rows of ``V + step p ghat'`` in order.

    ``V`` has orthonormal rows and ``p = V ghat``.
    The Gram matrix of the new rows is ``I + c pp'`` with ``c = 2 step + step^2 |ghat|^2``. With
    ``s_0 = 1, s_i = s_(i-1) + c p_i^2`` its Cholesky factor has a closed form, and so has the
    result of Gram-Schmidt:

        row i = (s_(i-1) V_i - c p_i sum_(j<i) p_j V_j + step p_i ghat) / sqrt(s_(i-1) s_i).

    Every term has norm at most 1, so this keeps its digits where a QR of rows that nearly all
    point along ``ghat`` (``step |ghat|^2 >> 1``) does not.

    Examples
    --------
    >>> V = np.eye(2, 3)
    >>> ghat = np.array([1.0, 2.0, 2.0])
    >>> new = oja_rotation(V, V @ ghat, ghat, step=0.5)
    >>> bool(np.allclose(new @ new.T, np.eye(2)))
    True
    """
    c = 2.0 * step + step * step * float(ghat @ ghat)
    s = 1.0 + c * np.concatenate([[0.0], np.cumsum(p * p)])
    before, after = s[:-1], s[1:]
    weighted = p[:, None] * V
    earlier = np.cumsum(weighted, axis=0) - weighted  # sum over j < i of p_j V_j
    rows = before[:, None] * V + p[:, None] * (step * ghat[None, :] - c * earlier)
    rows = rows / np.sqrt(before * after)[:, None]
    return orthonormalise(rows)  # already orthonormal to rounding: keeps it so for ever


def orthonormalise(rows: Array) -> Array:
    """Gram-Schmidt of the rows in order (positive diagonal), by Householder QR."""
    Q, R = np.linalg.qr(rows.T)
    return Q.T * np.where(np.diag(R) < 0.0, -1.0, 1.0)[:, None]


def triangle(rows: Array) -> Array:
    """Return the triangular ``R`` with ``R'R = rows' rows``."""
    return np.asarray(np.linalg.qr(rows)[1])


def random_start(features: int, m: int, dimension: int = 2**18, seed: int = 0) -> Array:
    """Draw the start of Alg. 3 Init l.1: orthonormal rows over `dimension` features.

    The data has only the first `features` of them. Of the others only the inner products matter,
    so ``m`` columns stand for them, in which the rows of the data are to be 0.

    Parameters
    ----------
    features : int
        Features of the data, the intercept included.
    m : int
        Rows.
    dimension : int
        Features over which the rows are drawn; 2**18 is the size of Vowpal Wabbit's hash table.
    seed : int
        Of the random numbers.

    Returns
    -------
    array of shape (m, features + m)
        Orthonormal rows.

    Examples
    --------
    >>> V0 = random_start(features=5, m=2, dimension=100)
    >>> V0.shape, bool(np.allclose(V0 @ V0.T, np.eye(2)))
    ((2, 7), True)
    """
    normal = np.random.default_rng(seed).standard_normal((dimension, m))
    rows = np.linalg.qr(normal)[0]
    return np.hstack([rows[:features].T, np.linalg.qr(rows[features:])[1].T])


class Oja(LowRank):
    """Oja's sketch (Algorithm 3, equation 4).

    Parameters
    ----------
    d, alpha
        See `Sketch`.
    m : int
        Rows of ``V``.
    V0 : array of shape (m, d), optional
        The start with orthonormal rows of Alg. 3 Init l.1. Without it the rows grow from the
        data: the residuals of the first ``m`` linearly independent to-sketch vectors. (A random
        start needs ``d``, random numbers, and on sparse data hardly meets the gradients.)
    step : float or "scale-free", default=1.0
        ``Gamma_t = min(step/t, 1) I``, or ``m / sum |ghat|^2`` with summed eigenvalues.
    """

    def __init__(
        self,
        d: int,
        alpha: float,
        m: int,
        V0: Array | None = None,
        step: float | str = 1.0,
    ) -> None:
        super().__init__(d, alpha)
        self.m = m
        self.step = step
        self.t = 0.0  # Alg. 3 Init l.1
        self.energy = 0.0
        if V0 is not None:
            self.V = np.array(V0, dtype=np.float64)  # Alg. 3 Init l.1: any orthonormal rows
            self.ev = np.zeros(m)  # Alg. 3 Init l.1: Lambda = 0

    def forget(self, kept: float) -> None:
        """Shrink what the steps are divided by, too."""
        super().forget(kept)
        self.t *= kept
        self.energy *= kept

    def update(self, ghat: Array) -> None:
        """Update eigenvalues and eigenvectors by equation 4; a zero vector only counts."""
        self.t += 1  # Alg. 3 Update l.1
        norm2 = float(ghat @ ghat)
        if norm2 == 0.0:
            return
        self.energy += norm2
        p, residual = self.split(ghat)
        rho2 = float(residual @ residual)
        grow = len(self.V) < min(self.m, self.dimension) and rho2 > GROWTH_TOLERANCE * norm2

        # Eq. 4, left: Lambda = (1 - Gamma) Lambda + Gamma diag(V ghat)^2, kept as ev = t Lambda
        # (Alg. 3 Update l.2-3 need only t Lambda). With Gamma = 1/t it is a plain sum.
        t = self.t
        if self.step == "scale-free":
            gamma, keep, gain = self.m / self.energy, 1.0, 1.0
        elif self.step == 1.0:
            gamma, keep, gain = 1.0 / t, 1.0, 1.0
        else:
            gamma = min(float(self.step) / t, 1.0)
            keep = (1.0 - gamma) * t / (t - 1) if t > 1 else 0.0
            gain = gamma * t
        self.ev = keep * self.ev + gain * p * p

        if grow:  # departure: the start from the data, instead of a rotation
            self.V = np.vstack([self.V, residual / math.sqrt(rho2)])
            self.ev = np.append(self.ev, gain * rho2)
        else:  # Eq. 4, right: V <-orth- V + Gamma V ghat ghat'
            self.V = oja_rotation(self.V, p, ghat, gamma)


class Eigen(LowRank):
    """Common part of FD, robust FD and isotropic: the exact eigensystem after one more row."""

    def __init__(self, d: int, alpha: float, m: int) -> None:
        super().__init__(d, alpha)
        self.m = m

    def insert(self, ghat: Array) -> None:
        """Replace (V, ev) by the eigensystem of ``V' diag(ev) V + ghat ghat'``, largest first.

        Alg. 2 Update l.1-2 before shrinking. In the basis (V; residual/rho) that matrix is
        ``diag(ev, 0) + qq'`` with ``q = (V ghat, rho)``. We take the singular values of its root
        ``[[diag(sqrt(ev)), 0], [q]]``: small eigenvalues keep twice the digits.
        """
        p, residual = self.split(ghat)
        rho = float(np.linalg.norm(residual))
        k = len(self.ev)
        basis = self.V
        root = np.vstack([np.diag(np.sqrt(self.ev)), p])
        if rho > 1e-14 * float(np.linalg.norm(ghat)):  # less could not survive the drop below
            basis = np.vstack([basis, residual / rho])
            root = np.hstack([root, np.append(np.zeros(k), rho)[:, None]])
        _, singular, U = np.linalg.svd(root, full_matrices=False)
        self.ev = singular**2
        self.V = orthonormalise(U @ basis)
        self.keep(self.ev > DROP_TOLERANCE * self.ev[0])

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keep only the directions for which ``which`` is true."""
        self.V, self.ev = self.V[which], self.ev[which]


class FrequentDirections(Eigen):
    """Frequent Directions, one eigensystem per round (Algorithm 2); at most ``m-1`` rows.

    Attributes
    ----------
    shrunk : float
        The sum of all ``rho_t`` so far, at most ``Omega_k/(m-k)`` for every ``k < m``.
    """

    def __init__(self, d: int, alpha: float, m: int) -> None:
        super().__init__(d, alpha, m)  # Alg. 2 Init l.1: S = 0, H = I/alpha
        self.shrunk = 0.0

    def update(self, ghat: Array) -> None:
        """Insert the vector; shrink when there are ``m`` rows."""
        if not ghat.any():
            return
        self.insert(ghat)  # Alg. 2 Update l.1-2
        if len(self.ev) >= self.m:
            rho, largest = float(self.ev[-1]), float(self.ev[0])
            self.ev = self.ev - rho  # Alg. 2 Update l.2: Sigma - Sigma_mm I
            self.keep(self.ev > DROP_TOLERANCE * largest)  # the last row is 0
            self.shrunk += rho
            self.tail += self.tail_share * rho

    tail_share = 0.0
    """Plain FD forgets what it shrinks."""


class RobustFrequentDirections(FrequentDirections):
    """Robust FD (Luo et al., JMLR 2019): half of every ``rho_t`` goes to ``alpha``."""

    tail_share = 0.5


class Isotropic(Eigen):
    """Keep the ``m`` largest eigenvalues unshrunk, spread the discarded ones over the rest.

    Not in the paper. With ``D`` features, ``tail += lambda/(D - m)``: then
    ``sum ghat' A^-1 ghat <= ln |A_T|/|A_0|`` holds as for the full matrix.
    """

    def update(self, ghat: Array) -> None:
        """Insert the vector; drop the last of ``m+1`` rows into the tail."""
        self.update_times(ghat, 1)

    def update_times(self, ghat: Array, times: int) -> None:
        """Insert the vector, no heavier than the weakest row; the rest counts in the tail."""
        if times == 0 or not ghat.any():
            return
        counted = float(times)
        if self.m > 0 and len(self.ev) == self.m:
            counted = min(max(float(self.ev[-1]) / float(ghat @ ghat), 1.0), counted)
        self.insert(math.sqrt(counted) * ghat)
        if len(self.ev) > self.m:
            share = times / counted
            self.tail += share * float(self.ev[-1]) / max(self.dimension - self.m, 1)
            self.V, self.ev = self.V[:-1], self.ev[:-1]


class FullMatrix(Sketch):
    """The matrix of equation 2, ``A_t = alpha I + sum ghat ghat'``; ``alpha = 0`` is allowed.

    It is held as ``Q' R'R Q`` with ``Q`` an orthonormal basis of the span of all ``ghat`` and
    ``R`` triangular, so that nothing is ever squared and the rank is known without an eigenvalue
    threshold.

    With ``alpha = 0`` the inverse is the pseudo-inverse and `project` follows Lemma 2. Where
    ``x`` is outside the range of ``A`` every ``w + n`` with ``An = 0`` and ``|x.(w+n)| <= C``
    minimises ("one of the many possible solutions"), and the one that the lemma writes down
    depends on the coordinates: with it the predictions on ``x`` and ``Mx`` differ as soon as the
    rank grows. We take the minimiser that predicts 0 (the lemma's formula with C = 0). Then the
    predictions are the same for every invertible ``M``, and the regret bound, which holds for any
    minimiser, stays.
    """

    def __init__(self, d: int, alpha: float) -> None:
        super().__init__(d, alpha)
        self.Q: Array = np.zeros((0, d))
        self.R: Array = np.zeros((0, 0))

    def outside(self, v: Array) -> bool:
        """Whether ``v`` is outside the span of all that was absorbed."""
        _, r = split(self.Q, v)
        return float(r @ r) > GROWTH_TOLERANCE * float(v @ v)

    def forget(self, kept: float) -> None:
        """Shrink the root."""
        self.R = math.sqrt(kept) * self.R

    def update(self, ghat: Array) -> None:
        """Add ``ghat ghat'``."""
        if not ghat.any():
            return
        row, residual = split(self.Q, ghat)
        R = self.R
        if self.outside(ghat):
            rho = float(np.linalg.norm(residual))
            self.Q = np.vstack([self.Q, residual / rho])
            row = np.append(row, rho)
            R = np.hstack([R, np.zeros((len(R), 1))])
        self.R = triangle(np.vstack([R, row]))

    def solve(self, v: Array) -> Array:
        """Return ``A^-1 v``, or ``A^+ v`` when alpha is 0."""
        p, r = split(self.Q, v)
        T = self.R
        if self.alpha > 0.0:
            T = triangle(np.vstack([T, math.sqrt(self.alpha) * np.eye(len(T))]))
        inside = np.linalg.solve(T, np.linalg.solve(T.T, p)) @ self.Q
        return inside + r / self.alpha if self.alpha > 0.0 else inside

    def project(self, w: Array, x: Array, bound: float) -> tuple[Array, float]:
        """Lemma 2: as Lemma 1, and for ``x`` outside the range the minimiser that predicts 0."""
        if self.alpha > 0.0 or not self.outside(x):
            return super().project(w, x, bound)
        _, direction = split(self.Q, x)  # (I - A^+ A) x
        return w - (float(w @ x) / float(x @ direction)) * direction, 0.0

    @property
    def V(self) -> Array:  # noqa: N802 - the paper's letter
        """Eigenvectors of ``A - alpha I`` as rows, largest eigenvalue first."""
        return np.asarray(np.linalg.svd(self.R)[2] @ self.Q)

    @property
    def ev(self) -> Array:
        """Eigenvalues that belong to `V`."""
        return np.asarray(np.linalg.svd(self.R, compute_uv=False) ** 2)

    @property
    def S(self) -> Array:  # noqa: N802 - the paper's letter
        """A square root of ``sum ghat ghat'``."""
        return self.R @ self.Q

    @property
    def H(self) -> Array:  # noqa: N802 - the paper's letter
        """``(alpha I + S S')^-1``."""
        return np.asarray(np.linalg.inv(self.alpha * np.eye(len(self.R)) + self.R @ self.R.T))
