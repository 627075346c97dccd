"""The file of a model as a process that only reads sees it.

`sonline.service.database` says what the file holds.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import msgspec

from sonline.service.records import (
    About,
    DamagedError,
    End,
    Record,
    Snapshot,
    StoreError,
    checksum_of,
)

_MAGIC = b"SQLite format 3\0"


class DatabaseView:
    """The events, versions and snapshots of one model, to be read.

    Parameters
    ----------
    path : Path
        NAME.db.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.about = About("", 0.0)
        self.next = 1  # the number of the next event
        self.time = 0.0  # of the last event
        self._end = End(path.with_suffix(".end"))

    def check(self) -> None:
        """Read and check the whole file.

        Raises
        ------
        DamagedError
            If it is damaged, or holds fewer events than were acknowledged.
        """
        with self._reading() as connection:
            fault = connection.execute("pragma quick_check(1)").fetchone()[0]
            if fault != "ok":
                self._refuse(f"damaged ({fault})")
            self.about = self._read_about(connection)
            end = self.about.first
            for record in self._records(connection, end):
                end, self.time = record.end, record.time
            self.next = self._after_lost(end)
        owner, acknowledged = self._end.read()
        if owner != self.about.id:
            why = "belongs to another file" if owner else "is missing or damaged"
            self._refuse(
                f"{self._end.path.name} {why}, so nobody knows whether all events are here"
            )
        learned = max((snapshot.next for snapshot in self.about.snapshots), default=1)
        if self.next < max(acknowledged, learned):
            self._refuse(
                f"ends with event {self.next - 1}, but {max(acknowledged, learned) - 1} were "
                f"acknowledged: it, or {self.path.name}-wal, is cut, damaged, or an older copy"
            )

    def refresh(self) -> None:
        """Read what another process has changed."""
        with self._reading() as connection:
            connection.execute("begin")
            about = self._read_about(connection)
            last = connection.execute(
                "select seq + count, time from events order by seq desc limit 1"
            ).fetchone()
            lost = max((end for _, end in about.lost), default=1)
            next_ = max(lost, about.first, last[0] if last else 1)
            if about.id != (self.about.id or about.id) or next_ < self.next:
                raise StoreError(
                    self.path,
                    f": events up to {self.next - 1} were read, now it ends with {next_ - 1}",
                    "was it restored from a copy?",
                )
            self.about, self.next = about, next_

    def changed(self) -> bool:
        """Return whether another process has written events, which is quick to find out."""
        return self._end.read()[1] != self.next

    @property
    def size(self) -> int:
        """Bytes on disk."""
        paths = (self.path, Path(f"{self.path}-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    def read(self, start: int) -> Iterator[Record]:
        """Yield the records with the events from a number on.

        Raises
        ------
        StoreError
            If they have been removed, or are damaged.
        """
        if start < self.about.first:
            raise StoreError(
                self.path, f": the first event here is {self.about.first}, not {start}"
            )
        with self._reading() as connection:
            yield from self._records(connection, start)

    def snapshots(self, version: int) -> Iterator[tuple[Snapshot, bytes | StoreError]]:
        """Yield the snapshots of a version, the newest first, or why one cannot be read."""
        for snapshot in reversed(self.about.snapshots):
            if snapshot.version == version:
                try:
                    with self._reading() as connection:
                        yield snapshot, self._snapshot(connection, snapshot)
                except StoreError as error:
                    yield snapshot, error

    def _snapshot(self, connection: sqlite3.Connection, snapshot: Snapshot) -> bytes:
        rows = connection.execute(
            "select data, checksum from snapshots where version = ? and next = ? order by part",
            (snapshot.version, snapshot.next),
        ).fetchall()
        if len(rows) != snapshot.parts or any(zlib.crc32(data) != check for data, check in rows):
            self._refuse(f"the snapshot of version {snapshot.version} is damaged")
        return b"".join(data for data, _ in rows)

    def _records(self, connection: sqlite3.Connection, start: int) -> Iterator[Record]:
        """Yield the records from an event on, checked."""
        query = (
            "select kind, encoding, count, payload, seq, time, checksum from events where seq >= "
            "(select coalesce(max(seq), 0) from events where seq <= ?) order by seq"
        )
        expected: int | None = None
        for kind, encoding, number, payload, seq, written, checksum in connection.execute(
            query, (start,)
        ):
            if expected is None:  # the first one
                expected = min(seq, start)
            if seq != expected and seq != self._after_lost(expected):
                self._refuse(f"the events from {expected} to {seq - 1} are missing")
            if checksum_of(seq, number, kind, encoding, written, payload) != checksum:
                self._refuse(f"damaged (event {seq})")
            expected = seq + number
            if expected > start:
                yield Record(kind, encoding, number, payload, seq, written)

    def _after_lost(self, expected: int) -> int:
        """Return the number of the next event, which may be after events that are lost."""
        return dict(self.about.lost).get(expected, expected)

    def _read_about(self, connection: sqlite3.Connection) -> About:
        rows = connection.execute("select document, checksum from about").fetchall()
        if len(rows) != 1 or zlib.crc32(rows[0][0]) != rows[0][1]:
            self._refuse("damaged (the list of versions)")
        return msgspec.json.decode(rows[0][0], type=About)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that changes nothing, not even by closing it."""
        if not self.path.is_file():
            raise DamagedError(
                self.path,
                " is missing",
                "restore it from a copy, or go on without this model: start once with "
                f"--accept-loss {self.path.stem}",
            )
        connection = None
        with self.path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:  # SQLite would delete the write-ahead log
                self._refuse("not a database")
        try:
            uri = f"{self.path.absolute().as_uri()}?mode=ro"
            if not (os.access(self.path.parent, os.W_OK) or Path(f"{self.path}-wal").exists()):
                uri += "&immutable=1"  # SQLite would create the log; without one, no process writes
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30.0)
            yield connection
        except (sqlite3.Error, struct.error, msgspec.MsgspecError, TypeError) as error:
            if getattr(error, "sqlite_errorname", "")[:11] in ("SQLITE_BUSY", "SQLITE_IOER"):
                raise StoreError(self.path, f" cannot be read: {error}") from error
            self._refuse(f"damaged ({error})")
        finally:
            if connection is not None:
                connection.close()

    def _refuse(self, why: str) -> NoReturn:
        raise DamagedError(
            self.path,
            f": {why}",
            "restore it from a copy, or go on with what can be read: start once with "
            f"--accept-loss {self.path.stem}",
        ) from None
