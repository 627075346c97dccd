"""How uncertain a prediction is: xᵀA⁻¹x beside it."""

from __future__ import annotations

import numpy as np
import pytest

from sonline import OnlineLearner, SONClassifier
from sonline.parameters import SKETCHES


def rows(rounds: int = 600, features: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rounds, features)) * np.logspace(0, -1, features)
    return X, X @ rng.normal(size=features) + 0.1 * rng.normal(size=rounds)


@pytest.mark.parametrize("sketch", ["full", "isotropic"])
def test_it_is_the_quadratic_form_of_the_inverse(sketch: str) -> None:
    X, y = rows()
    learner = OnlineLearner(
        loss="squared",
        sketch=sketch,
        sketch_size=10,
        alpha=2.0,
        scaling="none",
        intercept=False,
        dtype="float64",
    )
    learner.learn(X, y)
    A = 2.0 * np.eye(6) + X.T @ X
    raw, u = learner.model.uncertain(X[:50])
    expected = np.einsum("ij,jk,ik->i", X[:50], np.linalg.inv(A), X[:50])
    np.testing.assert_allclose(u[0], expected, rtol=1e-8)
    np.testing.assert_array_equal(raw[0], learner.predict(X[:50]))


@pytest.mark.parametrize("alpha", ["auto", "relative:0.1", 1.0])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_it_changes_nothing(sketch: str, alpha: object) -> None:
    X, y = rows(300)
    learner = OnlineLearner(loss="squared", sketch=sketch, alpha=alpha)
    learner.learn(X[:200], y[:200])
    before = learner.model.core.save()
    assert (learner.model.uncertain(X[200:])[1] > 0).all()
    learner.model.core.uncertain_one({0: 1.0, 99: 3.0})
    after = learner.model.core.save()
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)


@pytest.mark.parametrize("named", [False, True])
def test_rare_and_unknown_features_are_uncertain(named: bool) -> None:
    rng = np.random.default_rng(0)
    words = 1 + np.minimum(rng.zipf(1.3, size=(3000, 8)), 2000)

    def row(numbers: list[int]) -> dict[str | int, float]:
        return {f"w{number}" if named else number: 1.0 for number in numbers}

    learner = OnlineLearner(loss="squared")
    learner.learn([row(list(set(numbers.tolist()))) for numbers in words], rng.normal(size=3000))
    counts = np.bincount(words.ravel(), minlength=4000)
    rare = int(np.flatnonzero(counts == 1)[0])
    some = int(np.flatnonzero((counts > 10) & (counts < 40))[0])
    one_each = [2, 3, some], [2, 3, rare], [2, 3, 3999], [2, 3, 3998, 3999]
    u = learner.model.uncertain([row(numbers) for numbers in one_each])[1][0]
    assert u[0] < 0.5 * u[1] < u[1] < u[2] < 0.6 * u[3]


def test_one_row_and_several_outputs() -> None:
    X, _ = rows(300)
    model = SONClassifier().fit(X, np.arange(300) % 3).model
    raw, u = model.uncertain(X[:5])
    assert raw.shape == u.shape == (3, 5)
    for number, x in enumerate(X[:5]):
        one = model.core.uncertain_one(dict(enumerate(x.tolist())))
        np.testing.assert_array_equal(one, [raw[:, number], u[:, number]])


def test_it_falls_as_rows_are_learned() -> None:
    X, y = rows(4000)
    learner = OnlineLearner(loss="squared")
    assert np.isinf(learner.model.uncertain(X[:3])[1]).all()
    learner.learn(X[:100], y[:100])
    first = learner.model.uncertain(X[-50:])[1].mean()
    learner.learn(X[100:], y[100:])
    assert 20 < first / learner.model.uncertain(X[-50:])[1].mean() < 80
