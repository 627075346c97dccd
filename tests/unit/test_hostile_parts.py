"""Model files whose parts do not fit each other, or have another shape than they should."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sonline
from forging import Change, all_files, classifier_file, forged, replaced
from sonline import OnlineLearner, SONClassifier, SONRegressor, persistence
from sonline.cli import app
from sonline.errors import InvalidInputError, ModelFileError, ParameterError
from sonline.model import Model


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def columns_beyond(_: dict[str, Any], tensors: persistence.Tensors) -> None:
    for name in tensors:
        if name.endswith("features"):
            tensors[name] = tensors[name].copy()
            tensors[name][-1] = 2**40


def labels_twice(document: dict[str, Any], _: persistence.Tensors) -> None:
    document["classes"]["labels"] = [1, 1, 2]


def a_name_for_all(document: dict[str, Any], _: persistence.Tensors) -> None:
    document["face"]["feature_names_in"] = "abc"


def more_names(document: dict[str, Any], _: persistence.Tensors) -> None:
    document["face"]["feature_names_in"] = ["a", "b", "c", "d"]


@pytest.mark.parametrize("change", [columns_beyond, labels_twice, a_name_for_all, more_names])
def test_estimators_whose_parts_do_not_fit(change: Change, tmp_path: Path) -> None:
    """Found by fuzzing: each failed later, in coef_, merge or predict."""
    with pytest.raises(ModelFileError, match="bad: "):
        SONClassifier.load(forged(classifier_file(tmp_path), tmp_path / "bad", change))


def stream_file(folder: Path) -> Path:
    """Return the file of a training run, which has an entry in every part of the document."""
    (folder / "data.csv").write_text("y,a,b\n" + "1,2,x\n-1,3,y\n" * 20, encoding="ascii")
    done = CliRunner().invoke(
        app, ["train", str(folder / "data.csv"), "--label", "y", "-o", str(folder / "run"), "-q"]
    )
    assert done.exit_code == 0, done.output
    return folder / "run"


PARTS: list[tuple[str, Any]] = [
    ("reading.features", "shape"),
    ("reading.columns", {"a": 1}),
    ("reading.columns", {"a": "numbers"}),
    ("reading.table", {"nothing": "a"}),
    ("reading.table", {"label": ["a"]}),
    ("reading.table", {"text": "a"}),
    ("reading.table", {"ignore": [1]}),
    ("only_predicts", "text"),
    ("progress.loss.points", [[0, 1.0, 1.0]]),
    ("progress.loss.points", [[-8, 1.0, 1.0]]),
    ("progress.loss.points", [[4, 1.0, 1.0], [2, 1.0, 1.0]]),
    ("progress.error.rows", -1),
    ("progress.error.rows", "9"),
    ("run.rows", "text"),
    ("run.rows", -1),
    ("run.held", {}),
    ("run.position", {"turn": 1}),
    ("run.position.file", "a"),
    ("run.files", "a"),
    ("run.files", KeyError),
    ("run.lengths", {"a": "b"}),
    ("run.past", [3]),
    ("face", {"name": []}),
]


@pytest.mark.parametrize(("part", "value"), PARTS, ids=lambda value: str(value)[:30])
def test_parts_of_a_document_have_a_shape(part: str, value: Any, tmp_path: Path) -> None:
    """Each was loaded, and failed later: in a stream, in --resume, in inspect, or never ended."""
    source = stream_file(tmp_path)
    Model.load(source)
    path = tuple(part.split("."))
    bad = forged(source, tmp_path / "bad", lambda d, _: replaced(d, path, value))
    with pytest.raises(ModelFileError, match=f"bad: .*{path[-1]}"):
        Model.load(bad)


ARGUMENTS: list[tuple[str, Any]] = [
    ("max_iter", "many"),
    ("shuffle", "yes"),
    ("random_state", "text"),
    ("random_state", {"random_state": ["MT19937", [1, 2], 0, 0, 0.0]}),
    ("random_state", {"seed": 1}),
    ("warm_start", []),
    ("class_weight", "heavy"),
    ("class_weight", {"pairs": [[0, "a"]]}),
    ("class_weight", {"pairs": [[0, -1.0]]}),
    ("discover_classes", "a"),
    ("n_jobs", "all"),
    ("n_jobs", 0),
    ("alpha", []),
    ("unknown", 1),
]


@pytest.mark.parametrize(("name", "value"), ARGUMENTS, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("load", [SONClassifier.load, sonline.load], ids=["face", "any"])
def test_arguments_of_an_estimator(
    name: str, value: Any, load: Callable[[Path], Any], tmp_path: Path
) -> None:
    """They failed in predict or fit, or in `sonline.load` as a TypeError."""
    path = ("face", "arguments", name)
    bad = forged(classifier_file(tmp_path), tmp_path / "bad", lambda d, _: replaced(d, path, value))
    with pytest.raises(ModelFileError, match="bad: "):
        load(bad)


def test_arguments_that_are_not_those_of_the_model(tmp_path: Path) -> None:
    """The model decides; an estimator that shows something else does not go on learning."""
    files = all_files(tmp_path)
    path = ("face", "arguments", "alpha")

    def other(document: dict[str, Any], _: persistence.Tensors) -> None:
        replaced(document, path, 3.0)

    for kind in ("river", "river regressor"):
        source, load = files[kind]
        with pytest.raises(ModelFileError, match="bad: alpha"):
            load(forged(source, tmp_path / "bad", other))
    # Who has called set_params and then save can make such a file.
    model = SONRegressor.load(forged(files["regressor"][0], tmp_path / "bad", other))
    model.predict(np.eye(3))
    with pytest.raises(ParameterError, match=r"alpha is 3\.0, but"):
        model.partial_fit(np.eye(3), [1.0, 2.0, 3.0])


def test_names_without_columns(tmp_path: Path) -> None:
    """A model of another face may know its features by name: then there are no columns."""
    source, _ = all_files(tmp_path)["river regressor"]
    model = SONRegressor.load(source)
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match=r"no coef_: .*such as 'a'.* weights\(\)"):
        _ = model.coef_
    with pytest.raises(InvalidInputError, match=r"by name .such as 'a'."):
        model.value_limits()
    with pytest.raises(InvalidInputError, match="column"):
        model.to_onnx()
    assert set(model.weights()) == set("abc")
    assert model.predict([{"a": 1.0, "b": 2.0}]).shape == (1,)


def test_columns_that_do_not_fit_into_memory(tmp_path: Path) -> None:
    learner = OnlineLearner(loss="squared")
    learner.learn_one({2**53: 1.0}, 1.0)
    learner.save(tmp_path / "far")
    model = SONRegressor.load(tmp_path / "far")
    with pytest.raises(InvalidInputError, match="columns do not fit into memory"):
        model.value_limits()
    assert not hasattr(model, "coef_")
    assert list(model.weights()) == [2**53]
