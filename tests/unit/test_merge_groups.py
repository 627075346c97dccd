"""The order and the groups in which learners are merged matter only by rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sonline import OnlineLearner
from sonline.parameters import SCALINGS, SKETCHES


def shards(seed: int, **settings: Any) -> list[OnlineLearner]:
    """Return learners of rows of different sizes; none of them has seen all features."""
    truth = np.random.default_rng(99).normal(size=6)
    made = []
    for number in range(3):
        rng = np.random.default_rng(3 * seed + number)
        rows = 30 + 20 * number
        X = rng.normal(size=(rows, 6)) * (rng.random((rows, 6)) < 0.6) * (rng.random(6) < 0.7)
        X *= 10 ** rng.uniform(-2, 2) * 10 ** rng.uniform(-1, 1, 6)
        margins = X / np.abs(X).max() @ truth + 0.3 * rng.normal(size=rows)
        learner = OnlineLearner(dtype="float64", sketch_size=3, **settings)
        y = margins if settings["loss"] == "squared" else np.where(margins > 0, 1.0, -1.0)
        learner.learn(X, y)
        made.append(learner)
    return made


def difference(one: OnlineLearner, other: OnlineLearner) -> float:
    """Return the largest difference of weights, in units of the largest weight."""
    known, actual = one.weights(), other.weights()
    assert known.keys() == actual.keys()
    mine = np.array([one.bias, *known.values()])
    theirs = np.array([other.bias, *(actual[feature] for feature in known)])
    return float(np.abs(mine - theirs).max() / np.abs(mine).max())


def rounding(merged: OnlineLearner) -> float:
    """Return what rounding may become: A is inverted, so it grows with the condition of A."""
    condition = merged.spectrum().max(initial=0.0) / merged.stats()["alpha"]
    return max(1e-10, 64 * float(np.finfo(float).eps) * condition)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("alpha", [1.0, "relative:0.1", "auto"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_the_order_of_learners_does_not_matter(
    sketch: str, loss: str, alpha: Any, scaling: str
) -> None:
    for seed in range(3):
        a, b, c = shards(seed, sketch=sketch, loss=loss, alpha=alpha, scaling=scaling)
        merged = a.merge([b, c])
        assert difference(merged, c.merge([b, a])) < rounding(merged)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("alpha", [1.0, "relative:0.1"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("sketch", ["full", "none", "oja", "adagrad"])
def test_groups_do_not_matter_where_features_are_counted(
    sketch: str, loss: str, alpha: Any
) -> None:
    """RMS scales count the rows of a feature; elsewhere a merged learner has forgotten them."""
    for seed in range(5):
        a, b, c = shards(seed, sketch=sketch, loss=loss, alpha=alpha, scaling="rms")
        at_once = a.merge([b, c])
        assert difference(at_once, a.merge([b]).merge([c])) < 1e-10
        assert difference(at_once, a.merge([b.merge([c])])) < 1e-10
