"""Class labels for the scikit-learn estimators, checked as scikit-learn does."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sonline.errors import InvalidInputError, shown
from sonline.labels import ClassTable, refuse_masked
from sonline.rows import is_missing

Labels: TypeAlias = NDArray[Any]


def as_labels(name: str, values: Any) -> Labels:
    """Return labels as a vector of one kind: numbers, booleans or text."""
    if isinstance(values, (list, tuple)):
        _refuse_mixture(name, values)
    if type(values) is not np.ndarray or values.ndim != 1:
        refuse_masked(name, values)
        values = column_or_1d(values, warn=True)
    kind = values.dtype.kind
    if kind in "biuU":
        return values  # type: ignore[no-any-return]
    if kind == "f":
        finite = np.isfinite(values)
        if not finite.all():
            row = int(np.argmin(finite))
            raise InvalidInputError(f"{name}: {values[row]} in row {row}; not a label")
        if (np.trunc(values) == values).all():
            return values  # type: ignore[no-any-return]
    if kind == "O":
        _refuse_mixture(name, values.tolist())
    # Slow, so only for types that may not be labels: objects, and numbers with fractions.
    check_classification_targets(values)
    return values  # type: ignore[no-any-return]


def _refuse_mixture(name: str, values: Any) -> None:
    """Raise an error if labels are missing, or some are text and others numbers."""
    examples: dict[str, Any] = {}
    for row, value in enumerate(values):
        if isinstance(value, str):
            examples.setdefault("text", value)
        elif is_missing(value):
            raise InvalidInputError(f"{name}: {value} in row {row}; not a label")
        else:
            examples.setdefault("numbers", value)
    if len(examples) > 1:
        raise InvalidInputError(
            f"{name} mixes labels of different types, such as {shown(examples['text'])} and "
            f"{shown(examples['numbers'])}; use text or numbers throughout"
        )


def table_of(name: str, labels: Labels, growing: bool) -> ClassTable:
    """Return the table of the distinct labels, in their order."""
    try:
        distinct = np.unique(labels)
    except TypeError as error:
        raise InvalidInputError(f"{name} holds labels that cannot be ordered: {error}") from error
    kind = "object" if labels.dtype.kind == "O" else str(labels.dtype)
    return ClassTable(tuple(distinct.tolist()), growing, dtype=kind)
