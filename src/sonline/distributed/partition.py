"""Training on one partition: rows in arrays, in a file or in the batches of an engine."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier

from sonline.distributed.shards import Figures, Shard, moved_bytes
from sonline.errors import DataFormatError, DivergenceError, InvalidInputError
from sonline.evaluate import Progress
from sonline.rows.checks import (
    Reasons,
    label_reasons,
    offset_reasons,
    target_reasons,
    weight_reasons,
)
from sonline.rows.core import value_reasons


def train_part(
    model: Any, figures: Figures, learn: Callable[[Any], Any], *, before: Progress
) -> Shard:
    """Train a copy of a model or estimator on a partition.

    Parameters
    ----------
    model : Model, SONClassifier or SONRegressor
        Where to start; it does not change.
    figures : Figures
        Of the partition, with its number and name; they are completed.
    learn : callable
        Trains the copy on the rows, sets rows and skipped of the figures, and returns the model.
    before : Progress
        The measures that the trained model has of rows before this partition.

    Raises
    ------
    DataFormatError, DivergenceError, InvalidInputError
        With the name of the partition.
    """
    started = time.perf_counter()
    before = copy.deepcopy(before)
    where = f"partition {figures.partition}"
    try:
        trained = learn(copy.deepcopy(model))
    except DataFormatError as error:
        if error.file != where:
            error.message = f"{where}: {error.message}"
        raise
    except DivergenceError as error:
        name = where if figures.name == where else f"{where}, {figures.name}"
        after = f", after {figures.rows} rows" if figures.rows else ""
        raise DivergenceError(f"{name}{after}: {error}") from error
    except ValueError as error:
        raise InvalidInputError(f"{where}: {error}") from error
    if figures.rows:
        used = getattr(trained, "model", trained)  # of an estimator
        figures.take(used.progress, before, used.table is not None)
        figures.bytes = moved_bytes(used)
    figures.seconds = time.perf_counter() - started
    return Shard(trained if figures.rows else None, [figures])


def train_arrays(  # noqa: PLR0917 - the arguments of partial_fit and those of the task
    model: Any,
    number: int,
    worker: str,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    offset: Any = None,
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
    X, y, sample_weight, offset
        As ``partial_fit`` takes them.
    classes : array, optional
        All classes, for an unfitted classifier.
    on_error : {"stop", "skip"}
        Whether a bad row raises an error that names partition and row, or is left out and counted.
        Bad are infinite and too large numbers, text among dates, missing values that are refused,
        and labels that the loss does not allow.

    Raises
    ------
    DataFormatError
        For the first bad row, unless they are skipped.
    """
    figures = Figures(number, f"partition {number}", worker)
    fitted = model.__sklearn_is_fitted__()
    more = {} if classes is None or fitted else {"classes": classes}

    def learn(estimator: Any) -> Any:
        rows, labels = _loaded(X), _loaded(y)
        others = {
            name: np.asarray(_loaded(values), np.float64)
            for name, values in (("sample_weight", sample_weight), ("offset", offset))
            if values is not None
        }
        count = int(rows.shape[0])
        for what, values in ({"y": labels} | others).items():
            if len(values) != count:
                raise InvalidInputError(f"X has {count} rows, {what} has {len(values)}")
        parameters = estimator._parameters()  # noqa: SLF001 - an estimator has it
        reasons = Reasons()
        if count:
            types = model.model.reading.columns if fitted else {}
            reasons = value_reasons(rows, str(estimator.dtype), estimator.missing, types)
            numbers = not is_classifier(estimator)
            reasons.join(_label_reasons(labels, parameters.least_label, numbers))
        if "sample_weight" in others:
            reasons.join(weight_reasons("sample_weight", others["sample_weight"]))
        if "offset" in others:
            reasons.join(offset_reasons("offset", others["offset"], parameters.log_link))
        if reasons and on_error == "stop":
            row = min(reasons)
            raise DataFormatError(
                f"{reasons[row]}; repair it, or leave such rows out with on_error='skip'",
                file=figures.name,
                line=row + 1,
            )
        figures.rows, figures.skipped = count - len(reasons), len(reasons)
        if reasons:
            keep = np.setdiff1d(np.arange(count), list(reasons))
            rows, labels = (v.iloc[keep] if hasattr(v, "iloc") else v[keep] for v in (rows, labels))
            others = {name: values[keep] for name, values in others.items()}
        if figures.rows:
            estimator.partial_fit(rows, labels, **others, **more)
        return estimator

    return train_part(model, figures, learn, before=model.model.progress if fitted else Progress())


def _label_reasons(labels: Any, least: str, numbers: bool) -> Reasons:
    """Return which labels cannot be learned; text instead of numbers is an error elsewhere."""
    reasons, array = label_reasons("y", labels), np.asarray(labels)
    if numbers and array.dtype.kind in "biuf":
        reasons.join(target_reasons("y", array.astype(np.float64), least))
    return reasons


def _loaded(values: Any) -> Any:
    """Return a block as a NumPy array, a CSR matrix or a pandas object."""
    if sp.issparse(values):
        sparse: Any = values
        return sparse.tocsr()
    return values if hasattr(values, "iloc") else np.asarray(values)
