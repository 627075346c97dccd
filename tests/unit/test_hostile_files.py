"""Model files made to do harm: right checksum, wrong contents.

They are refused with a `ModelFileError`, or give a learner that works or says why not. Nothing that
a file claims makes it take more memory than a small multiple of its size.
"""

from __future__ import annotations

import json
import os
import resource
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sonline
from helpers import learner, stream
from sonline import OnlineLearner, SONClassifier, SONRegressor, persistence, river
from sonline.cli import app
from sonline.errors import InvalidInputError, ModelFileError, ParameterError, SonlineError
from sonline.model import Model
from sonline.parameters import SKETCHES

Change = Callable[[dict[str, Any], persistence.Tensors], None]

ROOM = 512 << 20  # bytes; the files have a few thousand, but threads reserve some for themselves
COUNTS = [0, 1, 7, 511, 512, 513, 4095, 4096, 8191, 8192, 2**28, 2**31, 2**32, 2**62]
KEYS = [*COUNTS, 2**63, 2**63 + 5 * 10**8, 2**64 - 1]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Limit the memory to `ROOM` more than the process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def forged(source: Path, target: Path, change: Change) -> Path:
    """Write a file with other contents and a checksum that fits."""
    document, tensors = persistence.read(source)
    change(document, tensors)
    persistence.write(target, document, tensors)
    return target


def with_tensor(name: str, array: Any) -> Change:
    return lambda _, tensors: tensors.update({name: array})


def use(model: OnlineLearner) -> None:
    """Do with a learner what can be done with one."""
    model.learn(np.eye(4), [1, -1, 1, 1])
    model.learn(-np.eye(6), [1, -1, 1, 1, -1, 1])
    model.learn_one({"name": 1.0, "new": 2.0}, 1)
    model.predict(np.ones((2, 9)))
    model.basis(), model.weights(), model.features(), model.stats(), model.spectrum()
    model.merge([model]).weights()


def outcome(path: Path) -> str:
    """Load a file and use it; the error, if there is one of ours."""
    try:
        model = OnlineLearner.load(path)
    except ModelFileError as error:
        assert "MemoryError" not in str(error)  # noqa: PT017 - either way is right
        return str(error)
    try:
        use(model)
        model.save(path)
    except SonlineError as error:
        return str(error)
    OnlineLearner.load(path)
    return ""


