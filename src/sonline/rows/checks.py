"""Whether values, labels and weights can be learned: the only place that decides it in Python.

Each check returns reasons by row. Readers of files turn them into bad rows, which they report or
skip; everything else raises the first one. (The core refuses the same values, so that nothing can
get past these checks; its error is then explained here.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.errors import InvalidInputError, ParameterError, shown
from sonline.rows.types import NAMED, Floats, Mask

LARGEST = 1e150  # size of a label; squares must stay finite
MISSING_OFFSET = "the offset nan is not a finite number (a column or a value may be missing)"
LARGEST_LOG = 50.0  # of the size of an offset that is a logarithm
LARGEST_WEIGHT = 1e9  # of a row; one row must not outweigh all others in a reported loss
LARGEST_VALUES = {"float32": 1e18, "float64": 1e150}
"""The size of a value that a learner takes, by its dtype; see kLargestValue in batch.hpp."""
SKEWED, SKEWED_ROWS = 5.0, 1000  # mean in medians, from so many labels on
NOT_FINITE = ("nan", "inf", "infinity")


@dataclass(frozen=True)
class Reason:
    """Why a row cannot be learned, the column or feature, and the argument that has the row."""

    text: str
    field: str | int
    argument: str = "X"

    def __str__(self) -> str:
        return self.text


class Reasons(dict[int, Reason]):
    """Why rows cannot be learned, by number of the row; the first reason of a row stays."""

    def join(self, others: Mapping[int, Reason]) -> None:
        """Add reasons for rows that have none yet."""
        for row, reason in others.items():
            self.setdefault(row, reason)

    def add(self, bad: Mask, reason_of: Callable[[int], Reason]) -> None:
        """Add a reason for each row that is bad."""
        if bad.any():
            for row in np.flatnonzero(bad).tolist():
                if row not in self:
                    self[row] = reason_of(row)

    def raise_first(self) -> None:
        """Raise an error about the first bad row, if there is one."""
        if self:
            row = min(self)
            raise InvalidInputError(
                self[row].text, argument=self[row].argument, row=row, field=self[row].field
            )


# -- values ----------------------------------------------------------------------------------------


def unusable(values: NDArray[Any], dtype: str) -> Mask:
    """Return which values a learner does not take: not finite, or too large."""
    limit = min(LARGEST_VALUES[dtype], float(np.finfo(values.dtype).max))
    return np.asarray(~(np.abs(values) <= limit))


def value_text(where: str, value: Any, dtype: str, identifier: str = "") -> str:
    """Return what is wrong with a value of a column or feature, and what to do.

    ``identifier`` is the advice about a large number that may be an identifier.

    Examples
    --------
    >>> value_text("column 'a'", 1e200, "float64")
    "column 'a': 1e+200 is too large: at most 1e+150 with float64; scale it"
    """
    text = value.strip() if isinstance(value, str) else f"{value:g}".replace("nan", "NaN")
    if text.lstrip("+-").lower() in NOT_FINITE:
        return (
            f"{where}: {text} is not a finite number; drop or fill missing values, or leave them "
            "out (an empty cell, null in JSON)"
        )
    advice = identifier or ("scale it" + ", or use dtype='float64'" * (dtype == "float32"))
    return f"{where}: {text} is too large: at most {LARGEST_VALUES[dtype]:g} with {dtype}; {advice}"


def table_reasons(
    values: NDArray[Any],
    where: Sequence[str],
    dtype: str,
    identifier_of: Callable[[str], str] = lambda column: "",
) -> Reasons:
    """Return why rows of a table cannot be learned; ``where`` has the names of columns, if any."""
    reasons = Reasons()
    for row, column in np.argwhere(unusable(values, dtype)).tolist():
        name = where[column] if where else column
        kind = "column" if where else "feature"
        advice = identifier_of(str(name))
        text = value_text(f"{kind} {name!r}", values[row, column], dtype, advice)
        reasons.setdefault(row, Reason(text, name))
    return reasons


def sparse_reasons(
    indptr: NDArray[Any], keys: NDArray[Any], values: NDArray[Any], dtype: str, columns: int = 0
) -> Reasons:
    """Return why sparse rows cannot be learned; indices stay below ``columns`` unless it is 0."""
    reasons = Reasons()
    outside = keys < 0 if not columns else (keys < 0) | (keys >= columns)
    for at in np.flatnonzero(unusable(values, dtype) | outside).tolist():
        key = int(keys[at] & ~NAMED) if keys.dtype == np.uint64 else int(keys[at])
        text = value_text(f"feature {key}", values[at], dtype)
        if key < 0:
            text = f"negative feature index {key}; indices must be 0 or more"
        elif outside[at]:
            text = f"feature index {key}, but there are only {columns} columns"
        reasons.setdefault(int(np.searchsorted(indptr, at, side="right")) - 1, Reason(text, key))
    return reasons


# -- missing values --------------------------------------------------------------------------------


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN or NA of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def no_value(name: object, kind: str = "column") -> str:
    """Return a message about a value that is missing and refused."""
    return f"{kind} {shown(name)} has no value; fill it, or use missing='absent' (--missing absent)"


def missing_reasons(absent: Mask, where: Sequence[str]) -> Reasons:
    """Return which rows of a table have missing values, where these are refused."""
    reasons = Reasons()
    for row, column in np.argwhere(absent).tolist():
        reasons.setdefault(row, Reason(no_value(where[column]), where[column]))
    return reasons


# -- labels and weights ----------------------------------------------------------------------------


def number_reasons(name: str, labels: Floats, allowed: Mask | None = None) -> Reasons:
    """Return which labels that are numbers cannot be learned, unless they are ``allowed``."""
    reasons = Reasons()
    bad = ~(np.abs(labels) <= LARGEST)
    limit = f"is not a finite number of at most {LARGEST:g} in size"
    reasons.add(
        bad if allowed is None else bad & ~allowed,
        lambda row: Reason(f"the label {labels[row]:g} {limit}", name, name),
    )
    return reasons


def target_reasons(name: str, labels: Floats, least: str) -> Reasons:
    """Return which labels that are numbers a model cannot learn.

    ``least`` says what they must be with a loss for counts and amounts: "0 or more", or "above 0".
    """
    reasons = number_reasons(name, labels)
    if least:
        reasons.add(
            labels < 0 if least == "0 or more" else labels <= 0,
            lambda row: Reason(
                f"the label {labels[row]:g} must be {least} with this loss", name, name
            ),
        )
    return reasons


def warn_if_skewed(labels: Floats) -> None:
    """Warn about labels that the squared loss is wrong for: never negative, and mostly small."""
    if labels.size < SKEWED_ROWS or not labels.min() >= 0 or labels.max() <= 1:
        return
    mean, median = float(labels.mean()), float(np.median(labels))
    if mean <= SKEWED * median:
        return
    whole = bool((labels == np.floor(labels)).all())
    loss = "poisson" if whole else "tweedie" if labels.min() == 0 else "gamma"
    warnings.warn(
        f"the labels are never negative and heavily skewed (mean {mean:.3g}, median {median:.3g}): "
        "the squared loss takes the largest for outliers, and predicts numbers below 0; use "
        f"loss={loss!r}",
        stacklevel=2,
    )


def offset_reasons(name: str, offsets: Floats, log_link: bool) -> Reasons:
    """Return which rows have an offset that cannot be used."""
    reasons = Reasons()
    largest = LARGEST_LOG if log_link else LARGEST
    advice = "; with this loss it is a logarithm, such as that of the exposure" if log_link else ""
    missing = np.isnan(offsets)
    reasons.add(missing, lambda _: Reason(MISSING_OFFSET + advice, name, name))
    reasons.add(
        ~missing & ~(np.abs(offsets) <= largest),
        lambda row: Reason(
            f"the offset {offsets[row]:g} is not a finite number of at most {largest:g} in size"
            + advice,
            name,
            name,
        ),
    )
    return reasons


def label_reasons(name: str, labels: Any) -> Reasons:
    """Return which labels of any type are missing or not finite."""
    reasons = Reasons()
    array = np.asarray(labels)
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array)
    elif array.dtype.kind == "O":
        bad = np.frompyfunc(is_missing, 1, 1)(array).astype(np.bool_)
    else:
        return reasons
    reasons.add(
        bad.any(axis=tuple(range(1, bad.ndim))),
        lambda row: Reason(f"{array[row]} is not a label", name, name),
    )
    return reasons


def weight_reasons(name: str, weights: Floats) -> Reasons:
    """Return which rows have a weight that cannot be used."""
    reasons = Reasons()
    reasons.add(
        ~((weights >= 0) & (weights <= LARGEST_WEIGHT)),
        lambda row: Reason(
            f"the weight {weights[row]:g} is not a number from 0 to {LARGEST_WEIGHT:g}", name, name
        ),
    )
    return reasons


def check_class_weights(weights: Mapping[Any, Any]) -> None:
    """Raise an error about the weight of a class that cannot be used."""
    if not isinstance(weights, Mapping):
        raise ParameterError(
            f"class_weight must be a mapping from label to weight, got {shown(weights)}; "
            "'balanced' needs all labels at once, as fit of SONClassifier has them"
        )
    for label, weight in weights.items():
        if not (isinstance(weight, Real) and 0 <= float(weight) <= LARGEST_WEIGHT):
            raise ParameterError(
                f"class_weight: the weight of class {label!r} is {weight!r}; it must be a number "
                f"from 0 to {LARGEST_WEIGHT:g}"
            )


def first_word(values: Any) -> str | None:
    """Return the first text among values that is no number; None if there is none.

    Examples
    --------
    >>> first_word([["1", 2.0], ["x", None]])
    'x'
    """
    cells = np.asarray(values, dtype=object).ravel().tolist()
    return next((cell for cell in cells if isinstance(cell, str) and not _is_number(cell)), None)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
