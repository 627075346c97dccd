"""Numbers of users as arrays: dense and sparse matrices, vectors of labels and weights."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sonline.errors import InvalidInputError, shown
from sonline.labels import refuse_masked
from sonline.rows.checks import first_word, offset_reasons, weight_reasons
from sonline.rows.types import Floats

LABEL_ADVICE = "labels of text and other classes are for SONClassifier"


def contiguous(values: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """Return an array that the core can read without a copy: contiguous and aligned.

    Arrays that Dask deserialises may be unaligned.
    """
    array = np.ascontiguousarray(values, dtype=dtype)
    return array if array.flags.aligned else array.copy()


def refuse_unusable(name: str, values: Any) -> None:
    """Raise an error about values that a conversion to numbers would silently change or use up."""
    if isinstance(values, Iterator):
        raise InvalidInputError(
            f"{name} is a {type(values).__name__}, which can be read once only: pass list({name})"
        )
    refuse_masked(name, values)
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind == "c":
        raise InvalidInputError(f"{name}: Complex data not supported; complex numbers are refused")
    if kind in ("M", "m"):
        raise InvalidInputError(
            f"{name}: dates and times need the name of a column, as in a data frame; convert "
            "them to numbers, such as seconds since the first one"
        )


def text_error(word: str) -> InvalidInputError:
    """Return an error about text in a table without names of columns."""
    return InvalidInputError(
        f"X has text ({shown(word)}) instead of numbers; pass a table as pandas.DataFrame(X, "
        "columns=[...]), with a name for each column, and documents through TfidfVectorizer or "
        "HashingVectorizer"
    )


def one_number(name: str, value: Any, hint: str) -> float:
    """Return a single number of any type."""
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInputError(f"{name} must be a number, got {shown(value)}; {hint}")


def vector(name: str, values: ArrayLike) -> Floats:
    """Return numbers as a vector."""
    hint = f"; {LABEL_ADVICE}" if name == "y" else ""
    refuse_unusable(name, values)
    try:
        array = np.asarray(values)
        refuse_unusable(name, array)
        numbers = contiguous(array, np.float64)
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        if (word := first_word(values)) is not None:
            raise _not_numbers(name, word, hint) from None
        reason = f"{error!s:.200}{hint}"
        raise InvalidInputError(f"{name} must be a sequence of numbers: {reason}") from error
    if array.dtype.kind in "SU" and array.size:  # digits: learn_one does not take them either
        raise _not_numbers(name, array.flat[0].item(), hint)
    if numbers.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension, got shape {numbers.shape}")
    return numbers


def _not_numbers(name: str, word: str, hint: str) -> InvalidInputError:
    return InvalidInputError(f"{name} must be numbers, got text, such as {shown(word)}{hint}")


def row_weights(weights: Any, count: int, name: str = "sample_weight") -> Floats | None:
    """Return the weights of ``count`` rows, checked; a single number is for all rows."""
    numbers = _one_for_each(name, weights, count, "it is the importance of the rows")
    if numbers is not None:
        weight_reasons(name, numbers).raise_first()
    return numbers


def row_offsets(offset: ArrayLike | None, count: int, log_link: bool) -> Floats | None:
    """Return the offsets of rows, checked; None if there are none."""
    advice = "it is added to the raw predictions of the rows"
    numbers = _one_for_each("offset", offset, count, advice)
    if numbers is not None:
        offset_reasons("offset", numbers, log_link).raise_first()
    return numbers


def _one_for_each(name: str, values: Any, count: int, advice: str) -> Floats | None:
    """Return a number for each row; a single one is for all rows."""
    if values is None:
        return None
    if np.asarray(values).ndim == 0:
        values = np.full(count, one_number(name, values, advice))
    numbers = vector(name, values)
    if numbers.size != count:
        raise InvalidInputError(
            f"{name} must be one number for each of the {count} rows, got {numbers.size}"
        )
    return numbers


def is_sparse(X: Any) -> bool:
    """Return whether X is a sparse matrix of SciPy.

    A sparse matrix exists only after SciPy was imported, so SciPy is not imported here.
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
    if indices.dtype.kind not in "iu":
        raise InvalidInputError(
            f"X: indices of a sparse matrix must be integers, got {indices.dtype}"
        )
    if indices.dtype != indptr.dtype or indices.dtype not in (np.int32, np.int64):
        indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
    return contiguous(values), contiguous(indices), contiguous(indptr)


def dense_array(X: Any) -> NDArray[Any]:
    """Return a table of numbers as an array, without a copy where that is possible."""
    refuse_unusable("X", X)
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(f"X must be a table of numbers: {error}") from error
    if rows.ndim == 1 and rows.size and isinstance(rows[0], str):
        raise text_error(rows[0])
    if rows.ndim != 2:
        raise InvalidInputError(
            f"X must have two dimensions, got shape {rows.shape}; a single row is X.reshape(1, -1)"
        )
    rows = floats(rows)
    aligned = all(stride % rows.itemsize == 0 for stride in rows.strides)
    return rows if aligned and rows.flags.aligned else contiguous(rows)


def floats(values: NDArray[Any]) -> NDArray[Any]:
    """Return float32 and float64 in native order as they are, other numbers as float64."""
    if values.dtype in (np.float32, np.float64) and values.dtype.isnative:
        return values
    refuse_unusable("X", values)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        if (word := first_word(values)) is not None:
            raise text_error(word) from error
        raise InvalidInputError(f"X must hold numbers: {error!s:.200}") from error
