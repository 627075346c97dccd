"""What missing values do, on every face: absent, marked, or an error that names the column."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from faces.test_files import SONLINE, CommandLine
from sonline import OnlineLearner, SONClassifier, SONRegressor, streams
from sonline.errors import DataFormatError, InvalidInputError, ParameterError
from sonline.model import Model

ROWS = 12
GAP = 7  # the row without a value
NO_VALUE = "column 'age' has no value"
FACES = ["SONClassifier", "SONRegressor"]  # of scikit-learn, of River and of Dask


def frame() -> pd.DataFrame:
    table = {"age": np.arange(1.0, ROWS + 1), "plan": ["free", "paid", "paid"] * (ROWS // 3)}
    return pd.DataFrame(table)


def with_gap(column: str = "age") -> pd.DataFrame:
    rows = frame()
    rows.loc[GAP, column] = None
    return rows


LABELS = np.arange(ROWS) % 2


def as_library(rows: pd.DataFrame, library: str) -> Any:
    if library == "polars":
        return pytest.importorskip("polars").from_pandas(rows)
    if library == "arrow":
        return pytest.importorskip("pyarrow").Table.from_pandas(rows)
    return rows


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("column", ["age", "plan"])
def test_frames(library: str, column: str) -> None:
    whole, gap = as_library(frame(), library), as_library(with_gap(column), library)
    message = f"X, row {GAP}: column '{column}' has no value"
    usual, learner = OnlineLearner(), OnlineLearner(missing="refuse")
    assert usual.learn(gap, LABELS).shape == (ROWS,)
    learner.learn(whole, LABELS)
    before = learner.model.to_bytes()
    for call in (
        lambda: learner.learn(gap, LABELS),
        lambda: learner.predict(gap),
        lambda: learner.predict_proba(gap),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()
    assert learner.model.to_bytes() == before
    for kind in (SONClassifier, SONRegressor):
        kind().fit(gap, LABELS).predict(gap)
        fitted = kind(missing="refuse").fit(whole, LABELS)
        for call in (fitted.fit, fitted.partial_fit, lambda X, y, call=fitted.predict: call(X)):
            with pytest.raises(InvalidInputError, match=message):
                call(gap, LABELS)
    with pytest.raises(ParameterError, match="missing must be one of 'absent', 'mark', 'refuse'"):
        SONClassifier(missing="drop").fit(whole, LABELS)


def test_a_file_remembers_it(tmp_path: Path) -> None:
    SONClassifier(missing="refuse").fit(frame(), LABELS).save(tmp_path / "m.son")
    for face in (OnlineLearner, SONClassifier):
        with pytest.raises(InvalidInputError, match=NO_VALUE):
            face.load(tmp_path / "m.son").predict(with_gap())


@pytest.mark.parametrize("name", FACES)
def test_river(name: str) -> None:
    kind = getattr(pytest.importorskip("sonline.river"), name)
    gaps, labels = with_gap(), pd.Series(LABELS.astype(float))
    rows = gaps.to_dict("records")
    usual, strict = kind(), kind(missing="refuse")
    usual.learn_many(gaps, labels)
    usual.predict_many(gaps)
    strict.learn_many(frame(), labels)
    before = strict.model.to_bytes()
    calls = [
        lambda: strict.learn_many(gaps, labels),
        lambda: strict.learn_one(rows[GAP], 1.0),
        lambda: strict.predict_many(gaps),
        lambda: strict.predict_one(rows[GAP]),
    ]
    if name == "SONClassifier":
        calls += [
            lambda: strict.learn_one(rows[GAP], 2.0),  # a new label
            lambda: strict.predict_proba_one(rows[GAP]),
        ]
    for call in calls:
        with pytest.raises(InvalidInputError, match="feature 'age' has no value"):
            call()
    assert strict.model.to_bytes() == before


def without_gaps(rows: list[dict[Any, Any]]) -> list[dict[Any, Any]]:
    return [{name: v for name, v in row.items() if not pd.isna(v)} for row in rows]


@pytest.mark.parametrize("gap", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
def test_mappings(gap: Any) -> None:
    """A row of a frame as a mapping is the row of the frame."""
    rows = with_gap().astype(object).to_dict("records")
    rows[GAP]["age"] = gap
    labels = LABELS.tolist()
    kinds = [OnlineLearner, *(getattr(pytest.importorskip("sonline.river"), n) for n in FACES)]
    for kind in kinds:
        usual, twin = kind(dtype="float64"), kind(dtype="float64")
        for row, known, label in zip(rows, without_gaps(rows), labels, strict=True):
            usual.learn_one(row, label)
            twin.learn_one(known, label)
        assert usual.model.to_bytes() == twin.model.to_bytes()
        known = without_gaps(rows)[GAP]
        assert usual.predict_one(rows[GAP]) == twin.predict_one(known)
        assert usual.explain_one(rows[GAP]) == twin.explain_one(known)
        if hasattr(usual, "predict_proba_one"):
            assert usual.predict_proba_one(rows[GAP]) == twin.predict_proba_one(known)
    many, twin = OnlineLearner(), OnlineLearner()
    np.testing.assert_array_equal(many.learn(rows, labels), twin.learn(without_gaps(rows), labels))
    np.testing.assert_array_equal(many.predict(rows), twin.predict(without_gaps(rows)))
    three = SONClassifier().fit(frame(), [f"class {row % 3}" for row in range(ROWS)])
    np.testing.assert_array_equal(three.predict(rows), three.predict(without_gaps(rows)))


def test_mappings_that_are_refused() -> None:
    rows = with_gap().to_dict("records")
    learner = OnlineLearner(missing="refuse")
    learner.learn(frame(), LABELS)
    before = learner.model.to_bytes()
    for call in (
        lambda: learner.learn_one(rows[GAP], 1),
        lambda: learner.predict_one(rows[GAP]),
        lambda: learner.predict_proba_one(rows[GAP]),
        lambda: learner.explain_one(rows[GAP]),
    ):
        with pytest.raises(InvalidInputError, match=r"^feature 'age' has no value") as caught:
            call()
        assert (caught.value.row, caught.value.field) == (None, "age")
    message = f"X, row {GAP}: feature 'age' has no value"
    for call in (lambda: learner.learn(rows, LABELS), lambda: learner.predict(rows)):
        with pytest.raises(InvalidInputError, match=message) as caught:
            call()
        assert (caught.value.row, caught.value.field) == (GAP, "age")
    assert learner.model.to_bytes() == before


def test_mappings_with_a_gap_and_a_mistake() -> None:
    """The gap is no reason to take the rest, or to hide it."""
    learner = OnlineLearner()
    before = learner.model.to_bytes()
    for bad, message in (
        ({"a": float("inf")}, "feature 'a': inf"),
        ({"a": [1.0]}, "feature 'a': expected a number"),
        ({"a": 10**400}, "feature 'a': 10{79}... is too large: at most "),
        ({"a": -(10**5000)}, "feature 'a': <int> is too large: at most "),
        ({1.5: 1.0}, "a string or an integer, got float"),
        ([1.0], "a row must be a mapping"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            learner.learn([{"b": None, "new": 1.0}, {}, bad], [1, 0, 1])
        if isinstance(bad, dict):
            with pytest.raises(InvalidInputError, match=message):
                learner.learn_one(bad | {"b": None}, 1)
    assert learner.model.to_bytes() == before


def written(folder: Path, rows: pd.DataFrame, suffix: str) -> Path:
    path = folder / f"rows{len(list(folder.iterdir()))}{suffix}"
    rows = rows.assign(label=LABELS)
    if suffix == ".jsonl":
        lines = rows.astype(object).where(rows.notna(), None).to_dict("records")
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    elif suffix == ".parquet":
        pytest.importorskip("pyarrow")
        rows.to_parquet(path)
    else:
        rows.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",", na_rep="NA")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("column", ["age", "plan"])
def test_streams_and_commands(suffix: str, column: str, tmp_path: Path) -> None:
    whole, gap = (written(tmp_path, rows, suffix) for rows in (frame(), with_gap(column)))
    message = f"column '{column}' has no value"
    learner = OnlineLearner(missing="refuse")
    with pytest.raises(DataFormatError, match=message):
        learner.learn_stream(gap)
    assert learner.learn_stream(gap, on_error="skip").loss.rows == ROWS - 1
    assert OnlineLearner().learn_stream(gap).loss.rows == ROWS
    model = tmp_path / "m.son"
    CommandLine.run("train", whole, "-o", model, "-q", "--missing", "refuse")
    assert Model.load(model).parameters.missing == "refuse"
    for command in (
        ("train", gap, "-o", tmp_path / "no.son", "-q", "--missing", "refuse"),
        ("train", gap, "-o", tmp_path / "no.son", "-q", "--from", model),
        ("predict", gap, "-m", model),
        ("evaluate", gap, "-m", model),
    ):
        arguments = [SONLINE, *map(str, command)]
        done = subprocess.run(arguments, check=False, capture_output=True, text=True)
        assert done.returncode != 0
        assert message in " ".join(done.stderr.split()), command[0]


def test_it_is_a_parameter_of_the_model(tmp_path: Path) -> None:
    data = written(tmp_path, with_gap(), ".csv")
    for options in ({"missing": "refuse"}, {"dtype": "float64"}, {"hash_bits": 8}):
        with pytest.raises(ParameterError, match="not an option of learn_stream: the model has it"):
            OnlineLearner().learn_stream(data, **options)
    with pytest.raises(ParameterError, match="are na_values"):
        streams.open(data, missing=["unknown"])


def test_a_column_without_any_value(tmp_path: Path) -> None:
    """Its type is not known, and its cells are missing all the same."""
    (tmp_path / "rows.csv").write_text("age,other,label\n1,,0\n2,,1\n")
    assert OnlineLearner().learn_stream(tmp_path / "rows.csv").loss.rows == 2
    with pytest.raises(DataFormatError, match="column 'other' has no value"):
        OnlineLearner(missing="refuse").learn_stream(tmp_path / "rows.csv")


@pytest.mark.parametrize("cell", ["", " ", "NA", " NA ", "?"])
def test_a_missing_label_or_weight_is_never_zero(cell: str, tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text(f"age,label\n1,3\n2,{cell}\n")
    with pytest.raises(DataFormatError, match="no label in column 'label'"):
        OnlineLearner(loss="squared").learn_stream(tmp_path / "y.csv")
    (tmp_path / "w.csv").write_text(f"age,w,label\n1,1,3\n2,{cell},4\n")
    with pytest.raises(DataFormatError, match="no weight in column 'w'"):
        OnlineLearner(loss="squared").learn_stream(tmp_path / "w.csv", weight="w")


def test_dask_frames() -> None:
    dask = pytest.importorskip("sonline.distributed.dask")
    frames = pytest.importorskip("dask.dataframe")
    rows = with_gap().drop(columns="plan").assign(left=LABELS)
    data = frames.from_pandas(rows, npartitions=2)
    assert dask.SONClassifier().fit(data, "left").stats()["rounds"] == ROWS
    strict = dask.SONClassifier(missing="refuse")
    with pytest.raises(DataFormatError, match=f"partition 1:2: {NO_VALUE}"):
        strict.fit(data, "left")
    assert strict.fit(data, "left", on_error="skip").stats()["rounds"] == ROWS - 1


# -- missing="mark" ------------------------------------------------------------------------------


def marks(column: str) -> pd.DataFrame:
    """Return the rows with a feature for the gap, as a column of their own."""
    rows = with_gap(column)
    gap = rows[column].isna().astype(float)
    filled = rows.assign(age=rows["age"].fillna(0.0))
    return filled.assign(**{f"{column}=(missing)": gap})


@pytest.mark.parametrize("column", ["age", "plan"])
def test_marks_are_features_on_every_face(column: str, tmp_path: Path) -> None:
    expected = OnlineLearner()
    expected.learn(marks(column), LABELS)
    assert f"{column}=(missing)" in expected.weights()
    learners = {}
    for library in ("pandas", "polars", "arrow"):
        learners[library] = OnlineLearner(missing="mark")
        learners[library].learn(as_library(with_gap(column), library), LABELS)
    rows = with_gap(column).to_dict("records")
    learners["mappings"] = OnlineLearner(missing="mark")
    learners["mappings"].learn(rows, LABELS)
    learners["learn_one"] = OnlineLearner(missing="mark")
    for row, label in zip(rows, LABELS, strict=True):
        learners["learn_one"].learn_one(row, label)
    for suffix in (".csv", ".tsv", ".jsonl", ".parquet"):
        learners[suffix] = OnlineLearner(missing="mark")
        learners[suffix].learn_stream(written(tmp_path, with_gap(column), suffix))
    for face, learner in learners.items():
        assert learner.weights() == expected.weights(), face
        assert learner.predict_one(rows[GAP]) == expected.predict(marks(column))[GAP], face


@pytest.mark.parametrize("column", ["age", "plan"])
def test_marks_are_saved_and_multiplied(column: str, tmp_path: Path) -> None:
    weights = []
    for suffix in (".csv", ".jsonl", ".parquet"):
        learner = OnlineLearner(missing="mark")
        learner.learn_stream(written(tmp_path, with_gap(column), suffix), interactions=["age*plan"])
        weights.append(learner.weights())
    assert weights[0] == weights[1] == weights[2]
    product = "age=(missing)*plan=paid" if column == "age" else "age*plan=(missing)"
    assert product in weights[0]
    learner.save(tmp_path / "m.son")
    assert OnlineLearner.load(tmp_path / "m.son").model.parameters.missing == "mark"


def test_the_mark_of_a_text_is_no_text(tmp_path: Path) -> None:
    """It is not split into n-grams, and not counted as a type of the column."""
    rows = with_gap("plan")
    for suffix in (".csv", ".jsonl", ".parquet"):
        learner = OnlineLearner(missing="mark")
        learner.learn_stream(written(tmp_path, rows, suffix), ngrams=["plan:2"])
        assert "plan=(missing)" in learner.weights(), suffix
    learner = OnlineLearner(missing="mark")
    learner.learn(pd.DataFrame({"age": [1.0, 2.0], "late": [None, None]}), [0, 1])
    learner.learn(pd.DataFrame({"age": [1.0, None], "late": [3.0, None]}), [0, 1])
    assert {"late", "late=(missing)", "age=(missing)"} <= learner.weights().keys()


def test_columns_far_from_zero_need_marks() -> None:
    """A missing cell that counts as 0 is an outlier there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = X @ [1.0, -1.0, 0.5, 2.0, -0.5]
    rows = pd.DataFrame(np.where(rng.random(X.shape) < 0.05, np.nan, X + 10)).add_prefix("x")

    def score(missing: str) -> float:
        model = SONRegressor(missing=missing, random_state=0, curves=False)
        return model.fit(rows[:4000], y[:4000]).score(rows[4000:], y[4000:])

    assert score("mark") > 0.9
    far = "missing values count as 0, which is far from the others in 'x0', 'x1', 'x2', ...;"
    with pytest.warns(UserWarning, match=far):
        assert score("absent") < 0.5
    near = rows - 10  # no warning
    OnlineLearner(loss="squared").learn(near, y)
    with pytest.warns(UserWarning, match="in 'x1'; use missing='mark'"):
        OnlineLearner(loss="squared").learn(near.assign(x1=rows["x1"]), y)


