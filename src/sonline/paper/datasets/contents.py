"""Files of rows in svmlight text, and a fingerprint of their content."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sonline import streams
from sonline.errors import DataFormatError

Floats: TypeAlias = NDArray[np.float64]

PACKED = ("", ".gz", ".bz2", ".xz")
ENDINGS = tuple(text + packed for text in (".svm", ".libsvm", ".txt", "") for packed in PACKED)


def find(folder: Path, name: str) -> Path | None:
    """Return the file of a data set in a folder: NAME.svm.gz, NAME.svm, NAME.bz2, ..."""
    preferred = [".svm.gz", *ENDINGS]
    return next((p for end in preferred if (p := folder / f"{name}{end}").is_file()), None)


def read(path: Path) -> tuple[sp.csr_matrix, Floats]:
    """Return the rows and labels of svmlight text with indices from 1; zeros are dropped.

    Raises
    ------
    DataFormatError
        If a line cannot be read.
    """
    with streams.open(path, format="svmlight", dtype="float64") as stream:
        batches = list(stream)
    columns = np.concatenate([batch.indices for batch in batches] or [np.zeros(0, np.int64)]) - 1
    if columns.size and columns.min() < 0:
        raise DataFormatError("features are counted from 1, got 0", file=str(path))
    values = np.concatenate([batch.values for batch in batches] or [np.zeros(0)])
    labels = np.concatenate(
        [batch.labels for batch in batches if batch.labels is not None] or [values]
    )
    lengths = [np.diff(batch.indptr) for batch in batches]
    indptr = np.concatenate([[0], *lengths]).cumsum()
    shape = (indptr.size - 1, int(columns.max(initial=-1)) + 1)
    small = np.int32 if max(columns.size, shape[1]) < 2**31 else np.int64
    X = sp.csr_matrix((values, columns.astype(small), indptr.astype(small)), shape=shape)
    X.eliminate_zeros()
    return X, labels


def widen(X: sp.csr_matrix, width: int) -> sp.csr_matrix:
    """Return the same rows with at least this many columns."""
    shape = (X.shape[0], max(X.shape[1], width))
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=shape)


def rounded(values: Floats) -> Floats:
    """Return numbers as a text with six digits would hold them."""
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([float(f"{value:.6g}") for value in distinct])[inverse]


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
