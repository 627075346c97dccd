"""The estimators report the score of the frozen model next to the progressive score."""

import warnings

import numpy as np
import pytest

from sonline import SONClassifier, SONRegressor


def rows(n=8000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, X @ rng.normal(size=5) + 0.3 * rng.normal(size=n)


def in_batches(model, X, y, size=100, **first):
    for start in range(0, len(y), size):
        model.partial_fit(X[start : start + size], y[start : start + size], **first)
    return model


def test_frozen_scores_are_those_of_batches_predicted_before_they_are_learned():
    X, y = rows()
    model = SONRegressor()
    errors = []
    for start in range(0, 8000, 100):
        part = slice(start, start + 100)
        before = None if start < 1000 else model.predict(X[part])
        model.partial_fit(X[part], y[part])
        if start >= 1000 and start % 1000 == 0:
            errors.append((before - y[part]) ** 2)
    targets = np.concatenate([y[s : s + 100] for s in range(1000, 8000, 1000)])
    assert model.frozen_loss_ == pytest.approx(np.mean(errors) / 2, rel=1e-6)
    assert model.frozen_score_ == pytest.approx(1 - np.mean(errors) / targets.var(), rel=1e-6)


def test_without_an_order_both_agree():
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = in_batches(SONClassifier(), X, y > 0, classes=[False, True])
    assert model.frozen_score_ == pytest.approx(model.progressive_score_, abs=0.03)
    assert model.frozen_loss_ == pytest.approx(model.progressive_loss_, abs=0.05)


def test_a_rule_that_changes_within_each_batch_gives_one_warning():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120_000, 2))
    rules = rng.normal(size=(60, 2))
    y = (X * rules[np.arange(120_000) // 2000]).sum(axis=1) > 0
    with pytest.warns(UserWarning, match="if the model is frozen") as seen:
        model = in_batches(SONClassifier(), X, y, 2000, classes=[False, True])
    assert len(seen) == 1
    assert model.frozen_score_ < model.progressive_score_


def test_there_is_none_before_it_was_measured():
    X, y = rows(500)
    for model in (SONRegressor(), SONRegressor().fit(X, y), in_batches(SONRegressor(), X, y, 1)):
        assert not hasattr(model, "frozen_loss_")
    with pytest.raises(AttributeError, match="20 rows each"):
        _ = SONRegressor().fit(X, y).frozen_score_
    model = in_batches(SONRegressor(), *rows(3000))
    assert hasattr(model, "frozen_loss_")
    assert not hasattr(model.fit(X, y), "frozen_loss_")