def small_file(folder: Path, sketch: str, **changed: Any) -> Path:
    X, y = stream("emerging", "logistic", 60, 5)
    model = learner(sketch=sketch, sketch_size=4, dtype="float32", **changed)
    model.learn(X, y)
    model.learn_one({"name": 1.0, "other": "text"}, 1)
    model.save(folder / "small")
    return folder / "small"


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("sketch", SKETCHES)
def test_no_number_in_a_file_does_harm(sketch: str, tmp_path: Path) -> None:
    source = small_file(tmp_path, sketch)
    _, tensors = persistence.read(source)
    refused = 0
    for name, array in tensors.items():
        if array.dtype.kind not in "iu" or not array.size or array.itemsize < 8:
            continue
        for position in {0, array.size // 2, array.size - 1}:
            for value in COUNTS if array.dtype.kind == "i" else KEYS:
                bad = array.copy()
                bad.reshape(-1)[position] = value
                path = forged(source, tmp_path / "bad", with_tensor(name, bad))
                refused += outcome(path) != ""
    assert refused > 20


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("sketch", ["fd", "rfd"])
def test_rows_that_wait_cannot_be_more_than_there_is_room_for(sketch: str, tmp_path: Path) -> None:
    """Shapes that fit each other, but not the core's memory: the next row wrote beyond it."""
    source = small_file(tmp_path, sketch)

    def fill(_: dict[str, Any], tensors: persistence.Tensors) -> None:
        for name, array in tensors.items():
            if array.ndim == 0 and array.dtype.kind == "i":
                tensors[name] = np.array(1 if name == "0.rounds" else 0)
        tensors |= {
            "0.sketch.rank": np.array(3),
            "0.sketch.rows_of_Z": np.array(3),
            "0.sketch.R.rows": np.array(512),
            "0.sketch.R.values": np.ones(512, np.float32),
            "0.sketch.R.places": np.array([(row, 1) for row in range(512)], np.uint64).ravel(),
            "0.sketch.bF": np.full((4, 515), 1e-3),
        }

    outcome(forged(source, tmp_path / "bad", fill))


@pytest.mark.parametrize("sketch", ["fd", "rfd"])
def test_a_sketch_without_directions_has_no_columns(sketch: str, tmp_path: Path) -> None:
    """The number of columns was not checked there: predictions read beyond the memory."""
    model = learner(sketch=sketch, sketch_size=0)
    model.learn(np.eye(3), [1, -1, 1])
    model.save(tmp_path / "model")
    for columns in (1, 7, 4096):
        change = with_tensor("0.sketch.columns", np.array(columns))
        path = forged(tmp_path / "model", tmp_path / "bad", change)
        with pytest.raises(ModelFileError, match=r"sketch\.rank"):
            OnlineLearner.load(path)


def test_a_sketch_without_directions_has_no_basis_to_change(tmp_path: Path) -> None:
    """A file that gives the basis of no directions an impossible condition ended the process."""
    model = learner(sketch="oja", sketch_size=0)
    model.learn(np.eye(3), [1, -1, 1])
    model.save(tmp_path / "model")
    change = with_tensor("0.sketch.growth", np.array(-1.0))
    path = forged(tmp_path / "model", tmp_path / "bad", change)
    assert outcome(path) == ""


@pytest.mark.usefixtures("little_memory")
def test_empty_tensors_of_huge_shapes(tmp_path: Path) -> None:
    source = small_file(tmp_path, "isotropic")
    _, tensors = persistence.read(source)
    for name, array in tensors.items():
        for shape in {(0, 2**40), (2**40, 0), (0,), (0, 0, 0)} - {array.shape}:
            bad = np.zeros(shape, array.dtype)
            path = forged(source, tmp_path / "bad", with_tensor(name, bad))
            assert outcome(path) != "" or name.startswith(("names.", "classes.seen"))


def classifier_file(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    model = SONClassifier(sketch_size=2).fit(rng.normal(size=(60, 3)), rng.integers(0, 3, 60))
    model.save(folder / "classifier")
    return folder / "classifier"


def use_classifier(path: Path) -> SONClassifier:
    model = SONClassifier.load(path)
    model.coef_, model.intercept_, model.weights(model.classes_[0]), model.spectra()
    model.predict(np.eye(3))
    model.partial_fit(np.eye(3), model.classes_[:3])
    return model


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "dtype", ["<U100000000", "<f8", "<i1", "|b1", "O", "<M8[s]", "V100000000", "S9", "<c16", 7, []]
)
def test_types_of_classes(dtype: Any, tmp_path: Path) -> None:
    path = forged(
        classifier_file(tmp_path),
        tmp_path / "bad",
        lambda document, _: document["classes"].update(dtype=dtype),
    )
    try:
        use_classifier(path)
    except ValueError as error:  # a ModelFileError, or scikit-learn's about the type
        assert "MemoryError" not in str(error)  # noqa: PT017 - either way is right


def test_a_long_label_does_not_make_the_others_long(tmp_path: Path) -> None:
    X = np.eye(3)
    labels = np.array(["a", "b", "c" * 500_000], dtype=object)
    model = SONClassifier().fit(X, labels)
    model.save(tmp_path / "model")
    assert SONClassifier.load(tmp_path / "model").predict(X).tolist() == labels.tolist()


DOCUMENTS = [
    "",
    "nothing",
    "[" * 100_000,
    '{"a":' * 50_000,
    "[]",
    "3",
    "null",
    '"text"',
    "NaN",
    '{"parameters": NaN}',
    '{"parameters": {"alpha": Infinity}, "negative_label": null}',
    '{"parameters": {"alpha": 1e999}, "negative_label": null}',
    '{"parameters": {"sketch_size": ' + "9" * 5000 + '}, "negative_label": null}',
    '{"parameters": {"seed": 1' + "0" * 4000 + '}, "negative_label": null}',
    '{"parameters": [], "negative_label": null}',
    '{"parameters": {"loss": []}, "negative_label": null}',
    '{"parameters": {"alpha": {}}, "negative_label": null}',
    '{"parameters": {"alpha": "relative:nan"}, "negative_label": null}',
    '{"parameters": {"\\ud800": 1}, "negative_label": null}',
]


@pytest.mark.parametrize("text", DOCUMENTS, ids=lambda text: text[:30])
def test_documents_that_are_no_documents(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = small_file(tmp_path, "oja")
    path = tmp_path / "bad"
    with monkeypatch.context() as patch:
        patch.setattr(persistence.json, "dumps", _dumps_document(text))
        forged(source, path, lambda *_: None)
    with pytest.raises(ModelFileError, match="bad: "):
        OnlineLearner.load(path)


def _dumps_document(text: str) -> Callable[..., str]:
    """As json.dumps, but every document becomes ``text``."""
    dumps = json.dumps

    def dump(value: Any, **more: Any) -> str:
        document = isinstance(value, dict) and "parameters" in value
        return text if document else dumps(value, **more)

    return dump


HOSTILE_VALUES: list[Any] = [None, True, -1, 2**70, 1e308, "", "text", [], [[]], {}, {"a": 1}]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to each value of a document; of a long list, only to its ends."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for key in sorted({0, len(value) - 1} if value else ()):
            yield from paths(value[key], (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    if value is KeyError:
        del document[path[-1]]
    else:
        document[path[-1]] = value


def all_files(folder: Path) -> dict[str, tuple[Path, Callable[[Path], Any]]]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    models: dict[str, Any] = {
        "learner": OnlineLearner(sketch_size=2),
        "classifier": SONClassifier(sketch_size=2, discover_classes=True),
        "regressor": SONRegressor(sketch_size=2),
        "river": river.SONClassifier(sketch_size=2),
        "river regressor": river.SONRegressor(sketch_size=2),
    }
    models["learner"].learn(X, np.sign(y))
    models["classifier"].partial_fit(X, np.digitize(y, [-0.5, 0.5]))
    models["regressor"].fit(X, y)
    for row, label in zip(X.tolist(), y, strict=True):
        named = dict(zip("abc", row, strict=True))
        models["river"].learn_one(named, int(label > 0))
        models["river regressor"].learn_one(named, label)
    for name, model in models.items():
        model.save(folder / name)
    return {name: (folder / name, type(model).load) for name, model in models.items()}


def look_at(model: Any) -> None:
    """Use what needs the document."""
    row = np.eye(3)
    if isinstance(model, SONClassifier):
        model.predict(row), model.coef_, model.progressive_score_, model.progress_.now
        model.partial_fit(row, model.classes_[[0, 0, 0]])
    elif isinstance(model, SONRegressor):
        model.predict(row), model.coef_, model.progressive_score_, model.progress_.now
        model.partial_fit(row, [1.0, 2.0, 3.0])
    elif isinstance(model, OnlineLearner):
        model.predict(row)
        model.learn(row, [1, 1, 1])
    else:
        model.predict_one({"a": 1.0})


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.* encountered:RuntimeWarning")  # metrics of 1e308
@pytest.mark.parametrize("kind", ["learner", "classifier", "regressor", "river", "river regressor"])
def test_anything_in_the_place_of_anything(kind: str, tmp_path: Path) -> None:
    """Whatever a document contains, loading raises a `ModelFileError` or nothing."""
    source, load = all_files(tmp_path)[kind]
    document, _ = persistence.read(source)
    refused = 0
    for path in list(paths(document)):
        for value in (KeyError, *HOSTILE_VALUES):
            bad = forged(source, tmp_path / "bad", lambda d, _, p=path, v=value: replaced(d, p, v))
            try:
                model = load(bad)
            except ModelFileError:
                refused += 1
                continue
            try:
                look_at(model)
                model.save(tmp_path / "again")
            except (SonlineError, ValueError, UserWarning):  # such as scikit-learn's about X
                continue
            load(tmp_path / "again")
    assert refused > 50


def test_saving_leaves_the_umask_alone(tmp_path: Path) -> None:
    """It belongs to the whole process: another thread made files that all could write."""
    model = OnlineLearner()
    stop = threading.Event()
    modes: set[int] = set()

    def make_files() -> None:
        while not stop.is_set():
            path = tmp_path / "other"
            path.touch()
            modes.add(stat.S_IMODE(path.stat().st_mode))
            path.unlink()

    before = os.umask(0o027)
    try:
        thread = threading.Thread(target=make_files)
        thread.start()
        for _ in range(300):
            model.save(tmp_path / "model")
        stop.set()
        thread.join()
        assert modes == {0o640}
        assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o640
    finally:
        stop.set()
        os.umask(before)


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
