"""Class labels for the scikit-learn estimators, checked as scikit-learn does."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sonline.errors import InvalidInputError, shown
from sonline.labels import ClassTable, refuse_masked
from sonline.rows.checks import is_missing, label_reasons

Labels: TypeAlias = NDArray[Any]


def as_labels(name: str, values: Any) -> Labels:
    """Return labels as a vector of one kind: numbers, booleans or text."""
    if isinstance(values, (list, tuple)):
        _refuse_mixture(name, values)
    if type(values) is not np.ndarray or values.ndim != 1:
        refuse_masked(name, values)
        if hasattr(getattr(values, "dtype", None), "numpy_dtype"):
            values = values.to_numpy(dtype=object)  # scikit-learn would make floats of booleans
        values = column_or_1d(values, warn=True)
    label_reasons(name, values).raise_first()
    kind = values.dtype.kind
    if kind == "O":
        _refuse_mixture(name, values.tolist())
        if not isinstance(next(iter(values), ""), str):  # booleans and numbers as objects
            plain = np.array(values.tolist())
            values = plain if plain.dtype.kind in "biuf" and plain.ndim == 1 else values
            kind = values.dtype.kind
    if kind in "biuU" or (kind == "f" and (np.trunc(values) == values).all()):
        return values  # type: ignore[no-any-return]
    # Slow, so only for types that may not be labels: objects, and numbers with fractions.
    check_classification_targets(values)
    return values  # type: ignore[no-any-return]


def _refuse_mixture(name: str, values: Any) -> None:
    """Raise an error if some labels are text and others numbers."""
    text = next((value for value in values if isinstance(value, str)), None)
    number = next((v for v in values if not isinstance(v, str) and not is_missing(v)), None)
    if text is not None and number is not None:
        raise InvalidInputError(
            f"{name} mixes labels of different types, such as {shown(text)} and {shown(number)}; "
            "use text or numbers throughout"
        )


def table_of(name: str, labels: Labels, growing: bool) -> ClassTable:
    """Return the table of the distinct labels, in their order."""
    try:
        distinct = np.unique(labels)
    except TypeError as error:
        raise InvalidInputError(f"{name} holds labels that cannot be ordered: {error}") from error
    kind = "object" if labels.dtype.kind == "O" else str(labels.dtype)
    return ClassTable(tuple(distinct.tolist()), growing, dtype=kind)
