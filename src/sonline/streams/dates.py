"""Dates, times and amounts in columns of Arrow, as numbers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

from sonline import _core
from sonline.errors import InvalidInputError
from sonline.rows import Floats
from sonline.rows.columns import arrow_column

DAY = 86_400_000_000  # microseconds
FIRST_DAY = 10_957  # 2000-01-01, from which days are counted, after 1970-01-01
_SAMPLE = 100  # texts that decide whether a column holds dates


def date_features(name: str, value: str | dt.date) -> dict[str, float]:
    """Return the features of a date or time, as a stream has them for a column of this name.

    Parameters
    ----------
    name : str
        The column.
    value : str, date or datetime
        Text such as "2024-05-17T12:30"; a time without a zone counts as UTC.

    Examples
    --------
    >>> from sonline.streams import date_features
    >>> date_features("when", "2000-01-03")["when"]
    2.0
    """
    days = _core.read_date(value if isinstance(value, str) else value.isoformat())
    if days is None:
        raise InvalidInputError(f"{name}: {value!r} is not a date such as 2024-05-17T12:30:00")
    return {f"{name}{ending}": part for ending, part in _core.date_parts(days) if part}


def holds_dates(types: Any, column: Any) -> bool:
    """Return whether a column of Arrow has dates, times or texts that are dates."""
    if types.is_date(column.type) or types.is_timestamp(column.type):
        return True
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        return False
    words = column.drop_null()[:_SAMPLE].to_pylist()
    return bool(words) and all(_core.read_date(word.strip()) is not None for word in words)


def days_of(arrow: Any, name: str, column: Any) -> tuple[Floats, list[int]]:
    """Return days since 2000-01-01, NaN for missing cells, and the rows that are no dates."""
    if arrow.types.is_date(column.type) or arrow.types.is_timestamp(column.type):
        moments = column.cast(arrow.timestamp("us"), safe=False)
        missing = moments.is_null().to_numpy(zero_copy_only=False)
        stamps = moments.cast("int64").fill_null(0).to_numpy(zero_copy_only=False)
        days, rest = np.divmod(stamps, DAY)
        return np.where(missing, np.nan, (days - FIRST_DAY) + rest / 1e6 / 86_400), []
    return numbers_of(_core.read_date, name, column)


def numbers_of(read: Any, name: str, column: Any) -> tuple[Floats, list[int]]:
    """Return texts as numbers, NaN for missing cells, and the rows that are not numbers."""
    cells = arrow_column(name, column, as_text=True)
    if cells is None or cells.codes is None:
        return np.full(len(column), np.nan), list(range(len(column)))
    values = [read(str(word).strip()) for word in cells.words]
    unread = np.array([value is None for value in values] + [False])
    numbers = np.array([np.nan if value is None else value for value in values] + [np.nan])
    return numbers[cells.codes], np.flatnonzero(unread[cells.codes]).tolist()


def features_of(name: str, days: Floats) -> dict[str, Floats]:
    """Return the features of a column of days: its own name, and the cyclic parts.

    Examples
    --------
    >>> import numpy as np
    >>> parts = features_of("when", np.array([0.5]))  # noon of a Saturday
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
