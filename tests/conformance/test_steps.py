"""How well members fit and how far they step: the vector code of the core against mathematics."""

import numpy as np
import pytest
from scipy.special import expit

from sonline import _core
from sonline.paper.reference.losses import make_loss
from sonline.parameters import LOSSES

QUANTILE = 0.3


def judge(loss, z, y, q):
    fits, moves = np.full_like(z, np.nan), np.full_like(z, np.nan)
    _core.Loss(loss, QUANTILE).implicit_steps(z, y, q, fits, moves)
    return fits, moves


def gains(m, q):
    """The d with d = q / (1 + exp(m + d)), by halving; in the difference no digit is lost."""
    low, high = np.zeros_like(m), np.minimum(q * expit(-m), 5 + np.log1p(q) + np.abs(m))
    for _ in range(300):
        middle = 0.5 * (low + high)
        below = middle < q * expit(-(m + middle))
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 1000])
def test_logistic_steps_end_where_their_gradient_is(size, y):
    rng = np.random.default_rng(size)
    z = rng.normal(size=size) * 10.0 ** rng.uniform(-3, 2.5, size)
    q = 10.0 ** rng.uniform(-12, 12, size)
    fits, moves = judge("logistic", z, y, q)
    np.testing.assert_allclose(moves, y * gains(y * z, q), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(fits, np.clip(expit(y * z), np.exp(-30), 1), rtol=1e-12)


def test_logistic_steps_of_absurd_size():
    rng = np.random.default_rng(0)
    z = rng.choice([-1.0, 1.0], 4000) * 10.0 ** rng.uniform(-300, 6, 4000)
    q = 10.0 ** rng.uniform(-300, 300, 4000)
    fits, moves = judge("logistic", z, 1.0, q)
    usual = z < 700  # beyond, the exponential stays where it is, and so does the prediction
    np.testing.assert_allclose(moves[usual], gains(z[usual], q[usual]), rtol=1e-11, atol=1e-280)
    assert (moves[~usual] >= 0).all()
    assert (moves[~usual] <= q[~usual] * 1e-300).all()
    assert ((fits > 0) & (fits <= 1)).all()


def test_no_step_where_there_is_no_reach():
    for loss in LOSSES:
        _, moves = judge(loss, np.array([-3.0, 0.0, 0.5, 3.0, 700.0]), 1.0, np.zeros(5))
        assert (moves == 0).all(), loss


@pytest.mark.parametrize("loss", list(LOSSES))
def test_all_losses(loss):
    """z' = z + move solves z' + q l'(z') = z; at a kink any slope between both sides will do."""
    rng = np.random.default_rng(1)
    reference = make_loss(loss, QUANTILE)
    z, q = 3 * rng.normal(size=500), 10.0 ** rng.uniform(-6, 6, 500)
    labels = (-1.0, 1.0) if reference.binary else (-2.0, 0.3)
    if reference.power is not None:
        labels = (1e-9 if reference.positive else 0.0, 0.3, 40.0)
    for y in labels:
        fits, moves = judge(loss, z, y, q)
        for a, b, fit, move in zip(z, q, fits, moves, strict=True):
            ahead, near = a + move, 1e-9 * (1 + abs(a))
            sides = [reference.derivative(ahead + side, y) for side in (-near, near)]
            assert min(sides) * b - near * (1 + b) <= -move <= max(sides) * b + near * (1 + b)
            loss_there = reference.value(a, y)
            wanted = np.exp(-min(loss_there, 30)) if reference.binary else loss_there
            digits = 1e-300 if reference.power is None else 1e-13  # differences of larger terms
            assert fit == pytest.approx(wanted, rel=1e-12, abs=digits)
