"""Why a JSON body cannot be used: the field, its value, and what is allowed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

_WORDS = {dict: "an object", list: "an array", str: "text", bool: "true or false"}
_LONGEST_ID = 200


def reason(body: bytes, fields: dict[str, bool]) -> str:
    """Return why a body cannot be used.

    Parameters
    ----------
    body : bytes
        A body, or a line of it, that could not be decoded.
    fields : dict
        The names of its fields, and whether they are required.

    Examples
    --------
    >>> reason(b'{"x": {"price": NaN}, "y": 1}', {"x": True, "y": True})
    "x: feature 'price' is not a number (NaN); leave it out, or send null for a missing value"
    """
    try:
        value = json.loads(body)
    except RecursionError:
        return "the JSON is nested too deeply"
    except UnicodeDecodeError:
        return "the body is not UTF-8 text"
    except json.JSONDecodeError as error:
        return (
            f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]} at character {error.pos + 1}"
        )
    except ValueError:  # Python limits the digits of a number
        return "a number has too many digits"
    if not isinstance(value, dict):
        return f"expected an object with {_listed(fields)}, got {_kind(value)}"
    for name in value:
        if name not in fields:
            return f"there is no field {name[:80]!r}; the fields are {_listed(fields)}"
    for name, required in fields.items():
        if required and name not in value:
            return f"the field {name!r} is missing"
    for name, content in value.items():
        fault = _CHECKS.get(name, _anything)(content)
        if fault:
            return f"{name}: {fault}"
    return "a text is not valid Unicode, or a number is out of range"


def _listed(fields: dict[str, bool]) -> str:
    return ", ".join(map(repr, fields))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return _WORDS.get(type(value), f"the number {value!r:.40}")


def _number(value: Any, what: str, instead: str = "") -> str | None:
    if isinstance(value, float) and math.isnan(value):
        return f"{what}is not a number (NaN){instead}"
    if isinstance(value, float) and math.isinf(value):
        return f"{what}is infinite, or too large for a number"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 1 << 1000:
        return f"{what}is too large for a number"
    return None


def _features(value: Any) -> str | None:
    if isinstance(value, list):
        for pair in value:
            good = isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int
            if not good or type(pair[1]) not in (int, float):
                return f"expected pairs of index and number such as [3, 1.0], got {pair!r:.80}"
            if fault := _number(pair[1], f"feature {pair[0]} ", "; leave it out"):
                return fault
        return None
    if not isinstance(value, dict):
        return f"expected features by name, or pairs of index and number; got {_kind(value)}"
    for name, content in value.items():
        if isinstance(content, (dict, list)):
            return (
                f"feature {name[:80]!r} is {_kind(content)}; a value is a number, text, true, "
                "false or null"
            )
        instead = "; leave it out, or send null for a missing value"
        if fault := _number(content, f"feature {name[:80]!r} ", instead):
            return fault
    return None


def _label(value: Any) -> str | None:
    if value is None or isinstance(value, (dict, list)):
        return f"a label is a number, text, true or false; got {_kind(value)}"
    return _number(value, "the label ")


def _id(value: Any) -> str | None:
    if not isinstance(value, str) and value is not None:
        return f"an id is text, got {_kind(value)}"
    if value is not None and not 1 <= len(value) <= _LONGEST_ID:
        return f"an id has 1 to {_LONGEST_ID} characters, this one has {len(value)}"
    return None


def _weight(value: Any) -> str | None:
    if type(value) not in (int, float):
        return f"a weight is a number of 0 or more, got {_kind(value)}"
    return _number(value, "the weight ")


def _offset(value: Any) -> str | None:
    if value is not None and type(value) not in (int, float):
        return f"an offset is a number, got {_kind(value)}"
    return _number(value, "the offset ")


def _of(kind: type, what: str) -> Callable[[Any], str | None]:
    return lambda value: None if isinstance(value, kind) else f"expected {what}, got {_kind(value)}"


def _classes(value: Any) -> str | None:
    if not isinstance(value, list):
        return f"expected a list of labels, got {_kind(value)}"
    return next((fault for label in value if (fault := _label(label))), None)


def _anything(_: Any) -> str | None:
    return None


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "x": _features,
    "y": _label,
    "id": _id,
    "weight": _weight,
    "offset": _offset,
    "name": _of(str, "text"),
    "task": _of(str, "text"),
    "classes": _classes,
    "parameters": _of(dict, "an object with parameters"),
}
