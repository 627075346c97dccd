"""Amounts: texts such as 1,234.50 € and 12 %, which are meant as numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple, Self

from sonline.errors import DataFormatError, as_option

NUMBER_SHARE = 0.9  # of the cells of a column, which make it a column of numbers
_DISTINCT_NUMBER_SHARE = 0.8  # of its different values, where words are a mistake
_DISTINCT_VALUES = 10  # different values that are enough to tell what they are
_FORMATTED = re.compile(  # 1,234.50, 1.234,50, $1,234.50, 10%
    r"[+-]?[$\u20ac\u00a3\u00a5]? ?[+-]?(\d+|\d{1,3}([., '\u00a0\u202f]\d{3})+)([.,]\d+)?"
    r" ?[%$\u20ac\u00a3\u00a5]?"
)


class Looks(NamedTuple):
    """What the different texts of a column look like.

    Examples
    --------
    >>> Looks.of([f"{n},000 €" for n in range(1, 20)]).amount
    '1,000 €'
    >>> Looks.of([f"user {n}" for n in range(20)]).amount is None
    True
    """

    word: str  # the first that is no number
    are_numbers: bool  # all but a few
    amount: str | None  # one of them, if they are amounts

    @classmethod
    def of(cls, texts: Collection[str]) -> Self:
        """Return what different texts look like, of which some are no numbers."""
        words = sorted(text for text in texts if number_of(text) is None)
        formatted = [word for word in words if _FORMATTED.fullmatch(word)]
        numbers = len(texts) - len(words)
        are_numbers = numbers >= max(_DISTINCT_NUMBER_SHARE * len(texts), _DISTINCT_VALUES)
        likely = numbers + len(formatted) >= max(NUMBER_SHARE * len(texts), _DISTINCT_VALUES)
        return cls(
            words[0] if words else "", are_numbers, formatted[0] if formatted and likely else None
        )


def refuse_amounts(amounts: Mapping[str, str], file: str) -> None:
    """Raise an error about columns of a file with amounts, of which one of each is given."""
    if not amounts:
        return
    columns, have = ("columns", "have") if len(amounts) > 1 else ("column", "has")
    how = {name: as_option(name, *amounts) for name in ("amounts", "text", "ignore")}
    raise DataFormatError(
        f"{columns} {', '.join(map(repr, amounts))} {have} numbers with separators or "
        f"signs: read them as numbers with {how['amounts']} or as categories with "
        f"{how['text']}, or leave the {columns} out with {how['ignore']}",
        file=file,
        text=next(iter(amounts.values())),
    )


def number_of(cell: str) -> float | None:
    """Return a cell of text as a number; None if it is not one."""
    word = cell.strip()
    if word.lower() in ("true", "false"):
        return float(word.lower() == "true")
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None
