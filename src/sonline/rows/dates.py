"""Dates and times as features: days, and the time within the year, the week and the day.

The same for files, frames and mappings. In mappings the core reads the texts (mapping.hpp).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline import _core
from sonline.rows.types import Floats

_DAY = 86_400_000_000  # microseconds
_FIRST_DAY = 10_957  # 2000-01-01, from which days are counted, after 1970-01-01


def are_dates(words: Sequence[str]) -> bool:
    """Return whether texts, at least one, are dates.

    Examples
    --------
    >>> are_dates(["2024-05-17", "2024-05-18 12:30"]), are_dates(["2024-05-17", "soon"])
    (True, False)
    """
    return bool(words) and all(_core.read_date(word.strip()) is not None for word in words)


def days_of_texts(words: Sequence[str]) -> Floats:
    """Return texts as days since 2000-01-01; NaN for those that are no dates."""
    return numbers_of(_core.read_date, words)


def numbers_of(read: Callable[[str], float | None], words: Sequence[str]) -> Floats:
    """Return texts as numbers; NaN for those that cannot be read."""
    values = [read(word.strip()) for word in words]
    return np.array([np.nan if value is None else value for value in values], np.float64)


def days_of_stamps(stamps: NDArray[np.int64], missing: NDArray[np.bool_]) -> Floats:
    """Return microseconds since 1970 as days since 2000-01-01; NaN where they are missing."""
    days, rest = np.divmod(stamps, _DAY)
    return np.where(missing, np.nan, (days - _FIRST_DAY) + rest / 1e6 / 86_400)


def parts_of(name: str, days: Floats) -> dict[str, Floats]:
    """Return the features of a column of days: its own name, and the cyclic parts.

    Examples
    --------
    >>> import numpy as np
    >>> parts = parts_of("when", np.array([0.5]))  # noon of a Saturday
    >>> {name: round(float(values[0]), 2) for name, values in parts.items()}["when.day_cos"]
    -2.0
    """
    present = ~np.isnan(days)
    unique, places = np.unique(days[present], return_inverse=True)
    parts = [_core.date_parts(day) for day in unique.tolist()]
    out = {f"{name}{ending}": np.full(days.size, np.nan) for ending, _ in _core.date_parts(0.0)}
    for number, values in enumerate(out.values()):
        column = np.array([part[number][1] for part in parts], np.float64)
        values[present] = column[places]
    return out


def part_names(name: str) -> list[str]:
    """Return the names of the features that a column of dates has beside its own name."""
    return [f"{name}{ending}" for ending, _ in _core.date_parts(0.0) if ending]


def is_date(value: Any) -> bool:
    """Return whether a value is a date or a time with a date: of Python, pandas or NumPy."""
    return isinstance(value, (dt.date, np.datetime64))


def as_text(value: Any) -> str:
    """Return a date or a time with a date as text that the core reads.

    Examples
    --------
    >>> import datetime
    >>> as_text(datetime.date(2024, 5, 17))
    '2024-05-17'
    """
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="us"))
    return str(value.isoformat())
