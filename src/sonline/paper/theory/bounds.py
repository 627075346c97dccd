"""Upper bounds on the regret, as functions of measured quantities.

Theorems 2 to 4 are the paper's, Theorem A is that of the isotropic sketch. They hold for learners
that project (``|w_t.x_t| <= C`` in every round), losses with ``|l'| <= L`` on ``[-C, C]`` and
curvature at least ``sigma`` (Assumptions 1 and 2), steps ``eta_t`` that do not increase, and every
comparator ``w`` with ``|w.x_t| <= C`` on every row. `measure` collects what they need from a
finished stream. Below, ``s = sigma + eta_T``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sonline.errors import InvalidInputError
from sonline.paper.reference.sketches import Array
from sonline.paper.theory.measured import Measured, checked_etas


@dataclass(frozen=True)
class Assumptions:
    """The constants of Assumptions 1 and 2, and the steps.

    Parameters
    ----------
    bound, lipschitz : float
        ``C`` and ``L``.
    sigma : float, default=0.0
        Curvature.
    etas : array of shape (rounds,), optional
        ``eta_t``, all 0 by default.
    """

    bound: float
    lipschitz: float
    sigma: float = 0.0
    etas: ArrayLike | None = None

    def eta_terms(self) -> tuple[float, float]:
        """Return ``2 (C L)^2 sum eta_t`` and ``s``."""
        array = np.zeros(1) if self.etas is None else checked_etas(self.etas)
        s = self.sigma + float(array[-1])
        if s <= 0.0:
            raise InvalidInputError(
                f"sigma + eta_T must be positive, got {s!r}; pass sigma or etas"
            )
        return 2.0 * (self.bound * self.lipschitz) ** 2 * float(array.sum()), s


def convex_etas(rounds: int, d: int, bound: float, lipschitz: float) -> Array:
    """Return the steps for losses without curvature, ``eta_t = sqrt(d/t)/(C L)``.

    Examples
    --------
    >>> print(convex_etas(rounds=4, d=1, bound=1.0, lipschitz=2.0).round(3))
    [0.5   0.354 0.289 0.25 ]
    """
    return np.sqrt(d / np.arange(1, rounds + 1)) / (bound * lipschitz)


def theorem2_bound(
    measured: Measured, assumed: Assumptions, *, comparator_norm2: float, alpha: float
) -> float:
    """Theorem 2, the full matrix ``A_t = alpha I + sum (sigma + eta) g g'``.

    ``alpha/2 |w|^2 + 2(CL)^2 sum eta_t + d/(2 s) ln(1 + s sum|g_t|^2/(d alpha))``. Without etas it
    is equation 3.

    Parameters
    ----------
    measured, assumed
        The stream, and the constants.
    comparator_norm2 : float
        ``|w|^2`` of the comparator.
    alpha : float
        The regulariser.

    Examples
    --------
    >>> stream = Measured(100, 2, 80.0, np.array([16.0, 8.0]), 2, 0.5)
    >>> assumed = Assumptions(bound=1.0, lipschitz=2.0, sigma=0.25)
    >>> round(theorem2_bound(stream, assumed, comparator_norm2=1.0, alpha=2.0), 4)
    8.167
    """
    eta_term, s = assumed.eta_terms()
    d = measured.d
    logarithm = math.log1p(s * measured.gradient_energy / (d * alpha))
    return 0.5 * alpha * comparator_norm2 + eta_term + d / (2.0 * s) * logarithm


def theorem2_convex_bound(
    measured: Measured, assumed: Assumptions, *, comparator_norm2: float, alpha: float
) -> float:
    """Theorem 2 for losses without curvature, with `convex_etas` (sigma = 0).

    ``alpha/2 |w|^2 + CL/2 sqrt(Td) ln(1 + sum|g_t|^2/(alpha CL sqrt(Td))) + 4 CL sqrt(Td)``. The
    last term uses ``sum 1/sqrt(t) <= 2 sqrt(T)``, so this is a little above `theorem2_bound`, which
    has the parameters.

    Examples
    --------
    >>> stream = Measured(100, 4, 0.0, np.zeros(4), 0, float("inf"))
    >>> assumed = Assumptions(bound=1.0, lipschitz=1.0)
    >>> theorem2_convex_bound(stream, assumed, comparator_norm2=1.0, alpha=2.0)
    81.0
    """
    scale = assumed.bound * assumed.lipschitz * math.sqrt(measured.rounds * measured.d)
    logarithm = math.log1p(measured.gradient_energy / (alpha * scale))
    return 0.5 * alpha * comparator_norm2 + 0.5 * scale * logarithm + 4.0 * scale


def theorem3_bound(
    measured: Measured,
    assumed: Assumptions,
    *,
    comparator_norm2: float,
    alpha: float,
    m: int,
    sketch_trace: float,
    k: int | None = None,
) -> float:
    """Theorem 3, Frequent Directions with sketch size m (at most m-1 directions kept).

    ``alpha/2 |w|^2 + 2(CL)^2 sum eta_t + m/(2 s) ln(1 + tr(S'S)/(m alpha))
    + m Omega_k/(2 (m-k) s alpha)`` with ``Omega_k`` the sum of all but the k largest eigenvalues of
    ``sum ghat ghat'``. (Its proof says that ``S_T'S_T`` has rank m; it is at most m-1, so the bound
    also holds with m-1 in place of m in the logarithmic term. Here it is as printed.)

    Parameters
    ----------
    measured, assumed, comparator_norm2, alpha
        See `theorem2_bound`.
    m : int
        Sketch size, at least 1.
    sketch_trace : float
        ``tr(S_T'S_T)``, the sum of the eigenvalues of the sketch.
    k : int, optional
        One of 0, ..., m-1; by default the one with the smallest bound.

    Examples
    --------
    >>> stream = Measured(100, 4, 80.0, np.array([16.0, 8.0, 1.0, 1.0]), 4, 0.5)
    >>> known = {"comparator_norm2": 1.0, "alpha": 2.0, "m": 3, "sketch_trace": 20.0}
    >>> round(theorem3_bound(stream, Assumptions(1.0, 2.0, sigma=0.25), **known), 4)
    15.798
    """
    eta_term, s = assumed.eta_terms()
    if m < 1 or (k is not None and not 0 <= k < m):
        raise InvalidInputError(f"Theorem 3 needs 0 <= k < m, got k = {k!r} and m = {m!r}")
    values = np.sort(measured.spectrum)[::-1]
    penalty = min(
        m * float(values[i:].sum()) / (2.0 * (m - i) * s * alpha)
        for i in (range(m) if k is None else [k])
    )
    logarithm = m / (2.0 * s) * math.log1p(sketch_trace / (m * alpha))
    return 0.5 * alpha * comparator_norm2 + eta_term + logarithm + penalty


def isotropic_bound(
    measured: Measured,
    assumed: Assumptions,
    *,
    comparator_norm2: float,
    alpha: float,
    eigenvalues: ArrayLike,
    tail: float,
    tail_cost: float,
) -> float:
    """Theorem A, the isotropic sketch; not in the paper (proof: the page "Theory you can run").

    ``alpha/2 |w|^2 + 2(CL)^2 sum eta_t + ln(|A_T|/|A_0|)/(2 s) + 1/2 sum delta_t |w_t - w|^2``,
    where ``delta_t`` is what round t adds to the tail and ``|A_T|/|A_0|`` follows from the
    eigenvalues and the tail.

    Parameters
    ----------
    measured, assumed, comparator_norm2, alpha
        See `theorem2_bound`.
    eigenvalues : array of at most d numbers
        Those of the sketch after the last round.
    tail : float
        ``sum delta_t``, the tail of the sketch after the last round.
    tail_cost : float
        ``sum delta_t |w_t - w|^2`` from `isotropic_tail_cost`.

    Examples
    --------
    >>> stream = Measured(100, 4, 80.0, np.array([16.0, 8.0, 1.0, 1.0]), 4, 0.5)
    >>> known = {"comparator_norm2": 1.0, "alpha": 2.0, "eigenvalues": [16.0, 8.0], "tail": 1.0}
    >>> round(isotropic_bound(stream, Assumptions(1.0, 2.0, 0.25), **known, tail_cost=0.5), 4)
    10.7839
    """
    eta_term, s = assumed.eta_terms()
    kept = np.asarray(eigenvalues, dtype=np.float64)
    log_det = float(np.log1p((tail + kept) / alpha).sum())
    log_det += (measured.d - kept.size) * math.log1p(tail / alpha)
    return 0.5 * (alpha * comparator_norm2 + tail_cost + log_det / s) + eta_term


def mixture_bound(
    members: int, rate: float, *, rounds: int = 1, changes: int = 0, share: float = 0.0
) -> float:
    """Bound what a mixture by exponential weights loses to its best sequence of members.

    ``(ln N + k ln(N/share) + (T-1-k) ln(1/(1-share)))/rate`` for k changes of the best member in T
    rounds (Herbster and Warmuth 1998); ``ln N/rate`` without a fixed share. The prediction is the
    mean of the members' raw predictions, weighted by their shares, and ``exp(-rate loss)`` must be
    concave in it: for predictions (and numeric labels) in ``[-C, C]`` up to a rate of ``exp(-C)``
    for the logistic loss, ``1/(4 C^2)`` for half the squared error.

    Parameters
    ----------
    members : int
        ``N``, at least 1.
    rate : float
        The shares are multiplied by ``exp(-rate loss)``.
    rounds, changes : int
        ``T``, and how often the best member changes, less than T times.
    share : float, default=0.0
        The part of all shares that is spread evenly after each round.

    Examples
    --------
    >>> round(mixture_bound(4, 0.25), 4)
    5.5452
    >>> round(mixture_bound(4, 0.25, rounds=1000, changes=2, share=0.002), 4)
    74.3364
    """
    if members < 1 or not rate > 0.0 or not 0.0 <= share < 1.0 or not 0 <= changes < rounds:
        raise InvalidInputError(
            "a mixture needs members >= 1, rate > 0, 0 <= share < 1 and 0 <= changes < rounds; got "
            f"{members!r}, {rate!r}, {share!r}, {changes!r} and {rounds!r}"
        )
    if changes and not share:
        return math.inf
    switches = changes * math.log(members / share) if changes else 0.0
    return (math.log(members) + switches - (rounds - 1 - changes) * math.log1p(-share)) / rate


def theorem4_bound(measured: Measured) -> float:
    """Theorem 4: a bound on ``sum g_t' A_t^+ g_t`` with ``A_t = sum_(s<=t) g_s g_s'``.

    ``r + (1+r) r/2 ln(1 + 2 sum|g_t|^2/((1+r) r lambda*))``.

    Examples
    --------
    >>> round(theorem4_bound(Measured(100, 4, 10.0, np.zeros(4), 2, 0.5)), 4)
    8.1106
    """
    rank = measured.rank
    if rank == 0:
        return 0.0
    pairs = 0.5 * (1 + rank) * rank
    energy = measured.gradient_energy
    return rank + pairs * math.log1p(energy / (pairs * measured.smallest_eigenvalue))


def pseudo_inverse_bound(measured: Measured, assumed: Assumptions) -> float:
    """Equation 8 with Theorem 4: the full matrix with alpha = 0, for any steps.

    ``1/(2 s) theorem4 + 2(CL)^2 sum eta_t``. The paper prints the last term without its sum. There
    is no norm of the comparator in it: the method is invariant. Without etas it is Corollary 1 for
    curved losses.

    Examples
    --------
    >>> stream = Measured(100, 4, 10.0, np.zeros(4), 2, 0.5)
    >>> round(pseudo_inverse_bound(stream, Assumptions(1.0, 2.0, sigma=0.25)), 4)
    16.2213
    """
    eta_term, s = assumed.eta_terms()
    return theorem4_bound(measured) / (2.0 * s) + eta_term


def corollary1_convex_bound(measured: Measured, assumed: Assumptions) -> float:
    """Corollary 1 for losses without curvature, with `convex_etas`.

    ``CL/2 sqrt(T/d) theorem4 + 4 CL sqrt(Td)``.

    Examples
    --------
    >>> stream = Measured(100, 4, 10.0, np.zeros(4), 2, 0.5)
    >>> round(corollary1_convex_bound(stream, Assumptions(1.0, 1.0)), 4)
    100.2766
    """
    scale, T, d = assumed.bound * assumed.lipschitz, measured.rounds, measured.d
    gradient_term = 0.5 * scale * math.sqrt(T / d) * theorem4_bound(measured)
    return gradient_term + 4.0 * scale * math.sqrt(T * d)
