"""The progressive loss of one data set is the same on all faces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import r2_score

from faces.test_files import CommandLine
from sonline import OnlineLearner, SONClassifier, SONRegressor
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
            raw = np.array(model.model.predict_one(x, False))[:, np.newaxis]
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


# -- regression: the first row of all is not counted -----------------------------------------------


@pytest.fixture(scope="module")
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return X[:, :4], y + 1e5


def by_regressor(X, y, size: int = 17) -> SONRegressor:
    model = SONRegressor(dtype="float64")
    for first in range(0, len(y), size):
        model.partial_fit(X[first : first + size], y[first : first + size])
    return model


def test_regression(diabetes, tmp_path) -> None:
    X, y = diabetes
    before = OnlineLearner(loss="squared", dtype="float64").learn(X, y)
    assert before[0] == 0
    model = by_regressor(X, y)
    wanted = model.progressive_loss_
    assert wanted == pytest.approx(np.mean((before - y)[1:] ** 2) / 2, rel=1e-12)
    assert model.progressive_score_ == pytest.approx(r2_score(y[1:], before[1:]), rel=1e-9)
    assert model.progressive_score_ > 0
    assert [point.rows for point in model.progress_.points] == [2, 4, 8, 16, 32, 64, 128, 256]
    assert model.progress_.rows == len(y)
    data = write(tmp_path / "diabetes.csv", X, [repr(number) for number in y.tolist()])
    learner = OnlineLearner(loss="squared", dtype="float64")
    progress = learner.learn_stream(data)
    assert progress.loss.average == wanted
    assert progress.r2.value == model.progressive_score_
    assert by_command(data, "--loss=squared") == wanted


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_regression_in_batches_and_from_a_file(diabetes, tmp_path, size) -> None:
    X, y = diabetes
    wanted = by_regressor(X, y)
    for cut in (0, 1, 2, 100):
        model = by_regressor(X[:cut], y[:cut], size) if cut else SONRegressor(dtype="float64")
        if cut:
            model.save(tmp_path / "model.son")
            model = SONRegressor.load(tmp_path / "model.son")
        model.partial_fit(X[cut:], y[cut:])
        assert model.progressive_loss_ == wanted.progressive_loss_
        assert model.progressive_score_ == wanted.progressive_score_
        assert model.progress_.points == wanted.progress_.points


def test_regression_of_partitions(diabetes) -> None:
    X, y = diabetes
    parts = [by_regressor(X[half], y[half]) for half in (slice(0, 200), slice(200, None))]
    merged = parts[0].merge(parts[1:])
    weights = [199, len(y) - 201]
    mean = np.average([part.progressive_loss_ for part in parts], weights=weights)
    assert merged.progressive_loss_ == pytest.approx(mean, rel=1e-12)
    assert merged.progress_.rows == len(y)
    merged.partial_fit(X[:1], y[:1])  # it has learned, so this row counts
    assert merged.progress_.weight == len(y) - 1


def test_regression_with_dask(diabetes) -> None:
    dask = pytest.importorskip("sonline.distributed.dask")
    da = pytest.importorskip("dask.array")
    X, y = diabetes
    model = dask.SONRegressor(dtype="float64")
    model.fit(da.from_array(X, chunks=X.shape), da.from_array(y, chunks=len(y)))
    wanted = by_regressor(X, y).progressive_loss_
    assert model.progressive_loss_ == wanted
    assert model.rounds_[0].loss == pytest.approx(wanted, rel=1e-12)


def test_regression_in_the_service(diabetes) -> None:
    monitor = pytest.importorskip("sonline.service.monitor")
    X, y = diabetes
    model, watched = Model(Parameters(loss="squared", dtype="float64")), monitor.Monitor()
    for first in range(0, len(y), 50):
        watched.update(model, model.learn(X[first : first + 50], y[first : first + 50]))
    assert watched.values()["loss"] == pytest.approx(by_regressor(X, y).progressive_loss_, rel=1e-9)
