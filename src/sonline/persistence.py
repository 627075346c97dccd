"""Model files: safetensors with a checksum, written atomically.

A file holds named arrays and, in the header's metadata, one JSON document. Loading one runs no
code and allocates no more than the file's own size. The checksum covers names, types, shapes,
bytes and the document, so that any flipped bit is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from sonline.errors import ModelFileError

FORMAT = "sonline"
FORMAT_VERSION = 1

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
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        save_file(tensors, temporary, metadata=metadata)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files private
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
            if not version.isdigit() or int(version) > FORMAT_VERSION:
                raise ModelFileError(
                    f"{target}: written in format version {version!r}, this program reads up to "
                    f"{FORMAT_VERSION}; upgrade sonline"
                )
            tensors = {name: opened.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ModelFileError(
            f"{target}: not a sonline model, or damaged ({error}); restore it from a copy"
        ) from error
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{target}: damaged ({error}); restore it from a copy") from error
    text = metadata.get("document", "")
    checksum = _checksum(int(version), metadata.get("kind", ""), text, tensors)
    if metadata.get("checksum") != checksum:
        raise ModelFileError(
            f"{target}: damaged, the checksum does not fit; restore it from a copy"
        )
    if metadata["kind"] != kind:
        raise ModelFileError(f"{target}: holds a {metadata['kind']}, expected a {kind}")
    document: dict[str, Any] = json.loads(text)
    return document, tensors


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
