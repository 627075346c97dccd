"""Theorem 1: no online algorithm has a smaller regret than this on every stream."""

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
