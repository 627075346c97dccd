"""Files of rows in svmlight text, and a fingerprint of their content."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sonline import _core
from sonline.errors import DataFormatError

Floats: TypeAlias = NDArray[np.float64]

CHUNK = 1 << 22
OPENERS: dict[str, Callable[..., Any]] = {"": open, ".gz": gzip.open, ".bz2": bz2.open}
OPENERS[".xz"] = lzma.open
ENDINGS = tuple(text + packed for text in (".svm", ".libsvm", ".txt", "") for packed in OPENERS)


def find(folder: Path, name: str) -> Path | None:
    """Return the file of a data set in a folder: NAME.svm.gz, NAME.svm, NAME.bz2, ..."""
    preferred = [".svm.gz", *ENDINGS]
    return next((p for end in preferred if (p := folder / f"{name}{end}").is_file()), None)


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked if its ending says so.

    Raises
    ------
    DataFormatError
        If the packed file is damaged.
    """
    opener = OPENERS.get(path.suffix, open)
    stream: IO[bytes]
    with opener(path, "rb") as stream:
        while block := _unpack(stream, path):
            yield block


def _unpack(stream: IO[bytes], path: Path) -> bytes:
    try:
        return stream.read(CHUNK)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise DataFormatError(f"the file is damaged: {error}", file=str(path)) from error


def parse(text: Iterable[bytes], file: str) -> tuple[sp.csr_matrix, Floats]:
    """Return the rows and labels of svmlight text with indices from 1; zeros are dropped.

    Raises
    ------
    DataFormatError
        If a line cannot be read.
    """
    parser = _core.TextParser("svmlight", dtype="float64")
    values, indices, lengths, labels = [], [], [], []
    for batch in _batches(parser, text):
        for error in batch.errors:
            raise DataFormatError(
                error.reason,
                file=file,
                line=error.line,
                column=error.column,
                text=error.word.decode(errors="replace"),
            )
        values.append(np.array(batch.values))
        indices.append(np.array(batch.indices))
        lengths.append(np.diff(batch.indptr))
        labels.append(np.array(batch.labels))
    columns = np.concatenate(indices) - 1
    if columns.size and columns.min() < 0:
        raise DataFormatError("features are counted from 1, found 0", file=file)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    shape = (indptr.size - 1, int(columns.max(initial=-1)) + 1)
    small = np.int32 if max(columns.size, shape[1]) < 2**31 else np.int64
    X = sp.csr_matrix(
        (np.concatenate(values), columns.astype(small), indptr.astype(small)), shape=shape
    )
    X.eliminate_zeros()
    return X, np.concatenate(labels)


def _batches(parser: Any, text: Iterable[bytes]) -> Iterator[Any]:
    for block in text:
        yield parser.feed(block)
    yield parser.finish()


def read(path: Path) -> tuple[sp.csr_matrix, Floats]:
    """Return the rows and labels of a file of svmlight text, packed or not."""
    return parse(chunks(path), str(path))


def widen(X: sp.csr_matrix, width: int) -> sp.csr_matrix:
    """Return the same rows with at least this many columns."""
    shape = (X.shape[0], max(X.shape[1], width))
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=shape)


def fingerprint(X: sp.csr_matrix, labels: Floats) -> str:
    """Return the SHA-256 of labels, indices and values, whatever file they came in.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from sonline.paper.datasets import fingerprint
    >>> X = sp.csr_matrix([[0.0, 1.5], [2.0, 0.0]])
    >>> fingerprint(X, np.array([1.0, -1.0]))[:16]
    '...'
    """
    digest = hashlib.sha256()
    arrays = ((labels, "<f8"), (X.indptr, "<i8"), (X.indices, "<i8"), (X.data, "<f8"))
    for array, kind in arrays:
        digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return digest.hexdigest()
