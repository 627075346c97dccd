"""The union of the features of several learners: indices by value, names by name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sonline.persistence import NAMES
from sonline.rows import NAMED, Keys

Positions: TypeAlias = NDArray[np.intp]
State: TypeAlias = dict[str, NDArray[Any]]  # of an output: see `state`

SPARSE = 8  # a table with up to this many entries per key is faster than sorting


class NameTable:
    """The names of several learners, each once, in the order of their first appearance."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}

    def add(self, state: State) -> Keys:
        """Add the names of a saved state, and return their ids in this table."""
        blob = state[NAMES[0]].tobytes()
        ends = state[NAMES[1]].tolist()
        ids = self._ids
        numbers = (ids.setdefault(blob[a:b], len(ids)) for a, b in itertools.pairwise(ends))
        return np.fromiter(numbers, dtype=np.uint64, count=len(ends) - 1)

    def state(self) -> State:
        """Return the table in the form of a saved state."""
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


def united(learners: Sequence[Keys]) -> tuple[Keys, list[Positions]]:
    """Return all keys in the order of their first appearance, and the positions of each learner's.

    A learner has each key once. The intercept is first, and stays first.

    Examples
    --------
    >>> import numpy as np
    >>> keys, positions = united([np.array([0, 7, 3], np.uint64), np.array([0, 3, 9], np.uint64)])
    >>> keys.tolist(), positions[1].tolist()
    ([0, 7, 3, 9], [0, 2, 3])
    """
    # The key of the intercept is 0, which is also an index: the intercept is left out here.
    codes = _small_codes([keys[1:] for keys in learners])
    table = np.zeros(1 + max(int(code.max(initial=0)) for code in codes), dtype=np.intp)
    union, size, positions = [np.zeros(1, np.uint64)], 1, []
    for keys, code in zip(learners, codes, strict=True):
        position = table[code]  # 0 for keys that are new
        new = np.flatnonzero(position == 0)
        position[new] = table[code[new]] = np.arange(size, size + new.size)
        union.append(keys[1:][new])
        size += new.size
        positions.append(np.concatenate([[0], position]))
    return np.concatenate(union), positions


def _small_codes(learners: Sequence[Keys]) -> list[Positions]:
    """Return small numbers for the keys: equal keys have equal numbers."""
    # The bit that marks names becomes the lowest.
    codes = [(keys << 1) | (keys >> 63) for keys in learners]
    if max(int(code.max(initial=0)) for code in codes) <= SPARSE * sum(code.size for code in codes):
        return [code.view(np.intp) for code in codes]
    _, joint = np.unique(np.concatenate(learners), return_inverse=True)
    return np.split(joint, np.cumsum([keys.size for keys in learners])[:-1])
