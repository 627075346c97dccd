"""Training on one partition, given as arrays or a data frame."""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sonline.distributed.shards import Figures, Shard, moved_bytes
from sonline.errors import DataFormatError, DivergenceError, InvalidInputError
from sonline.estimators.rows import is_named
from sonline.evaluate import Progress
from sonline.rows import LARGEST_VALUES, no_value

FINITE = float(np.finfo(np.float64).max)


def train_arrays(  # noqa: PLR0917 - the arguments of partial_fit and those of the task
    model: Any,
    number: int,
    worker: str,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    classes: Any = None,
    on_error: str = "stop",
) -> Shard:
    """Train a copy of an estimator on a partition.

    Parameters
    ----------
    model : SONClassifier or SONRegressor
        The estimator to start from; it may be unfitted.
    number : int
        Number of the partition, from 0.
    worker : str
        Name of the worker, for the figures.
    X, y, sample_weight
        As ``partial_fit`` takes them.
    classes : array, optional
        All classes, for an unfitted classifier.
    on_error : {"stop", "skip"}
        Whether a bad row raises an error that names partition and row, or is left out and counted.
        Bad are infinite and too large numbers, and missing values that are refused.

    Raises
    ------
    DataFormatError
        For the first bad row, unless they are skipped.
    """
    name = f"partition {number}"
    started = time.perf_counter()
    figures = Figures(number, name, worker)
    X, y = _loaded(X), _loaded(y)
    weights = None if sample_weight is None else np.asarray(_loaded(sample_weight), np.float64)
    rows = int(X.shape[0])
    for what, values in (("y", y), ("sample_weight", weights)):
        if values is not None and len(values) != rows:
            raise InvalidInputError(f"{name}: X has {rows} rows, {what} has {len(values)}")
    if not rows:
        return Shard(None, [figures])
    refuse = model.missing == "refuse"
    bad, reason = _bad_rows(X, y, weights, LARGEST_VALUES[str(model.dtype)], refuse)
    if bad.any():
        if on_error == "stop":
            row = int(np.argmax(bad))
            raise DataFormatError(
                f"{reason(row)}; repair it, or leave such rows out with on_error='skip'",
                file=name,
                line=row + 1,
            )
        figures.skipped = int(bad.sum())
        keep = np.flatnonzero(~bad)
        X = X.iloc[keep] if hasattr(X, "iloc") else X[keep]
        y = y.iloc[keep] if hasattr(y, "iloc") else np.asarray(y)[keep]
        weights = None if weights is None else weights[keep]
    if figures.skipped == rows:
        return Shard(None, [figures])
    model = copy.deepcopy(model)
    fitted = model.__sklearn_is_fitted__()
    before = copy.deepcopy(model.model.progress) if fitted else Progress()
    more = {} if classes is None or fitted else {"classes": classes}
    try:
        model.partial_fit(X, y, sample_weight=weights, **more)
    except DivergenceError as error:
        raise DivergenceError(f"{name}: {error}") from error
    except ValueError as error:
        raise InvalidInputError(f"{name}: {error}") from error
    figures.rows = rows - figures.skipped
    figures.take(model.model.progress, before, model.model.table is not None)
    figures.bytes = moved_bytes(model.model)
    figures.seconds = time.perf_counter() - started
    return Shard(model, [figures])


def _loaded(values: Any) -> Any:
    """Return a block as a NumPy array, a CSR matrix or a pandas object."""
    if sp.issparse(values):
        sparse: Any = values
        return sparse.tocsr()
    return values if hasattr(values, "iloc") else np.asarray(values)


def _bad_rows(
    X: Any, y: Any, weights: NDArray[np.float64] | None, largest: float, refuse_missing: bool
) -> Any:
    """Return which rows cannot be learned, and a function that returns the reason for a row."""
    rows = int(X.shape[0])
    in_X: NDArray[np.bool_] = np.zeros(rows, dtype=np.bool_)
    if isinstance(X, (sp.csr_array, sp.csr_matrix)):
        broken = np.flatnonzero(~(np.abs(X.data) <= largest))
        in_X[np.searchsorted(X.indptr, broken, side="right") - 1] = True
    elif is_named(X):
        in_X = _bad_in_frame(X, largest, refuse_missing)
    else:
        in_X = np.asarray(_missing(X, largest).any(axis=1))
    in_y = _missing(y)
    in_y = np.asarray(in_y.any(axis=1)) if in_y.ndim > 1 else in_y
    bad = in_X | in_y
    in_weights = np.zeros(rows, dtype=np.bool_)
    if weights is not None:
        in_weights = ~(np.isfinite(weights) & (weights >= 0))
        bad = bad | in_weights

    def reason(row: int) -> str:
        if in_y[row]:
            return "the label is missing or not a finite number"
        if in_weights[row]:
            return "the weight is not a finite number of 0 or more"
        absent = [name for name in X.columns if X[name].isna().iloc[row]] if is_named(X) else []
        if absent and refuse_missing:
            return no_value(absent[0])
        return f"a feature is missing or not a number of at most {largest:g}"

    return bad, reason


def _bad_in_frame(X: Any, largest: float, refuse_missing: bool) -> NDArray[np.bool_]:
    """Return which rows of a pandas frame have a cell that cannot be learned."""
    bad: NDArray[np.bool_] = np.zeros(len(X), dtype=np.bool_)
    if refuse_missing:
        bad |= np.asarray(X.isna()).any(axis=1)
    for column in (X.iloc[:, number] for number in range(X.shape[1])):
        if getattr(column.dtype, "kind", "O") == "f":
            bad |= np.abs(column.to_numpy(np.float64, na_value=np.nan)) > largest
    return bad


def _missing(values: Any, largest: float = FINITE) -> NDArray[np.bool_]:
    """Return which values are missing, not numbers, or larger than ``largest``."""
    if hasattr(values, "iloc"):  # pandas
        missing = np.asarray(values.isna())
        numbers = values.to_numpy()
        if numbers.dtype.kind == "f":
            missing = missing | ~(np.abs(numbers) <= largest)
        return np.asarray(missing)
    numbers = np.asarray(values)
    if numbers.dtype.kind == "f":
        return np.asarray(~(np.abs(numbers) <= largest))
    if numbers.dtype.kind == "O":
        return np.array([v is None or v != v for v in numbers.ravel()]).reshape(numbers.shape)  # noqa: PLR0124 - only NaN is not itself
    return np.zeros(numbers.shape, dtype=np.bool_)
