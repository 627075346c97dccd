"""Rows for the scikit-learn estimators, checked as scikit-learn does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from sonline.errors import InvalidInputError
from sonline.rows import (
    Column,
    Rows,
    has_names,
    is_frame,
    names_of,
    refuse_unusable,
)
from sonline.rows.arrays import text_error
from sonline.rows.checks import first_word

Order: TypeAlias = "NDArray[np.intp] | None"

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
CSR = (sp.csr_matrix, sp.csr_array)
CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": [np.float64, np.float32],
}


def checked_rows(estimator: Any, X: Any, reset: bool, least: int = 1) -> Rows:
    """Return rows, at least ``least``; frames stay frames, in any order of their columns.

    If ``reset``, the columns become those of the estimator. If it was fitted without names, the
    columns of a frame are taken by position, with scikit-learn's warning.
    """
    unnamed = hasattr(estimator, "n_features_in_") and not hasattr(estimator, "feature_names_in_")
    if is_named(X) and (reset or not unnamed):
        if reset or not _has_the_columns(estimator, X):
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X
    refuse_rows(X)
    with beyond_all_floats(), clear_errors(X):
        rows = validate_data(estimator, X, reset=reset, ensure_min_samples=least, **CHECKS)
    return by_name(estimator, rows)


@contextmanager
def beyond_all_floats() -> Iterator[None]:
    """Turn scikit-learn's error about integers that no float can hold into one of sonline."""
    try:
        yield
    except OverflowError as error:
        raise InvalidInputError(
            f"X and y must be numbers that a float can hold: {error}"
        ) from error


@contextmanager
def clear_errors(X: Any) -> Iterator[None]:
    """Turn scikit-learn's errors about text and missing values into some that say what to do."""
    try:
        yield
    except InvalidInputError:
        raise
    except ValueError as error:
        word = None if sp.issparse(X) else first_word(X)
        if word is not None:
            raise text_error(word) from error
        if "X contains NaN" in str(error):
            row, column = _first_gap(X)
            raise InvalidInputError(
                f"column {column} is NaN; fill it, or pass a data frame with named columns, where "
                "missing values count as 0 (missing='absent') or have features (missing='mark')",
                argument="X",
                row=row,
                field=column,
            ) from error
        raise


def _first_gap(X: Any) -> tuple[int, int]:
    """Return row and column of the first NaN."""
    if sp.issparse(X):
        cells: Any = sp.coo_array(X)  # type: ignore[call-overload]  # of any kind
        gaps = np.isnan(cells.data)
        return min(zip(cells.row[gaps].tolist(), cells.col[gaps].tolist(), strict=True))
    row, column = np.argwhere(np.isnan(np.asarray(X, np.float64)))[0].tolist()
    return row, column


def refuse_rows(X: Any) -> None:
    """Raise an error about rows that scikit-learn would misread or reject unclearly."""
    if is_list_of_mappings(X):
        raise InvalidInputError(
            "X is a list of dictionaries; pass pandas.DataFrame(X), or use OnlineLearner"
        )
    refuse_unusable("X", X)


def _has_the_columns(estimator: Any, X: Any) -> bool:
    """Return whether a frame has the columns that the estimator was fitted to, in any order."""
    if not hasattr(estimator, "n_features_in_"):
        return True  # the model was made by another face, and knows features by name only
    names = getattr(estimator, "feature_names_in_", None)
    return names is not None and sorted(names_of(X), key=str) == sorted(names, key=str)


def known_rows(estimator: Any, X: Any) -> Rows:
    """Return rows for an estimator that has been fitted.

    Rows that need no conversion are recognised in a microsecond; scikit-learn's general check takes
    a hundred. The core checks the numbers. All other rows take the general check.
    """
    plain = type(X) is np.ndarray or type(X) in CSR
    if (
        plain
        and X.ndim == 2
        and X.dtype in FLOATS
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")  # these warn if X has no names
    ):
        return X
    if is_list_of_mappings(X):
        return X
    return checked_rows(estimator, X, reset=False, least=0)


def more_rows(estimator: Any, X: Any) -> Rows:
    """Return rows to continue training on.

    A model of another face knows features, but no columns: these are those of the first frame.
    """
    if not hasattr(estimator, "n_features_in_") and is_named(X):
        return checked_rows(estimator, X, reset=True, least=0)
    return known_rows(estimator, X)


def is_list_of_mappings(X: Any) -> bool:
    """Return whether X is a list of rows from feature to number."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and hasattr(X[0], "items")


def is_named(X: Any) -> bool:
    """Return whether X is a frame whose columns have names."""
    if not is_frame(X):
        return False
    if not names_of(X):
        raise InvalidInputError("X has no columns")
    return has_names(X)


def by_name(estimator: Any, X: Any) -> Rows:
    """Return rows without names as columns, if the estimator was fitted to a frame."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return X
    dense: Any = X.toarray() if hasattr(X, "toarray") else X
    return [Column(str(name), dense[:, column]) for column, name in enumerate(names)]
