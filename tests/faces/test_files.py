"""Every face saves × every face loads: same predictions, learning on and merging, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sonline
from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import ModelFileError
from sonline.labels import ClassTable
from sonline.model import Model

river = pytest.importorskip("sonline.river")

SONLINE = Path(sysconfig.get_path("scripts"), "sonline")
NAMES = ["age", "income", "score", "weight"]
PARAMETERS = {"dtype": "float64", "sketch_size": 3, "curves": False}  # files have no tables
TASKS = {"numbers": None, "two": ["no", "yes"], "three": ["high", "low", "mid"]}


def problem(task: str, seed: int) -> tuple[np.ndarray, list[Any]]:
    """Rows without zeros, exact in binary; the first rows have the labels in their order."""
    rng = np.random.default_rng(seed)
    X = (rng.integers(1, 17, size=(60, 4)) * rng.choice([-1, 1], (60, 4))) / 4
    score = X @ [1.0, -2.0, 0.5, 0.25]
    if task == "numbers":
        return X, (score / 4).tolist()
    labels = TASKS[task]
    codes = (score > 0).astype(int) if task == "two" else np.digitize(score, [-3.0, 3.0])
    codes[: len(labels)] = range(len(labels))
    return X, [labels[code] for code in codes]


def mappings(X: np.ndarray, by: str) -> list[dict[Any, float]]:
    return [dict(zip(NAMES if by == "name" else range(4), row, strict=True)) for row in X.tolist()]


def frame(X: np.ndarray, by: str) -> Any:
    return pd.DataFrame(X, columns=NAMES) if by == "name" else X


class Learner:
    """`OnlineLearner`."""

    @staticmethod
    def new(task: str) -> Any:
        loss = "squared" if task == "numbers" else "logistic"
        if task == "numbers":
            return OnlineLearner(loss=loss, **PARAMETERS)
        table = ClassTable(tuple(TASKS[task]))
        return OnlineLearner.from_model(Model(sonline.parameters.Parameters(**PARAMETERS), table))

    @staticmethod
    def load(path: Path, task: str) -> Any:
        return OnlineLearner.load(path)

    @staticmethod
    def learn(face: Any, X: np.ndarray, y: list[Any], by: str) -> None:
        face.learn(mappings(X, by), y)

    @staticmethod
    def raw(face: Any, X: np.ndarray, by: str) -> np.ndarray:
        return np.atleast_2d(face.predict(frame(X, by)).T)


class Sklearn(Learner):
    """`SONClassifier` and `SONRegressor`."""

    @staticmethod
    def new(task: str) -> Any:
        return SONRegressor(**PARAMETERS) if task == "numbers" else SONClassifier(**PARAMETERS)

    @staticmethod
    def load(path: Path, task: str) -> Any:
        return (SONRegressor if task == "numbers" else SONClassifier).load(path)

    @staticmethod
    def learn(face: Any, X: np.ndarray, y: list[Any], by: str) -> None:
        more = {} if isinstance(face, SONRegressor) else {"classes": sorted(set(y))}
        face.partial_fit(frame(X, by), y, **more)

    @staticmethod
    def raw(face: Any, X: np.ndarray, by: str) -> np.ndarray:
        if isinstance(face, SONRegressor):
            return face.predict(frame(X, by))[np.newaxis]
        scores = face.decision_function(frame(X, by))
        return np.atleast_2d(scores.T)


class River(Learner):
    """The estimators of `sonline.river`."""

    @staticmethod
    def new(task: str) -> Any:
        kind = river.SONRegressor if task == "numbers" else river.SONClassifier
        made = kind(**PARAMETERS)
        if task != "numbers":
            made._model = Model(made._model.parameters, ClassTable(tuple(TASKS[task])))
        return made

    @staticmethod
    def load(path: Path, task: str) -> Any:
        return (river.SONRegressor if task == "numbers" else river.SONClassifier).load(path)

    @staticmethod
    def learn(face: Any, X: np.ndarray, y: list[Any], by: str) -> None:
        for row, label in zip(mappings(X, by), y, strict=True):
            face.learn_one(row, label)

    @staticmethod
    def raw(face: Any, X: np.ndarray, by: str) -> np.ndarray:
        model = face.model
        return np.array([model.predict_one(row) for row in mappings(X, by)]).T


class CommandLine(Learner):
    """The executable: a model is its file."""

    @staticmethod
    def write(path: Path, X: np.ndarray, y: list[Any], by: str) -> Path:
        if by == "name":
            lines = [
                json.dumps({"label": label, **row})
                for label, row in zip(y, mappings(X, by), strict=True)
            ]
            path = path.with_suffix(".jsonl")
        else:
            lines = [
                f"{label} " + " ".join(f"{i}:{v:g}" for i, v in row.items())
                for label, row in zip(y, mappings(X, by), strict=True)
            ]
            path = path.with_suffix(".svm")
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    @staticmethod
    def run(*arguments: object) -> str:
        command = [SONLINE, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Dask(Sklearn):
    """The estimators for Dask, which learn arrays as those for scikit-learn do."""

    @staticmethod
    def _kind(task: str) -> Any:
        dask = pytest.importorskip("sonline.distributed.dask")
        return dask.SONRegressor if task == "numbers" else dask.SONClassifier

    @staticmethod
    def new(task: str) -> Any:
        return Dask._kind(task)(**PARAMETERS)

    @staticmethod
    def load(path: Path, task: str) -> Any:
        return Dask._kind(task).load(path)


FACES = {"learner": Learner, "sklearn": Sklearn, "river": River, "dask": Dask}


def saved(name: str, task: str, by: str, folder: Path, seed: int) -> Path:
    """Train a face on 60 rows, and return the file that it saves."""
    X, y = problem(task, seed)
    path = folder / f"{name}-{seed}.son"
    if name == "command line":
        loss = ["--loss", "squared"] if task == "numbers" else ["--classes", ",".join(TASKS[task])]
        more = ["--dtype=float64", "--sketch-size=3", "--no-curves"]
        data = CommandLine.write(folder / f"rows-{seed}", X, y, by)
        CommandLine.run("train", data, "-o", path, "-q", *loss, *more)
        return path
    face = FACES[name].new(task)
    FACES[name].learn(face, X, y, by)
    face.save(path)
    return path


def tensors(model: Model) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.tensors().items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faces")


@pytest.mark.parametrize("by", ["index", "name"])
@pytest.mark.parametrize("task", TASKS)
def test_every_face_saves_and_every_face_loads(task: str, by: str, folder: Path) -> None:
    """The executable saves, too; what loads are the faces in Python."""
    folder = folder / f"{task}-{by}"
    folder.mkdir()
    new, labels = problem(task, 7)
    known: dict[str, Any] = {}
    for saver in [*FACES, "command line"]:
        files = [saved(saver, task, by, folder, seed) for seed in (1, 2)]
        for loader, face in FACES.items():
            first, second = (face.load(file, task) for file in files)
            actual = {"raw": face.raw(first, new, by), "loaded": tensors(first.model)}
            merged = first.merge([second])
            actual["merged"] = tensors(merged.model)
            face.learn(first, new, labels, by)
            actual["learned"] = tensors(first.model)
            known = known or actual
            where = f"saved by {saver}, loaded by {loader}"
            np.testing.assert_array_equal(actual["raw"], known["raw"], err_msg=where)
            for what in ("loaded", "merged", "learned"):
                assert actual[what] == known[what], f"{what}: {where}"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("by", ["index", "name"])
@pytest.mark.parametrize("task", TASKS)
def test_every_command_opens_every_file(task: str, by: str, tmp_path: Path) -> None:
    new, labels = problem(task, 7)
    data = CommandLine.write(tmp_path / "new", new, labels, by)
    kind = ["--as", "raw"]
    wanted = ""
    for saver in [*FACES, "command line"]:
        file = saved(saver, task, by, tmp_path, 1)
        lines = CommandLine.run("predict", data, "-m", file, *kind)
        wanted = wanted or lines
        assert lines == wanted, saver
        raw = FACES["learner"].raw(OnlineLearner.load(file), new, by)
        model = Model.load(file)
        heads = [""]
        if model.table is not None and model.classes > 2:  # numbers stand after their classes
            heads = [f"{label}:" for label in model.table.sorted_labels()]
            raw = model.table.in_order(raw)
        rows = [map("{}{!r}".format, heads, row) for row in raw.T.tolist()]
        assert lines == "".join(" ".join(row) + "\n" for row in rows)
        facts = json.loads(CommandLine.run("inspect", file, "--json"))
        assert facts["rounds"] == 60
        scores = json.loads(CommandLine.run("evaluate", data, "-m", file, "--json"))
        assert scores["rows"] == 60
        assert scores["unknown_labels"] == 0
        # The commands learn on and merge to the bits of the faces in Python.
        more, merged = tmp_path / f"more-{saver}.son", tmp_path / f"merged-{saver}.son"
        CommandLine.run("train", data, "--from", file, "-o", more, "-q")
        learner = OnlineLearner.load(file)
        other = OnlineLearner.load(more)
        CommandLine.run("merge", file, more, "-o", merged)
        assert tensors(Model.load(merged)) == tensors(learner.merge([other]).model), saver
        Learner.learn(learner, new, labels, by)
        assert tensors(other.model) == tensors(learner.model), saver


def test_load_returns_the_face_that_saved(tmp_path: Path) -> None:
    kinds = {
        "learner": OnlineLearner,
        "sklearn": SONClassifier,
        "river": river.SONClassifier,
        "command line": OnlineLearner,
    }
    for name, kind in kinds.items():
        assert type(sonline.load(saved(name, "three", "name", tmp_path, 1))) is kind
    numbers = saved("sklearn", "numbers", "index", tmp_path, 1)
    assert type(sonline.load(numbers)) is SONRegressor
    for refusing in (SONClassifier, river.SONClassifier):
        with pytest.raises(ModelFileError, match="predicts numbers, not classes; open it with"):
            refusing.load(numbers)
    classes = saved("river", "two", "name", tmp_path, 1)
    for refusing in (SONRegressor, river.SONRegressor):
        with pytest.raises(ModelFileError, match="predicts classes, not numbers; open it with"):
            refusing.load(classes)


def test_classes_with_the_squared_loss_continue_from_a_file(tmp_path: Path) -> None:
    """The loss takes numbers, the model has words for labels."""
    X, y = problem("three", 1)
    model = SONClassifier(loss="squared", **PARAMETERS)
    model.partial_fit(X, y, classes=TASKS["three"])
    model.save(tmp_path / "m.son")
    data = CommandLine.write(tmp_path / "rows", X, y, "index")
    CommandLine.run("train", data, "--from", tmp_path / "m.son", "-o", tmp_path / "on.son", "-q")
    model.partial_fit(X, y)
    assert tensors(Model.load(tmp_path / "on.son")) == tensors(model.model)


def test_dask_and_spark_share_the_file(tmp_path: Path) -> None:
    dask = pytest.importorskip("sonline.distributed.dask")
    file = saved("command line", "three", "index", tmp_path, 1)
    X, _ = problem("three", 7)
    wanted = OnlineLearner.load(file).predict(X)
    np.testing.assert_array_equal(dask.SONClassifier.load(file).decision_function(X), wanted)
    model = Model.load(file)
    assert Model.from_bytes(model.to_bytes()).to_bytes() == file.read_bytes()
    np.testing.assert_array_equal(Model.from_bytes(file.read_bytes()).predict(X).T, wanted)


def test_the_same_command_gives_the_same_bytes(tmp_path: Path) -> None:
    X, y = problem("three", 1)
    data = CommandLine.write(tmp_path / "rows", X, y, "name")
    files = [tmp_path / f"{number}.son" for number in range(3)]
    for file in files:
        CommandLine.run("train", data, "-o", file, "-q")
    assert len({file.read_bytes() for file in files}) == 1
    learner = OnlineLearner()
    learner.learn_stream(data)
    assert tensors(learner.model) == tensors(Model.load(files[0]))


@pytest.mark.memory
def test_one_row_with_a_model_of_a_million_names(tmp_path: Path) -> None:
    """Names go from the file to the parser without becoming objects of Python."""
    data = tmp_path / "names.vw"
    with data.open("w") as file:
        for row in range(100_000):
            names = " ".join(f"feature_{10 * row + number}" for number in range(10))
            file.write(f"{1 if row % 3 else -1} | {names}\n")
    CommandLine.run("train", data, "-o", tmp_path / "m.son", "-q")
    (tmp_path / "one.vw").write_text("| feature_5 feature_77\n")
    command = ["sonline", "predict", "one.vw", "-m", "m.son", "-o", "one.txt"]
    code = (
        "import re, sys\n"
        "from sonline import _core, cli\n"
        "def refused(self):\n"
        "    raise AssertionError('all names or all arrays become objects of Python')\n"
        "_core.Model.names = _core.Model.save = refused\n"
        f"sys.argv = {command!r}\n"
        "try:\n"
        "    cli.main()\n"
        "finally:\n"
        "    print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert out.returncode == 0, out.stderr
    assert (tmp_path / "one.txt").read_text()
    assert int(out.stdout) < 320 * 1024
