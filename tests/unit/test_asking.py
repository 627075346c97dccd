"""`wants_label`: which rows are worth a label."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from sonline import OnlineLearner, ParameterError, SONClassifier


def stream(rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 8)) * np.linspace(0.1, 3, 8)
    y = np.where(X @ rng.normal(size=8) + 0.3 * rng.normal(size=rows) > 0, 1, -1)
    return X, y


def ask(X: np.ndarray, y: np.ndarray, **parameters: float) -> tuple[float, float]:
    """Return the error and the share of the labels of a run over the rows."""
    learner, wrong, asked = OnlineLearner(), 0, 0
    for x, label in zip(np.split(X, len(X)), y, strict=True):
        wrong += int((learner.predict(x)[0] > 0) != (label > 0))
        if learner.wants_labels(x, **parameters)[0]:
            learner.learn(x, [label])
            asked += 1
    return wrong / len(X), asked / len(X)


def test_few_labels_do_nearly_as_well() -> None:
    X, y = stream()
    everything = OnlineLearner()
    error = np.mean((everything.learn(X, y) > 0) != (y > 0))
    few, share = ask(X, y)
    assert share < 0.2
    assert few < 1.3 * error


def test_caution_asks_for_more() -> None:
    X, y = stream(1000)
    shares = [ask(X, y, caution=caution)[1] for caution in (0.03, 0.3, 3.0)]
    assert shares == sorted(shares)
    assert shares[0] < 0.5 * shares[2]


def test_the_first_rows_and_unknown_features_are_asked_for() -> None:
    X, y = stream(200)
    learner = OnlineLearner()
    assert learner.wants_labels(X).all()
    learner.learn(X, y)
    known = learner.wants_labels(X, explore=0)
    assert not known.all()
    new = np.array([learner.wants_label({"new": 1.0, **dict(enumerate(x))}, explore=0) for x in X])
    assert new.sum() > known.sum()
    # In a text nearly every row has a new word: where the others are sure, it is not asked for.
    assert not new.all()


def test_every_row_is_asked_for_with_some_chance() -> None:
    X, y = stream()
    learner = OnlineLearner()
    learner.learn(X, y)
    far = 100 * X[np.abs(X[:, -1]) > 1]  # their class is clear
    clear = ~learner.wants_labels(far, explore=0)
    assert clear.mean() > 0.5
    drawn = learner.wants_labels(far, explore=0.1)[clear]
    assert 0.06 < drawn.mean() < 0.14
    assert learner.wants_labels(far, explore=1).all()


def test_asking_changes_nothing_and_says_the_same_again() -> None:
    X, y = stream(500)
    learner = OnlineLearner()
    learner.learn(X[:300], y[:300])
    before = learner.__getstate__()[1]
    wanted = learner.wants_labels(X[300:])
    np.testing.assert_array_equal(
        [learner.wants_label(dict(enumerate(x))) for x in X[300:]], wanted
    )
    np.testing.assert_array_equal(learner.wants_labels(sp.csr_array(X[300:])), wanted)
    again = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(again.wants_labels(X[300:]), wanted)
    after = learner.__getstate__()[1]
    assert all(np.array_equal(before[name], after[name]) for name in before)
    other = OnlineLearner(seed=1)
    other.learn(X[:300], y[:300])
    draws = [each.wants_labels(100 * X, explore=0.5) for each in (learner, other)]
    assert (draws[0] != draws[1]).any()


def test_several_classes() -> None:
    X, _ = stream(2000)
    y = X[:, [5, 6, 7]].argmax(axis=1)
    model = SONClassifier(shuffle=False).fit(X[:1000], y[:1000])
    wanted = model.wants_labels(X[1000:])
    assert 0.01 < wanted.mean() < 0.5
    two = np.sort(model.decision_function(X[1000:]), axis=1)[:, -2:]
    margin = two[:, 1] - two[:, 0]
    assert np.median(margin[wanted]) < 0.5 * np.median(margin[~wanted])


def test_river() -> None:
    pytest.importorskip("river")
    from sonline import river  # noqa: PLC0415 - an extra

    X, y = stream(1500)
    model, right, asked = river.LabelSampler(river.SONClassifier()), 0, 0
    assert model.predict_one({"a": 1.0}) == (None, True)  # as other classifiers of River
    for x, label in zip(X, y.tolist(), strict=True):
        row = dict(enumerate(x.tolist()))
        predicted, wanted = model.predict_one(row)
        right += predicted == label
        if wanted:
            asked += 1
            model.learn_one(row, label)
    assert asked < 0.3 * len(y)
    assert right > 0.85 * len(y)


@pytest.mark.parametrize("wrong", [{"caution": 0}, {"caution": float("nan")}, {"explore": 2}])
def test_errors(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        OnlineLearner().wants_labels(np.ones((1, 2)), **wrong)
    with pytest.raises(ParameterError, match="classes"):
        OnlineLearner(loss="squared").wants_labels(np.ones((1, 2)))
