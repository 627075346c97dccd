"""Standard deviations, intervals and sets of classes: they hold on any stream."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_svmlight_file

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import InvalidInputError

river = pytest.importorskip("sonline.river")

Rows = tuple[np.ndarray, np.ndarray]
RATE = 0.1  # γ in units of the error rate, see intervals.hpp
ROWS = 5000


def drifting(kind: str, rounds: int = ROWS, features: int = 5) -> Rows:
    """Rows and numbers whose relation, noise or level changes."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rounds, features))
    t = np.arange(rounds)
    noise = rng.normal(size=rounds)
    w, other = rng.normal(size=(2, features))
    if kind == "abrupt":
        return X, np.where(t // 1250 % 2, X @ w, X @ other) + 0.5 * noise
    if kind == "gradual":
        return X, X @ w * np.cos(t / 900) + X @ other * np.sin(t / 900) + 0.5 * noise
    if kind == "noise":
        return X, X @ w + noise * np.where(t // 1000 % 2, 3, 0.3)
    if kind == "heavy":
        return X, X @ w + rng.standard_t(2, rounds)
    if kind == "trend":
        return X, X @ w + t / 300 + 0.5 * noise
    if kind == "season":
        return X, X @ w + noise * (1 + 0.9 * np.sin(t / 150)) + 3 * np.sin(t / 700)
    if kind == "jump":
        return X, X @ w + noise + 1000.0 * (t > rounds // 2)
    if kind == "unit":  # of the label and of the features
        return X * np.where(t > rounds // 2, 100, 1)[:, None], (X @ w + noise) * (
            1 + 999 * (t > rounds // 2)
        )
    if kind == "uneven":
        return X, X @ w + noise * np.exp(X[:, 0])
    return X, np.abs(X[:, 0]) * 3 + X @ w + noise * 0.1  # no line fits it


KINDS = (
    *("abrupt", "gradual", "noise", "heavy", "trend"),
    *("season", "jump", "unit", "uneven", "curve"),
)


def live(learner: OnlineLearner, X: np.ndarray, y: np.ndarray, interval: float) -> np.ndarray:
    """Whether each label is inside the interval from just before the row was learned."""
    inside = np.empty(len(y), bool)
    for t in range(len(y)):
        _, ends = learner.predict(X[t : t + 1], interval=interval)
        inside[t] = ends[0, 0] <= y[t] <= ends[0, 1]
        learner.learn(X[t : t + 1], y[t : t + 1])
    return inside


def bound(error: float, rows: int) -> float:
    """Gibbs and Candès 2021, Proposition 4.1."""
    rate = RATE * error
    return (max(error, 1 - error) + rate) / (rate * rows)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_under_drift(kind: str) -> None:
    inside = live(OnlineLearner(loss="squared"), *drifting(kind), 0.9)
    assert abs(inside.mean() - 0.9) <= min(0.02, bound(0.1, ROWS))
    windows = np.convolve(inside, np.ones(1000) / 1000, "valid")
    assert np.abs(windows - 0.9).max() <= 0.06


@pytest.mark.parametrize("interval", [0.5, 0.8, 0.95, 0.99])
def test_other_intervals_hold(interval: float) -> None:
    inside = live(OnlineLearner(loss="squared"), *drifting("abrupt"), interval)
    assert abs(inside.mean() - interval) <= min(0.02, bound(1 - interval, ROWS))


def outside_if_possible(ends: np.ndarray, rng: np.random.Generator) -> float:
    reachable = np.isfinite(ends[1]) and abs(ends[1]) < 1e6
    return float(ends[1] + 1) if reachable else float(rng.normal())


def just_inside(ends: np.ndarray, rng: np.random.Generator) -> float:
    low, high = ends if np.isfinite(ends).all() else (-1.0, 1.0)
    return float(low + (high - low) * rng.uniform(0.01, 0.99)) if high > low else float(high + 1)


def growing_errors(ends: np.ndarray, rng: np.random.Generator) -> float:
    size = min(np.abs(ends[np.isfinite(ends)]).max(initial=1.0), 1e12)
    return float(rng.choice([-1, 1]) * size * rng.choice([1.01, 0.5, 3.0]))


@pytest.mark.parametrize("answer", [outside_if_possible, just_inside, growing_errors])
@pytest.mark.parametrize("interval", [0.5, 0.9])
def test_the_bound_holds_against_an_adversary(
    answer: Callable[[np.ndarray, np.random.Generator], float], interval: float
) -> None:
    rng = np.random.default_rng(0)
    learner = OnlineLearner(loss="squared")
    outside = 0
    for t in range(1, 1501):
        x = rng.normal(size=(1, 3))
        ends = learner.predict(x, interval=interval)[1][0]
        y = answer(ends, rng)
        outside += not ends[0] <= y <= ends[1]
        learner.learn(x, [y])
        assert abs(outside / t - (1 - interval)) <= bound(1 - interval, t) * (1 + 1e-9)


def test_the_error_of_constant_labels_is_a_point() -> None:
    learner = OnlineLearner(loss="squared", intercept=True)
    learner.learn(np.zeros((3000, 1)), np.full(3000, 7.0))
    prediction, std, ends = learner.predict(np.zeros((1, 1)), return_std=True, interval=0.9)
    assert prediction[0] == pytest.approx(7)
    assert std[0] < 1e-3
    assert (np.abs(ends - 7) < 1e-2).all()


def test_standard_deviations_are_calibrated() -> None:
    for kind in ("gradual", "season", "uneven", "curve"):
        X, y = drifting(kind)
        learner = OnlineLearner(loss="squared")
        squares = []
        for t in range(ROWS):
            raw, std = learner.predict(X[t : t + 1], return_std=True)
            squares.append(((y[t] - raw[0]) / std[0]) ** 2)
            learner.learn(X[t : t + 1], y[t : t + 1])
        assert squares[0] == 0  # nothing was known
        assert 0.8 < np.mean(squares[500:]) < 1.4, kind


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["abalone", "airfoil", "bike", "california", "concrete", "elevators", "energy"]
)
def test_they_say_where_errors_are_large(data_dir: Path, name: str) -> None:
    X, y = load_svmlight_file(str(data_dir / "regression" / f"{name}.svm.gz"))
    order = np.random.default_rng(0).permutation(len(y))[:4000]
    X, y = X[order].toarray(), y[order]
    learner = OnlineLearner(loss="squared")
    predicted = [
        (*learner.predict(X[t : t + 1], return_std=True), learner.learn(X[t : t + 1], y[t : t + 1]))
        for t in range(len(y))
    ]
    raw, std, _ = np.array(predicted)[:, :, 0].T
    first = len(y) // 5
    correlation = spearmanr(std[first:], (y - raw)[first:] ** 2).statistic
    assert correlation > 0.05  # 0 for a width that is constant


def states_equal(one: OnlineLearner, other: OnlineLearner) -> bool:
    a, b = one.model.core.save(), other.model.core.save()
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def as_mappings(X: np.ndarray) -> Iterator[dict[int, float]]:
    return (dict(enumerate(row.tolist())) for row in X)


def test_batches_and_single_rows_give_the_same_bits(tmp_path: Path) -> None:
    X, y = drifting("season", 700)
    whole, parts, ones = (OnlineLearner(loss="squared") for _ in range(3))
    whole.learn(X, y)
    for rows in np.array_split(np.arange(700), 9):
        parts.learn(X[rows], y[rows])
        parts.save(tmp_path / "model.son")
        parts = OnlineLearner.load(tmp_path / "model.son")
    for x, label in zip(as_mappings(X), y.tolist(), strict=True):
        ones.learn_one(x, label)
    assert states_equal(whole, parts)
    expected = whole.predict(X[:20], return_std=True, interval=0.9)
    for learner in (parts, ones, copy.deepcopy(whole)):
        for one, other in zip(
            expected, learner.predict(X[:20], return_std=True, interval=0.9), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    for number, x in enumerate(as_mappings(X[:20])):
        assert ones.std_one(x) == expected[1][number]
        assert ones.interval_one(x) == tuple(expected[2][number].tolist())


def test_a_refused_row_changes_nothing() -> None:
    X, y = drifting("season", 300)
    learner = OnlineLearner(loss="squared")
    learner.learn(X, y)
    before = learner.predict(X, return_std=True, interval=0.9)
    with pytest.raises(InvalidInputError):
        learner.learn(X[:1], [np.nan])
    learner.learn(X, y, sample_weight=np.zeros(300))  # only predicted
    for one, other in zip(before, learner.predict(X, return_std=True, interval=0.9), strict=True):
        np.testing.assert_array_equal(one, other)


def test_merged_learners_have_intervals() -> None:
    X, y = drifting("uneven", 8000)
    shards = [OnlineLearner(loss="squared") for _ in range(4)]
    for number, shard in enumerate(shards):
        shard.learn(X[number:6000:4], y[number:6000:4])
    merged = shards[0].merge(shards[1:])
    _, std, ends = merged.predict(X[6000:], return_std=True, interval=0.9)
    inside = (ends[:, 0] <= y[6000:]) & (y[6000:] <= ends[:, 1])
    assert 0.84 < inside.mean() < 0.95
    assert 0.5 < np.mean(std) / np.mean(shards[0].predict(X[6000:], return_std=True)[1]) < 2


def test_frozen_intervals_of_shuffled_rows() -> None:
    X, y = drifting("uneven", 8000)
    regressor = SONRegressor(random_state=0).fit(X[:6000], y[:6000])
    prediction, std, ends = regressor.predict(X[6000:], return_std=True, interval=0.8)
    np.testing.assert_array_equal(prediction, regressor.predict(X[6000:]))
    assert ends.shape == (2000, 2)
    assert 0.76 < ((ends[:, 0] <= y[6000:]) & (y[6000:] <= ends[:, 1])).mean() < 0.84
    np.testing.assert_array_equal(std, regressor.predict(X[6000:], return_std=True)[1])
    np.testing.assert_array_equal(ends, regressor.predict(X[6000:], interval=0.8)[1])


def test_river_predicts_the_next_row() -> None:
    X, y = drifting("season", 3000)
    model, inside = river.SONRegressor(), []
    for x, label in zip(as_mappings(X), y.tolist(), strict=True):
        low, high = model.interval_one(x, 0.9)
        assert low <= model.predict_one(x) <= high
        assert model.std_one(x) > 0
        inside.append(low <= label <= high)
        model.learn_one(x, label)
    assert abs(np.mean(inside) - 0.9) <= min(0.02, bound(0.1, 3000))


@pytest.mark.parametrize("kind", ["abrupt", "noise", "heavy", "uneven", "curve"])
def test_pairs_of_quantiles_hold_the_labels_between_them(kind: str) -> None:
    X, y = drifting(kind)
    ends = np.empty((ROWS, 2))
    for side, level in enumerate((0.1, 0.9)):
        learner = OnlineLearner(loss="quantile", quantile=level)
        for rows in np.array_split(np.arange(ROWS), ROWS // 10):
            ends[rows, side] = learner.predict(X[rows])
            learner.learn(X[rows], y[rows])
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    assert 0.76 < inside[200:].mean() < 0.86
    assert (ends[200:, 0] > ends[200:, 1]).mean() < 0.02


def test_the_level_of_a_quantile_is_saved_and_merged(tmp_path: Path) -> None:
    X, y = drifting("uneven", 6000)
    shards = [OnlineLearner(loss="quantile", quantile=0.9) for _ in range(3)]
    for number, shard in enumerate(shards):
        shard.learn(X[number:4500:3], y[number:4500:3])
    shards[0].save(tmp_path / "model.son")
    loaded = OnlineLearner.load(tmp_path / "model.son")
    np.testing.assert_array_equal(loaded.predict(X[4500:]), shards[0].predict(X[4500:]))
    merged = shards[0].merge(shards[1:])
    assert 0.86 < (y[4500:] < merged.predict(X[4500:])).mean() < 0.94


# -- sets of classes -------------------------------------------------------------------------------


def classified(classes: int, rounds: int = 4000) -> Rows:
    """Rows of classes that overlap; the first is rare, and the rule changes half way."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rounds, 4))
    scores = X @ rng.normal(size=(4, classes)) * 1.5 + rng.gumbel(size=(rounds, classes))
    scores[rounds // 2 :] = np.roll(scores[rounds // 2 :], 1, axis=1)
    scores[:, 0] -= 2
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_sets_hold_for_each_class(classes: int) -> None:
    X, y = classified(classes)
    model = SONClassifier(shuffle=False)
    model.partial_fit(X[:1], y[:1], classes=np.arange(classes))
    sets = np.ones((len(y), classes), bool)
    for t in range(1, len(y)):
        sets[t] = model.predict_set(X[t : t + 1], 0.9)[0]
        assert sets[t, model.predict(X[t : t + 1])[0]]
        model.partial_fit(X[t : t + 1], y[t : t + 1])
    for label in range(classes):
        rows = y == label
        inside = sets[rows, label].mean()
        assert 0.9 - min(0.05, bound(0.1, int(rows.sum()))) <= inside
        assert inside < 0.97
    assert sets[1000:].sum(axis=1).mean() < classes - 0.3  # not simply all of them


def test_sets_on_all_faces() -> None:
    X, y = classified(3)
    words = np.array(["red", "green", "blue"])[y]
    estimator = SONClassifier(shuffle=False).fit(X, words)
    sets = estimator.predict_set(X[:50])
    assert sets.shape == (50, 3)
    learner = OnlineLearner.from_model(estimator.model)
    np.testing.assert_array_equal(learner.predict_set(X[:50]), sets)
    one = river.SONClassifier.from_model(estimator.model)
    for number, x in enumerate(as_mappings(X[:50])):
        expected = {label for label, inside in zip(learner.classes, sets[number], strict=True)
                    if inside}  # fmt: skip
        assert learner.predict_set_one(x) == expected
        assert one.predict_set_one(x) & expected
    assert (learner.std_one({0: 1.0}) > 0).all()
    assert learner.predict(X[:5], return_std=True)[1].shape == (5, 3)
    small = estimator.compact()
    expected_sets = estimator.predict_set(X[:50], 0.8)
    np.testing.assert_array_equal(small.predict_set(X[:50], 0.8), expected_sets)


def test_classes_that_emerge_have_the_same_sets() -> None:
    X, y = classified(4, 1500)
    order = np.argsort(np.where(y == 3, 700, 0) + np.arange(1500) * 0.9)  # the last emerges late
    X, y = X[order], y[order]
    known, grown = river.SONClassifier(), river.SONClassifier()
    for x, label in zip(as_mappings(X), y.tolist(), strict=True):
        known.learn_one(x, label)
    grown.learn_many(pd_frame(X), pd_series(y))
    for x in as_mappings(X[:50]):
        assert known.predict_set_one(x) == grown.predict_set_one(x)


def pd_frame(X: np.ndarray) -> object:
    import pandas as pd  # noqa: PLC0415 - River does without it

    return pd.DataFrame(X)


def pd_series(y: np.ndarray) -> object:
    import pandas as pd  # noqa: PLC0415 - River does without it

    return pd.Series(y)


def test_merged_classifiers_have_sets() -> None:
    X, y = classified(3)
    X, y = X[:2000], y[:2000]  # before the rule changes
    shards = [SONClassifier(shuffle=False).fit(X[k:1600:2], y[k:1600:2]) for k in range(2)]
    merged = shards[0].merge([shards[1]])
    sets = merged.predict_set(X[1600:])
    assert 0.84 < sets[np.arange(400), y[1600:]].mean() < 0.97


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [0, 1, -0.1, 90, "0.9", True, float("nan")])
def test_an_interval_is_a_part(interval: object) -> None:
    learner = OnlineLearner(loss="squared")
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        learner.predict(np.ones((1, 2)), interval=interval)
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        OnlineLearner().predict_set(np.ones((1, 2)), interval)


def test_intervals_are_for_numbers_and_sets_for_classes() -> None:
    with pytest.raises(InvalidInputError, match="predict_set"):
        OnlineLearner().predict(np.ones((1, 2)), interval=0.9)
    with pytest.raises(InvalidInputError, match="numbers: predict"):
        OnlineLearner(loss="squared").predict_set(np.ones((1, 2)))
    X, y = drifting("season", 300)
    learner = OnlineLearner(loss="squared")
    learner.learn(X, y)
    with pytest.raises(InvalidInputError, match="compact"):
        learner.compact().predict(X, return_std=True)
