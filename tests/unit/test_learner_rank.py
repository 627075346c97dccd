"""Rows that are nearly dependent: rounding must not become a direction, nor stop the learner."""

import numpy as np
import pytest

from sonline import OnlineLearner

FOUND = np.array(
    [[0, 0.79172504, 0], [0, 0.63992102, 0], [0.81379782, 0, 0.8811032], [0, 0, 0]]
)  # float32 took the rounding of the last row for a direction


def test_a_row_in_the_span_of_the_others():
    learner = OnlineLearner()
    predictions = learner.learn(FOUND, [-1, 1, 1, -1])
    assert np.isfinite(predictions).all()
    basis = learner.basis()
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-3)


@pytest.mark.parametrize("sketch", ["oja", "isotropic", "fd", "rfd"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_features_in_any_order(sketch, dtype):
    rng = np.random.default_rng(0)
    X = rng.random((40, 3)) * (rng.random((40, 3)) < 0.4)
    y = rng.choice([-1.0, 1.0], size=40)
    for _ in range(100):
        order = rng.permutation(40)
        learner = OnlineLearner(sketch=sketch, dtype=dtype)
        assert np.isfinite(learner.learn(X[order], y[order])).all()
        basis = learner.basis()
        tolerance = 1e-3 if dtype == "float32" else 1e-8
        np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=tolerance)
