"""What holds for a mixture of raw predictions by exponential weights, and what does not."""

import math

import numpy as np
import pytest

from sonline.errors import InvalidInputError
from sonline.paper import theory
from sonline.paper.reference import make_loss

RATES = {"logistic": lambda C: math.exp(-C), "squared": lambda C: 1.0 / (4.0 * C * C)}


def mixed(predictions, y, loss, rate, share=0.0):
    """Return the losses of the mixture, and those of its members, one column each."""
    value = make_loss(loss).value
    p = np.full(predictions.shape[1], 1.0 / predictions.shape[1])
    own, theirs = [], []
    for z, label in zip(predictions, y, strict=True):
        own.append(value(float(p @ z), label))
        theirs.append([value(float(member), label) for member in z])
        p = p * np.exp(-rate * (np.array(theirs[-1]) - min(theirs[-1])))
        p = (1.0 - share) * p / p.sum() + share / len(p)
    return np.array(own), np.array(theirs)


def streams(C, loss, T=300, N=5):
    """Return predictions within ``[-C, C]`` and labels: random, and labels in turn."""
    rng = np.random.default_rng(7)
    y = rng.choice([-1.0, 1.0], size=T) * (C if loss == "squared" else 1.0)
    for scale in (0.1, 1.0, 10.0):
        yield np.clip(scale * C * rng.normal(size=(T, N)), -C, C), y
    turns = np.where(np.arange(T) % 2, -1.0, 1.0) * (C if loss == "squared" else 1.0)
    yield np.tile([C, -C], (T, 1)), turns
    yield np.tile(np.linspace(-C, C, N), (T, 1)), turns
    yield np.tile(np.linspace(-C, C, N), (T, 1)), y


@pytest.mark.parametrize("loss", RATES)
@pytest.mark.parametrize("C", [0.5, 2.0, 5.0])
def test_regret_to_the_best_member_is_at_most_ln_n_over_rate(loss, C):
    rate = RATES[loss](C)
    for predictions, y in streams(C, loss):
        own, theirs = mixed(predictions, y, loss, rate)
        limit = theory.mixture_bound(predictions.shape[1], rate)
        assert own.sum() - theirs.sum(axis=0).min() <= limit + 1e-9


@pytest.mark.parametrize("loss", RATES)
@pytest.mark.parametrize("C", [0.5, 2.0, 5.0])
def test_the_rates_make_the_losses_exp_concave_and_no_larger_ones_do(loss, C):
    function = make_loss(loss)
    labels = (-1.0, 1.0) if loss == "logistic" else (-C, C)
    z = np.linspace(-C, C, 201)
    ratio = min(
        function.second_derivative(a, y) / max(function.derivative(a, y) ** 2, 1e-300)
        for a in z
        for y in labels
    )
    assert ratio == pytest.approx(RATES[loss](C))


@pytest.mark.parametrize("loss", RATES)
@pytest.mark.parametrize("share", [1e-3, 1e-2, 0.1])
def test_a_fixed_share_tracks_the_best_sequence_of_members(loss, share):
    C, T, N = 2.0, 400, 4
    rate = RATES[loss](C)
    rng = np.random.default_rng(3)
    y = rng.choice([-1.0, 1.0], size=T) * (C if loss == "squared" else 1.0)
    predictions = np.clip(0.5 * rng.normal(size=(T, N)), -C, C)
    best = np.arange(T) // 100 % N  # three changes
    predictions[np.arange(T), best] = 0.9 * C * np.sign(y)
    own, theirs = mixed(predictions, y, loss, rate, share)
    regret = own.sum() - theirs[np.arange(T), best].sum()
    limit = theory.mixture_bound(N, rate, rounds=T, changes=3, share=share)
    assert 0.0 < regret <= limit
    # and without a change the share costs little
    regret = own.sum() - theirs.sum(axis=0).min()
    assert regret <= theory.mixture_bound(N, rate, rounds=T, share=share)


@pytest.mark.parametrize("share", [0.0, 1e-3])
def test_the_bare_rule_has_no_such_bound(share):
    # rate 1 and predictions beyond every bound: labels in turn, members that are always sure
    a, T = 10.0, 10_000
    turns = np.where(np.arange(T) % 2, -1.0, 1.0)
    own, theirs = mixed(np.tile([a, -a], (T, 1)), turns, "logistic", 1.0, share)
    excess = own.sum() - theirs.sum(axis=0).min()
    assert excess > 0.3 * T  # ln 2 for each pair of rows, more with a fixed share
    half, theirs = mixed(np.tile([a, -a], (T // 2, 1)), turns[: T // 2], "logistic", 1.0, share)
    assert excess == pytest.approx(2.0 * (half.sum() - theirs.sum(axis=0).min()), rel=1e-2)
    assert excess > 100 * theory.mixture_bound(2, 1.0, rounds=T, share=share)
    # the same members, with the rate that their bound asks for
    rate = math.exp(-a)
    own, theirs = mixed(np.tile([a, -a], (T, 1)), turns, "logistic", rate)
    assert own.sum() - theirs.sum(axis=0).min() <= theory.mixture_bound(2, rate)


def test_bound_says_what_it_cannot_use():
    assert theory.mixture_bound(2, 1.0, rounds=5, changes=1) == math.inf
    for wrong in ({"members": 0}, {"rate": 0.0}, {"share": 1.0}, {"changes": 3, "rounds": 3}):
        with pytest.raises(InvalidInputError, match="a mixture needs members >= 1"):
            theory.mixture_bound(**({"members": 2, "rate": 1.0} | wrong))
