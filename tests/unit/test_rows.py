"""One checker and one builder of rows: the same reasons, rows and features on every path."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from sonline import OnlineLearner, SONClassifier, SONRegressor, streams
from sonline.distributed.partition import train_arrays
from sonline.errors import DataFormatError, InvalidInputError
from sonline.model import Model, probabilities
from sonline.model.predictions import probabilities_one
from sonline.parameters import Parameters
from sonline.read_options import ReadOptions
from sonline.river import SONClassifier as RiverClassifier
from sonline.river import SONRegressor as RiverRegressor
from sonline.rows.cells import SparseRows

TABLE = {"a": [1.0, 2.0, np.inf], "b": ["x", None, "y"]}
LABELS = [1, -1, 1]


def frame(kind: str) -> Any:
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind](TABLE)


def error_of(call: Any) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as raised:
        call()
    return raised.value


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_errors_about_frames_have_row_and_field(kind: str) -> None:
    error = error_of(lambda: OnlineLearner().learn(frame(kind), LABELS))
    assert (error.row, error.field) == (2, "a")
    error = error_of(lambda: OnlineLearner(missing="refuse").learn(frame(kind)[:2], LABELS[:2]))
    assert (error.row, error.field) == (1, "b")


@pytest.mark.parametrize(
    ("X", "row", "field"),
    [
        (np.array([[1.0, 2.0], [3.0, np.nan]]), 1, 1),
        (np.asfortranarray([[1.0, 1e200], [3.0, 4.0]]), 0, 1),
        (np.array([[1.0, 2.0], [np.inf, 1.0]], np.float32), 1, 0),
        (sp.csr_matrix([[0.0, 2.0], [0.0, np.nan]]), 1, 1),
        ([{"a": 1.0}, {"b": 1.0, "c": np.inf}], 1, "c"),
        ([{"a": 1.0}, {"b": 1.0, "c": []}], 1, "c"),
        ([{"a": 1.0}, 7], 1, "X"),
    ],
)
@pytest.mark.parametrize("verb", ["learn", "predict"])
def test_errors_of_the_core_have_row_and_field(verb: str, X: Any, row: int, field: Any) -> None:
    arguments = (X, [1, -1]) if verb == "learn" else (X,)
    error = error_of(lambda: getattr(OnlineLearner(), verb)(*arguments))
    assert (error.row, error.field, error.argument) == (row, field, "X")
    assert str(error).startswith(f"X, row {row}: ")
    assert error.numbered(1).startswith(f"X, row {row + 1}: ")


def test_errors_about_labels_and_weights_have_the_row() -> None:
    X = np.eye(3)
    labels = error_of(lambda: OnlineLearner().learn(X, [1, -1, 7]))
    numbers = error_of(lambda: OnlineLearner(loss="squared").learn(X, [1, np.nan, 7]))
    weights = error_of(lambda: OnlineLearner().learn(X, LABELS, [1, 1, -1]))
    assert [(e.row, e.field) for e in (labels, numbers, weights)] == [
        (2, "y"),
        (1, "y"),
        (2, "sample_weight"),
    ]


@pytest.mark.parametrize(
    "error",
    [
        InvalidInputError("wrong", argument="X", row=3, field="a"),
        DataFormatError("wrong", file="a.csv", line=3, column=4, text="x"),
    ],
)
def test_errors_survive_pickling(error: InvalidInputError) -> None:
    copied = pickle.loads(pickle.dumps(error))
    assert str(copied) == str(error)
    assert vars(copied) == vars(error)


def test_all_paths_refuse_the_same_row(tmp_path: Any) -> None:
    """Frames, Arrow, Parquet and a partition: the reason is the same text."""
    whole = pd.DataFrame({"a": [1.0, 2.0, 1e30], "y": LABELS})
    texts = [
        error_of(lambda: OnlineLearner().learn(whole[["a"]], LABELS)).message,
        error_of(lambda: OnlineLearner().learn(pa.table(whole[["a"]]), LABELS)).message,
    ]
    pq.write_table(pa.table(whole), tmp_path / "a.parquet")
    options = {"label": "y", "frozen": True, "on_error": "skip"}
    with streams.open(tmp_path / "a.parquet", **options) as stream:
        (batch,) = stream
    assert len(batch) == 2
    texts.append(batch.bad[0].reason.removeprefix("row 3: "))
    with pytest.raises(DataFormatError) as raised:
        train_arrays(SONClassifier(dtype="float32"), 0, "", whole[["a"]], LABELS, classes=[-1, 1])
    assert raised.value.line == 3
    texts.append(raised.value.message.partition("; repair it")[0])
    assert len(set(texts)) == 1
    assert "column 'a': 1e+30 is too large: at most 1e+18 with float32" in texts[0]


def test_sparse_rows() -> None:
    unknown = np.iinfo(np.uint64).max
    rows = SparseRows(np.array([0, 2, 2, 3]), np.array([1, unknown, 5], np.uint64), np.ones(3))
    known = rows.known()
    assert known.indptr.tolist() == [0, 1, 1, 2]
    assert known.keys.tolist() == [1, 5]
    assert known.rows(np.array([2, 0])).keys.tolist() == [5, 1]


# -- limits ----------------------------------------------------------------------------------------


def test_a_sparse_matrix_must_keep_to_its_width() -> None:
    X = sp.csr_matrix((np.ones(3), np.array([0, 1, 9]), np.array([0, 1, 2, 3])), shape=(3, 10))
    X._shape = (3, 4)  # as a damaged file leaves it
    for verb in ("learn", "predict"):
        arguments = (X, LABELS) if verb == "learn" else (X,)
        error = error_of(lambda v=verb, a=arguments: getattr(OnlineLearner(), v)(*a))
        assert (error.row, error.field) == (2, 9)
        assert "feature index 9, but there are only 4 columns" in str(error)


@pytest.mark.parametrize("weight", [1e30, 1.0000001e9, np.inf])
def test_weights_above_the_limit_are_errors(weight: float, tmp_path: Any) -> None:
    X, wanted = np.eye(3), "is not a number from 0 to 1e.09"
    row = {"a": 1.0}
    calls = [
        lambda: OnlineLearner().learn(X, LABELS, [1, 1, weight]),
        lambda: OnlineLearner().learn_one(row, 1, weight),
        lambda: SONClassifier().fit(X, LABELS, [1, 1, weight]),
        lambda: RiverClassifier().learn_one(row, "a", weight),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match=wanted):
            call()
    with pytest.raises(InvalidInputError, match="weight of class"):
        SONClassifier(class_weight={1: weight}).fit(X, LABELS)
    if not np.isfinite(weight):
        return
    files = {
        "a.csv": f"y,w,a\n1,1,1\n0,{weight!r},2\n1,1,1\n",
        "a.vw": f"1 1 |f a\n-1 {weight!r} |f b\n1 1 |f a\n",
        "a.jsonl": "".join(
            json.dumps({"y": 1, "w": w, "a": 1.0}) + "\n" for w in (1.0, weight, 1.0)
        ),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        columns = {} if name == "a.vw" else {"label": "y", "weight": "w"}
        with streams.open(tmp_path / name, on_error="skip", **columns) as stream:
            batches = list(stream)
        assert [len(batch) for batch in batches] == [2]
        assert "from 0 to 1e+09" in batches[0].bad[0].reason
        before: list[Any] = []
        with (
            streams.open(tmp_path / name, **columns) as stream,
            pytest.raises(DataFormatError, match=wanted),
        ):
            before += stream
        assert [len(batch) for batch in before] == [1]
        assert before[0].end.line == (3 if name == "a.csv" else 2)  # at the bad row
    assert OnlineLearner().learn_one(row, 1, 1e9) == 0.0


def tiny(size: float) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"usual": rng.normal(size=400), "tiny": size * rng.normal(size=400)})
    return X, np.sign(X["tiny"]).to_numpy()


def one_by_one(learner: OnlineLearner, rows: list[dict[str, float]], y: Any) -> None:
    for row, label in zip(rows, y.tolist(), strict=True):
        learner.learn_one(row, label)


def in_small_batches(learner: OnlineLearner, X: pd.DataFrame, y: Any) -> None:
    for start in range(0, len(y), 10):
        learner.learn(X.to_numpy()[start : start + 10], y[start : start + 10])


@pytest.mark.parametrize(
    "kind", ["frame", "array", "sparse", "file", "mappings", "one by one", "small batches"]
)
def test_values_that_float32_loses_are_named(kind: str, tmp_path: Any) -> None:
    X, y = tiny(1e-25)
    X.assign(y=y).to_csv(tmp_path / "a.csv", index=False)
    call = {
        "frame": lambda learner: learner.learn(X, y),
        "array": lambda learner: learner.learn(X.to_numpy(), y),
        "sparse": lambda learner: learner.learn(sp.csr_matrix(X.to_numpy()), y),
        "file": lambda learner: learner.learn_stream(tmp_path / "a.csv", label="y"),
        "mappings": lambda learner: learner.learn(X.to_dict("records"), y),
        "one by one": lambda learner: one_by_one(learner, X.to_dict("records"), y),
        "small batches": lambda learner: in_small_batches(learner, X, y),
    }[kind]
    name = "1" if kind in ("array", "sparse", "small batches") else "'tiny'"
    with pytest.warns(UserWarning, match=f"all values of {name} are so small .*dtype='float64'"):
        call(OnlineLearner())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(OnlineLearner(dtype="float64"))
    X, y = tiny(1e-18)
    X.assign(y=y).to_csv(tmp_path / "a.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(OnlineLearner())


# -- single rows and notebooks ---------------------------------------------------------------------


def test_frames_of_one_row_are_rows() -> None:
    X, y = tiny(1.0)
    learner, fitted = OnlineLearner(), SONClassifier(random_state=0).fit(X, y)
    learner.learn(X, y)
    river = RiverRegressor()
    frames = [X[:1], pl.from_pandas(X[:1]), pa.Table.from_pandas(X[:1], preserve_index=False)]
    for frame in frames:
        raw = learner.predict(X)[0]
        assert learner.predict_one(frame) == raw
        assert sum(learner.explain_one(frame).values()) == pytest.approx(raw, abs=1e-5)
        assert learner.learn_one(frame, 1) is not None
        river.learn_one(frame, 1.0)
    assert river.model.stats()["rounds"] == 3
    with pytest.raises(InvalidInputError, match="one row is expected, and the frame has 2"):
        learner.predict_one(X[:2])
    rows = X[:3]
    wanted = fitted.explain_many(rows.to_dict("records"))
    array = SONClassifier(random_state=0).fit(X.to_numpy(), y)
    for table in (rows, pl.from_pandas(rows), pa.Table.from_pandas(rows), rows.to_numpy()):
        assert fitted.explain_many(table) == wanted
    by_column = array.explain_many(rows.to_numpy())
    assert array.explain_many(sp.csr_matrix(rows.to_numpy())) == by_column
    assert [sum(parts.values()) for parts in by_column] == pytest.approx(
        array.decision_function(rows.to_numpy()), abs=1e-5
    )
    numbers = rows.to_numpy()
    learner = OnlineLearner()
    learner.learn(X.to_numpy(), y)
    parts = learner.explain_many([dict(enumerate(row)) for row in numbers.tolist()])
    for table in (numbers, numbers.tolist(), sp.csr_matrix(numbers)):
        assert learner.explain_many(table) == parts
    for row in ("ab", None, [1.0], [1.0] * 3):
        with pytest.raises(InvalidInputError, match="a value for each of the 2 columns; got"):
            fitted.explain_one(row)
    for table in ("ab", {"usual": 1.0}):
        with pytest.raises(InvalidInputError, match="several rows"):
            fitted.explain_many(table)


def test_what_a_learner_shows_of_itself(tmp_path: Any) -> None:
    X, y = tiny(1.0)
    learner = OnlineLearner(alpha=1.0)
    assert repr(learner) == "OnlineLearner(alpha=1.0)"
    learner.learn(X, y)
    assert re.match(
        r"<OnlineLearner\(alpha=1.0\): 400 rows, 2 features, largest weights tiny: [\d.]+, usual",
        repr(learner),
    )
    X.assign(y=y).to_csv(tmp_path / "a.csv", index=False)
    learner = OnlineLearner()
    error = learner.learn_stream(tmp_path / "a.csv", label="y").error.average
    assert f"progressive error {error:.4g}, largest weights tiny" in repr(learner)
    assert "<td style='text-align:left'>400</td>" in learner._repr_html_()
    fitted = SONRegressor(random_state=0)
    plain = fitted._repr_mimebundle_()
    assert "rows" not in plain["text/plain"]
    bundle = fitted.fit(X, X["tiny"] * 3)._repr_mimebundle_()
    assert "400 rows, 2 features, progressive loss" in bundle["text/plain"]
    assert "progressive R²" in bundle["text/html"]
    words = SONClassifier(random_state=0).fit(X[["usual"]], np.array(["<a>", "b", "c", "d"] * 100))
    table = words._repr_mimebundle_()["text/html"].rpartition("<table>")[2]
    assert "4</td>" in table
    assert "<a>" not in table


# -- messages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["boolean", "Int64", object])
def test_labels_of_pandas_keep_their_type(kind: Any) -> None:
    X, y = tiny(1.0)
    labels = pd.Series(y > 0, dtype=kind) if kind != "Int64" else pd.Series(y, dtype=kind)
    fitted = SONClassifier(random_state=0).fit(X, labels)
    assert fitted.classes_.tolist() == ([-1, 1] if kind == "Int64" else [False, True])
    assert fitted.classes_.dtype.kind == ("i" if kind == "Int64" else "b")
    assert fitted.score(X, labels) > 0.9
    labels[3] = None
    with pytest.raises(InvalidInputError, match=r"y, row 3: .* is not a label"):
        SONClassifier().fit(X, labels)


def test_river_says_what_labels_of_text_are_for() -> None:
    with pytest.raises(InvalidInputError, match=r"must be numbers, got text.*SONClassifier"):
        RiverRegressor().learn_one({"a": 1.0}, "x")  # type: ignore[arg-type]


@pytest.mark.parametrize("y", [["a", "b", "a"], np.array(["a", "b", "a"], dtype=object)])
def test_a_regressor_says_what_labels_of_text_are_for(y: Any) -> None:
    for train in (SONRegressor().fit, SONRegressor().partial_fit):
        with pytest.raises(InvalidInputError, match=r"y has text \('a'\).*SONClassifier"):
            train(np.eye(3), y)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_one_row_of_a_frame_is_explained(kind: str) -> None:
    data = pd.DataFrame({"a": [1.0, -1.0] * 20, "b": ["x", "y"] * 20})
    y = [1, -1] * 20
    learner = OnlineLearner()
    learner.learn(data, y)
    model = SONClassifier().fit(data, y)
    make: Any = {"pandas": lambda f: f, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}
    row = make[kind](data[:1])
    for face in (learner, model):
        assert face.explain_one(row) == face.explain_one({"a": 1.0, "b": "x"})
        with pytest.raises(InvalidInputError, match="one row is expected, and the frame has 2"):
            face.explain_one(make[kind](data[:2]))
    assert model.predict_proba_one(row) == model.predict_proba_one({"a": 1.0, "b": "x"})


def test_one_row_of_an_array_is_explained() -> None:
    X = np.array([[1.0, 2.0], [-1.0, 0.5]] * 20)
    model = SONClassifier().fit(X, [1, -1] * 20)
    assert model.explain_one(X[:1]) == model.explain_one(X[0])
    with pytest.raises(InvalidInputError, match="one row is expected, got 2"):
        model.explain_one(X[:2])


@pytest.mark.parametrize("labels", [[True, False], [1, 0], [1.0, 0.0]])
def test_labels_that_are_objects(labels: list[Any]) -> None:
    X = np.array([[1.0], [-1.0]] * 20)
    y = np.array(labels * 20, dtype=object)
    model = SONClassifier(random_state=0).fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(X).tolist() == labels * 20
    assert model.score(X, y) == 1.0


# -- how files are read ----------------------------------------------------------------------------


def test_options_go_through_a_model_file_and_back(tmp_path: Any) -> None:
    options = ReadOptions(label="y", text=["zip"], ignore=["id"], header=False, on_error="skip")
    model = Model(Parameters())
    model.reading = replace(model.reading, table=ReadOptions.from_rows(options))
    model.save(tmp_path / "a.son")
    table = Model.load(tmp_path / "a.son").reading.table
    assert table == ReadOptions(label="y", text=["zip"], ignore=["id"], header=False)
    assert set(table.of_rows()) <= {name.rstrip("?") for name in ReadOptions.SCHEMA}


def test_probabilities_of_one_row_have_the_same_bits() -> None:
    margins = np.random.default_rng(0).normal(scale=5, size=1000)
    each = [probabilities_one([margin], 2, np.exp) for margin in margins.tolist()]
    assert each == probabilities(margins[np.newaxis], 2).T.tolist()
