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


@pytest.mark.parametrize("sketch", ["oja", "isotropic", "fd", "rfd"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_small_tables_do_not_depend_on_the_number_type(sketch, loss):
    # Every row lies in the sketch, one column repeats another. Rounding outside of the sketch,
    # magnified by 1/alpha, once made the steps of float32 a hundred times too large.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 5))
    X[:, 4] = 2 * X[:, 0]
    y = X @ [1, -1, 2, 0.5, 0] + rng.normal(size=3000)
    if loss == "logistic":
        y = np.where(y > 0, 1, -1)
    alpha = "auto" if sketch == "isotropic" else "relative:0.0001"
    learners = [
        OnlineLearner(loss=loss, sketch=sketch, alpha=alpha, dtype=dtype)
        for dtype in ("float32", "float64")
    ]
    before, exact = (learner.learn(X, y) for learner in learners)
    np.testing.assert_allclose(before[100:], exact[100:], atol=2e-3)
