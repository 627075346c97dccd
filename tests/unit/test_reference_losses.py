import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonline.paper.reference import LOSSES, Loss, make_loss

BOUNDS = (0.1, 0.5, 1.0, 2.0, 5.0)
CASES = [
    (name, level)
    for name in LOSSES
    for level in ((0.5, 0.1) if name in {"quantile", "expectile"} else (0.5,))
]


def labels_for(loss: Loss, bound: float) -> np.ndarray:
    if loss.power is not None:  # amounts close to 0 are the steepest
        return np.linspace(1e-9 if loss.positive else 0.0, bound, 9)
    return np.array([-1.0, 1.0]) if loss.binary else np.linspace(-bound, bound, 9)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(("name", "level"), CASES)
def test_sigma_satisfies_the_curvature_inequality(name, level, bound):
    loss = make_loss(name, level)
    sigma = loss.sigma(bound)
    grid = np.linspace(-bound, bound, 41)
    for y in labels_for(loss, bound):
        values = np.array([loss.value(z, y) for z in grid])
        slopes = np.array([loss.derivative(z, y) for z in grid])
        linear = slopes[:, None] * (grid[None, :] - grid[:, None])
        floor = values[:, None] + linear + 0.5 * sigma * linear**2
        assert (values[None, :] >= floor - 1e-12).all()


def test_sigma_of_the_squared_loss_is_the_largest_possible():
    loss, bound = make_loss("squared"), 1.5
    # Equality for z and y at opposite ends.
    a, b, y = bound, -bound, -bound
    linear = loss.derivative(a, y) * (b - a)
    curved = loss.value(a, y) + linear + 0.5 * loss.sigma(bound) * linear**2
    assert loss.value(b, y) == pytest.approx(curved)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(("name", "level"), CASES)
def test_lipschitz_is_the_largest_slope(name, level, bound):
    loss = make_loss(name, level)
    grid = np.linspace(-bound, bound, 201)
    largest = max(abs(loss.derivative(z, y)) for z in grid for y in labels_for(loss, bound))
    assert largest == pytest.approx(loss.lipschitz(bound))


@pytest.mark.parametrize(("name", "level"), CASES)
@given(z=st.floats(-4, 4), label=st.sampled_from([-1.0, 1.0]))
def test_derivatives_match_finite_differences(name, level, z, label):
    loss = make_loss(name, level)
    step = 1e-5
    if loss.power is not None:
        label = 0.5 + 0.5 * label if not loss.positive else 1.5 + label
    kinks = {
        **{key: [label] for key in ("hinge", "squared_hinge", "quantile", "expectile")},
        "huber": [label - 1.345, label + 1.345],
        "epsilon_insensitive": [label - 0.1, label + 0.1],
    }
    if any(abs(z - kink) < 10 * step for kink in kinks.get(name, [])):
        return
    slope = (loss.value(z + step, label) - loss.value(z - step, label)) / (2 * step)
    assert loss.derivative(z, label) == pytest.approx(slope, rel=1e-8, abs=1e-8)
    if loss.second_derivative is not None:
        bend = (loss.derivative(z + step, label) - loss.derivative(z - step, label)) / (2 * step)
        assert loss.second_derivative(z, label) == pytest.approx(bend, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("margin", [-800.0, -40.0, 40.0, 800.0])
def test_logistic_neither_overflows_nor_loses_small_numbers(margin):
    loss = make_loss("logistic")
    assert loss.value(margin, 1.0) == pytest.approx(
        -margin if margin < 0 else math.exp(-margin), rel=1e-12
    )
    expected = -1.0 if margin < 0 else -math.exp(-margin)
    assert loss.derivative(margin, 1.0) == pytest.approx(expected, rel=1e-12)
    assert loss.second_derivative(margin, 1.0) == pytest.approx(math.exp(-abs(margin)), rel=1e-12)


def test_at_a_kink_the_derivative_is_zero():
    assert make_loss("hinge").derivative(1.0, 1.0) == 0.0
    assert make_loss("quantile").derivative(2.0, 2.0) == 0.0


@pytest.mark.parametrize("name", ["hinge", "quantile"])
def test_piecewise_linear_losses_have_no_curvature(name):
    assert make_loss(name).second_derivative is None
    assert make_loss(name).sigma(1.0) == 0.0


def test_errors_name_what_is_allowed():
    with pytest.raises(ValueError, match=r"squared, logistic, hinge.*got 'cubic'"):
        make_loss("cubic")
    with pytest.raises(ValueError, match=r"quantile must lie strictly between 0 and 1, got 1\.0"):
        make_loss("quantile", 1.0)
