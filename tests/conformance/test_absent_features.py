"""Features that are absent for a long time miss nothing, whatever a sketch puts off for them.

Frequent Directions changes every feature in every round. The kernel does it to the features of a
row at once and to the others when they come again (cpp/sonline/sketch/missed.hpp).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import LOW_RANK, Array, learner, reference_parameters, state_of
from oracle.learner import OracleLearner
from sonline import OnlineLearner
from sonline.parameters import SCALINGS

ROUNDS, FEATURES, PRESENT = 2000, 320, 8
LAZY = ("fd", "rfd")


def wide_rows() -> tuple[Array, Array]:
    """Few features a row, out of a quarter of all that changes every 100 rows and comes again."""
    rng = np.random.default_rng(7)
    X = np.zeros((ROUNDS, FEATURES))
    quarter = FEATURES // 4
    for row in range(ROUNDS):
        first = rng.permutation(quarter)[: PRESENT - 1] + quarter * (row // 100 % 4)
        X[row, first] = rng.normal(size=PRESENT - 1)
        X[row, rng.integers(3)] = 1.0  # and some that are never away for long
    return X, np.sign(X @ rng.normal(size=FEATURES) + 0.3 * rng.normal(size=ROUNDS))


def wide_learner(**changed: object) -> OnlineLearner:
    return learner(**{"sketch_size": 6, "alpha": "relative:2", **changed})


@pytest.mark.one_in(4)
@pytest.mark.parametrize("bound", [None, 1.0])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("sketch", LOW_RANK)
def test_the_kernel_is_the_reference(sketch: str, scaling: str, bound: float | None) -> None:
    X, y = wide_rows()
    parameters = reference_parameters(
        sketch=sketch, sketch_size=6, scaling=scaling, bound=bound, alpha="relative:2"
    )
    kernel, oracle = OnlineLearner(**parameters, dtype="float64"), OracleLearner(**parameters)
    np.testing.assert_allclose(kernel.learn(X, y), oracle.learn(X, y), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(kernel.predict(X), oracle.predict(X), rtol=1e-8, atol=1e-8)
    weights = kernel.weights()
    np.testing.assert_allclose(
        [weights.get(feature, 0.0) for feature in range(FEATURES)],
        oracle.raw_weights[1:],
        atol=1e-8 * np.abs(oracle.raw_weights).max(),
    )
    np.testing.assert_allclose(kernel.spectrum(), np.sort(oracle.ev)[::-1], rtol=1e-8)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("sketch", LAZY)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_looking_and_stopping_in_between_change_nothing(
    sketch: str, scaling: str, dtype: str, tmp_path: Path
) -> None:
    X, y = wide_rows()
    whole = wide_learner(sketch=sketch, scaling=scaling, dtype=dtype)
    made = whole.learn(X, y)
    behind = 0
    model = wide_learner(sketch=sketch, scaling=scaling, dtype=dtype)
    for part in np.array_split(np.arange(ROUNDS), 23):
        before = state_of(model)
        answer = model.predict(X)
        assert state_of(model) == before
        tags = model._model.core.save()["0.sketch.tags"]
        behind += int((tags < tags.max(initial=0)).sum())
        model.save(tmp_path / "model")
        model = OnlineLearner.load(tmp_path / "model")
        np.testing.assert_array_equal(model.predict(X), answer)
        np.testing.assert_array_equal(model.learn(X[part], y[part]), made[part])
    assert behind > 100  # features had something to catch up with when the model was saved
    assert state_of(model) == state_of(whole)


@pytest.mark.parametrize("sketch", LAZY)
def test_sweeps_are_rare_where_features_are(sketch: str) -> None:
    X, y = wide_rows()
    model = wide_learner(sketch=sketch)
    model.learn(X, y)
    assert model.stats()["sweeps"] < ROUNDS / 50
    assert model.stats()["caught_up"] > 0


def test_a_state_with_an_event_that_never_was_is_refused() -> None:
    X, y = wide_rows()
    model = wide_learner(sketch="fd")
    model.learn(X[:500], y[:500])
    core = model._model.core
    state = core.save()
    tags = state["0.sketch.tags"].copy()
    tags[3] = 2**31
    with pytest.raises(ValueError, match=r"sketch\.tags"):
        core.restore(state | {"0.sketch.tags": tags})
