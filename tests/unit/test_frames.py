"""Frames of pandas, polars and Arrow: features by name, on every face."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sonline import OnlineLearner, SONClassifier
from sonline.errors import InvalidInputError, ParameterError

ROWS = 80
LIBRARIES = ["pandas", "polars", "arrow"]


def columns(seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(1, 80, ROWS) / 4
    plan = rng.choice(["free", "paid", None], ROWS)
    active = rng.random(ROWS) < 0.5
    score = np.where(rng.random(ROWS) < 0.2, np.nan, rng.integers(-9, 10, ROWS) / 8)
    y = ((age > 9) ^ (plan == "paid")).astype(int)
    table = {
        "age": age.tolist(),
        "plan": plan.tolist(),
        "active": active.tolist(),
        "score": [None if v != v else v for v in score.tolist()],  # noqa: PLR0124 - NaN
    }
    return table, y


def made(library, table):
    if library == "pandas":
        return pd.DataFrame(table)
    if library == "polars":
        return pytest.importorskip("polars").DataFrame(table)
    return pytest.importorskip("pyarrow").table(table)


def mappings(table):
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return [{k: float(v) if isinstance(v, bool) else v for k, v in row.items()} for row in rows]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_frame_is_its_rows_by_name(library):
    table, y = columns()
    by_frame, by_row = OnlineLearner(dtype="float64"), OnlineLearner(dtype="float64")
    raw = by_frame.learn(made(library, table), y)
    rows = [{k: v for k, v in row.items() if v is not None} for row in mappings(table)]
    assert raw.tolist() == [
        by_row.learn_one(row, label) for row, label in zip(rows, y.tolist(), strict=True)
    ]
    assert by_frame.weights() == by_row.weights()
    assert {"age", "plan=free", "plan=paid", "active"} <= set(by_frame.features())
    # The order of columns does not matter, and those that are not there are absent.
    turned = {name: table[name] for name in ("score", "plan", "active", "age")}
    np.testing.assert_allclose(  # sums of parts of size 1, in another order
        by_frame.predict(made(library, turned)),
        by_frame.predict(made(library, table)),
        rtol=1e-12,
        atol=1e-12,
    )
    some = by_frame.predict(made(library, {"age": table["age"]}))
    assert some.tolist() == by_row.predict([{"age": v} for v in table["age"]]).tolist()
    assert by_frame.predict_one(rows[3]) == by_row.predict_one(rows[3])


@pytest.mark.parametrize("library", LIBRARIES)
def test_estimators_take_text_and_gaps(library):
    table, y = columns()
    model = SONClassifier(dtype="float64", shuffle=False).fit(made(library, table), y)
    learner = OnlineLearner(dtype="float64")
    learner.learn(made(library, table), y)
    assert model.weights() == learner.weights()
    assert model.feature_names_in_.tolist() == list(table)
    np.testing.assert_array_equal(
        model.decision_function(made(library, table)), learner.predict(made(library, table))
    )
    with pytest.raises(AttributeError, match=r"'plan=\w+' is not a column of X.* weights\(\)"):
        _ = model.coef_
    other = made(library, {name: table[name] for name in reversed(table)})
    np.testing.assert_allclose(model.decision_function(other), learner.predict(other), rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):  # as scikit-learn has it
        model.predict(made(library, {name: table[name] for name in list(table)[1:]}))


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_that_cannot_be_features_are_named(library):
    days = [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 3
    with pytest.raises(InvalidInputError, match=r"'when' has the type .*cannot be a feature"):
        OnlineLearner().learn(made(library, {"a": [1.0, 2.0, 3.0], "when": days}), [1, 0, 1])
    model = OnlineLearner()
    with pytest.raises(InvalidInputError, match="inf in row 1, column 'a'"):
        model.learn(made(library, {"a": [1.0, float("inf"), 3.0]}), [1, 0, 1])
    assert model.features() == []


def test_categories_and_columns_without_names():
    frame = pd.DataFrame({"size": pd.Categorical(["s", "l", None, "s"], ["s", "m", "l"])})
    model = OnlineLearner()
    model.learn(frame, [1, 0, 1, 1])
    assert model.features() == ["size=s", "size=l"]
    plain = OnlineLearner()
    plain.learn(pd.DataFrame([[1.0, 2.0], [3.0, 4.0]]), [1, 0])
    assert plain.features() == [0, 1]
    mixed = pd.DataFrame({"a": ["x", 3]})
    with pytest.raises(InvalidInputError, match="column 'a' mixes text and int"):
        model.learn(mixed, [1, 0])


def test_names_and_indices_are_not_confused():
    table, y = columns()
    by_name, by_index = OnlineLearner(), OnlineLearner()
    by_name.learn(made("pandas", table), y)
    by_index.learn(np.eye(4), [1, 0, 1, 0])
    with pytest.raises(InvalidInputError, match="knows its features by name"):
        by_name.predict(np.eye(4))
    for call in (by_index.predict, lambda X: by_index.learn(X, [1])):
        with pytest.raises(InvalidInputError, match="knows its features by index"):
            call(pd.DataFrame({"age": [1.0]}))


def test_empty_batches_and_other_containers():
    model = OnlineLearner()
    for nothing in ([], np.empty((0, 3)), sp.csr_array((0, 3)), pd.DataFrame({"a": []})):
        assert model.learn(nothing, []).shape == (0,)
        assert model.predict(nothing).shape == (0,)
    dense = np.array([[1.0, 0.0], [0.0, 2.0]])
    model.learn(sp.dok_array(dense), [1, 0])
    assert model.features() == [0, 1]
    with pytest.raises(InvalidInputError, match="can be read once only: pass list"):
        model.learn(({"a": 1.0} for _ in range(3)), [1, 0, 1])
    polars = pytest.importorskip("polars")
    with pytest.raises(InvalidInputError, match=r"LazyFrame; collect\(\) it"):
        model.learn(polars.LazyFrame({"a": [1.0]}), [1])


def test_probabilities_and_explanations():
    table, y = columns()
    rows = [{k: v for k, v in row.items() if v is not None} for row in mappings(table)]
    model = OnlineLearner(dtype="float64")
    model.learn(rows, y)
    chances = model.predict_proba(rows)
    assert chances.shape == (ROWS, 2)
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-model.predict(rows))), rtol=1e-12)
    assert model.predict_proba_one(rows[0]) == {0: chances[0, 0], 1: chances[0, 1]}
    parts = model.explain_one(rows[0])
    assert parts["(intercept)"] == pytest.approx(model.bias)
    assert sum(parts.values()) == pytest.approx(model.predict_one(rows[0]))
    sizes = [abs(value) for value in parts.values()]
    assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(InvalidInputError, match="probabilities need classes and loss='logistic'"):
        OnlineLearner(loss="squared").predict_proba(rows)


def test_the_intercept_of_an_explanation_hides_no_feature():
    row = {"(intercept)": 2.0, "((intercept))": -1.0}
    model = OnlineLearner(loss="squared", dtype="float64")
    for _ in range(20):
        model.learn_one(row, 3.0)
    parts = model.explain_one(row)
    assert parts["(((intercept)))"] == pytest.approx(model.bias)
    assert set(row) < set(parts)
    assert sum(parts.values()) == pytest.approx(model.predict_one(row))
    assert list(OnlineLearner(intercept=False).explain_one(row)) == []


def test_scaled_weights_do_not_depend_on_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = (X @ [1.0, -2.0, 0.5] > 0).astype(int)
    first, second = (OnlineLearner(scaling="rms", dtype="float64") for _ in range(2))
    first.learn(X, y)
    second.learn(X * [1024, 1 / 1024, 1], y)
    assert first.weights() != second.weights()
    for name, weight in first.weights(scaled=True).items():
        assert second.weights(scaled=True)[name] == pytest.approx(weight, rel=1e-9)


def test_negative_class_weights_are_named():
    with pytest.raises(ParameterError, match="the weight of class 'b' is -1"):
        SONClassifier(class_weight={"a": 1.0, "b": -1}).fit([[1.0], [2.0]], ["a", "b"])


@pytest.mark.parametrize("kind", ["learner", "estimator"])
def test_a_column_that_changes_between_numbers_and_text(kind):
    frame = pd.DataFrame({"age": [20.0, 30.0, 0.0] * 4, "branch": ["1", "2", "3"] * 4})
    labels = [0, 1, 1] * 4
    if kind == "learner":
        model = OnlineLearner()
        model.learn(frame, labels)
        train = model.learn
    else:
        model = SONClassifier().fit(frame, labels)
        train = model.partial_fit
    before = model.predict(frame).tolist()
    text = frame.assign(age=frame["age"].astype(str))
    numbers = frame.assign(branch=frame["branch"].astype(int))
    for wrong, message in (
        (text, r"X: column 'age' has text \('20.0'\), but the model was trained with numbers"),
        (numbers, "X: column 'branch' has numbers, but the model was trained with text"),
        (frame.assign(branch=[3.0, None, None] * 4), "X: column 'branch' has numbers"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.predict(wrong)
        with pytest.raises(InvalidInputError, match=message):
            train(wrong, labels)
    assert model.predict(frame).tolist() == before
    unseen = frame.assign(branch=["9", None, ""] * 4, age=[None] * 12)
    assert len(model.predict(unseen)) == 12


def test_a_new_column_may_have_any_type():
    frame = pd.DataFrame({"age": [20.0, 30.0] * 4})
    learner = OnlineLearner()
    learner.learn(frame, [0, 1] * 4)
    learner.learn(frame.assign(branch=[1, 2] * 4, city=["a", "b"] * 4), [0, 1] * 4)
    assert learner.features() == ["age", "branch", "city=a", "city=b"]
    hashed = OnlineLearner(hash_bits=8)
    hashed.learn(frame, [0, 1] * 4)
    hashed.learn(frame.astype(str), [0, 1] * 4)
