"""Model files: safetensors with a checksum, written atomically.

A file holds named arrays and, in the header's metadata, one JSON document. Loading one runs no
code, and allocates a small multiple of the file's size at most, beside what an empty learner with
these parameters takes (docs/security.md). The checksum covers names, types, shapes, bytes and the
document, so that any flipped bit is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from sonline.errors import ModelFileError

FORMAT = "sonline"
FORMAT_VERSION = 1
KNOWN_VERSIONS = {str(number) for number in range(1, FORMAT_VERSION + 1)}

Tensors = dict[str, NDArray[Any]]


def write(
    path: str | os.PathLike[str], kind: str, document: Mapping[str, Any], tensors: Tensors
) -> None:
    """Write a model file so that at any moment either the old or the new one is there.

    Parameters
    ----------
    path : path-like
        The file; an existing one is replaced.
    kind : str
        What the file holds, checked by `read`.
    document : mapping
        Anything JSON can hold.
    tensors : dict of arrays
        The state.
    """
    target = Path(path)
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    metadata = {
        "format": FORMAT,
        "version": str(FORMAT_VERSION),
        "kind": kind,
        "document": text,
        "checksum": _checksum(FORMAT_VERSION, kind, text, tensors),
    }
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    # A new file has the rights that the umask leaves, which could only be read by changing it.
    with temporary.open("xb") as made:
        rights = stat.S_IMODE(os.fstat(made.fileno()).st_mode)
    try:
        save_file(tensors, temporary, metadata=metadata)
        temporary.chmod(rights)  # safetensors makes a file of its own, a private one
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
        _sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], Tensors]:
    """Read a file that `write` made; the document and the arrays.

    Raises
    ------
    ModelFileError
        If the file is damaged, not one of ours, too new, or holds something else.
    """
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"no model file {str(target)!r}")
    try:
        with safe_open(target, framework="numpy") as opened:
            metadata = opened.metadata() or {}
            names = list(opened.keys())
            found = metadata.get("format")
            if found != FORMAT:
                raise ModelFileError(f"{target}: not a sonline model (format {found!r})")
            version = metadata.get("version", "")
            if version not in KNOWN_VERSIONS:
                raise ModelFileError(
                    f"{target}: written in format version {version!r}, this program reads up to "
                    f"{FORMAT_VERSION}; upgrade sonline"
                )
            tensors = {name: opened.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ModelFileError(
            f"{target}: not a sonline model, or damaged ({error}); restore it from a copy"
        ) from error
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{target}: damaged ({error}); restore it from a copy") from error
    text = metadata.get("document", "")
    checksum = _checksum(int(version), metadata.get("kind", ""), text, tensors)
    if metadata.get("checksum") != checksum:
        raise ModelFileError(
            f"{target}: damaged, the checksum does not fit; restore it from a copy"
        )
    found = metadata.get("kind")
    if found != kind:
        raise ModelFileError(f"{target}: holds a {found}, expected a {kind}")
    with reading(target):
        document = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(document, dict):
            raise ModelFileError(f"expected a mapping, found {text[:40]!r}")
    return document, tensors


@contextmanager
def reading(path: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Turn every error about what a file holds into a `ModelFileError` that names the file.

    A document can hold anything in the place of anything, so all that its use can raise counts.
    """
    try:
        yield
    except _CONTENT_ERRORS as error:
        what = str(error)
        if not isinstance(error, ValueError):  # such as a KeyError, whose text is only the key
            what = f"damaged, {type(error).__name__}: {what}"
        where = "" if path is None else f"{os.fspath(path)}: "
        raise ModelFileError(f"{where}{what}") from error


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


def _checksum(version: int, kind: str, text: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([version, kind, text]).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
