"""One set of features out of several learners: indices as they are, names by name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.uint64]
Places: TypeAlias = NDArray[np.intp]

NAMED = np.uint64(1 << 63)  # marks the id of a name among the keys of the core
SPARSE = 8  # up to so many places a key, a table is faster than sorting
NAMES = ("names.bytes", "names.offsets")  # how a saved state calls its table of names


class NameTable:
    """The names of several learners, each once, in the order of their first appearance."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}

    def add(self, state: dict[str, NDArray[Any]]) -> Keys:
        """Take in the names of a saved state; the id of each of them here."""
        blob = state[NAMES[0]].tobytes()
        ends = state[NAMES[1]].tolist()
        ids = self._ids
        found = (ids.setdefault(blob[a:b], len(ids)) for a, b in itertools.pairwise(ends))
        return np.fromiter(found, dtype=np.uint64, count=len(ends) - 1)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the table as a saved state has it."""
        ends = np.cumsum([0, *map(len, self._ids)], dtype=np.uint64)
        return {
            NAMES[0]: np.frombuffer(b"".join(self._ids), dtype=np.uint8),
            NAMES[1]: ends,
        }


def translated(keys: Keys, ids: Keys) -> Keys:
    """Return the keys with the ids of names replaced by those of another table."""
    named = (keys & NAMED) != 0
    if not named.any():
        return keys
    out = keys.copy()
    out[named] = ids[(keys[named] & ~NAMED).astype(np.intp)] | NAMED
    return out


def united(each: Sequence[Keys]) -> tuple[Keys, list[Places]]:
    """Return all keys in the order of their first appearance, and where those of each learner are.

    The first key of each is the intercept's, and so it stays.

    Examples
    --------
    >>> import numpy as np
    >>> keys, places = united([np.array([0, 7, 3], np.uint64), np.array([0, 3, 9], np.uint64)])
    >>> keys.tolist(), places[1].tolist()
    ([0, 7, 3, 9], [0, 2, 3])
    """
    # The intercept has the key 0, which is also an index; it is put back afterwards.
    together = np.concatenate([keys[1:] for keys in each])
    codes = _small_codes(together)
    count = np.arange(together.size)
    first = np.empty(int(codes.max(initial=0)) + 1, dtype=np.intp)
    first[codes[::-1]] = count[::-1]  # of equal ones, the last that is written stays
    first = first[codes]
    new = first == count
    places = np.cumsum(new)[first]
    cuts = np.cumsum([keys.size - 1 for keys in each])[:-1]
    union = np.concatenate([np.zeros(1, np.uint64), together[new]])
    return union, [np.concatenate([[0], part]) for part in np.split(places, cuts)]


def _small_codes(keys: Keys) -> NDArray[Any]:
    """Return a number for each key, the same for equal ones, not much larger than their count."""
    codes = (keys << 1) | (keys >> 63)  # what marks a name becomes the last bit
    if int(codes.max(initial=0)) <= SPARSE * keys.size:
        return codes.astype(np.intp)
    return np.unique(keys, return_inverse=True)[1]
