"""Counts and amounts: labels, offsets, predictions in their unit, and the mean of these."""

import warnings

import numpy as np
import pandas as pd
import pytest

from helpers import state_of
from sonline import OnlineLearner, SONRegressor
from sonline import river as sonline_river
from sonline.errors import DivergenceError, InvalidInputError
from sonline.evaluate import losses

ROWS = 20_000
MEANS = ("poisson", "gamma", "tweedie")


def claims(loss: str, rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Rows, labels of that loss and the logarithms of exposures."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)) * [1, 100, 1e-3, 1, 1, 1] + [0, 500, 0, 0, 0, 0]
    z = (X - [0, 500, 0, 0, 0, 0]) / [1, 100, 1e-3, 1, 1, 1] @ [0.5, -0.3, 0.2, 0, 0.4, 0] - 0.5
    offset = np.log(rng.uniform(0.1, 2.0, rows))
    mean = np.exp(z + offset)
    if loss == "poisson":
        return X, rng.poisson(mean).astype(float), offset
    amounts = rng.gamma(2.0, mean / 2.0)
    if loss == "gamma":
        return X, amounts, offset
    return X, amounts * rng.poisson(0.2, rows) / 0.2, offset


@pytest.mark.parametrize("loss", MEANS)
def test_deviance_is_that_of_the_true_means(loss: str) -> None:
    X, y, offset = claims(loss)
    learner = OnlineLearner(loss=loss)
    learner.learn(X, y, offset=offset)
    raw = np.log(learner.predict(X, offset=offset))
    z = (X - [0, 500, 0, 0, 0, 0]) / [1, 100, 1e-3, 1, 1, 1] @ [0.5, -0.3, 0.2, 0, 0.4, 0]
    best = min(losses(loss, y, z + offset + c).mean() for c in np.linspace(-0.7, -0.3, 21))
    assert losses(loss, y, raw).mean() < 1.01 * best


@pytest.mark.parametrize("loss", MEANS)
def test_mean_prediction_is_the_mean_label(loss: str) -> None:
    X, y, offset = claims(loss)
    learner = OnlineLearner(loss=loss)
    learner.learn(X, y, offset=offset)
    predictions = learner.predict(X, offset=offset)
    assert (predictions >= 0).all()
    assert predictions.mean() == pytest.approx(y.mean(), rel=0.01 if loss != "tweedie" else 0.02)


def test_rare_counts() -> None:
    """With 99 % zeros no prediction is negative, and the mean is right."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50_000, 5))
    mean = np.exp(X @ [0.8, -0.5, 0.3, 0, 0])
    y = rng.poisson(0.01 * mean / mean.mean()).astype(float)
    learner = OnlineLearner(loss="poisson")
    before = learner.learn(X, y)
    assert (before >= 0).all()
    predictions = learner.predict(X)
    assert (predictions >= 0).all()
    assert predictions.mean() == pytest.approx(y.mean(), rel=0.03)
    top = np.argsort(-predictions)[:5000]
    assert y[top].mean() > 3 * y.mean()


@pytest.mark.parametrize("loss", ["gamma", "tweedie"])  # counts have no unit
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_amounts_does_not_matter(loss: str, unit: float) -> None:
    X, y, _ = claims(loss, rows=3000)
    here, there = OnlineLearner(loss=loss), OnlineLearner(loss=loss)
    here.learn(X, y)
    there.learn(X, unit * y)
    np.testing.assert_allclose(there.predict(X) / unit, here.predict(X), rtol=0.1)


BAD = [
    ("poisson", -1.0, r"row 2, y: the label -1 must be 0 or more"),
    ("tweedie", -0.5, r"row 2, y: the label -0.5 must be 0 or more"),
    ("gamma", 0.0, r"row 2, y: the label 0 must be above 0"),
    ("poisson", np.nan, r"row 2, y: the label nan is not a finite number"),
]


@pytest.mark.parametrize(("loss", "label", "message"), BAD)
def test_bad_labels_change_nothing(loss: str, label: float, message: str) -> None:
    X, y, _ = claims(loss, rows=50)
    learner = OnlineLearner(loss=loss)
    learner.learn(X, y)
    before = state_of(learner)
    y[2] = label
    with pytest.raises(InvalidInputError, match=message.replace("row 2, y", "y, row 2")):
        learner.learn(X, y)
    with pytest.raises(InvalidInputError, match="label"):
        learner.learn_one({0: 1.0}, label)
    assert state_of(learner) == before
    model = SONRegressor(loss)
    with pytest.raises((InvalidInputError, ValueError), match=r"label|NaN"):
        model.fit(X, y)
    assert not hasattr(model, "n_iter_")
    with pytest.raises(InvalidInputError, match="label"):
        sonline_river.SONRegressor(loss=loss).learn_one({"a": 1.0}, label)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 60.0])
def test_bad_offsets_change_nothing(value: float) -> None:
    X, y, offset = claims("poisson", rows=50)
    learner = OnlineLearner(loss="poisson")
    learner.learn(X, y, offset=offset)
    before = state_of(learner)
    offset[7] = value
    for call in (
        lambda: learner.learn(X, y, offset=offset),
        lambda: learner.predict(X, offset=offset),
    ):
        with pytest.raises(InvalidInputError, match=rf"offset, row 7: the offset {value:g} is not"):
            call()
    for call in (
        lambda: learner.learn_one({0: 1.0}, 1, offset=value),
        lambda: learner.predict_one({0: 1.0}, offset=value),
        lambda: SONRegressor("poisson").fit(X, y, offset=offset),
        lambda: sonline_river.SONRegressor("poisson").learn_one({"a": 1.0}, 1.0, offset=value),
    ):
        with pytest.raises(InvalidInputError, match="the offset"):
            call()
    assert state_of(learner) == before


def test_offsets_need_numbers_and_a_row_each() -> None:
    X, y, offset = claims("poisson", rows=50)
    with pytest.raises(InvalidInputError, match="an offset needs a loss for numbers"):
        OnlineLearner().learn(X, np.sign(y), offset=offset)
    with pytest.raises(InvalidInputError, match="one number for each of the 50 rows, got 49"):
        OnlineLearner(loss="poisson").learn(X, y, offset=offset[1:])


@pytest.mark.parametrize("loss", [*MEANS, "squared", "quantile", "huber"])
def test_any_split_with_offsets_gives_the_same_bits(loss: str, tmp_path) -> None:
    X, y, offset = claims(loss if loss in MEANS else "gamma", rows=300)
    whole = OnlineLearner(loss=loss)
    wanted = whole.learn(X, y, offset=offset)
    parts = OnlineLearner(loss=loss)
    out = [parts.learn(X[:100], y[:100], offset=offset[:100])]
    parts.save(tmp_path / "model.son")
    parts = OnlineLearner.load(tmp_path / "model.son")
    out.append(parts.learn(X[100:250], y[100:250], offset=offset[100:250]))
    rest = zip(X[250:], y[250:], offset[250:], strict=True)
    out.append(
        [
            parts.learn_one(dict(enumerate(x.tolist())), float(label), offset=float(o))
            for x, label, o in rest
        ]
    )
    np.testing.assert_array_equal(np.concatenate(out), wanted)
    assert state_of(parts) == state_of(whole)
    ones = [
        parts.predict_one(dict(enumerate(x.tolist())), offset=float(o))
        for x, o in zip(X[:5], offset[:5], strict=True)
    ]
    np.testing.assert_array_equal(ones, parts.predict(X[:5], offset=offset[:5]))


def test_an_offset_of_zero_is_none() -> None:
    X, y, _ = claims("poisson", rows=300)
    with_zeros, without = OnlineLearner(loss="poisson"), OnlineLearner(loss="poisson")
    with_zeros.learn(X, y, offset=np.zeros(300))
    without.learn(X, y)
    assert state_of(with_zeros) == state_of(without)


def test_the_offset_of_other_numbers_is_part_of_the_label() -> None:
    X, y, offset = claims("gamma", rows=300)
    with_offset, without = OnlineLearner(loss="squared"), OnlineLearner(loss="squared")
    before = with_offset.learn(X, y, offset=offset)
    np.testing.assert_array_equal(before, without.learn(X, y - offset) + offset)
    assert state_of(with_offset) == state_of(without)


@pytest.mark.parametrize("loss", MEANS)
def test_merged_shards(loss: str) -> None:
    X, y, offset = claims(loss)
    shards = [OnlineLearner(loss=loss) for _ in range(4)]
    for number, shard in enumerate(shards):
        shard.learn(X[number::4], y[number::4], offset=offset[number::4])
    merged = shards[0].merge(shards[1:])

    def loss_of(model: OnlineLearner) -> float:
        return float(losses(loss, y, np.log(model.predict(X, offset=offset))).mean())

    assert loss_of(merged) < np.mean([loss_of(shard) for shard in shards])
    predictions = merged.predict(X, offset=offset)
    assert predictions.mean() == pytest.approx(y.mean(), rel=0.05)
    merged.learn(X[:100], y[:100], offset=offset[:100])


@pytest.mark.parametrize("loss", MEANS)
def test_faces_agree(loss: str) -> None:
    X, y, offset = claims(loss, rows=500)
    learner = OnlineLearner(loss=loss, dtype="float64")
    learner.learn(X, y, offset=offset)
    model = SONRegressor(loss, dtype="float64", shuffle=False).fit(X, y, offset=offset)
    predictions = model.predict(X, offset=offset)
    np.testing.assert_array_equal(predictions, learner.predict(X, offset=offset))
    raw = X @ model.coef_ + model.intercept_
    assert raw.shape == y.shape
    again = SONRegressor(loss, dtype="float64").partial_fit(X, y, offset=offset)
    np.testing.assert_array_equal(again.predict(X, offset=offset), predictions)
    online = sonline_river.SONRegressor(loss=loss)
    for x, label, o in zip(X[:100], y, offset, strict=False):
        online.learn_one(dict(enumerate(x.tolist())), float(label), offset=float(o))
    same = OnlineLearner(loss=loss, dtype="float64")
    same.learn(X[:100], y[:100], offset=offset[:100])
    row = dict(enumerate(X[0].tolist()))
    wanted = same.model.means(same.model.predict([row], later=False, offset=[0.5])[0])
    assert online.predict_one(row, offset=0.5) == wanted[0]
    many, frame = sonline_river.SONRegressor(loss=loss), pd.DataFrame(X[:100])
    many.learn_many(frame, pd.Series(y[:100]), offset=offset[:100])
    assert many.predict_one(row, offset=0.5) == wanted[0]
    assert many.predict_many(frame[:1], offset=0.5).tolist() == wanted.tolist()
    assert many.model.unit() == "in the logarithm of the target"


def test_a_row_that_is_too_large_is_left_out_and_said() -> None:
    X, y, offset = claims("gamma", rows=60)
    y[40] = 1e140
    learner, expected = OnlineLearner(loss="gamma"), OnlineLearner(loss="gamma")
    before = expected.learn(X[:40], y[:40], offset=offset[:40])
    with pytest.raises(DivergenceError, match="row 40: a step is too large") as error:
        learner.learn(X, y, offset=offset)
    assert error.value.rows_done == 41
    np.testing.assert_array_equal(error.value.predictions, before)
    rest = learner.learn(X[41:], y[41:], offset=offset[41:])
    np.testing.assert_allclose(rest, expected.learn(X[41:], y[41:], offset=offset[41:]), rtol=1e-4)


@pytest.mark.parametrize("loss", MEANS)
def test_compact_models_predict_the_same(loss: str) -> None:
    X, y, offset = claims(loss, rows=1000)
    learner = OnlineLearner(loss=loss, dtype="float64")
    learner.learn(X, y, offset=offset)
    small = learner.compact()
    np.testing.assert_allclose(
        small.predict(X, offset=offset), learner.predict(X, offset=offset), rtol=1e-9
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_huber_is_robust_in_any_unit(scale: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4))
    clean = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=5000)
    dirty = scale * np.where(rng.random(5000) < 0.02, 1000.0, clean)
    errors = {}
    for loss in ("squared", "huber"):
        learner = OnlineLearner(loss=loss)
        learner.learn(X, dirty)
        errors[loss] = np.abs(learner.predict(X) / scale - X @ [1.0, -2.0, 0.5, 0.0]).mean()
    assert errors["huber"] < 0.3
    assert errors["huber"] < 0.5 * errors["squared"]


def test_expectiles_and_small_errors() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    y = X @ [1.0, -1.0, 0.0] + rng.exponential(size=5000)
    levels = []
    for level in (0.1, 0.5, 0.9):
        learner = OnlineLearner(loss="expectile", quantile=level)
        learner.learn(X, y)
        z = learner.predict(X)
        shifted = [losses("expectile", y, z + c, level).mean() for c in np.linspace(-1, 1, 41)]
        assert losses("expectile", y, z, level).mean() < 1.03 * min(shifted)
        levels.append(learner.predict(X).mean())
    assert levels[0] < levels[1] < levels[2]
    learner = OnlineLearner(loss="epsilon_insensitive", epsilon=0.5)
    learner.learn(X, y)
    assert np.abs(learner.predict(X) - (X @ [1.0, -1.0, 0.0] + np.log(2))).mean() < 0.3


def test_the_squared_loss_warns_about_skewed_labels_once() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    targets = {
        "poisson": (rng.random(2000) < 0.01) * rng.integers(1, 4, 2000),
        "tweedie": (rng.random(2000) < 0.05) * rng.exponential(size=2000) * 100,
        "gamma": np.exp(3 * rng.normal(size=2000)),
    }
    for loss, y in targets.items():
        learner = OnlineLearner(loss="squared")
        with pytest.warns(UserWarning, match=rf"heavily skewed .* use loss='{loss}'"):
            learner.learn(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learner.learn(X, y)
            OnlineLearner(loss=loss).learn(X, y)
            OnlineLearner(loss="squared").learn(X, rng.exponential(size=2000))
            OnlineLearner(loss="squared").learn(X, y - 1)
