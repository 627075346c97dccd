"""Two and more classes are in sorted order in all faces, in whatever order they appeared."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sonline import OnlineLearner, SONClassifier, plots
from sonline.cli.inspect import describe
from sonline.model import Model
from sonline.river import SONClassifier as RiverClassifier
from sonline.service.bodies import Rows
from sonline.service.records import CHAMPION, Version
from sonline.service.versions import Live
from sonline.training import prediction_lines, prediction_objects

LABELS = {2: ["yes", "no"], 3: ["pear", "fig", "apple"]}  # in the order of their appearance
COLUMNS = ["a", "b", "c"]
LOADERS = [OnlineLearner.load, SONClassifier.load, RiverClassifier.load]


@pytest.fixture(params=LABELS)
def trained(request, tmp_path: Path) -> tuple[Path, list[str], pd.DataFrame]:
    """A model file that a stream made, its labels in order of appearance, and rows."""
    labels = LABELS[request.param]
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=COLUMNS)
    y = np.array(labels)[X.to_numpy()[:, : len(labels)].argmax(axis=1)]
    y[: len(labels)] = labels
    X.assign(label=y).to_csv(tmp_path / "rows.csv", index=False)
    learner = OnlineLearner(curves=False)
    learner.learn_stream(tmp_path / "rows.csv", label="label")
    assert list(learner.model.table.labels) == labels  # as they came
    learner.save(tmp_path / "model.son")
    return tmp_path / "model.son", labels, X.iloc[:20]


def rows_of(X: pd.DataFrame) -> list[dict[str, float]]:
    return X.to_dict("records")


def chances_of(path: Path, X: pd.DataFrame, later: bool = True) -> dict[str, np.ndarray]:
    """Probabilities by class, from the learners themselves."""
    model = Model.load(path)
    shares = model.probabilities(model.predict(X, later=later))
    return dict(zip(model.table.labels, shares, strict=True))


def test_classes_and_their_probabilities_are_sorted(trained) -> None:
    path, labels, X = trained
    chances = chances_of(path, X)
    expected = np.column_stack([chances[label] for label in sorted(labels)])
    learner, classifier, river = (load(path) for load in LOADERS)
    assert learner.classes == sorted(labels)
    assert classifier.classes_.tolist() == sorted(labels)
    np.testing.assert_allclose(learner.predict_proba(X), expected, rtol=1e-12)
    np.testing.assert_array_equal(classifier.predict_proba(X), learner.predict_proba(X))
    table = river.predict_proba_many(X)
    assert table.columns.tolist() == sorted(labels)
    next_row = chances_of(path, X, later=False)  # River learns a row right after its prediction
    of_river = np.column_stack([next_row[label] for label in sorted(labels)])
    np.testing.assert_allclose(table, of_river, rtol=1e-12)
    assert list(learner.predict_proba_one(rows_of(X)[0])) == sorted(labels)
    for entry, wanted in ((learner, expected), (river, of_river)):  # River's are in no order
        single = entry.predict_proba_one(rows_of(X)[0])
        np.testing.assert_allclose([single[k] for k in sorted(labels)], wanted[0], rtol=1e-12)
    model = Model.load(path)
    printed = json.loads(prediction_objects(model, model.predict(X), None).splitlines()[0])
    assert list(printed["probability"]) == sorted(labels)
    assert describe(model, path, 3)["classes"] == sorted(labels)
    assert plots._labels_of(learner) == sorted(labels)


def test_raw_predictions_are_those_of_the_last_label_or_sorted(trained) -> None:
    path, labels, X = trained
    learner, classifier, _ = (load(path) for load in LOADERS)
    raw = learner.predict(X)
    np.testing.assert_array_equal(raw, classifier.decision_function(X))
    np.testing.assert_array_equal(learner.predict_one(rows_of(X)[0]), raw[0])
    chances = chances_of(path, X)
    if len(labels) == 2:
        assert np.array_equal(raw > 0, chances[max(labels)] > 0.5)
        assert np.isclose(learner.bias, classifier.intercept_[0])
    else:
        np.testing.assert_array_equal(learner.bias, classifier.intercept_)
    model = Model.load(path)
    first = prediction_lines(model, model.predict(X), "raw", None).splitlines()[0].split()
    np.testing.assert_allclose([float(word.split(":")[-1]) for word in first], raw[0], rtol=1e-5)
    for ours, theirs in zip(learner.spectra(), classifier.spectra(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_results_of_learning_are_in_the_same_order(trained) -> None:
    path, labels, X = trained
    row = rows_of(X)[0]
    expected = OnlineLearner.load(path).learn([row], labels[:1], [0.0])[0]  # only predicted
    np.testing.assert_array_equal(OnlineLearner.load(path).learn_one(row, labels[0]), expected)
    together = OnlineLearner.load(path).learn([row], labels[:1])
    np.testing.assert_array_equal(together[0], expected)


@pytest.mark.parametrize("load", LOADERS)
def test_contributions_add_up_to_the_prediction_of_the_class(trained, load) -> None:
    path, labels, X = trained
    row, learner = rows_of(X)[0], OnlineLearner.load(path)
    raw, bias = np.atleast_1d(learner.predict_one(row)), np.atleast_1d(learner.bias)
    for position, label in enumerate([None] if len(labels) == 2 else sorted(labels)):
        total = sum(load(path).explain_one(row, label).values())
        assert np.isclose(total, raw[position], rtol=1e-4)
        weights = load(path).weights(label)
        assert np.isclose(sum(weights[name] * row[name] for name in row) + bias[position], total)


@pytest.mark.parametrize("rows", [1, 3])
def test_the_service_answers_in_the_same_order(trained, rows: int) -> None:
    path, labels, X = trained
    info = Version(1, CHAMPION, "a file", 0.0, 1)
    live = Live(info, Model.load(path), 1)
    answer = live.predict(Rows(rows_of(X)[:rows], rows, [None] * rows))
    learner = OnlineLearner.load(path)
    for row in range(rows):
        np.testing.assert_array_equal(
            answer.sorted_raw(row), np.atleast_1d(learner.predict(X)[row])
        )
        assert list(answer.shares(row)) == sorted(labels)
        chances = [*answer.shares(row).values()]
        np.testing.assert_allclose(chances, learner.predict_proba(X)[row], rtol=1e-12)
