"""A scale stays once it is settled: a column that grows does not change what its weight means."""

import numpy as np
import pytest

from sonline import OnlineLearner


def lags(seed, rows=4000):
    """Return the four values of a random walk before each value, and these values."""
    walk = np.cumsum(np.random.default_rng(seed).normal(size=rows + 4))
    X = np.column_stack([walk[3 - lag : rows + 3 - lag] for lag in range(4)])
    return X, walk[4:]


@pytest.mark.parametrize("scaling", ["auto", "rms"])
def test_a_frozen_model_of_growing_columns_is_as_good_as_without_scales(scaling):
    ratios = []
    for seed in range(8):
        X, y = lags(seed)
        errors = []
        for name in (scaling, "none"):
            learner = OnlineLearner(loss="squared", scaling=name)
            learner.learn(X[:2800], y[:2800])
            errors.append(np.sqrt(np.mean((learner.predict(X[2800:]) - y[2800:]) ** 2)))
        ratios.append(errors[0] / errors[1])
    assert np.exp(np.mean(np.log(ratios))) < 1.2
    assert max(ratios) < 1.5


def test_a_settled_scale_stays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2)) * np.linspace(1, 2, 1000)[:, np.newaxis]
    learner = OnlineLearner(loss="squared", scaling="rms", dtype="float64")
    learner.learn(X, X[:, 0])
    scales = learner._model.core.scales()[1:]
    np.testing.assert_allclose(scales, np.sqrt(np.mean(X[:128] ** 2, axis=0)), rtol=1e-9)


def test_a_scale_moves_to_another_unit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    X[2000:, 0] *= 1000  # from metres to millimetres
    learner = OnlineLearner(loss="squared", scaling="rms")
    learner.learn(X, X[:, 1])
    scale = learner._model.core.scales()[1]
    assert 500 < scale < 2000
