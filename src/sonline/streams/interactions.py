"""Products of features: of two columns of a table, or of two namespaces of Vowpal Wabbit text.

Also n-grams of namespaces, as ``--ngram`` and ``--skips`` of Vowpal Wabbit.

Columns: ``a*b`` has a feature for each pair of a feature of column a and one of column b, named
after both with an asterisk between them.

Namespaces, as ``-q`` of Vowpal Wabbit: the products follow the features of the row, and have the
slot ``(first * 16777619) xor second`` modulo the size of the table. Vowpal Wabbit may use other
slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sonline.errors import ParameterError
from sonline.rows import Floats
from sonline.rows import Indices as Integers
from sonline.streams.batch import Batch

_PRIME = np.uint64(16777619)
_GRAM_FACTOR = np.uint64(27942141)
ALL = "*"  # means all namespaces


def gram_letters(options: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return, by letter of the namespace, the length of the longest gram and how many it may skip.

    Examples
    --------
    >>> gram_letters(["a:2", "*:3:1"])
    {'a': (2, 0), '*': (3, 1)}
    """
    letters = {}
    for words in options:
        letter, most, skips = (*words.split(":"), "0")[:3] if words.count(":") < 3 else ("", "", "")
        if len(letter) != 1 or not (most.isdigit() and skips.isdigit()) or int(most) < 1:
            raise ParameterError(
                f"ngrams (--ngrams) of Vowpal Wabbit text must be the first letter of a namespace, "
                f"or *, and the length, such as a:2; got {words!r}"
            )
        letters[letter] = int(most), int(skips)
    return letters


def gram_offsets(length: int, skips: int) -> list[tuple[int, ...]]:
    """Return the offsets of the features of a gram from its first feature.

    Examples
    --------
    >>> gram_offsets(2, 1)
    [(0, 1), (0, 2)]
    """

    def longer(offsets: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
        if len(offsets) == length:
            yield offsets
            return
        for skipped in range(left + 1):
            yield from longer((*offsets, offsets[-1] + 1 + skipped), left - skipped)

    return list(longer((0,), skips))


def add_grams(
    batch: Batch, initials: NDArray[np.str_], grams: dict[str, tuple[int, int]], hash_bits: int
) -> NDArray[np.str_]:
    r"""Append to each row the grams of two and more features that follow each other.

    As in Vowpal Wabbit, namespaces with the same first letter are the same namespace, features of
    value 0 are left out, and a gram has the value 1. ``initials`` are the first letters of the
    namespaces of the features. Returns the initials of all features, including grams.
    """
    rows = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    slots, mask = batch.indices.view(np.uint64), np.uint64((1 << hash_bits) - 1)
    letters, codes = np.unique(initials, return_inverse=True)
    there = np.flatnonzero(batch.values != 0)
    order = there[np.lexsort((codes[there], rows[there]))]  # stable: in the order of the features
    group = rows[order] * max(len(letters), 1) + codes[order]
    parts = [(rows, batch.indices, batch.values, initials)]
    for code, letter in enumerate(letters.tolist()):
        most, skips = grams.get(letter, grams.get(ALL, (1, 0)))
        for length in range(2, most + 1):
            for positions in gram_offsets(length, skips):
                first = np.arange(max(order.size - positions[-1], 0))
                inside = group[first] == group[first + positions[-1]]
                first = first[inside & (codes[order[first]] == code)]
                keys = slots[order[first]]
                for position in positions[1:]:
                    keys = keys * _GRAM_FACTOR + slots[order[first + position]]
                parts.append(
                    (
                        rows[order[first]],
                        (keys & mask).astype(np.int64),
                        np.ones(first.size, batch.values.dtype),
                        np.full(first.size, letter),
                    )
                )
    return _append(batch, *(np.concatenate(part) for part in zip(*parts, strict=True)))


def _append(
    batch: Batch, rows: Integers, keys: Integers, values: Floats, initials: NDArray[np.str_]
) -> NDArray[np.str_]:
    """Set the features of a batch, sorted by row, and return the initials in the same order."""
    order = np.argsort(rows, kind="stable")
    batch.indices, batch.values = keys[order], values[order]
    ends = np.cumsum(np.bincount(rows, minlength=len(batch)))
    batch.indptr = np.concatenate([[0], ends]).astype(np.int64)
    return initials[order]


def add_products(
    batch: Batch, initials: NDArray[np.str_], pairs: list[str], hash_bits: int
) -> None:
    r"""Append to each row the products of all pairs of namespaces, given by two letters.

    A pair of the same letter has each product once.

    Examples
    --------
    >>> from sonline import streams
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "tiny.vw")
    >>> _ = file.write_text("1 |a 3:2 |b 5:4 6\n")
    >>> with streams.open([file], hash_bits=18, interactions=["ab"]) as stream:
    ...     print([batch.values.tolist() for batch in stream])
    [[2.0, 4.0, 1.0, 8.0, 2.0]]
    """
    count = len(batch)
    rows = np.repeat(np.arange(count), np.diff(batch.indptr))
    parts = [(rows, batch.indices, batch.values, initials)]
    slots = batch.indices.view(np.uint64)
    mask = np.uint64((1 << hash_bits) - 1)
    for pair in pairs:
        first, second = _positions(initials, rows, count, *pair)
        keys = ((slots[first] * _PRIME) ^ slots[second]) & mask
        values = batch.values[first] * batch.values[second]
        parts.append((rows[first], keys.astype(np.int64), values, initials[first]))
    _append(batch, *(np.concatenate(part) for part in zip(*parts, strict=True)))


def _positions(
    initials: NDArray[np.str_], rows: Integers, count: int, first_initial: str, second_initial: str
) -> tuple[Integers, Integers]:
    """Return the positions of both factors of each product, row by row."""
    left = np.flatnonzero(initials == first_initial)
    right = np.flatnonzero(initials == second_initial)
    per_row = np.bincount(rows[right], minlength=count)  # second factors in each row
    starts = np.cumsum(per_row) - per_row
    repeats = per_row[rows[left]]
    first = np.repeat(left, repeats)
    within = np.arange(first.size) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    second = right[np.repeat(starts[rows[left]], repeats) + within]
    if first_initial == second_initial:
        once = first <= second
        first, second = first[once], second[once]
    return first, second


def split_pair(pair: str) -> tuple[str, str]:
    """Return the two columns of ``a*b``.

    Examples
    --------
    >>> split_pair("age*city")
    ('age', 'city')
    """
    first, star, second = pair.partition("*")
    if not (first and star and second) or "*" in second:
        only = "; only pairs are supported" if "*" in second else ""
        raise ParameterError(f"interactions must be two columns such as 'a*b', got {pair!r}{only}")
    return first, second


def column_pairs(
    interactions: Sequence[str], columns: Sequence[str], file: str
) -> list[tuple[int, int]]:
    """Return the numbers of both columns of each product."""
    numbers = {name: number for number, name in enumerate(columns)}
    pairs = []
    for interaction in interactions:
        first, second = split_pair(interaction)
        for name in (first, second):
            if name not in numbers:
                raise ParameterError(
                    f"{file}: no column {name!r} for the interaction {interaction!r} (there are "
                    f"{', '.join(columns[:20])})"
                )
        pairs.append((numbers[first], numbers[second]))
    return pairs
