"""Curves of columns: where they are, what they add, and rules for columns of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from sonline import OnlineLearner, ParameterError, SONClassifier, SONRegressor
from sonline.errors import InvalidInputError
from sonline.river import SONRegressor as RiverRegressor

Floats = NDArray[np.float64]


def squares(rows: int = 600, columns: int = 3, seed: int = 0) -> tuple[Floats, Floats]:
    """Rows, and a target that is the square of the first column."""
    X = np.random.default_rng(seed).normal(size=(rows, columns))
    return X, X[:, 0] ** 2 + X[:, 1]


def learned(X: Any, y: Any, **parameters: Any) -> tuple[OnlineLearner, Floats]:
    learner = OnlineLearner(**{"loss": "squared", **parameters})
    return learner, np.asarray(learner.learn(X, y))


def has_curves(learner: Any) -> bool:
    return bool(learner.all_curves())


# -- where there are curves ------------------------------------------------------------------------


def test_a_parabola_is_learned_and_a_line_stays_one() -> None:
    X, y = squares(3000)
    curved, straight = (learned(X, y, curves=curves)[1][1000:] for curves in ("auto", False))
    assert np.mean((curved - y[1000:]) ** 2) < 0.15 * np.mean((straight - y[1000:]) ** 2)
    line = X[:, 0] - 2 * X[:, 1]
    curved, straight = (learned(X, line, curves=curves)[1] for curves in ("auto", False))
    assert np.mean((curved - line) ** 2) < 1.03 * np.mean((straight - line) ** 2) + 1e-6


def frame(X: Floats) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])


TABLES = {
    "array": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "columns first": np.asfortranarray,
    "frame": frame,
    "mappings": lambda X: frame(X).to_dict("records"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_have_curves(kind: str) -> None:
    X, y = squares(200)
    assert has_curves(learned(TABLES[kind](X), y)[0])


def test_mappings_one_by_one_and_frames_are_the_same_bits() -> None:
    X, y = squares(300)
    many, wanted = learned(frame(X), y)
    one = OnlineLearner(loss="squared")
    rows = frame(X).to_dict("records")
    assert [one.learn_one(row, label) for row, label in zip(rows, y, strict=True)] == list(wanted)
    assert one.predict_one(rows[0]) == many.predict_one(rows[0])


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_files_with_columns_have_curves(tmp_path: Any, name: str) -> None:
    X, y = squares(200)
    table = frame(X).assign(y=y)
    if name.endswith("csv"):
        table.to_csv(tmp_path / name, index=False)
    else:
        table.to_parquet(tmp_path / name)
    learner = OnlineLearner(loss="squared")
    learner.learn_stream(str(tmp_path / name), label="y")
    assert has_curves(learner)


@pytest.mark.parametrize(
    ("rows", "parameters"),
    [
        (sp.csr_matrix, {}),
        (lambda X: X, {"curves": False}),
        (lambda X: X, {"alpha": "relative:0.1"}),
        (lambda X: X, {"sketch": "fd"}),
        (lambda X: X, {"scaling": "rms"}),
        (lambda X: X, {"intercept": False}),
        (lambda X: X, {"hash_bits": 10}),
    ],
)
def test_others_have_none_and_the_same_bits(rows: Any, parameters: dict[str, Any]) -> None:
    X, y = squares(200)
    learner, predictions = learned(rows(X), y, **parameters)
    assert not has_curves(learner)
    without = learned(rows(X), y, **{**parameters, "curves": False})[1]
    np.testing.assert_array_equal(predictions, without)


def test_words_as_mappings_have_none() -> None:
    rng = np.random.default_rng(0)
    rows = [{f"w{word}": 1 + word % 3 for word in rng.integers(0, 400, 12)} for _ in range(120)]
    y = rng.normal(size=120)
    learner, predictions = learned(rows, y)
    assert not has_curves(learner)
    np.testing.assert_array_equal(predictions, learned(rows, y, curves=False)[1])


def test_columns_of_zeros_and_ones_have_none() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, size=(200, 5)).astype(float), rng.normal(size=200)
    X[:, 3] = 7.0
    learner, predictions = learned(X, y)
    assert not has_curves(learner)
    np.testing.assert_array_equal(predictions, learned(X, y, curves=False)[1])


def test_sparse_rows_have_them_on_demand() -> None:
    X, y = squares(200)
    learner, predictions = learned(sp.csr_matrix(X), y, curves=True)
    assert has_curves(learner)
    np.testing.assert_array_equal(predictions, learned(X, y)[1])


@pytest.mark.parametrize(
    "parameters",
    [{"alpha": 1.0}, {"sketch": "none"}, {"scaling": "none"}, {"intercept": False}],
)
def test_curves_that_cannot_be_are_an_error(parameters: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="curves=True needs"):
        OnlineLearner(curves=True, **parameters)


def test_other_values_are_an_error() -> None:
    with pytest.raises(ParameterError, match="curves must be True, False, 'auto' or 'pairs'"):
        OnlineLearner(curves="lines")


def test_all_faces_have_the_parameter() -> None:
    X, y = squares(200)
    assert has_curves(SONRegressor().fit(X, y))
    assert not has_curves(SONRegressor(curves=False).fit(X, y))
    assert SONClassifier().fit(X, np.digitize(y, [0, 1])).all_curves(2)
    river = RiverRegressor(curves=False)
    for row, label in zip(frame(X).to_dict("records"), y, strict=True):
        river.learn_one(row, label)
    assert not river.model.curves()


# -- values of all kinds ---------------------------------------------------------------------------


def test_zero_is_the_same_stored_or_absent() -> None:
    X, y = squares(400)
    X[np.random.default_rng(1).random(X.shape) < 0.4] = 0.0
    dense, wanted = learned(X, y, curves=True)
    for rows in (sp.csr_matrix(X), [{j: v for j, v in enumerate(row) if v} for row in X.tolist()]):
        learner, predictions = learned(rows, y, curves=True)
        assert has_curves(learner)
        np.testing.assert_array_equal(predictions, wanted)
    missing = frame(X).mask(X == 0)
    named, wanted = learned(frame(X), y)
    predictions = learned(missing, y)[1]
    np.testing.assert_array_equal(predictions, wanted)
    for curve in dense.all_curves():
        assert 0.0 in curve.values
        assert all(np.interp(0.0, *hats) == 0 for hats in dense.model.hats(0).values())
    assert has_curves(named)


def test_few_integers_have_a_knot_each() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(500, 1)).astype(float)
    y = np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0])[X[:, 0].astype(int)]
    learner, predictions = learned(X, y)
    assert learner.curve(0).values.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.mean((predictions[250:] - y[250:]) ** 2) < 0.05 * y.var()


def test_beyond_the_knots_the_line_goes_on() -> None:
    X, y = squares(500, 2)
    learner, _ = learned(X, y)
    curve = learner.curve(0)
    last = curve.values[-1]
    a, b, c = learner.predict(np.array([[last, 0.0], [last + 1, 0.0], [last + 2, 0.0]]))
    weight = learner.weights()[0]
    np.testing.assert_allclose([b - a, c - b], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-12, 1e-3, 1e9])
def test_units_do_not_matter(factor: float) -> None:
    X, y = squares(500)
    wanted = learned(X, y, dtype="float64")[1]
    predictions = learned(X * factor, y, dtype="float64")[1]
    np.testing.assert_allclose(predictions, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:all values of 2 are so small")
def test_huge_and_tiny_values() -> None:
    X, y = squares(300)
    X[:, 1] *= 1e145
    X[:, 2] *= 1e-300
    X[100, 0] = 1e149
    learner, predictions = learned(X, y, dtype="float64")
    assert np.isfinite(predictions).all()
    assert np.isfinite(learner.predict(-X)).all()


def test_times_in_seconds() -> None:
    rng = np.random.default_rng(0)
    hours = np.sort(rng.uniform(0, 24 * 60, 4000))
    X = (1.7e9 + 3600 * hours)[:, np.newaxis]
    y = np.where(hours < 700, 0.0, 5.0) + 0.1 * rng.normal(size=hours.size)
    order = rng.permutation(hours.size)
    curved, straight = (
        learned(X[order], y[order], curves=curves, dtype="float64")[1][2000:]
        for curves in ("auto", False)
    )
    assert np.mean((curved - y[order][2000:]) ** 2) < 0.5 * np.mean(
        (straight - y[order][2000:]) ** 2
    )


def test_a_column_that_appears_late_gets_knots() -> None:
    X, y = squares(800)
    late = X.copy()
    late[:300, 2] = 0.0
    learner, _ = learned(late, y + np.abs(late[:, 2]))
    assert {curve.feature for curve in learner.all_curves()} == {0, 1, 2}
    assert learner.curve(2).rows.sum() == 500


def test_a_column_that_is_constant_at_first_gets_knots() -> None:
    rng = np.random.default_rng(0)
    months = np.repeat(np.arange(1.0, 13.0), 60)
    X = np.column_stack([months, rng.normal(size=months.size)])
    y = np.cos(months) + 0.1 * X[:, 1]
    learner, _ = learned(X, y)
    assert {curve.feature for curve in learner.all_curves()} == {0, 1}
    assert set(np.arange(3.0, 7.0)) <= set(learner.curve(0).values)


def test_a_unit_that_changes_gets_knots() -> None:
    X, y = squares(4000, 2)
    X[2000:, 0] *= 1000
    learner, predictions = learned(X, y)
    assert np.abs(learner.curve(0).values).max() > 500
    straight = learned(X, y, curves=False)[1]
    later = slice(3000, 4000)
    curved_error, error = (np.mean((z[later] - y[later]) ** 2) for z in (predictions, straight))
    assert curved_error < 0.8 * error


def test_bad_values_are_refused_and_change_nothing() -> None:
    X, y = squares(300)
    learner, _ = learned(X[:200], y[:200])
    twin, _ = learned(X[:200], y[:200])
    for value in (np.nan, np.inf, 1e300):
        wrong = X[200:].copy()
        wrong[50, 1] = value
        with pytest.raises(InvalidInputError):
            learner.learn(wrong, y[200:])
    np.testing.assert_array_equal(learner.learn(X[200:], y[200:]), twin.learn(X[200:], y[200:]))


def test_memory_is_bounded() -> None:
    rng = np.random.default_rng(0)
    learner = OnlineLearner(loss="squared")
    sizes = []
    for _ in range(3):
        X = rng.normal(size=(20_000, 5))
        learner.learn(X, X[:, 0] ** 2)
        sizes.append(learner.stats()["bytes"])
    assert sizes[2] < 1.05 * sizes[1]
    assert max(curve.values.size for curve in learner.all_curves()) <= 60


def test_many_features_do_not_all_wait_for_knots() -> None:
    rng = np.random.default_rng(0)
    X, y = squares(100, 3)
    learner, _ = learned([dict(enumerate(row)) for row in X.tolist()], y)
    rows = [{f"n{n}-{k}": v for k, v in enumerate(rng.normal(size=3))} for n in range(2000)]
    before = learner.stats()["bytes"]
    learner.learn(rows, rng.normal(size=2000))
    assert {curve.feature for curve in learner.all_curves()} == {0, 1, 2}
    assert learner.stats()["bytes"] - before < 6000 * 400


# -- looking at them -------------------------------------------------------------------------------


def test_a_curve_is_what_the_column_adds() -> None:
    X, y = squares(2000)
    learner, _ = learned(X, y)
    curve = learner.curve(0)
    assert curve.rows.size == curve.values.size + 1
    assert curve.rows.sum() == 2000
    assert curve.importance > learner.curve(2).importance
    rows = np.zeros((curve.values.size, 3))
    rows[:, 0] = curve.values
    constant = learner.predict(np.zeros((1, 3)))[0]
    np.testing.assert_allclose(
        learner.predict(rows) - constant, curve.contributions + curve.mean, atol=1e-4
    )
    values = np.linspace(-2, 2, 50)
    rows = np.zeros((50, 3))
    rows[:, 0] = values
    np.testing.assert_allclose(
        learner.predict(rows) - constant, curve.at(values) + curve.mean, atol=1e-4
    )
    assert abs(np.corrcoef(curve.at(values), values**2)[0, 1]) > 0.99


def test_a_column_without_a_curve_is_a_line() -> None:
    X, y = squares(500)
    X[:, 1] = X[:, 1] > 0
    learner, _ = learned(X, y)
    line = learner.curve(1)
    assert line.values.tolist() == [0, 1]
    assert np.diff(line.contributions)[0] == pytest.approx(learner.weights()[1])
    with pytest.raises(InvalidInputError, match="no feature 'age'"):
        learner.curve("age")


@pytest.mark.parametrize("classes", [2, 4])
def test_parts_add_up_to_the_prediction(classes: int) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.normal(40, 10, 1500),
            "year": rng.integers(2000, 2012, 1500).astype(float),
            "paid": rng.integers(0, 2, 1500),
            "city": rng.choice(["Oslo", "Bergen"], 1500),
        }
    )
    score = np.abs(X.age - 40) / 10 + (X.year == 2005) + (X.city == "Oslo")
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    model = SONClassifier(shuffle=False).fit(X, y)
    raw = model.decision_function(X[:20])
    for number, row in enumerate(X[:20].to_dict("records")):
        parts = model.explain_one(row, 1)
        assert {"age", "year"} <= set(parts)
        wanted = raw[number] if classes == 2 else raw[number, 1]
        assert sum(parts.values()) == pytest.approx(wanted, abs=1e-4)


def test_the_curve_of_the_other_class_is_opposite() -> None:
    X, y = squares(500)
    model = SONClassifier().fit(X, np.where(y > 1, "high", "low"))
    low, high = model.curve(0, "low"), model.curve(0, "high")
    np.testing.assert_allclose(low.contributions, -high.contributions)
