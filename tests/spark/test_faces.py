"""Models of Spark and of the other faces: one file, one progressive loss."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from faces.test_files import CommandLine
from sonline import OnlineLearner, SONClassifier
from sonline.distributed import spark as faces
from sonline.errors import ModelFileError
from sonline.model import Model

NAMES = ["setosa", "versicolor", "virginica"]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], [NAMES[label] for label in y[order]]


def frame_of(spark, X, y):
    table = [(label, row) for label, row in zip(y, X.tolist(), strict=True)]
    return spark.createDataFrame(table, "label string, features array<double>").coalesce(1)


def test_one_partition_has_the_progressive_loss_and_the_bits_of_the_others(spark, iris, tmp_path):
    X, y = iris
    wanted = SONClassifier(dtype="float64", shuffle=False).fit(X, y)
    model = faces.SONClassifier(dtype="float64").fit(frame_of(spark, X, y))
    assert model.progressiveLoss == wanted.progressive_loss_
    assert 1 - model.progressiveError == pytest.approx(wanted.progressive_score_)
    model.saveModel(str(tmp_path / "spark.son"))
    opened = OnlineLearner.load(tmp_path / "spark.son")
    np.testing.assert_array_equal(opened.predict(X), wanted.decision_function(X))
    again = SONClassifier.load(tmp_path / "spark.son")
    assert again.predict(X).tolist() == wanted.predict(X).tolist()
    facts = json.loads(CommandLine.run("inspect", tmp_path / "spark.son", "--json"))
    assert facts["progressive"]["loss"] == wanted.progressive_loss_
    first, second = opened.model.tensors(), wanted.model.tensors()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_model_of_another_face_transforms_a_frame(spark, iris, tmp_path):
    X, y = iris
    local = SONClassifier(shuffle=False).fit(X, y)
    local.save(tmp_path / "local.son")
    model = faces.SONClassificationModel.fromModel(Model.load(tmp_path / "local.son"))
    made = model.transform(frame_of(spark, X, y)).collect()
    assert [row.prediction for row in made] == local.predict(X).tolist()
    raw = np.array([row.rawPrediction.toArray() for row in made])
    np.testing.assert_array_equal(raw, local.decision_function(X))
    with pytest.raises(ModelFileError, match="predicts classes, not numbers"):
        faces.SONRegressionModel.fromModel(Model.load(tmp_path / "local.son"))


def test_classes_are_sorted_in_whatever_order_they_came(spark, iris, tmp_path):
    X, y = iris
    two = [(row, label) for row, label in zip(X, y, strict=True) if label != "setosa"]
    two.sort(key=lambda pair: pair[1] != "virginica")  # the last label comes first
    X, y = np.array([row for row, _ in two]), [label for _, label in two]
    local = SONClassifier(discover_classes=True).partial_fit(X, y)
    assert local.model.table.labels == ("virginica", "versicolor")
    model = faces.SONClassificationModel.fromModel(local.model)
    assert model.classes == ["versicolor", "virginica"]
    made = model.transform(frame_of(spark, X, y)).collect()
    assert [row.prediction for row in made] == local.predict(X).tolist()
    shares = np.array([row.probability.toArray() for row in made])
    np.testing.assert_array_equal(shares, local.predict_proba(X))
    assert model.weights() == local.weights()


def test_dates_are_those_of_frames(spark):
    """Dates have the same features; texts are dates only for a model that knows them as such."""
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    times = [start + dt.timedelta(hours=31 * n) for n in range(200)]
    table = [(t, t.date(), str(t.date()), float(t.weekday() >= 5)) for t in times]
    frame = spark.createDataFrame(table, ["time", "day", "text", "label"]).coalesce(1)
    fitted = faces.SONClassifier(featureCols=["time", "day", "text"]).fit(frame)
    model = fitted.model
    assert model.reading.columns == {"time": "date", "day": "date", "text": "text"}
    assert {"time.week_sin", "day", "day.year_cos", "text=2024-01-01"} <= set(model.features())
    learner = OnlineLearner.from_model(model)
    predicted = [row.rawPrediction[1] for row in fitted.transform(frame).collect()]
    rows = [dict(zip(("time", "day", "text"), row, strict=False)) for row in table]
    np.testing.assert_allclose(learner.predict(rows), predicted, rtol=1e-5, atol=1e-5)
    given = OnlineLearner()
    given.learn([{"text": row["text"]} for row in rows], [row[-1] for row in table])
    given.learn(pd.DataFrame(rows)[["text"]], [row[-1] for row in table])
    by_spark = faces.SONClassificationModel.of(given.model, [], -1)._set(featureCols=["text"])
    predicted = [row.rawPrediction[1] for row in by_spark.transform(frame).collect()]
    np.testing.assert_allclose(given.predict(pd.DataFrame(rows)[["text"]]), predicted, rtol=1e-5)
