"""Model files: safetensors with a checksum, written atomically.

A file holds named arrays and, in the header's metadata, one JSON document. Loading one runs no
code, and allocates a small multiple of the file's size at most, beside what an empty learner with
these parameters takes (docs/security.md). The checksum covers names, types, shapes, bytes and the
document, so that any flipped bit is noticed. The same model gives the same bytes.
docs/model-files.md describes the format.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load

from sonline.errors import ModelFileError
from sonline.files import replacing

FORMAT = "sonline"  # the only entry of the metadata: several would have no fixed order
FORMAT_VERSION = 1

Tensors = dict[str, NDArray[Any]]


def write(path: str | os.PathLike[str], document: Mapping[str, Any], tensors: Tensors) -> None:
    """Write a model file atomically: at any moment either the old or the new one is there.

    Parameters
    ----------
    path : path-like
        The file; an existing one is replaced.
    document : mapping
        Anything JSON can hold.
    tensors : dict of arrays
        The state.
    """
    with replacing(path) as file:
        for piece in _pieces(_metadata(document, tensors), tensors):
            file.write(piece)


def pack(document: Mapping[str, Any], tensors: Tensors) -> bytes:
    """Return the content of the file that `write` would make."""
    return b"".join(_pieces(_metadata(document, tensors), tensors))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Tensors]:
    """Read a file that `write` made; the document and the arrays.

    Raises
    ------
    ModelFileError
        If the file is damaged, not a sonline model, or too new.
    """
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"no model file {str(target)!r}")

    def opened() -> tuple[dict[str, Any], Tensors]:
        with safe_open(target, framework="numpy") as file:
            header = _header(file.metadata() or {}, str(target))  # before the arrays
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    return _checked(opened, str(target))


def unpack(data: bytes, name: str) -> tuple[dict[str, Any], Tensors]:
    """Return the arguments of `pack`; ``name`` is for errors."""

    def opened() -> tuple[dict[str, Any], Tensors]:
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
        return _header(metadata, name), load(data)

    return _checked(opened, name)


def _metadata(document: Mapping[str, Any], tensors: Tensors) -> dict[str, str]:
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    header = {
        "checksum": _checksum(FORMAT_VERSION, text, tensors),
        "document": text,
        "version": FORMAT_VERSION,
    }
    return {FORMAT: json.dumps(header)}


def _pieces(metadata: Mapping[str, str], tensors: Tensors) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a safetensors file, those of arrays without a copy.

    The writer of the library either makes a temporary file, which stays if the process is killed,
    or a copy of everything in memory.
    """
    arrays = {name: np.asarray(tensors[name], order="C") for name in tensors}
    # Large types first, so that every array is aligned; as the library has them.
    order = sorted(arrays, key=lambda name: (-_TYPES.index(arrays[name].dtype.name), name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in order:
        start, end = end, end + arrays[name].nbytes
        kind = arrays[name].dtype
        header[name] = {
            "dtype": _CODES[kind.kind] + (str(8 * kind.itemsize) if kind.kind != "b" else ""),
            "shape": list(arrays[name].shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield arrays[name].reshape(-1).view(np.uint8).data


# By rising rank in the library's order.
_TYPES = (
    *("bool", "uint8", "int8", "int16", "uint16", "float16", "int32", "uint32", "float32"),
    *("float64", "int64", "uint64"),
)
_CODES = {"b": "BOOL", "u": "U", "i": "I", "f": "F"}


def _header(metadata: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return our entry of the metadata, checked."""
    if FORMAT not in metadata:
        raise ModelFileError(f"{name}: not a sonline model")
    header: dict[str, Any] = json.loads(metadata[FORMAT])
    version = header.get("version")
    if isinstance(version, bool) or version not in range(1, FORMAT_VERSION + 1):
        raise ModelFileError(
            f"{name}: written in format version {version!r}, this program reads up to "
            f"{FORMAT_VERSION}; upgrade sonline"
        )
    return header


def _checked(
    opened: Callable[[], tuple[dict[str, Any], Tensors]], name: str
) -> tuple[dict[str, Any], Tensors]:
    try:
        header, tensors = opened()
        text = header["document"]
        if header["checksum"] != _checksum(header["version"], text, tensors):
            raise ModelFileError(
                f"{name}: damaged, the checksum does not fit; restore it from a copy"
            )
        document: dict[str, Any] = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(document, dict):
            raise ModelFileError(f"{name}: expected a mapping, found {text[:40]!r}")
    except SafetensorError as error:
        raise ModelFileError(
            f"{name}: not a sonline model, or damaged ({error}); restore it from a copy"
        ) from error
    except _CONTENT_ERRORS as error:
        if isinstance(error, ModelFileError) and name in str(error):
            raise
        raise ModelFileError(f"{name}: damaged ({error}); restore it from a copy") from error
    return document, tensors


@contextmanager
def reading(path: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Turn every error about the content of a file into a `ModelFileError` that names the file.

    Any part of a document may have a wrong type, so every error that its use can raise counts.
    """
    try:
        yield
    except _CONTENT_ERRORS as error:
        what = str(error)
        if not isinstance(error, ValueError):  # such as a KeyError, whose text is only the key
            what = f"damaged, {type(error).__name__}: {what}"
        where = "" if path is None or os.fspath(path) in what else f"{os.fspath(path)}: "
        raise ModelFileError(f"{where}{what}") from error


COUNT = "an integer of 0 or more"
NAMES = ("names.bytes", "names.offsets")  # the key of the table of names in a saved state


def check(where: str, value: Any, shape: Any) -> None:
    """Raise an error if a part of a document has the wrong shape.

    Parameters
    ----------
    where : str
        The path of the part within the document, for the error.
    value : object
        The value of the part.
    shape : type, `COUNT`, set, tuple, list or dict
        A type, where float takes integers, too; a set has the words allowed; ``(None, shape)``
        allows null, ``[shape]`` is a list of any length, ``{...: shape}`` a mapping with any
        names, and ``{"name": shape, "other?": shape}`` one with these, the second if it is there.

    Examples
    --------
    >>> from sonline.persistence import COUNT, check
    >>> check("run", {"rows": 3, "files": ["a"]}, {"rows": COUNT, "files": [str]})
    >>> check("run", {"rows": -3}, {"rows": COUNT})
    Traceback (most recent call last):
    sonline.errors.ModelFileError: run.rows must be an integer of 0 or more, got '-3'
    """
    if isinstance(shape, tuple):
        if value is not None:
            check(where, value, shape[1])
    elif isinstance(shape, list):
        check(where, value, list)
        for number, item in enumerate(value):
            check(f"{where}[{number}]", item, shape[0])
    elif isinstance(shape, dict):
        check(where, value, dict)
        if ... not in shape:
            _check_names(where, value, shape)
        for name, item in value.items():
            inner = shape.get(..., shape.get(name, shape.get(f"{name}?")))
            check(f"{where}.{name}", item, inner)
    else:
        _check_value(where, value, shape)


def _check_names(where: str, value: dict[str, Any], shape: dict[str, Any]) -> None:
    needed = {name for name in shape if not name.endswith("?")}
    if missing := needed - set(value):
        raise ModelFileError(f"{where}.{min(missing)} is missing")
    if unknown := set(value) - {name.removesuffix("?") for name in shape}:
        raise ModelFileError(f"{where}.{min(unknown)} is unknown")


def _check_value(where: str, value: Any, shape: Any) -> None:
    expected = shape
    if shape is COUNT:
        valid = type(value) is int and value >= 0
    elif isinstance(shape, set):
        valid = isinstance(value, str) and value in shape
        expected = "one of " + ", ".join(map(repr, sorted(shape)))
    elif shape is object:
        valid = True
    else:
        valid = type(value) in ((float, int) if shape is float else (shape,))
        expected = f"of type {shape.__name__}"
    if not valid:
        raise ModelFileError(f"{where} must be {expected}, got {str(value)[:40]!r}")


_CONTENT_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,  # RecursionError among them
    TypeError,
    ValueError,
)


def _refuse_constant(word: str) -> NoReturn:
    raise ModelFileError(f"the document holds {word}, which is no JSON")


def _checksum(version: int, text: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([version, text]).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
