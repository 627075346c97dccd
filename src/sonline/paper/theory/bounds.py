"""The upper bounds of the paper on the regret, as functions of measured quantities.

All of them hold for learners that project (``|w_t.x_t| <= C`` in every round), losses with
``|l'| <= L`` on ``[-C, C]`` and curvature at least ``sigma`` (Assumptions 1 and 2), steps
``eta_t`` that do not increase, and every comparator ``w`` with ``|w.x_t| <= C`` on every row.
`measure` collects what they need from a finished stream.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sonline.errors import InvalidInputError
from sonline.paper.theory.measured import Array, checked_etas


def _eta_terms(
    etas: ArrayLike | None, sigma: float, bound: float, lipschitz: float
) -> tuple[float, float]:
    """Return ``2 (C L)^2 sum eta_t`` and ``sigma + eta_T``."""
    array = np.zeros(1) if etas is None else checked_etas(etas)
    curvature = sigma + float(array[-1])
    if curvature <= 0.0:
        raise InvalidInputError(
            f"sigma + eta_T must be positive, got {curvature!r}; pass sigma or etas"
        )
    return 2.0 * (bound * lipschitz) ** 2 * float(array.sum()), curvature


def convex_etas(rounds: int, d: int, bound: float, lipschitz: float) -> Array:
    """Return the steps for losses without curvature, ``eta_t = sqrt(d/t)/(C L)``.

    Examples
    --------
    >>> print(convex_etas(rounds=4, d=1, bound=1.0, lipschitz=2.0).round(3))
    [0.5   0.354 0.289 0.25 ]
    """
    return np.sqrt(d / np.arange(1, rounds + 1)) / (bound * lipschitz)


def theorem2_bound(
    *,
    comparator_norm2: float,
    alpha: float,
    gradient_energy: float,
    d: int,
    bound: float,
    lipschitz: float,
    sigma: float = 0.0,
    etas: ArrayLike | None = None,
) -> float:
    """Theorem 2, the full matrix ``A_t = alpha I + sum (sigma + eta) g g'``.

    ``alpha/2 |w|^2 + 2(CL)^2 sum eta_t + d/(2 s) ln(1 + s sum|g_t|^2/(d alpha))`` with
    ``s = sigma + eta_T``.

    Parameters
    ----------
    comparator_norm2 : float
        ``|w|^2`` of the comparator.
    alpha : float
        The regulariser.
    gradient_energy, d
        See `Measured`.
    bound, lipschitz : float
        ``C`` and ``L``.
    sigma : float, default=0.0
        Curvature.
    etas : array of shape (rounds,), optional
        ``eta_t``, all 0 by default.

    Returns
    -------
    float
        The bound on the regret.

    Examples
    --------
    >>> round(
    ...     theorem2_bound(
    ...         comparator_norm2=1.0,
    ...         alpha=2.0,
    ...         gradient_energy=80.0,
    ...         d=2,
    ...         bound=1.0,
    ...         lipschitz=2.0,
    ...         sigma=0.25,
    ...     ),
    ...     4,
    ... )
    8.167
    """
    eta_term, curvature = _eta_terms(etas, sigma, bound, lipschitz)
    logarithm = math.log1p(curvature * gradient_energy / (d * alpha))
    return 0.5 * alpha * comparator_norm2 + eta_term + d / (2.0 * curvature) * logarithm


def theorem2_convex_bound(
    *,
    comparator_norm2: float,
    alpha: float,
    gradient_energy: float,
    d: int,
    rounds: int,
    bound: float,
    lipschitz: float,
) -> float:
    """Theorem 2 for losses without curvature, with `convex_etas` (sigma = 0).

    ``alpha/2 |w|^2 + CL/2 sqrt(Td) ln(1 + sum|g_t|^2/(alpha CL sqrt(Td))) + 4 CL sqrt(Td)``. The
    last term uses ``sum 1/sqrt(t) <= 2 sqrt(T)``, so this is a little above `theorem2_bound`.

    Parameters
    ----------
    comparator_norm2, alpha, gradient_energy, d, bound, lipschitz
        See `theorem2_bound`.
    rounds : int
        ``T``.

    Returns
    -------
    float
        The bound on the regret.

    Examples
    --------
    >>> round(
    ...     theorem2_convex_bound(
    ...         comparator_norm2=1.0,
    ...         alpha=2.0,
    ...         gradient_energy=0.0,
    ...         d=4,
    ...         rounds=100,
    ...         bound=1.0,
    ...         lipschitz=1.0,
    ...     ),
    ...     4,
    ... )
    81.0
    """
    scale = bound * lipschitz * math.sqrt(rounds * d)
    logarithm = math.log1p(gradient_energy / (alpha * scale))
    return 0.5 * alpha * comparator_norm2 + 0.5 * scale * logarithm + 4.0 * scale


def theorem2_curved_bound(
    *, comparator_norm2: float, alpha: float, gradient_energy: float, d: int, sigma: float
) -> float:
    """Theorem 2 for curved losses, sigma > 0 and eta = 0 (equation 3).

    ``alpha/2 |w|^2 + d/(2 sigma) ln(1 + sigma sum|g_t|^2/(d alpha))``.

    Parameters
    ----------
    comparator_norm2, alpha, gradient_energy, d, sigma
        See `theorem2_bound`.

    Returns
    -------
    float
        The bound on the regret.

    Examples
    --------
    >>> round(
    ...     theorem2_curved_bound(
    ...         comparator_norm2=1.0, alpha=2.0, gradient_energy=80.0, d=2, sigma=0.25
    ...     ),
    ...     4,
    ... )
    8.167
    """
    return theorem2_bound(
        comparator_norm2=comparator_norm2,
        alpha=alpha,
        gradient_energy=gradient_energy,
        d=d,
        bound=1.0,  # multiplies the sum of the etas, which is 0
        lipschitz=1.0,
        sigma=sigma,
    )


def theorem3_bound(
    *,
    comparator_norm2: float,
    alpha: float,
    m: int,
    sketch_trace: float,
    spectrum: ArrayLike,
    bound: float,
    lipschitz: float,
    sigma: float = 0.0,
    etas: ArrayLike | None = None,
    k: int | None = None,
) -> float:
    """Theorem 3, Frequent Directions with sketch size m (at most m-1 directions kept).

    ``alpha/2 |w|^2 + 2(CL)^2 sum eta_t + m/(2 s) ln(1 + tr(S'S)/(m alpha))
    + m Omega_k/(2 (m-k) s alpha)`` with ``s = sigma + eta_T`` and ``Omega_k`` the sum of all but
    the k largest eigenvalues of ``sum ghat ghat'``. (Its proof says that ``S_T'S_T`` has rank m;
    it is at most m-1, so the bound also holds with m-1 in place of m in the logarithmic term.
    Here it is as printed.)

    Parameters
    ----------
    comparator_norm2, alpha, bound, lipschitz, sigma, etas
        See `theorem2_bound`.
    m : int
        Sketch size, at least 1.
    sketch_trace : float
        ``tr(S_T'S_T)``, the sum of the eigenvalues of the sketch.
    spectrum : array
        See `Measured`.
    k : int, optional
        One of 0, ..., m-1; by default the one with the smallest bound.

    Returns
    -------
    float
        The bound on the regret.

    Examples
    --------
    >>> round(
    ...     theorem3_bound(
    ...         comparator_norm2=1.0,
    ...         alpha=2.0,
    ...         m=3,
    ...         sketch_trace=20.0,
    ...         spectrum=[16.0, 8.0, 1.0, 1.0],
    ...         bound=1.0,
    ...         lipschitz=2.0,
    ...         sigma=0.25,
    ...     ),
    ...     4,
    ... )
    15.798
    """
    eta_term, curvature = _eta_terms(etas, sigma, bound, lipschitz)
    if m < 1 or (k is not None and not 0 <= k < m):
        raise InvalidInputError(f"Theorem 3 needs 0 <= k < m, got k = {k!r} and m = {m!r}")
    values = np.sort(np.asarray(spectrum, dtype=np.float64))[::-1]
    penalty = min(
        m * float(values[i:].sum()) / (2.0 * (m - i) * curvature * alpha)
        for i in (range(m) if k is None else [k])
    )
    logarithm = m / (2.0 * curvature) * math.log1p(sketch_trace / (m * alpha))
    return 0.5 * alpha * comparator_norm2 + eta_term + logarithm + penalty


def theorem4_bound(*, gradient_energy: float, rank: int, smallest_eigenvalue: float) -> float:
    """Theorem 4: a bound on ``sum g_t' A_t^+ g_t`` with ``A_t = sum_(s<=t) g_s g_s'``.

    ``r + (1+r) r/2 ln(1 + 2 sum|g_t|^2/((1+r) r lambda*))``.

    Parameters
    ----------
    gradient_energy, rank, smallest_eigenvalue
        See `Measured`.

    Returns
    -------
    float
        The bound on the sum.

    Examples
    --------
    >>> theorem4_bound(gradient_energy=0.0, rank=0, smallest_eigenvalue=float("inf"))
    0.0
    >>> round(theorem4_bound(gradient_energy=10.0, rank=2, smallest_eigenvalue=0.5), 4)
    8.1106
    """
    if rank == 0:
        return 0.0
    pairs = 0.5 * (1 + rank) * rank
    return rank + pairs * math.log1p(gradient_energy / (pairs * smallest_eigenvalue))


def pseudo_inverse_bound(
    *,
    gradient_energy: float,
    rank: int,
    smallest_eigenvalue: float,
    bound: float,
    lipschitz: float,
    sigma: float = 0.0,
    etas: ArrayLike | None = None,
) -> float:
    """Equation 8 with Theorem 4: the full matrix with alpha = 0, for any steps.

    ``1/(2 s) theorem4 + 2(CL)^2 sum eta_t`` with ``s = sigma + eta_T``. The paper prints the last
    term without its sum. There is no norm of the comparator in it: the method is invariant.

    Parameters
    ----------
    gradient_energy, rank, smallest_eigenvalue
        See `Measured`.
    bound, lipschitz, sigma, etas
        See `theorem2_bound`.

    Returns
    -------
    float
        The bound on the regret.

    Examples
    --------
    >>> round(
    ...     pseudo_inverse_bound(
    ...         gradient_energy=10.0,
    ...         rank=2,
    ...         smallest_eigenvalue=0.5,
    ...         bound=1.0,
    ...         lipschitz=2.0,
    ...         sigma=0.25,
    ...     ),
    ...     4,
    ... )
    16.2213
    """
    eta_term, curvature = _eta_terms(etas, sigma, bound, lipschitz)
    gradient_term = theorem4_bound(
        gradient_energy=gradient_energy, rank=rank, smallest_eigenvalue=smallest_eigenvalue
    )
    return gradient_term / (2.0 * curvature) + eta_term


def corollary1_convex_bound(
    *,
    gradient_energy: float,
    rank: int,
    smallest_eigenvalue: float,
    d: int,
    rounds: int,
    bound: float,
    lipschitz: float,
) -> float:
    """Corollary 1 for losses without curvature, with `convex_etas`.

    ``CL/2 sqrt(T/d) theorem4 + 4 CL sqrt(Td)``.

    Parameters
    ----------
    gradient_energy, rank, smallest_eigenvalue, d, rounds
        See `Measured`.
    bound, lipschitz : float
        ``C`` and ``L``.

    Returns
    -------
    float
        The bound on the regret.

    Examples
    --------
    >>> round(
    ...     corollary1_convex_bound(
    ...         gradient_energy=10.0,
    ...         rank=2,
    ...         smallest_eigenvalue=0.5,
    ...         d=4,
    ...         rounds=100,
    ...         bound=1.0,
    ...         lipschitz=1.0,
    ...     ),
    ...     4,
    ... )
    100.2766
    """
    gradient_term = theorem4_bound(
        gradient_energy=gradient_energy, rank=rank, smallest_eigenvalue=smallest_eigenvalue
    )
    scale = bound * lipschitz
    return 0.5 * scale * math.sqrt(rounds / d) * gradient_term + 4.0 * scale * math.sqrt(rounds * d)


def corollary1_curved_bound(
    *, gradient_energy: float, rank: int, smallest_eigenvalue: float, sigma: float
) -> float:
    """Corollary 1 for curved losses, sigma > 0 and eta = 0: ``theorem4/(2 sigma)``.

    Parameters
    ----------
    gradient_energy, rank, smallest_eigenvalue
        See `Measured`.
    sigma : float
        Curvature.

    Returns
    -------
    float
        The bound on the regret.

    Examples
    --------
    >>> round(
    ...     corollary1_curved_bound(
    ...         gradient_energy=10.0, rank=2, smallest_eigenvalue=0.5, sigma=0.25
    ...     ),
    ...     4,
    ... )
    16.2213
    """
    return pseudo_inverse_bound(
        gradient_energy=gradient_energy,
        rank=rank,
        smallest_eigenvalue=smallest_eigenvalue,
        bound=1.0,  # multiplies the sum of the etas, which is 0
        lipschitz=1.0,
        sigma=sigma,
    )
