"""How features of recent events differ from those before: how often they are there, and their mean.

Only some of the events are looked at, so it costs little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sonline.service import bodies

SAMPLED = 16  # rows of those that are learned together
RECENT, LONG = 300, 6000  # rows that two fading memories hold
COUNTED_FEATURES = 1000  # features that are counted
SHOWN_FEATURES = 12


@dataclass
class _Faded:
    """Sums that fade: of rows, of those with numbers, of the numbers and their squares."""

    memory: int
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    last: int = 0

    def at(self, row: int) -> list[float]:
        """Return the sums as of a row."""
        kept = math.exp((self.last - row) / self.memory)
        return [kept * value for value in self.sums]

    def add(self, row: int, sums: list[float]) -> None:
        """Add the sums over the rows up to a row."""
        self.sums = [old + new for old, new in zip(self.at(row), sums, strict=True)]
        self.last = row


def _memories() -> tuple[_Faded, _Faded]:
    return _Faded(RECENT), _Faded(LONG)


class Columns:
    """The features of the events that a model has learned.

    Examples
    --------
    >>> columns = Columns()
    >>> for number in range(2000):
    ...     columns.add([{"a": 1.0 + number % 2} if number < 1500 else {"b": "x"}])
    >>> for name, now, before, *_ in sorted(columns.values()):
    ...     print(name, round(now, 1), round(before, 1))
    a 0.2 0.7
    b 0.8 0.3
    """

    def __init__(self) -> None:
        self.rows = 0
        self._all = _memories()
        self._features: dict[str, tuple[_Faded, _Faded]] = {}

    def add(self, x: Any) -> None:
        """Look at some of the rows, which are mappings, a table or a sparse matrix."""
        count = len(x) if isinstance(x, Sequence) else x.shape[0]
        chosen = list(range(0, count, -(-count // SAMPLED))) if count else []
        if isinstance(x, list):
            rows = [x[number] for number in chosen]
        else:
            rows = bodies.as_json(x.take(chosen) if hasattr(x, "take") else x[chosen])
        sums: dict[str, list[float]] = {}
        for row in rows:
            for name, value in row.items() if isinstance(row, Mapping) else row:
                if value is None or value != value:  # noqa: PLR0124 - NaN in Arrow
                    continue
                sums_of = sums.setdefault(str(name), [0.0] * 4)
                sums_of[0] += 1.0
                if isinstance(value, (int, float)):
                    number = float(value)
                    sums_of[1] += 1.0
                    sums_of[2] += number
                    sums_of[3] += number * number
        self.rows += len(rows)
        self._add(self._all, [float(len(rows)), 0.0, 0.0, 0.0])
        for name, added in sums.items():
            memories = self._features.get(name)
            if memories is None:
                if len(self._features) >= COUNTED_FEATURES:
                    continue
                memories = self._features[name] = _memories()
            self._add(memories, added)

    def _add(self, memories: tuple[_Faded, _Faded], sums: list[float]) -> None:
        for memory in memories:
            memory.add(self.rows, sums)

    def values(self) -> list[list[Any]]:
        """Return the features that differ most: name, share of rows and mean, now and before.

        The last number says by how many standard deviations the mean differs.
        """
        found: list[list[Any]] = []
        for name, memories in list(self._features.items()):
            shares, means, deviation = [], [], 0.0
            for memory, every in zip(memories, self._all, strict=True):
                rows, numbers, total, squares = memory.at(self.rows)
                shares.append(min(1.0, rows / every.at(self.rows)[0]))
                means.append(total / numbers if numbers > 1e-9 else None)
                if numbers > 1e-9:
                    deviation = math.sqrt(max(0.0, squares / numbers - (total / numbers) ** 2))
            now, before = means
            apart = None
            if now is not None and before is not None and deviation > 0:
                apart = (now - before) / deviation
            found.append([name, *shares, now, before, apart])
        found.sort(key=lambda one: -max(abs(one[1] - one[2]), abs(one[5] or 0.0)))
        return found[:SHOWN_FEATURES]
