"""Rows, labels and weights as the core takes them, checked."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sonline.errors import InvalidInputError

Rows: TypeAlias = Any
"""A 2-D array, a SciPy sparse matrix, or a sequence of mappings from feature to number."""

Floats: TypeAlias = NDArray[np.float64]

LARGEST = 1e150  # size of a label or weight; their squares must stay finite


def contiguous(values: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """Return an array that the core can read as it lies: in one piece, and aligned.

    What has travelled in a message, as the blocks of Dask, may begin anywhere.
    """
    array = np.ascontiguousarray(values, dtype=dtype)
    return array if array.flags.aligned else array.copy()


def one_number(name: str, value: Any, hint: str) -> float:
    """Return a single number of any type."""
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInputError(f"{name} must be a number, got {value!r}; {hint}")


def vector(name: str, values: ArrayLike) -> Floats:
    """Return numbers as a vector."""
    try:
        given = np.asarray(values)
        numbers = contiguous(given, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} must be a sequence of numbers: {error}") from error
    if given.dtype.kind in "SU" and given.size:  # digits: learn_one does not take them either
        raise InvalidInputError(
            f"{name} must be a sequence of numbers, got text, such as {given.flat[0].item()!r}"
        )
    if numbers.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension, got shape {numbers.shape}")
    return numbers


def check_finite(name: str, values: Floats) -> None:
    """Raise an error about the first number that is not finite, or too large."""
    bad = ~(np.abs(values) <= LARGEST)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InvalidInputError(
            f"{name}: {values[row]:g} in row {row}; it must be finite and 1e150 in size at most"
        )


def row_weights(sample_weight: ArrayLike, count: int) -> Floats:
    """Return the weights of so many rows."""
    weights = vector("sample_weight", sample_weight)
    if weights.size != count:
        raise InvalidInputError(f"sample_weight has {weights.size} entries, y has {count}")
    check_finite("sample_weight", weights)
    if (weights < 0).any():
        row = int(np.flatnonzero(weights < 0)[0])
        raise InvalidInputError(
            f"sample_weight: {weights[row]:g} in row {row}; weights must be 0 or more"
        )
    return weights


def check_same_length(rows: int, labels: int) -> None:
    """Raise an error unless there is a label for each row."""
    if rows != labels:
        raise InvalidInputError(f"X has {rows} rows, y has {labels} labels")


def is_mappings(X: Rows) -> bool:
    """Return whether rows are mappings, rather than a table or matrix."""
    if isinstance(X, Mapping):
        raise InvalidInputError("X is a single mapping; use learn_one or predict_one")
    return isinstance(X, Sequence) and len(X) > 0 and isinstance(X[0], Mapping)


def is_sparse(X: Rows) -> bool:
    """Return whether X is a sparse matrix of SciPy.

    Whoever has made one has imported SciPy; nobody else shall wait for it.
    """
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(X))


def csr_arrays(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return values, indices and starts of the rows of a sparse matrix."""
    if X.ndim != 2:
        raise InvalidInputError(f"X must have two dimensions, got shape {X.shape}")
    rows = X.tocsr()
    values = floats(rows.data)
    indices, indptr = rows.indices, rows.indptr
    if indices.dtype != indptr.dtype or indices.dtype not in (np.int32, np.int64):
        indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
    return contiguous(values), contiguous(indices), contiguous(indptr)


def dense_array(X: Any) -> NDArray[Any]:
    """Return a table of numbers as an array, without a copy where that is possible."""
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(f"X must be a table of numbers: {error}") from error
    if rows.ndim != 2:
        raise InvalidInputError(
            f"X must have two dimensions, got shape {rows.shape}; a single row is X.reshape(1, -1)"
        )
    rows = floats(rows)
    whole = all(stride % rows.itemsize == 0 for stride in rows.strides)
    return rows if whole and rows.flags.aligned else contiguous(rows)


def floats(values: NDArray[Any]) -> NDArray[Any]:
    """Return float32 and float64 in native order as they are, other numbers as float64."""
    if values.dtype in (np.float32, np.float64) and values.dtype.isnative:
        return values
    if values.dtype.kind == "c":
        raise InvalidInputError("X: complex numbers cannot be learnt from")
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"X must hold numbers: {error}") from error
