"""Ids: of rows that wait for their labels, and of rows that have been learned.

Both are bounded and forget the oldest first. They are restored from the log, so a service
that was killed continues with the same ids. Whether an id is accepted is decided before its event
is written, so replaying the log does not depend on them.

Both are ordered dictionaries: the first entry of a plain one is slow to find once many before it
have been deleted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

_OVERHEAD = 400  # bytes of the objects of a pending row, in addition to its content


class PendingRow(msgspec.Struct, frozen=True, gc=False):
    """A row that waits for its label: features and the raw predictions served, both as JSON."""

    seq: int
    time: float
    x: bytes
    served: bytes
    offset: float | None = None

    @property
    def size(self) -> int:
        """Bytes that it takes, approximately."""
        return len(self.x) + len(self.served) + _OVERHEAD


class Waiting:
    """Rows that wait for their labels, the oldest first.

    Parameters
    ----------
    seconds : float
        How long a row is kept.
    limit : int
        Bytes of all rows.

    Examples
    --------
    >>> waiting = Waiting(seconds=60, limit=1 << 20)
    >>> waiting.keep("a", PendingRow(1, 0.0, b"{}", b"{}"))
    >>> waiting.take("a", now=59.0).seq, waiting.take("a", now=59.0)
    (1, None)
    """

    def __init__(self, seconds: float, limit: int) -> None:
        self.seconds = seconds
        self.limit = limit
        self.bytes = 0
        self.expired = 0  # rows whose label did not arrive in time
        self.evicted = 0  # rows removed to make room
        self._rows: OrderedDict[str, PendingRow] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    @property
    def first_seq(self) -> int | None:
        """The number of the oldest event with a row that waits."""
        return min((row.seq for row in self._rows.values()), default=None)

    def keep(self, name: str, row: PendingRow) -> PendingRow | None:
        """Keep a row, and remove the oldest beyond the limits; return the row that it replaces."""
        replaced = self._put(name, row)
        self.expire(row.time)
        while self.bytes > self.limit:
            self.forget(next(iter(self._rows)))
            self.evicted += 1
        return replaced

    def peek(self, name: str) -> PendingRow:
        """Return a row that must be there."""
        return self._rows[name]

    def take(self, name: str, now: float) -> PendingRow | None:
        """Return a row and forget it; None if it is not there, or too old."""
        self.expire(now)
        return self.forget(name)

    def give_back(self, rows: Iterable[tuple[str, PendingRow]]) -> None:
        """Keep rows again whose labels could not be written, in their places."""
        for name, row in rows:
            self._put(name, row)
        self._rows = OrderedDict(sorted(self._rows.items(), key=lambda pair: pair[1].seq))

    def _put(self, name: str, row: PendingRow) -> PendingRow | None:
        replaced = self.forget(name)
        self._rows[name] = row
        self.bytes += row.size
        return replaced

    def expire(self, now: float) -> None:
        """Forget rows that are too old."""
        while self._rows:
            name, oldest = next(iter(self._rows.items()))
            if oldest.time + self.seconds >= now:
                return
            self.forget(name)
            self.expired += 1

    def forget(self, name: str) -> PendingRow | None:
        """Forget a row and return it; None if it is not there."""
        row = self._rows.pop(name, None)
        if row is not None:
            self.bytes -= row.size
        return row


class Remembered:
    """The last ids that were learned, and the numbers of their events.

    Examples
    --------
    >>> ids = Remembered(limit=2)
    >>> for number, name in enumerate("abc"):
    ...     ids.add(name, number)
    >>> ids.get("a"), ids.get("c")
    (None, 2)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._ids: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def first_seq(self) -> int | None:
        """The number of the oldest event."""
        return next(iter(self._ids.values()), None)

    def get(self, name: str) -> int | None:
        """Return the number of the event with an id; None if it is not known."""
        return self._ids.get(name)

    def add(self, name: str, seq: int) -> None:
        """Remember an id."""
        self._ids[name] = seq
        if len(self._ids) > self.limit:
            self._ids.popitem(last=False)

    def discard(self, name: str) -> None:
        """Forget an id whose event could not be written."""
        self._ids.pop(name, None)
