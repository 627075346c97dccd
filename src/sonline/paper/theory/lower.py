"""Lower bounds: Theorem 1 for every online algorithm, Theorem C for the isotropic sketch."""

from __future__ import annotations

import math

import numpy as np

from sonline.errors import InvalidInputError
from sonline.paper.reference.losses import Loss
from sonline.paper.reference.sketches import Array


def _check_sizes(rounds: int, d: int) -> None:
    if not rounds >= d >= 1:
        raise InvalidInputError(f"Theorem 1 needs rounds >= d >= 1, got {rounds} and {d}")


def theorem1_lower_bound(rounds: int, d: int, bound: float, lipschitz: float) -> float:
    """Theorem 1: ``C L sqrt(d T/2)``, which some stream forces on every algorithm if T >= d.

    Parameters
    ----------
    rounds, d : int
        ``T`` and the number of features.
    bound, lipschitz : float
        ``C`` and ``L``.

    Examples
    --------
    >>> theorem1_lower_bound(rounds=200, d=4, bound=1.0, lipschitz=1.0)
    20.0
    """
    _check_sizes(rounds, d)
    return bound * lipschitz * math.sqrt(d * rounds / 2.0)


def lower_bound_expectation(rounds: int, d: int, bound: float, lipschitz: float) -> float:
    """Return the exact mean regret of *every* algorithm on `lower_bound_stream`.

    The learner's expected loss is 0 whatever it does, and the best comparator gains
    ``C L |sum of n fair signs|`` in each feature that comes n times, whose mean is
    ``n binom(n-1, floor((n-1)/2)) / 2^(n-1)``. The proof of Theorem 1 bounds that from below by
    ``sqrt(n/2)`` (Khintchine) and assumes that d divides T; with the exact mean the theorem holds
    for every T >= d.

    Examples
    --------
    >>> lower_bound_expectation(rounds=4, d=2, bound=1.0, lipschitz=1.0)
    2.0
    >>> lower_bound_expectation(rounds=6, d=2, bound=1.0, lipschitz=1.0)
    3.0
    """
    _check_sizes(rounds, d)
    short, longer = divmod(rounds, d)
    means = longer * _mean_of_sum(short + 1) + (d - longer) * _mean_of_sum(short)
    return bound * lipschitz * means


