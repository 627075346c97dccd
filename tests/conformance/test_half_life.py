"""`half_life`: what it computes, and that nothing else changes the model.

`test_kernel_and_reference` and `test_mixture` compare the kernel with an oracle that multiplies all
sums in each row.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import state_of
from sonline import OnlineLearner, ParameterError, SONClassifier, SONRegressor
from sonline.errors import DivergenceError

ROWS, FEATURES = 600, 6
DEFAULTS: dict[str, dict[str, Any]] = {
    "default": {},
    "float64": {"dtype": "float64"},
    "one weight vector": {"alpha": "relative:0.1"},
    "fixed": {"alpha": 2.0, "sketch": "oja", "scaling": "rms"},
    "fd": {"alpha": 2.0, "sketch": "fd"},
    "adagrad": {"sketch": "adagrad"},
    "full": {"sketch": "full"},
    "none": {"sketch": "none"},
}


def stream(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A regression whose weights change in the middle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, FEATURES)) * [1, 2, 0.5, 3, 1, 1]
    first, second = rng.normal(size=(2, FEATURES))
    y = np.where(np.arange(rows) < rows // 2, X @ first, X @ second)
    return X, y + 0.1 * rng.normal(size=rows)


def weights_of(learner: OnlineLearner) -> np.ndarray:
    return np.array([learner.weights()[column] for column in range(FEATURES)])


def plain(half_life: float, **changed: Any) -> OnlineLearner:
    """The algorithm with the squared loss and nothing around it."""
    parameters = {"sketch": "full", "scaling": "none", "intercept": False, "dtype": "float64"}
    return OnlineLearner(loss="squared", half_life=half_life, **parameters | changed)


@pytest.mark.parametrize("half_life", [16.0, 30.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_least_squares_of_rows_that_count_less(half_life: float, weighted: bool) -> None:
    X, y = stream()
    weight = np.random.default_rng(1).choice([0.5, 1.0, 3.0], size=ROWS) if weighted else None
    learner = plain(half_life, alpha=0)
    learner.learn(X, y, weight)
    counted = 2.0 ** (-np.arange(ROWS)[::-1] / half_life) * (1.0 if weight is None else weight)
    root = np.sqrt(counted)
    batch = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]
    np.testing.assert_allclose(weights_of(learner), batch, atol=1e-12)


def test_ridge_regression_of_rows_that_count_less() -> None:
    """With a small alpha, which is not forgotten, so the ridge is not either."""
    X, y = stream()
    half_life, alpha = 40.0, 1e-7
    learner = plain(half_life, alpha=alpha)
    learner.learn(X, y)
    counted = 2.0 ** (-np.arange(ROWS)[::-1] / half_life)
    A = alpha * np.eye(FEATURES) + (counted[:, None] * X).T @ X
    batch = np.linalg.solve(A, (counted * y) @ X)
    np.testing.assert_allclose(weights_of(learner), batch, rtol=1e-6)


def test_alpha_holds_the_weights_where_rows_are_forgotten() -> None:
    """A = αI + what is left of the rows, and each step is exact in it."""
    X, y = stream(200)
    half_life, alpha = 20.0, 2.0
    learner = plain(half_life, alpha=alpha)
    learner.learn(X, y)
    w, S = np.zeros(FEATURES), np.zeros((FEATURES, FEATURES))
    for x, label in zip(X, y, strict=True):
        S = 2 ** (-1 / half_life) * S + np.outer(x, x)
        w += np.linalg.solve(alpha * np.eye(FEATURES) + S, x) * (label - w @ x)
    np.testing.assert_allclose(weights_of(learner), w, atol=1e-12)


def test_a_spectrum_of_what_is_left() -> None:
    X, y = stream()
    learner = plain(20.0, alpha=1.0, sketch="isotropic", sketch_size=FEATURES)
    learner.learn(X, y)
    counted = 2.0 ** (-(ROWS - np.arange(ROWS)) / 20.0)  # in the next row
    values = np.linalg.eigvalsh((counted[:, None] * X).T @ X)[::-1]
    np.testing.assert_allclose(learner.spectrum(), values, rtol=1e-9)


@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_batches_and_files_do_not_matter(name: str, loss: str) -> None:
    X, y = stream()
    y = np.sign(y) if loss == "logistic" else y
    parameters = {"loss": loss, "half_life": 16.0, **DEFAULTS[name]}  # 37 half-lives: two epochs
    whole, parts = OnlineLearner(**parameters), OnlineLearner(**parameters)
    wanted = whole.learn(X, y)
    got = [parts.learn(X[:100], y[:100])]
    parts = pickle.loads(pickle.dumps(parts))
    got += [parts.learn(X[i : i + 1], y[i : i + 1]) for i in range(100, 150)]
    rows = zip(X[150:300], y[150:300], strict=True)
    got += [[parts.learn_one(dict(enumerate(x)), label)] for x, label in rows]
    parts = pickle.loads(pickle.dumps(parts))
    got += [parts.learn(X[300:], y[300:])]
    np.testing.assert_array_equal(np.concatenate(got), wanted)
    assert state_of(parts) == state_of(whole)


def test_threads_do_not_matter() -> None:
    X, y = stream(300)
    labels = np.digitize(y, [-3, 0, 3])
    models = [SONClassifier(half_life=20, random_state=0, shuffle=False, n_jobs=n) for n in (1, 2)]
    first, second = (model.fit(X, labels).predict_proba(X) for model in models)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("sketch", ["none", "adagrad", "oja", "isotropic"])
def test_a_refused_row_changes_nothing(sketch: str) -> None:
    """In the rows around which an epoch begins, 16 half-lives after the last."""
    X, y = stream(600)
    learner = OnlineLearner(
        loss="squared", half_life=16.0, sketch=sketch, alpha=2.0, scaling="none"
    )
    learner.learn(X[:250], y[:250])
    refused = 0
    for x, label in zip(X[250:265], y[250:265], strict=True):
        before, trial = state_of(learner), pickle.loads(pickle.dumps(learner))
        try:
            trial.learn(1e17 * x[None], [1e149])
        except DivergenceError:
            refused += 1
            assert state_of(trial) == before
        learner.learn(x[None], [label])
    assert refused > 0


def test_a_long_stream_stays_finite() -> None:
    X, y = stream(20_000)
    learner = OnlineLearner(loss="squared", half_life=16.0)
    learner.learn(X, y)
    assert np.isfinite(list(learner.weights().values())).all()
    X = sp.csr_array(np.eye(2)[[0] * 5000 + [1]])  # a feature that is forgotten meanwhile
    learner = OnlineLearner(loss="squared", half_life=16.0)
    learner.learn(sp.csr_array([[0.0, 1.0]]), [3.0])
    learner.learn(X, np.ones(5001))
    assert np.isfinite(learner.predict(X)).all()


def test_what_was_forgotten_is_as_if_it_had_not_been() -> None:
    """After a change, the error is soon that of a learner that has seen the new rows only."""
    X, y = stream(4000)
    half = 2000
    forgets, remembers, fresh = (
        OnlineLearner(loss="squared", alpha="relative:0.001", scaling="none", half_life=n)
        for n in (100, None, None)
    )
    forgets.learn(X[:half], y[:half])
    remembers.learn(X[:half], y[:half])
    after = slice(half + 1000, 4000)

    def error(learner: OnlineLearner) -> float:
        return float(np.mean((learner.learn(X[half:], y[half:])[1000:] - y[after]) ** 2))

    best = error(fresh)
    assert error(forgets) < 1.2 * best
    assert error(remembers) > 10 * best


def test_a_merged_model_goes_on_forgetting() -> None:
    X, y = stream()
    parts = [plain(50.0, alpha=0), plain(50.0, alpha=0)]
    for part, rows in zip(parts, (slice(0, 300), slice(300, 600)), strict=True):
        part.learn(X[rows], y[rows])
    merged = parts[0].merge(parts[1:])
    counted = np.tile(2.0 ** (-np.arange(300)[::-1] / 50.0), 2)  # each forgets its own rows
    root = np.sqrt(counted)
    batch = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]
    np.testing.assert_allclose(weights_of(merged), batch, atol=1e-9)
    merged.learn(X, y)
    counted = np.r_[counted * 2.0 ** (-600 / 50.0), 2.0 ** (-np.arange(600)[::-1] / 50.0)]
    root = np.sqrt(counted)
    batch = np.linalg.lstsq(
        root[:, None] * np.vstack([X, X]), root * np.concatenate([y, y]), rcond=None
    )[0]
    np.testing.assert_allclose(weights_of(merged), batch, atol=1e-9)


def test_a_common_start_is_forgotten_once() -> None:
    X, y = stream(900)
    start = plain(80.0, alpha=0)
    start.learn(X[:300], y[:300])
    parts = [pickle.loads(pickle.dumps(start)) for _ in range(2)]
    parts[0].learn(X[300:600], y[300:600])
    parts[1].learn(X[600:], y[600:])
    merged = parts[0].merge(parts[1:], start=start)
    back = 2.0 ** (-np.arange(300)[::-1] / 80.0)
    root = np.sqrt(np.concatenate([back * 2.0 ** (-300 / 80.0), back, back]))
    batch = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]
    np.testing.assert_allclose(weights_of(merged), batch, atol=1e-8)


@pytest.mark.parametrize("name", DEFAULTS)
def test_merging_one_model_keeps_what_it_knows(name: str) -> None:
    X, y = stream()
    learner = OnlineLearner(loss="squared", half_life=17.0, **DEFAULTS[name])
    learner.learn(X, y)
    one = pickle.loads(pickle.dumps(learner)).merge([learner])
    assert np.mean((one.predict(X) - learner.predict(X)) ** 2) < 0.01 * np.var(y)
    assert one.stats()["rounds"] == 2 * ROWS


@pytest.mark.parametrize("value", [0, -1, 15.9, float("nan"), float("inf"), "100"])
def test_a_half_life_is_at_least_16_rows(value: Any) -> None:
    with pytest.raises(ParameterError, match="half_life"):
        OnlineLearner(half_life=value)


def test_the_scaling_of_the_paper_forgets_nothing() -> None:
    with pytest.raises(ParameterError, match="half_life needs scaling"):
        OnlineLearner(half_life=100, scaling="gradient")


def test_the_estimators_have_it() -> None:
    X, y = stream(300)
    learner = OnlineLearner(loss="squared", half_life=40)
    learner.learn(X, y)
    model = SONRegressor(half_life=40, shuffle=False).fit(X, y)
    np.testing.assert_allclose(model.predict(X), learner.predict(X), rtol=1e-12)
