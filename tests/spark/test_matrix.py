"""Spark in the matrix of faces: it opens every face's file, and every face opens its file."""

from pathlib import Path

import numpy as np
import pytest

from faces.test_files import FACES, NAMES, PARAMETERS, TASKS, mappings, problem, saved, tensors
from sonline.distributed import spark as faces
from sonline.errors import InvalidInputError
from sonline.parameters import Parameters

OPTIONS = {"dtype": "float64", "sketchSize": PARAMETERS["sketch_size"], "curves": False}


def frame_of(spark, X, y, by):
    """One partition, with the features in a column of arrays or in columns of their names."""
    kind = "string" if isinstance(y[0], str) else "double"
    if by == "index":
        rows = list(zip(y, X.tolist(), strict=True))
        return spark.createDataFrame(rows, f"label {kind}, features array<double>").coalesce(1)
    rows = [(label, *row.values()) for label, row in zip(y, mappings(X, by), strict=True)]
    columns = ", ".join(f"{name} double" for name in NAMES)
    return spark.createDataFrame(rows, f"label {kind}, {columns}").coalesce(1)


def estimator(task, by):
    columns = {"featureCols": NAMES} if by == "name" else {}
    if task == "numbers":
        return faces.SONRegressor(**OPTIONS, **columns)
    return faces.SONClassifier(**OPTIONS, **columns, classes=TASKS[task])


def opened(path: Path, task, by):
    kind = faces.SONRegressionModel if task == "numbers" else faces.SONClassificationModel
    model = kind.loadModel(path)
    return model._set(featureCols=NAMES) if by == "name" else model


def raw_of(model, frame, task):
    """Raw predictions, a line per output, as the other faces have them."""
    rows = model.transform(frame).collect()
    if task == "numbers":
        return np.array([[row.prediction for row in rows]])
    raw = np.array([row.rawPrediction.toArray() for row in rows]).T
    return raw[1:] if task == "two" else raw


@pytest.mark.one_in(3)
@pytest.mark.parametrize("by", ["index", "name"])
@pytest.mark.parametrize("task", TASKS)
def test_spark_saves_and_loads(spark, task, by, tmp_path):
    new, labels = problem(task, 7)
    rows = frame_of(spark, new, labels, by)
    files = []
    for seed in (1, 2):
        model = estimator(task, by).fit(frame_of(spark, *problem(task, seed), by))
        files.append(tmp_path / f"spark-{seed}.son")
        model.saveModel(str(files[-1]))
    wanted = {}
    for name, face in FACES.items():
        first, second = (face.load(file, task) for file in files)
        wanted["raw"] = face.raw(first, new, by)
        wanted["merged"] = tensors(first.merge([second]).model)
        face.learn(first, new, labels, by)
        wanted["learned"] = tensors(first.model)
        others = [saved(name, task, by, tmp_path, seed) for seed in (1, 2)]
        for paths in (files, others):
            mine, its = (opened(path, task, by) for path in paths)
            np.testing.assert_array_equal(raw_of(mine, rows, task), wanted["raw"], err_msg=name)
            assert tensors(mine.merge([its]).model) == wanted["merged"], name
            more = estimator(task, by).fitFrom(rows, mine)
            assert tensors(more.model) == wanted["learned"], name
    file = saved("command line", task, by, tmp_path, 1)
    np.testing.assert_array_equal(raw_of(opened(file, task, by), rows, task), wanted["raw"])


@pytest.mark.parametrize("labels", [["mid", "high", "low"], [3, 1, 2], ["yes", "no"]])
def test_classes_in_the_order_of_their_appearance(spark, labels, tmp_path):
    """Models of the command line and of River number their classes as they come."""
    X, _ = problem("three", 3)
    y = [labels[n % len(labels)] for n in range(len(X))]
    river = pytest.importorskip("sonline.river").SONClassifier(sketch_size=3, curves=False)
    for row, label in zip(mappings(X, "index"), y, strict=True):
        river.learn_one(row, label)
    river.save(tmp_path / "river.son")
    model = faces.SONClassificationModel.loadModel(tmp_path / "river.son")
    assert model.classes == sorted(labels)
    words = [str(label) if isinstance(label, str) else float(label) for label in y]
    frame = frame_of(spark, X, words, "index")
    rows = model.transform(frame).collect()
    later = river.model.labels(river.model.predict(mappings(X, "index")))
    assert [row.prediction for row in rows] == later
    more = faces.SONClassifier(**OPTIONS).fitFrom(frame, model)
    for row, label in zip(mappings(X, "index"), y, strict=True):
        river.learn_one(row, label)
    assert tensors(more.model) == tensors(river.model)


def test_features_by_name_and_by_index_are_not_confused(spark, tmp_path):
    X, y = problem("two", 1)
    by_index, by_name = frame_of(spark, X, y, "index"), frame_of(spark, X, y, "name")
    named = opened(saved("sklearn", "two", "name", tmp_path, 1), "two", "index")
    with pytest.raises(InvalidInputError, match="by name, and the rows have them by index"):
        named.transform(by_index)
    numbered = opened(saved("sklearn", "two", "index", tmp_path, 2), "two", "name")
    with pytest.raises(InvalidInputError, match="by index, and the rows have them by name"):
        estimator("two", "name").fitFrom(by_name, numbered)


@pytest.mark.parametrize("skip", [False, True])
def test_missing_values_may_be_refused(spark, skip):
    X, y = problem("two", 1)
    frame = frame_of(spark, X, y, "name").selectExpr(
        "label", "IF(age = 0.25, NULL, age) AS age", "income", "score", "weight"
    )
    gaps = int((X[:, 0] == 0.25).sum())
    assert gaps
    usual = estimator("two", "name").fit(frame)
    assert usual.model.stats()["rounds"] == len(X)
    strict = estimator("two", "name").setParams(missing="refuse")
    if not skip:
        with pytest.raises(ValueError, match="column 'age' has no value"):
            strict.fit(frame)
        return
    model = strict.setParams(onError="skip").fit(frame)
    assert model.model.stats()["rounds"] == len(X) - gaps
    rows = model.transform(frame).collect()
    assert [row.prediction is None for row in rows] == (X[:, 0] == 0.25).tolist()
    assert model.model.parameters == Parameters(**PARAMETERS, missing="refuse")
