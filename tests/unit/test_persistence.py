"""Model files: damaged, foreign and inconsistent ones are refused; saving never loses a file."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from helpers import learner, state_of, stream
from sonline import OnlineLearner, persistence
from sonline.errors import ModelFileError, SonlineError
from sonline.model import Model
from sonline.parameters import SKETCHES


def small_model(sketch: str = "isotropic", **changed: Any) -> OnlineLearner:
    X, y = stream("emerging", "logistic", 30, 3)
    model = learner(sketch=sketch, sketch_size=2, dtype="float32", **changed)
    model.learn(X, y)
    model.learn_one({"name": 1.0, "other": "text"}, 1)
    return model


@pytest.fixture
def model() -> OnlineLearner:
    return small_model()


@pytest.fixture
def file(model: OnlineLearner, tmp_path: Path) -> Path:
    model.save(tmp_path / "a.sonline")
    return tmp_path / "a.sonline"


def test_every_truncation_is_noticed(file: Path) -> None:
    content = file.read_bytes()
    for length in range(len(content)):
        file.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=file.name):
            OnlineLearner.load(file)
    file.write_bytes(content + b"\0")
    with pytest.raises(ModelFileError):
        OnlineLearner.load(file)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_every_flipped_byte_is_noticed_or_harmless(
    file: Path, model: OnlineLearner, mask: int
) -> None:
    content, wanted = bytearray(file.read_bytes()), state_of(model)
    harmless = 0
    for position in range(len(content)):
        content[position] ^= mask
        file.write_bytes(content)
        content[position] ^= mask
        try:
            loaded = OnlineLearner.load(file)
        except ModelFileError as error:
            assert file.name in str(error)  # noqa: PT017 - either way is right
        else:
            harmless += 1
            assert state_of(loaded) == wanted
            assert loaded.params == model.params
    assert harmless < 40  # such as a space of the header


FOREIGN: dict[str, bytes] = {
    "empty": b"",
    "text": b"this is no model\n" * 100,
    "svmlight": b"+1 1:0.5 7:2\n-1 2:1\n" * 50,
    "zip": b"PK\x03\x04" + bytes(2000),
    "pickle": b"\x80\x04\x95" + bytes(200),
    "zeros": bytes(4096),
    "large header": (2**63 - 1).to_bytes(8, "little") + b"{}",
    "tensors of another program": save({"weight": np.zeros(3)}),
    "tensors with other metadata": save({"weight": np.zeros(3)}, {"format": "pt"}),
    "only our format": save({"weight": np.zeros(3)}, {"sonline": "{}"}),
    "no checksum": save({}, {"sonline": json.dumps({"version": 1, "document": "{}"})}),
    "no document": save({}, {"sonline": json.dumps({"version": 1, "checksum": ""})}),
    "our entry as a list": save({}, {"sonline": "[]"}),
    "our entry as text": save({}, {"sonline": "model"}),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_files(what: str, tmp_path: Path) -> None:
    file = tmp_path / "foreign.model"
    file.write_bytes(FOREIGN[what])
    with pytest.raises(ModelFileError, match=r"foreign\.model") as caught:
        OnlineLearner.load(file)
    assert isinstance(caught.value, ValueError)


def test_files_that_are_not_there(tmp_path: Path, model: OnlineLearner) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        OnlineLearner.load(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        OnlineLearner.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*no folder; make it"):
        model.save(tmp_path / "no folder" / "a.sonline")


def test_newer_versions_say_what_to_do(file: Path, tmp_path: Path) -> None:
    newer = persistence.FORMAT_VERSION + 1
    save_file({}, tmp_path / "b", {persistence.FORMAT: json.dumps({"version": newer})})
    with pytest.raises(ModelFileError, match=f"version {newer}.*upgrade sonline"):
        OnlineLearner.load(tmp_path / "b")


def test_pickles_of_other_versions_say_what_to_do(model: OnlineLearner) -> None:
    document, tensors = model.__getstate__()
    parameters = document["parameters"]
    strange = [
        ({name: value for name, value in document.items() if name != missing}, tensors)
        for missing in ("parameters", "classes", "reading", "run")
    ]
    strange += [
        (document | {"parameters": parameters | {"momentum": 0.9}}, tensors),
        (document | {"parameters": parameters | {"sketch": "newest"}}, tensors),
        (document, dict(list(tensors.items())[1:])),
        (document,),  # type: ignore[list-item]
    ]
    for state in strange:
        other = OnlineLearner.__new__(OnlineLearner)
        with pytest.raises(ModelFileError, match=r"pickle of another version.*save and load"):
            other.__setstate__(state)


@pytest.mark.parametrize(("name", "value"), [("label.weight", -1.0), ("next.members", -1.0)])
def test_numbers_that_no_model_has_are_refused(name: str, value: float, tmp_path: Path) -> None:
    document, tensors = small_model("isotropic").__getstate__()
    tensors[f"0.{name}"] = np.full_like(tensors[f"0.{name}"], value)
    persistence.write(tmp_path / "a", document, tensors)
    with pytest.raises(ModelFileError, match=r"negative|no model"):
        OnlineLearner.load(tmp_path / "a")


@pytest.mark.parametrize("sketch", SKETCHES)
def test_inconsistent_fields_are_refused(sketch: str, tmp_path: Path) -> None:
    """Even with a right checksum: each field missing, of another type, shape or value."""
    document, tensors = small_model(sketch).__getstate__()
    file = tmp_path / "b"

    def outcome(changed: dict[str, Any]) -> str:
        persistence.write(file, document, changed)
        try:
            loaded = OnlineLearner.load(file)
        except ModelFileError as error:
            return str(error)
        # A plausible number in place of another: then it must be usable, too, or say why not.
        try:
            loaded.learn(np.eye(4), [1, -1, 1, 1])
            loaded.basis(), loaded.weights(), loaded.features()
        except SonlineError:
            pass
        return ""

    for name, array in tensors.items():
        others = {key: value for key, value in tensors.items() if key != name}
        inner = name.removeprefix("0.")
        assert re.search(f"'(0.)?{inner}' is missing|a name that is not there", outcome(others))
        assert "type" in outcome({**others, name: np.zeros(array.shape, np.float16)})
        if array.ndim:
            assert inner in outcome({**others, name: array.reshape(-1)[:, None, None]})
            longer = np.concatenate([array, array[-1:]]) if len(array) else np.zeros(1, array.dtype)
            if name != "names.offsets":  # there it is one more name, the empty one
                assert outcome({**others, name: longer}) != ""
        if array.dtype.kind == "f" and array.size:
            bad = array.copy()
            bad.reshape(-1)[-1] = np.nan
            assert inner in outcome({**others, name: bad})
        if array.dtype.kind in "iu" and array.size:
            for value in (np.iinfo(array.dtype).max, np.iinfo(array.dtype).min, 0, 7):
                bad = array.copy()
                bad.reshape(-1)[-1] = value
                outcome({**others, name: bad})  # no crash, which the sanitizers look at


@pytest.mark.parametrize(
    "changed",
    [
        {"parameters": {"loss": "cubic"}},
        {"parameters": {"colour": 1}},
        {"parameters": None},
        {"parameters": {"sketch_size": 3}},
        {"classes": {}},
        {"classes": {"labels": [0, 1, 2], "growing": False}},
        {"signs": []},
        {"signs": [0.5]},
        {"reading": {"colour": 1}},
        {"progress": {}},
        {"run": 3},
        {"face": None},
    ],
)
def test_inconsistent_documents_are_refused(
    changed: dict[str, Any], model: OnlineLearner, tmp_path: Path
) -> None:
    document, tensors = model.__getstate__()
    persistence.write(tmp_path / "b", document | changed, tensors)
    with pytest.raises(ModelFileError, match="b: "):
        OnlineLearner.load(tmp_path / "b")


def test_saving_replaces_at_once_or_not_at_all(
    file: Path, model: OnlineLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = state_of(model)
    model.learn_one({"later": 1.0}, -1)

    def full_disk(*_: object) -> Iterator[bytes]:
        yield b"half of it"
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(persistence, "_pieces", full_disk)
        with pytest.raises(OSError, match="No space left"):
            model.save(file)
    assert state_of(OnlineLearner.load(file)) == wanted
    assert os.listdir(file.parent) == [file.name]  # noqa: PTH208 - names are what is compared
    model.save(file)
    assert state_of(OnlineLearner.load(file)) == state_of(model)
    assert os.listdir(file.parent) == [file.name]  # noqa: PTH208


def test_files_are_those_of_the_library() -> None:
    types = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
    types += ["float16", "float32", "float64"]
    arrays = {f"{n}.{kind}": np.ones(n, kind) for n in range(3) for kind in types}
    arrays |= {"number": np.array(1.5), "turned é": np.arange(6.0).reshape(2, 3).T}
    made = persistence.pack({"a": "é\n"}, arrays)
    length = int.from_bytes(made[:8], "little")
    metadata = json.loads(made[8 : 8 + length])["__metadata__"]
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    assert made == save(plain, metadata=metadata)


def test_files_have_the_usual_rights_and_are_small(file: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask
    assert file.stat().st_size < 11_500  # of which 2,300 are what intervals need


def test_other_programs_can_read_a_file(file: Path) -> None:
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    ours = json.loads(header["__metadata__"]["sonline"])
    assert ours["version"] == 1
    assert json.loads(ours["document"])["parameters"]["sketch"] == "isotropic"


def test_the_same_model_gives_the_same_bytes(file: Path) -> None:
    """Also in another process, whose order of sets and dictionaries is another one."""
    content = file.read_bytes()
    for seed in "0", "1", "2":
        code = "import sys, sonline; sonline.load(sys.argv[1]).save(sys.argv[1])"
        command = [sys.executable, "-c", code, str(file)]
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True)
        assert file.read_bytes() == content
    assert Model.load(file).to_bytes() == content


# The rows are whole numbers, so that the C library has no part in them.
_LEARN_AND_PRINT = """
import hashlib, numpy as np
from sonline import OnlineLearner
random = np.random.default_rng(5)
dense = random.integers(-64, 65, size=(2000, 40)) * 2.0 ** np.linspace(-12, 1, 40).round()
sparse = random.integers(-64, 65, size=(1000, 300)) * (random.random((1000, 300)) < 0.03) / 16.0
digest, rebases = hashlib.sha256(), 0
for sketch in ("oja", "isotropic", "fd"):
    for size in (3, 10, 17):
        for settings in (
            {"alpha": 1.0},
            {},
            {"loss": "hinge", "dtype": "float64"},
            {"loss": "squared_hinge", "curvature": "gradient"},
            {"curvature": "gradient"},
        ):
            learner = OnlineLearner(sketch=sketch, sketch_size=size, **settings)
            for X in dense, sparse:
                learner.learn(X, np.where(X.sum(axis=1) > 0, 1.0, -1.0))
            rebases += learner.stats()["sweeps"] + learner.stats()["generations"]
            digest.update(repr(learner.weights()).encode() + learner.spectrum().tobytes())
assert rebases > 250, rebases
print(digest.hexdigest())
"""
# What chooses between the versions of exp in glibc; other C libraries do not look at it.
_WITHOUT_FMA = "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-FMA_Usable,-FMA,-FMA4_Usable,-FMA4"


def test_the_processor_does_not_change_the_bits() -> None:
    """There are loops for newer processors, ours and the C library's; a variable turns off each."""

    def run(**variables: str) -> str:
        command = [sys.executable, "-c", _LEARN_AND_PRINT]
        done = subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, check=True
        )
        return done.stdout

    here = run()
    assert here == run(SONLINE_PORTABLE="1")
    assert here == run(GLIBC_TUNABLES=_WITHOUT_FMA)
