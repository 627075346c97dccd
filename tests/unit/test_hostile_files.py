"""Model files made to do harm: right checksum, wrong contents.

They are refused with a `ModelFileError`, or give a learner that works or says why not. Nothing that
a file claims makes it take more memory than a small multiple of its size.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forging import Change, all_files, classifier_file, forged, replaced
from helpers import learner, stream
from sonline import OnlineLearner, SONClassifier, SONRegressor, persistence
from sonline.errors import ModelFileError, SonlineError
from sonline.parameters import SKETCHES

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


def with_tensor(name: str, array: Any) -> Change:
    return lambda _, tensors: tensors.update({name: array})


def use(model: OnlineLearner) -> None:
    """Do with a learner what can be done with one."""
    model.learn(np.eye(4), [1, -1, 1, 1])
    model.learn(-np.eye(6), [1, -1, 1, 1, -1, 1])
    model.learn_one({"name": 1.0, "new": 2.0}, 1)
    model.predict(np.ones((2, 9)))
    model.basis(), model.weights(), model.features(), model.stats(), model.spectrum()
    model.merge([pickle.loads(pickle.dumps(model))]).weights()


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
