import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from sonline import evaluate
from sonline.errors import InvalidInputError


def stream(n=500, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    z = y + 2 * rng.normal(size=n)
    return y, z, rng.random(n)


def metrics():
    return [
        evaluate.Loss("logistic"),
        evaluate.Loss("quantile", quantile=0.3),
        evaluate.LogLoss(),
        evaluate.Error(),
        evaluate.AUC(),
        evaluate.R2(),
    ]


@given(cuts=st.lists(st.integers(0, 500), max_size=6), weighted=st.booleans())
def test_batches_do_not_matter(cuts, weighted):
    y, z, w = stream()
    ends = [0, *sorted(cuts), len(y)]
    for whole, cut in zip(metrics(), metrics(), strict=True):
        whole.update(y, z, w if weighted else None)
        for a, b in itertools.pairwise(ends):
            cut.update(y[a:b], z[a:b], w[a:b] if weighted else None)
        assert cut.value == whole.value
    whole, cut = evaluate.Curve(), evaluate.Curve()
    whole.update(np.abs(z), w if weighted else None)
    for a, b in itertools.pairwise(ends):
        cut.update(np.abs(z[a:b]), w[a:b] if weighted else None)
    assert cut == whole


@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_scikit_learn(weighted):
    y, z, w = stream()
    weights = w if weighted else None
    actual = {}
    for metric in metrics():
        metric.update(y, z, weights)
        actual[type(metric).__name__] = metric.value
    expected = log_loss(y, 1 / (1 + np.exp(-z)), sample_weight=weights)
    assert actual["LogLoss"] == pytest.approx(expected, rel=1e-12)
    assert actual["Error"] == pytest.approx(np.average((y > 0) != (z > 0), weights=weights))
    assert actual["R2"] == pytest.approx(r2_score(y, z, sample_weight=weights), rel=1e-12)
    rounded = roc_auc_score(y, z.astype(np.float16), sample_weight=weights)
    assert actual["AUC"] == pytest.approx(rounded, rel=1e-12)
    assert actual["AUC"] == pytest.approx(roc_auc_score(y, z, sample_weight=weights), abs=1e-4)


def test_auc_orders_zeros_infinities_and_small_numbers():
    z = [-1e9, -1.0, -1e-3, -0.0, 0.0, 1e-3, 1.0, 1e9]
    for positive in range(len(z)):
        y = -np.ones(len(z))
        y[positive] = 1
        metric = evaluate.AUC()
        metric.update(y, z)
        assert metric.value == pytest.approx(roc_auc_score(y, z), rel=1e-15)


def test_nothing_seen_is_nan():
    for metric in metrics():
        assert math.isnan(metric.value)
        metric.update([], [])
        assert math.isnan(metric.value)
    assert math.isnan(evaluate.Curve().average)


def test_r2_of_labels_far_from_zero():
    y = 1e9 + np.arange(10.0)
    metric = evaluate.R2()
    metric.update(y, y + 1)
    assert metric.value == pytest.approx(r2_score(y, y + 1), rel=1e-9)


def test_progress_is_short_where_a_notebook_shows_it():
    progress = evaluate.Progress()
    progress.update([0.5] * 1000, [True, False] * 500)
    assert repr(progress) == "<Progress: 1000 rows, loss 0.5, error 0.5>"
    progress = evaluate.Progress()
    progress.update([2.0, 2.5])
    progress.r2.update([1.0, 2.0], [1.0, 2.0])
    assert repr(progress) == "<Progress: 2 rows, loss 2.25, R² 1>"
    assert repr(evaluate.Progress()) == "<Progress: 0 rows>"
    assert repr(progress.loss) == "<Curve: 2 rows, average 2.25, 2 points>"


def test_curve_has_points_at_powers_of_two_and_survives_json():
    values = np.arange(1.0, 101.0)
    curve = evaluate.Curve()
    curve.update(values[:50])
    again = evaluate.Curve.from_dict(curve.as_dict())
    assert again == curve
    again.update(values[50:])
    assert [point.rows for point in again.points] == [1, 2, 4, 8, 16, 32, 64]
    assert again.points[-1].average == values[:64].mean()
    assert again.points[-1].since_last == values[32:64].mean()
    assert again.now == evaluate.Point(100, values.mean(), values[64:].mean())


def test_errors_show_the_bad_argument():
    with pytest.raises(InvalidInputError, match=r"shapes \(3,\) and \(2,\)"):
        evaluate.Error().update([1, -1], [0.1, 0.2, 0.3])
    with pytest.raises(InvalidInputError, match="weights"):
        evaluate.Error().update([1, -1], [0.1, 0.2], [1.0])
    with pytest.raises(InvalidInputError, match="'cubic'"):
        evaluate.losses("cubic", [1.0], [1.0])
