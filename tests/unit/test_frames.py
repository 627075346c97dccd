"""Frames of pandas, polars and Arrow: features by name, on every face."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sonline import OnlineLearner, SONClassifier, streams
from sonline.errors import InvalidInputError, ParameterError
from sonline.labels import ClassTable
from sonline.model import Model
from sonline.parameters import Parameters
from sonline.training import stream_options

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
    spans = [dt.timedelta(hours=1)] * 3
    with pytest.raises(InvalidInputError, match=r"'long' has the type .*cannot be a feature"):
        OnlineLearner().learn(made(library, {"a": [1.0, 2.0, 3.0], "long": spans}), [1, 0, 1])
    model = OnlineLearner()
    with pytest.raises(InvalidInputError, match="X, row 1: column 'a': inf"):
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
    assert model.predict_proba_one(rows[0]) == pytest.approx({0: chances[0, 0], 1: chances[0, 1]})
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
    hashed.learn(frame.assign(branch=[1, 2] * 4, city=["a", "b"] * 4), [0, 1] * 4)
    with pytest.raises(InvalidInputError, match="column 'age' has text"):
        hashed.learn(frame.astype(str), [0, 1] * 4)


ZIPS = pd.DataFrame({"zip": ["10", "20", "30", "40"] * 50, "size": [1.0, 2.0] * 100})
WANTED = [1, 0, 1, 0] * 50


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_streams_read_columns_as_the_frames_had_them(suffix, tmp_path):
    pytest.importorskip("pyarrow")
    learner = OnlineLearner()
    learner.learn(ZIPS, WANTED)
    assert learner.model.reading.columns == {"zip": "text", "size": "number"}
    twin = OnlineLearner()
    twin.learn(ZIPS, WANTED)
    twin.learn(ZIPS, WANTED)
    file, plain = tmp_path / f"z{suffix}", ZIPS.astype({"zip": int}).assign(label=WANTED)
    if suffix == ".csv":
        plain.to_csv(file, index=False)
    elif suffix == ".parquet":
        plain.to_parquet(file)
    else:
        plain.to_json(file, orient="records", lines=True)
    with streams.open(file, **stream_options(learner.model)) as stream:
        read = np.concatenate([learner.predict(batch) for batch in stream])
    np.testing.assert_array_equal(read, learner.predict(ZIPS))
    if suffix != ".jsonl":  # whose reader needs no model
        with (
            streams.open(file) as stream,
            pytest.raises(InvalidInputError, match=r"'zip' was read as numbers.*text=\['zip'\]"),
        ):
            learner.predict(next(iter(stream)))
    learner.learn_stream(file)
    assert learner.weights() == twin.weights()
    assert learner.model.reading.columns == {"zip": "text", "size": "number"}


def test_the_types_of_a_batch_that_is_refused_are_not_kept():
    learner = OnlineLearner()
    with pytest.raises(InvalidInputError):
        learner.learn(pd.DataFrame({"c": ["x", "y"]}), [1, 7])
    learner.learn(pd.DataFrame({"c": [1.0, 2.0]}), [1, 0])
    learner.learn(pd.DataFrame({"c": [None, None]}, dtype=object), [1, 0])
    with pytest.raises(InvalidInputError, match="'c' has text"):
        learner.learn(pd.DataFrame({"c": ["x", "y"]}), [1, 0])


@pytest.mark.parametrize("hash_bits", [None, 10])
def test_a_column_of_text_does_not_become_numbers(hash_bits):
    learner = OnlineLearner(hash_bits=hash_bits)
    learner.learn(pd.DataFrame({"c": ["x", "y"] * 50}), [1, 0] * 50)
    for frame in (pd.DataFrame({"c": [7.0, 8.0]}), pd.DataFrame({"c": [7, None]})):
        with pytest.raises(InvalidInputError, match=r"'c' has numbers, but .*with text"):
            learner.predict(frame)
    assert learner.predict(pd.DataFrame({"c": [np.nan]})).size == 1


def test_columns_with_integer_names_are_these_features():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=[2021, 2022])
    y = (X[2021] - X[2022] > 0).astype(int)
    by_frame, by_row, by_array = OnlineLearner(), OnlineLearner(), OnlineLearner()
    by_frame.learn(X, y)
    by_row.learn(X.to_dict("records"), y)
    assert by_frame.features() == [2021, 2022]
    assert by_frame.weights() == by_row.weights()
    np.testing.assert_array_equal(by_frame.predict(X), by_row.predict(X.to_dict("records")))
    np.testing.assert_allclose(by_frame.predict(X[[2022, 2021]]), by_frame.predict(X), atol=1e-5)
    by_array.learn(X.to_numpy(), y)
    renamed = X.set_axis([0, 1], axis=1)
    np.testing.assert_array_equal(by_array.predict(renamed), by_array.predict(X.to_numpy()))
    np.testing.assert_allclose(
        by_array.predict(renamed[[1, 0]]), by_array.predict(renamed), atol=1e-5
    )
    for names in ([-1, 0], [3, 3]):
        with pytest.raises(InvalidInputError, match="numbers of columns must be different"):
            by_frame.learn(X.set_axis(names, axis=1), y)
    named = OnlineLearner()
    named.learn(X.set_axis(["a", "b"], axis=1), y)
    with pytest.raises(InvalidInputError, match="knows its features by name, X has none"):
        named.predict(X)
    with pytest.raises(InvalidInputError, match="with a name for each column"):
        OnlineLearner().learn(pd.DataFrame([["x", 1]]), [1])


def test_integer_categories_are_categories_everywhere(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    frame = pd.DataFrame({"k": pd.Categorical([1, 2, 3, 4] * 10)})
    table = pa.Table.from_pandas(frame)
    y = [1, 0] * 20
    labelled = table.append_column("label", pa.array(y))
    parquet.write_table(labelled, tmp_path / "k.parquet")
    with pa.ipc.new_file(str(tmp_path / "k.arrow"), labelled.schema) as writer:
        writer.write_table(labelled)
    learners = [OnlineLearner() for _ in range(4)]
    learners[0].learn(frame, y)
    learners[1].learn(table, y)
    learners[2].learn_stream(tmp_path / "k.parquet")
    learners[3].learn_stream(tmp_path / "k.arrow")
    for learner in learners:
        assert learner.features() == ["k=1", "k=2", "k=3", "k=4"]
        assert learner.weights() == learners[0].weights()


def test_two_columns_with_one_feature_are_an_error():
    for table in (
        {"c": ["x", "y"], "c=x": [1.0, 2.0]},
        {"c=x": [1.0, 2.0], "c": ["x", "y"]},
        {"c": ["x=z", "y"], "c=x": ["z", "u"]},
    ):
        with pytest.raises(InvalidInputError, match="column 'c' and column 'c=x' are the same"):
            OnlineLearner().learn(pd.DataFrame(table), [1, 0])
    OnlineLearner().learn(pd.DataFrame({"c": ["u", "y"], "c=x": [1.0, 2.0]}), [1, 0])


def test_names_and_indices_are_not_mixed(tmp_path):
    by_index, by_name, both = OnlineLearner(), OnlineLearner(), OnlineLearner()
    by_index.learn(np.eye(4), [1, 0, 1, 0])
    by_name.learn(ZIPS, WANTED)
    both.learn([{"a": 1.0, 3: 2.0}], [1])
    ZIPS.assign(label=WANTED).to_csv(tmp_path / "z.csv", index=False)
    (tmp_path / "z.svm").write_text("1 1:1\n0 2:1\n")
    with pytest.raises(InvalidInputError, match="by index, the stream has names"):
        by_index.learn_stream(tmp_path / "z.csv")
    assert by_index.features() == [0, 1, 2, 3]
    by_index.learn_stream(tmp_path / "z.svm")
    with pytest.raises(InvalidInputError, match="by name, the stream has indices"):
        by_name.learn_stream(tmp_path / "z.svm")
    both.learn_stream(tmp_path / "z.svm")
    for one, other in ((by_index, by_name), (by_name, by_index)):
        with pytest.raises(InvalidInputError, match="by index, others by name"):
            one.merge([other])
    assert by_index.merge([both]).stats()["rounds"] == 9


def test_more_types_of_arrow():
    pa = pytest.importorskip("pyarrow")
    compute = pytest.importorskip("pyarrow.compute")
    text, numbers = ["u", "v", "u", None], [1.0, 5.0, 5.0, 2.0]
    table = pa.table(
        {
            "view": pa.array(text).cast(pa.string_view()),
            "runs": compute.run_end_encode(pa.array(text)),
            "numbers": compute.run_end_encode(pa.array(numbers)),
        }
    )
    plain = pa.table({"view": text, "runs": text, "numbers": numbers})
    one, other = OnlineLearner(), OnlineLearner()
    one.learn(table, [1, 0, 1, 0])
    other.learn(plain, [1, 0, 1, 0])
    assert one.weights() == other.weights()
    reader = pa.RecordBatchReader.from_batches(plain.schema, plain.to_batches())
    with pytest.raises(InvalidInputError, match=r"pass X\.read_all\(\)"):
        one.learn(reader, [1, 0, 1, 0])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("hash_bits", [None, 10])
def test_the_parts_of_a_prediction_after_few_rows(hash_bits, classes):
    table = ClassTable(tuple(range(classes)))
    model = OnlineLearner.from_model(Model(Parameters(hash_bits=hash_bits), table))
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=9), "b": 10 * rng.normal(size=9), "c": list("xyz") * 3}
    frame = pd.DataFrame(table)
    model.learn(frame, np.arange(9) % classes)
    for row in ({"a": 0.3, "b": -9.0, "c": "x"}, {"a": 4.0, "b": 3.0, "c": "y"}):
        parts = model.explain_one(row, 1)
        assert set(parts) == {"(intercept)", "a", "b", f"c={row['c']}"}
        raw = np.atleast_1d(model.predict_one(row))
        assert sum(parts.values()) == pytest.approx(raw[0 if classes == 2 else 1], abs=1e-5)
