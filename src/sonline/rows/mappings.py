"""Rows that are mappings: what `mapping.hpp`, which reads them, asks Python about."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sonline import _core
from sonline.rows.checks import is_missing
from sonline.rows.columns import MISSING_WORD, one_row
from sonline.rows.dates import as_text, is_date


def plain_value(value: Any) -> Any:
    """Return None for a value that is missing, the text of a date, and others as they are."""
    if is_missing(value):
        return None
    return as_text(value) if is_date(value) else value


def features_of(row: Any, texts: Collection[str], missing: str) -> dict[Any, Any]:
    """Return the names, numbers and words of a row that the core has accepted, as it reads them.

    In the columns ``texts`` dates are categories.

    Examples
    --------
    >>> features_of({"when": "2000-01-03", "a": "b", "gap": None}, (), "mark")
    {'when': 2.0, ..., 'a': 'b', 'gap': '(missing)'}
    """
    mapping: Mapping[Any, Any] = one_row(row)
    out: dict[Any, Any] = {}
    for key, given in mapping.items():
        name = str(key) if isinstance(key, tuple) else key
        value = plain_value(given)
        if value is None:
            if missing == "mark":
                out[name] = MISSING_WORD
            continue
        days = None
        if isinstance(name, str) and isinstance(value, str) and name not in texts:
            days = _core.read_date(value)
        if days is None:
            out[name] = value
        else:
            out |= {f"{name}{ending}": part for ending, part in _core.date_parts(days) if part}
    return out
