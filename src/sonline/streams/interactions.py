"""Products of features: of two columns of a table, or of two namespaces of Vowpal Wabbit text.

Columns: ``a*b`` has a feature for each pair of features that a row has in both, with both names and
an asterisk between them.

Namespaces, the purpose of ``-q`` of Vowpal Wabbit: the features of a pair come after those of the
row, and a product has the slot
``(first * 16777619) xor second`` modulo the size of the table. Slots are this program's own: they
have not been compared with Vowpal Wabbit's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sonline.errors import ParameterError
from sonline.rows import Floats
from sonline.rows import Indices as Integers
from sonline.streams.batch import Batch

_PRIME = np.uint64(16777619)


def add_products(
    batch: Batch, initials: NDArray[np.str_], pairs: list[str], hash_bits: int
) -> None:
    r"""Append to each row the products of all pairs.

    Parameters
    ----------
    batch : Batch
        With slots as indices; it is changed.
    initials : array of one-letter words
        The first letter of each feature's namespace.
    pairs : list of str
        Two letters each. Within one namespace every product is taken once.
    hash_bits : int
        Slots are below 2^hash_bits.

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
    all_rows, all_keys, all_values = [rows], [batch.indices], [batch.values]
    slots = batch.indices.view(np.uint64)
    mask = np.uint64((1 << hash_bits) - 1)
    for pair in pairs:
        first, second = _places(initials, rows, count, *pair)
        keys = ((slots[first] * _PRIME) ^ slots[second]) & mask
        all_rows.append(rows[first])
        all_keys.append(keys.astype(np.int64))
        all_values.append(batch.values[first] * batch.values[second])
    joined = np.concatenate(all_rows)
    order = np.argsort(joined, kind="stable")
    batch.indices = np.concatenate(all_keys)[order]
    batch.values = np.concatenate(all_values)[order]
    batch.indptr = np.concatenate([[0], np.cumsum(np.bincount(joined, minlength=count))]).astype(
        np.int64
    )


def _places(
    initials: NDArray[np.str_], rows: Integers, count: int, one: str, other: str
) -> tuple[Integers, Integers]:
    """Return the places of both features of each product, row by row."""
    left = np.flatnonzero(initials == one)
    right = np.flatnonzero(initials == other)
    many = np.bincount(rows[right], minlength=count)  # of the second kind in each row
    starts = np.cumsum(many) - many
    repeats = many[rows[left]]
    first = np.repeat(left, repeats)
    within = np.arange(first.size) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    second = right[np.repeat(starts[rows[left]], repeats) + within]
    if one == other:
        once = first <= second
        first, second = first[once], second[once]
    return first, second


def split_pair(words: str) -> tuple[str, str]:
    """Return the two columns of ``a*b``.

    Examples
    --------
    >>> split_pair("age*city")
    ('age', 'city')
    """
    one, star, other = words.partition("*")
    if not (one and star and other):
        raise ParameterError(f"interactions must be two columns such as 'a*b', got {words!r}")
    return one, other


def column_pairs(
    interactions: Sequence[str], columns: Sequence[str], file: str
) -> list[tuple[int, int]]:
    """Return the places of both columns of each product."""
    places = {name: place for place, name in enumerate(columns)}
    pairs = []
    for words in interactions:
        one, other = split_pair(words)
        for name in (one, other):
            if name not in places:
                raise ParameterError(
                    f"{file}: no column {name!r} for the interaction {words!r} (there are "
                    f"{', '.join(columns[:20])})"
                )
        pairs.append((places[one], places[other]))
    return pairs


def product(
    names: list[str], one: Integers, other: Integers, values: Floats
) -> tuple[Integers, Floats]:
    """Return the numbers of the features of a product, whose names are appended, and its values.

    Parameters
    ----------
    names : list of str
        By number of the feature.
    one, other : arrays
        The numbers of both features in each row.
    values : array
        The products of their values; 0 where one is absent.
    """
    cells = np.zeros(values.size, np.int64)
    there = np.flatnonzero(values)
    both = one[there] * len(names) + other[there]
    kinds, places = np.unique(both, return_inverse=True)
    cells[there] = places + len(names)
    size = len(names)
    names += [f"{names[kind // size]}*{names[kind % size]}" for kind in kinds.tolist()]
    return cells, values