def _mean_of_sum(n: int) -> float:
    """Return the mean of ``|xi_1 + ... + xi_n|`` for fair signs."""
    return float(n * math.comb(n - 1, (n - 1) // 2) / 2 ** (n - 1))


def lower_bound_stream(rounds: int, d: int, *, seed: int = 0) -> tuple[Array, Array]:
    """Return the stream of Theorem 1: unit vectors in turn with fair random labels -1 and +1.

    The loss is linear, ``-L y z`` (`linear_loss`). The hinge loss with ``bound <= 1`` is the same
    plus 1, with L = 1, wherever a projected learner can predict.

    Parameters
    ----------
    rounds : int
        ``T``.
    d : int
        Features.
    seed : int, default=0
        Seed of the labels.

    Returns
    -------
    X : array of shape (rounds, d)
        Rows.
    y : array of shape (rounds,)
        Labels.

    Examples
    --------
    >>> X, y = lower_bound_stream(rounds=4, d=2, seed=0)
    >>> print(X.argmax(axis=1), set(y.tolist()) <= {-1.0, 1.0})
    [0 1 0 1] True
    """
    _check_sizes(rounds, d)
    y = np.random.default_rng(seed).choice(np.array([-1.0, 1.0]), size=rounds)
    return np.eye(d)[np.arange(rounds) % d], y


def linear_loss(lipschitz: float = 1.0) -> Loss:
    """Return the loss ``-L y z`` of Theorem 1, which has no curvature at all.

    Parameters
    ----------
    lipschitz : float, default=1.0
        ``L``.

    Returns
    -------
    Loss
        The loss, for labels -1 and +1.

    Examples
    --------
    >>> linear_loss(2.0).value(0.5, -1.0)
    1.0
    """
    return Loss(
        name="linear",
        value=lambda z, y: -lipschitz * y * z,
        derivative=lambda z, y: -lipschitz * y,
        second_derivative=lambda z, y: 0.0,
        lipschitz=lambda bound: lipschitz,
        sigma=lambda bound: 0.0,
        binary=True,
    )


def block_stream(d: int, m: int, rows: int) -> tuple[Array, Array]:
    """Return a stream on which the isotropic sketch with one alpha fails.

    First m features with the value ``sqrt(2)``, once each, which fill a sketch of size m; then
    every other feature with the value 1, so many rows in a row. The label is 1 or -1, by turns of
    the feature. If the sketch takes in the second derivative of the squared loss, each of these
    rows adds its whole energy to the tail, and steps become small in the directions that are still
    to come.

    Parameters
    ----------
    d : int
        Features, more than m.
    m : int
        Sketch size.
    rows : int
        Rows for each feature after the first m.

    Returns
    -------
    X : array of shape (m + (d - m) rows, d)
        Rows.
    y : array of shape (m + (d - m) rows,)
        Labels.

    Examples
    --------
    >>> X, y = block_stream(d=3, m=1, rows=2)
    >>> print(X.argmax(axis=1), X.max(axis=1).round(3), y)
    [0 1 1 2 2] [1.414 1.    1.    1.    1.   ] [ 1. -1. -1.  1.  1.]
    """
    _check_blocks(d, m, 0)
    X = np.vstack([math.sqrt(2.0) * np.eye(d)[:m], np.repeat(np.eye(d)[m:], rows, axis=0)])
    return X, 1.0 - 2.0 * (X.argmax(axis=1) % 2)


def noise_stream(d: int, m: int, noise: int, rows: int) -> tuple[Array, Array]:
    """Return the stream of Theorem C, on which the setting of Theorem A fails.

    First m features with the value 2 and label 1, once each; then ``noise`` rows of the next
    feature, with labels 1 and -1 in turn; then every other feature, so many rows in a row with
    label 1.

    Parameters
    ----------
    d : int
        Features, more than m.
    m : int
        Sketch size.
    noise : int
        Rows with labels in turn, an even number.
    rows : int
        Rows for each feature after that.

    Returns
    -------
    X : array of shape (m + noise + (d - m - 1) rows, d)
        Rows.
    y : array of shape (m + noise + (d - m - 1) rows,)
        Labels.

    Examples
    --------
    >>> X, y = noise_stream(d=3, m=1, noise=2, rows=2)
    >>> print(X.argmax(axis=1), y)
    [0 1 1 2 2] [ 1.  1. -1.  1.  1.]
    """
    _check_blocks(d, m, noise)
    unit = np.eye(d)
    counts = np.r_[np.ones(m, int), noise, np.full(d - m - 1, rows)]
    X = np.repeat(np.vstack([2.0 * unit[:m], unit[m:]]), counts, axis=0)
    y = np.ones(len(X))
    y[m + 1 : m + noise : 2] = -1.0
    return X, y


def isotropic_lower_bound(d: int, m: int, noise: int, rows: int, alpha: float) -> float:
    """Theorem C: the isotropic sketch has at least this regret on `noise_stream`.

    In the setting of Theorem A, with the squared loss, ``C = 1`` and ``alpha >= 1``:
    ``(d-m-1)/2 (1 - q^(2 rows))/(1 - q^2)`` with ``q = 1 - 1/a`` and
    ``a = alpha + noise/(4 (d-m))``. With as many rows as ``noise/(8 (d-m))`` it is linear in the
    length of the stream; the regret of the full matrix is logarithmic (Theorem 2).

    Parameters
    ----------
    d, m, noise, rows : int
        See `noise_stream`.
    alpha : float
        The regulariser.

    Examples
    --------
    >>> round(isotropic_lower_bound(d=20, m=3, noise=8000, rows=60, alpha=1.0), 2)
    304.0
    """
    _check_blocks(d, m, noise)
    if not alpha >= 1.0:
        raise InvalidInputError(f"Theorem C needs alpha >= 1, got {alpha!r}")
    q2 = (1.0 - 1.0 / (alpha + noise / (4.0 * (d - m)))) ** 2
    return 0.5 * (d - m - 1) * (1.0 - q2**rows) / (1.0 - q2)


def _check_blocks(d: int, m: int, noise: int) -> None:
    if not d > m >= 0 or noise % 2 or noise < 0:
        raise InvalidInputError(
            f"the streams need d > m >= 0 and an even number of noise rows, got {d}, {m}, {noise}"
        )
