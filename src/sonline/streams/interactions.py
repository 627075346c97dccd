"""Products of features from two namespaces, the purpose of ``-q`` of Vowpal Wabbit.

The features of a pair come after those of the row, and a product has the slot
``(first * 16777619) xor second`` modulo the size of the table. Slots are this program's own: they
have not been compared with Vowpal Wabbit's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
