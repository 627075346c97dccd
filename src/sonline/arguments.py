"""Checks of single arguments, and the errors that name them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from sonline.errors import ParameterError, shown

# Names of losses in scikit-learn, for those who come from there.
SGD_LOSSES = {"log_loss": "logistic", "squared_error": "squared"}


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise an error if a parameter is not one of the values that are allowed."""
    if value not in allowed:
        listed = ", ".join(repr(option) for option in allowed)
        raise ParameterError(f"{name} must be one of {listed}; got {shown(value)}")


def refuse_unknown_names(what: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Raise an error about a name that is not known; it names one that is like it."""
    for name in names:
        if name not in known:
            from difflib import get_close_matches  # noqa: PLC0415 - only for the message

            similar = get_close_matches(name, known, 1)
            advice = f"did you mean {similar[0]!r}?" if similar else f"there are {', '.join(known)}"
            raise ParameterError(f"{what} {shown(name)}; {advice}")


def check_loss(loss: object, allowed: tuple[str, ...]) -> None:
    """Raise an error if a loss is not allowed; scikit-learn's names are translated."""
    same = SGD_LOSSES.get(loss) if isinstance(loss, str) else None
    try:
        check_choice("loss", loss, allowed)
    except ParameterError as error:
        if same not in allowed:
            raise
        raise ParameterError(f"{error}; scikit-learn's {loss!r} is {same!r} here") from None


def check_integer(
    name: str, value: object, low: int, high: int | None = None, instead: str = ""
) -> None:
    """Raise an error if a value is not an integer from ``low`` to ``high``."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    most = math.inf if high is None else high
    if not (is_integer and low <= int(value) <= most):  # type: ignore[call-overload]
        limits = f"of at least {low}" if high is None else f"from {low} to {high}"
        alternative = f" or {instead}" if instead else ""
        raise ParameterError(f"{name} must be an integer {limits}{alternative}, got {shown(value)}")


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    instead: str = "",
) -> None:
    """Raise an error if a value is not a finite number within the limits that are given."""
    expected = ["a finite number"]
    valid = isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
    if above is not None:
        expected.append(f"above {above:g}")
        valid = valid and value > above  # type: ignore[operator]
    if least is not None:
        expected.append(f"of at least {least:g}")
        valid = valid and value >= least  # type: ignore[operator]
    if below is not None:
        expected.append(f"below {below:g}")
        valid = valid and value < below  # type: ignore[operator]
    if not valid:
        rule = " and ".join([" ".join(expected[:2]), *expected[2:]])
        alternative = f" (or {instead})" if instead else ""
        raise ParameterError(f"{name} must be {rule}{alternative}, got {shown(value)}")


def python_scalar(name: str, value: Any) -> Any:
    """Return a scalar of NumPy, as grids of parameters have them, as one of Python."""
    if getattr(value, "ndim", 0):
        raise ParameterError(f"{name} must be a single value, got {shown(value)}")
    if not hasattr(value, "item"):
        return value
    value = value.item()
    return float(value) if hasattr(value, "item") else value  # a long double is its own item


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False
