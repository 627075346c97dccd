"""The progressive loss of one data set is the same on all faces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from faces.test_files import CommandLine
from sonline import OnlineLearner, SONClassifier
from sonline.evaluate import Curve, measures
from sonline.labels import ClassTable
from sonline.model import LearnResult, Model
from sonline.parameters import Parameters

NAMES = ["setosa", "versicolor", "virginica"]


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, list[str]]:
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], [NAMES[label] for label in y[order]]


def write(path: Path, X: np.ndarray, y: list[str]) -> Path:
    rows = [",".join([label, *map(repr, row)]) for label, row in zip(y, X.tolist(), strict=True)]
    path.write_text("label,a,b,c,d\n" + "".join(f"{row}\n" for row in rows))
    return path


def by_classifier(X, y, **more) -> float:
    model = SONClassifier(dtype="float64", **more)
    classes = None if more.get("discover_classes") else NAMES
    for first in range(0, len(y), 17):  # how rows are cut does not show
        part = slice(first, first + 17)
        model.partial_fit(X[part], y[part], classes=classes)
    return model.progressive_loss_


def by_river(X, y, labels: tuple[str, ...]) -> float:
    river = pytest.importorskip("sonline.river")
    model = river.SONClassifier(dtype="float64")
    if labels:
        model._model = Model(model.model.parameters, ClassTable(labels))
    curve = Curve()
    for row, label in zip(X.tolist(), y, strict=True):
        x = dict(zip("abcd", row, strict=True))
        if label not in model.model.table.numbers:  # it is known with its first row
            learned = model.model.learn([x], [label])
        else:
            raw = np.array(model.model.predict_one(x))[:, np.newaxis]
            code = model.model.table.codes([label])
            learned = LearnResult(raw, code, [(0, model.model.classes)])
            model.learn_one(x, label)
        curve.update(model.model.measures(learned)[0])
    return curve.average


def by_command(path: Path, *more: str) -> float:
    out = CommandLine.run("train", path, "-o", path.with_suffix(".son"), "--dtype=float64", *more)
    assert out
    result = CommandLine.run("inspect", path.with_suffix(".son"), "--json")
    return json.loads(result)["progressive"]["loss"]


def test_classes_that_are_known(iris, tmp_path) -> None:
    X, y = iris
    data = write(tmp_path / "iris.csv", X, y)
    wanted = by_classifier(X, y)
    assert 0.05 < wanted < 0.5
    learner = OnlineLearner.from_model(Model(Parameters(dtype="float64"), ClassTable(tuple(NAMES))))
    raw = learner.learn(X, y)
    codes = np.array([NAMES.index(label) for label in y])
    curve = Curve()
    curve.update(measures(learner.model.parameters, raw.T, codes, 3)[0])
    assert curve.average == wanted
    learner = OnlineLearner(dtype="float64")
    assert learner.learn_stream(data, classes=NAMES).loss.average == wanted
    assert by_river(X, y, tuple(NAMES)) == wanted
    assert by_command(data, "--classes", ",".join(NAMES)) == wanted


def test_classes_that_emerge(iris, tmp_path) -> None:
    X, y = iris
    data = write(tmp_path / "iris.csv", X, y)
    wanted = by_classifier(X, y, discover_classes=True)
    learner = OnlineLearner(dtype="float64")
    assert learner.learn_stream(data).loss.average == wanted
    assert by_river(X, y, ()) == wanted
    assert by_command(data) == wanted


def test_dask_with_one_partition(iris) -> None:
    dask = pytest.importorskip("sonline.distributed.dask")
    da = pytest.importorskip("dask.array")
    X, y = iris
    model = dask.SONClassifier(dtype="float64")
    model.fit(da.from_array(X, chunks=X.shape), da.from_array(np.array(y), chunks=len(y)))
    assert model.progressive_loss_ == by_classifier(X, y)
    assert model.rounds_[0].loss == pytest.approx(by_classifier(X, y), rel=1e-12)
