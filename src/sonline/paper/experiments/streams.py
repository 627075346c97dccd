"""Synthetic streams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sonline.errors import ParameterError

LARGE_DIRECTIONS = 10
DIMENSION = 100


def ill_conditioned(
    kappa: float, rounds: int = 10_000, dimension: int = DIMENSION, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows and labels of the stream of the paper's Fig. 1.

    Rows are ``z diag(spectrum)^(1/2) V'`` with standard Gaussian ``z``, a random orthonormal basis
    ``V`` and a spectrum of ones but for the last ten numbers, which rise linearly to ``kappa``.

    The paper wants the same labels for every ``kappa``, which ``sign(theta.x)`` with one ``theta``
    cannot give: labels here are ``sign(theta.z)``. They, ``z`` and ``V`` depend on the seed only,
    so a learner that is invariant to linear maps makes the same mistakes at every ``kappa``.

    Parameters
    ----------
    kappa : float
        The condition number, at least 1.
    rounds : int
        Rows.
    dimension : int
        Features, more than 10.
    seed : int
        Chooses ``z``, ``V`` and ``theta``.

    Returns
    -------
    X : array of shape (rounds, dimension)
        The rows.
    y : array of shape (rounds,)
        Labels, -1 and +1.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.paper.experiments import ill_conditioned
    >>> X, y = ill_conditioned(100, rounds=5000)
    >>> ratio = np.linalg.cond(X.T @ X)  # of the sample; 100 for infinitely many rows
    >>> bool(50 < ratio < 200)
    True
    """
    if not kappa >= 1:
        raise ParameterError(f"kappa must be a number of at least 1, got {kappa!r}")
    if dimension <= LARGE_DIRECTIONS:
        raise ParameterError(f"dimension must be more than {LARGE_DIRECTIONS}, got {dimension!r}")
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((rounds, dimension))
    basis, _ = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    theta = rng.standard_normal(dimension)
    spectrum = np.ones(dimension)
    spectrum[-LARGE_DIRECTIONS:] = np.linspace(1, kappa, LARGE_DIRECTIONS + 1)[1:]
    return (z * np.sqrt(spectrum)) @ basis.T, np.where(z @ theta > 0, 1.0, -1.0)
