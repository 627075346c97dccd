"""Rows for the scikit-learn estimators: checked as scikit-learn does, cut into pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

Rows: TypeAlias = Any  # a 2-D array or a CSR matrix of floats
Order: TypeAlias = "NDArray[np.intp] | None"

PIECE = 1 << 20  # stored numbers that are learnt between two chances for Ctrl-C
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
CSR = (sp.csr_matrix, sp.csr_array)
CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": [np.float64, np.float32],
}


def known_rows(estimator: Any, X: Any) -> Rows:
    """Return rows for an estimator that has been fitted.

    What needs no conversion is seen to be so in a microsecond, where scikit-learn's general check
    takes a hundred; the core looks at the numbers themselves. All else goes the general way.
    """
    plain = type(X) is np.ndarray or type(X) in CSR
    if (
        plain
        and X.ndim == 2
        and X.dtype in FLOATS
        and X.shape[1] == estimator.n_features_in_
        and X.shape[0] > 0
        and not hasattr(estimator, "feature_names_in_")  # these warn if X has no names
    ):
        return X
    return validate_data(estimator, X, reset=False, **CHECKS)


def pieces(X: Rows, order: Order) -> Iterator[tuple[Any, Rows]]:
    """Yield the rows in the given order, some at a time: which they are, and themselves."""
    rows = X.shape[0]
    stored = X.nnz if sp.issparse(X) else X.size  # type: ignore[attr-defined]
    length = max(1, PIECE * rows // max(stored, 1))
    for start in range(0, rows, length):
        if order is not None:
            chosen = order[start : start + length]
            yield chosen, X[chosen]
        elif length >= rows:
            yield slice(None), X
        else:
            part = slice(start, start + length)
            yield part, _slice_csr(X, part) if sp.issparse(X) else X[part]


def _slice_csr(X: Rows, part: slice) -> Rows:
    """Return rows of a CSR matrix without a copy of their numbers.

    Indexing makes one, and so does the constructor with slices of long arrays.
    """
    indptr = X.indptr[part.start : part.stop + 1]
    stored = slice(indptr[0], indptr[-1])
    rows = type(X)((indptr.size - 1, X.shape[1]), dtype=X.dtype)
    rows.data, rows.indices, rows.indptr = X.data[stored], X.indices[stored], indptr - indptr[0]
    return rows
