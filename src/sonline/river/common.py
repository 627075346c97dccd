"""What the two River estimators share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sonline import persistence
from sonline.errors import InvalidInputError, ParameterError
from sonline.learner import Feature
from sonline.parameters import LOSSES, Parameters

if TYPE_CHECKING:
    import pandas as pd

Floats: TypeAlias = NDArray[np.float64]


def parameters_of(model: Any, binary: bool = True) -> Parameters:
    """Return the learner's parameters, checked."""
    allowed = [name for name, info in LOSSES.items() if bool(info["binary"]) == binary]
    allowed += ["squared"] * binary
    if model.loss not in allowed:
        raise ParameterError(
            f"loss must be one of {', '.join(map(repr, allowed))}; got {model.loss!r}"
        )
    names = [name for name in Parameters.names() if hasattr(model, name)]
    return Parameters(**{name: getattr(model, name) for name in names})


def weights_of(w: Any, rows: int) -> Floats:
    """Return the weights as the core takes them."""
    try:
        given = np.asarray(w, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"w must be a number, or one for each row: {error}") from error
    if given.shape not in ((), (rows,)):
        raise InvalidInputError(
            f"w must be a number, or one for each of the {rows} rows, got shape {given.shape}"
        )
    weights = np.array(np.broadcast_to(given, rows))
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InvalidInputError(f"w must be finite and 0 or more, got {w!r}")
    return weights


def records_of(X: pd.DataFrame) -> list[dict[Feature, Any]]:
    """Return the rows of a frame as dictionaries."""
    columns = X.columns.tolist()
    if len(set(columns)) < len(columns):
        raise InvalidInputError(f"X has columns of the same name: {columns}")
    return [dict(zip(columns, row, strict=True)) for row in X.to_numpy().tolist()]


def values_of(y: Any) -> list[Any]:
    """Return labels as plain Python values."""
    return y.tolist() if hasattr(y, "tolist") else list(y)


def write(model: Any, kind: str, path: str | os.PathLike[str], **more: Any) -> None:
    """Write a model with all its state to a file."""
    document, tensors = model._learning.__getstate__()
    arguments = model._get_params()
    persistence.write(path, kind, {"learner": document, "arguments": arguments, **more}, tensors)