def test_dask_frames_with_marks() -> None:
    dask = pytest.importorskip("sonline.distributed.dask")
    frames = pytest.importorskip("dask.dataframe")
    rows = with_gap().drop(columns="plan").assign(left=LABELS)
    data = frames.from_pandas(rows, npartitions=2)
    model = dask.SONClassifier(missing="mark").fit(data, "left")
    assert "age=(missing)" in model.weights()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_training_on_files_with_such_columns_warns(suffix: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"year": 2000.0 + np.arange(40), "near": np.arange(40) - 20.0})
    table.loc[::4] = np.nan
    path = tmp_path / f"rows{suffix}"
    rows = table.assign(label=np.arange(40) % 2)
    rows.to_parquet(path) if suffix == ".parquet" else rows.to_csv(
        path, index=False, sep="\t" if suffix == ".tsv" else ","
    )
    message = "missing values count as 0, which is far from the others in 'year'; use missing="
    with pytest.warns(UserWarning, match=message):
        OnlineLearner().learn_stream(path)
    OnlineLearner(missing="mark").learn_stream(path)
    model = tmp_path / "m.son"
    command = [SONLINE, "train", str(path), "-o", str(model)]
    for options, warned in (([], True), (["-q"], False), (["--missing", "mark"], False)):
        done = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
        assert (f"warning: {path}: {message}" in done.stderr) == warned, done.stderr
    done = subprocess.run(
        [SONLINE, "predict", str(path), "-m", str(model)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "count as 0" not in done.stderr
