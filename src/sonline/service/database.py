"""The durable file of one model: its events, its versions and their snapshots, in SQLite.

.. code-block:: text

   NAME.db   about      one row: versions, snapshots, the number of the first event; a checksum
             events     the records of requests in the order in which they are learned, each with
                        the number of its first event and a checksum
             snapshots  model files, in parts; those that ``about`` does not list are unfinished
   NAME.end  the id of NAME.db and the number of the next event

SQLite writes a group of events in one transaction, and synchronizes its write-ahead log to disk
before the transaction ends; only then are the events acknowledged. What SQLite cannot notice is a
file, or a write-ahead log, that is older or shorter than it was. This is what ``NAME.end`` is for:
it is written after each group, so a start with fewer events than were acknowledged is refused.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from sonline.files import sync_folder
from sonline.service.records import (
    CHAMPION,
    SHADOW,
    About,
    DamagedError,
    Record,
    Snapshot,
    StoreError,
    Version,
    checksum_of,
    set_aside,
)
from sonline.service.view import DatabaseView

SNAPSHOTS = 2  # that are kept of each version
_PART = 4 << 20  # bytes of a part of a snapshot: events are written between two parts
_PAGE, _LOG_PAGES = 8192, 2000  # bytes; pages of the write-ahead log that are then moved to NAME.db
_DELETED = 1000  # records that are deleted at a time
_SUFFIXES = ("", "-wal", "-shm")
_INSERT = "insert into events values (?, ?, ?, ?, ?, ?, ?)"
_SCHEMA = f"""
pragma page_size={_PAGE};
pragma journal_mode=wal;
create table about (document blob not null, checksum integer not null);
create table events (
  seq integer primary key, count integer not null, kind integer not null,
  encoding integer not null, time real not null, checksum integer not null, payload blob not null
);
create table snapshots (
  version integer not null, next integer not null, part integer not null,
  checksum integer not null, data blob not null, primary key (version, next, part)
);
"""


class Database(DatabaseView):
    """The events, versions and snapshots of one model.

    Connections are opened when they are needed, and `release` closes them.

    Parameters
    ----------
    path : Path
        NAME.db.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sonline.service.records import LEARN, AS_LINES
    >>> path = Path(tempfile.mkdtemp()) / "clicks.db"
    >>> database = Database.create(path, b"a model file")
    >>> database.append([Record(LEARN, AS_LINES, 2, b"two rows")], time=1.0)
    1
    >>> database.release()
    >>> again = Database(path)
    >>> again.open()
    >>> [(record.seq, record.payload) for record in again.read(1)], again.next
    ([(1, b'two rows')], 3)
    >>> again.release()
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._used = time.monotonic()
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._torn = False  # a group that could not be written may be in the write-ahead log

    # -- create, open, release -------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, model: bytes, origin: str = "") -> Database:
        """Create the file of a model with its first version.

        Raises
        ------
        StoreError
            If there is such a file, or it cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        for other in (path, path.with_suffix(""), path.with_suffix(".end")):
            if other.exists():
                raise StoreError(
                    other, " is there", "restart the service to use it, or move it away"
                )
        database = cls(path)
        database.about = About(secrets.token_hex(8), time.time())
        try:
            with database._errors("created"), database._replacing() as new:
                new.add_version(Version(1, CHAMPION, origin, time.time(), 1), model)
                database._end.write(database.about.id, 0, durable=True)  # it is not there yet
        except BaseException:
            database._end.close()
            if not path.exists():
                database._end.path.unlink(missing_ok=True)
            raise
        database._end.write(database.about.id, 1)
        return database

    @contextmanager
    def _replacing(self) -> Iterator[Database]:
        """Yield a new database, which replaces this one when it is complete."""
        new = Database(self.path.with_suffix(".new"))
        new.about = self.about
        paths = [Path(f"{new.path}{suffix}") for suffix in _SUFFIXES]
        for path in paths:
            path.unlink(missing_ok=True)
        os.close(os.open(new.path, os.O_CREAT, 0o600))
        try:
            connection = new._connect()
            connection.executescript(_SCHEMA)
            connection.execute("insert into about values (x'', 0)")
            yield new
            self.about = new.about
            new.release()
            new.path.rename(self.path)
            sync_folder(self.path.parent)
        finally:
            new.release()
            for path in paths:
                path.unlink(missing_ok=True)

    def _salvage(self) -> None:
        """Copy what can be read; the next event gets a number that was never acknowledged."""
        owner, acknowledged = self._end.read()
        with self._reading() as damaged:
            self.about = self._read_about(damaged)
            end, snapshots = self.about.first, list(self.about.snapshots)
            with self._errors("copied"), self._replacing() as new:
                new.about.snapshots = []
                with (
                    new._transaction() as connection,  # noqa: SLF001 - of the same class
                    suppress(StoreError, sqlite3.Error),
                ):
                    for record in self._records(damaged, end):
                        connection.execute(_INSERT, _values(record, record.seq, record.time))
                        end, self.time = record.end, record.time
                for old in snapshots:
                    with suppress(StoreError, sqlite3.Error):
                        data = self._snapshot(damaged, old)
                        new.put_snapshot(old.version, old.next, old.keep_from, data)
                known = [acknowledged if owner == self.about.id else 1, self._after_lost(end)]
                next_ = max(*known, *(old.next for old in new.about.snapshots))
                with new.changing() as about:
                    if next_ > end:
                        about.lost.append((end, next_))
                for suffix in _SUFFIXES:
                    set_aside(Path(f"{self.path}{suffix}"))
        self.next = next_

    def open(self, accept_loss: bool = False) -> None:
        """Read and check the whole file.

        Parameters
        ----------
        accept_loss : bool, default=False
            Go on with what can be read; the damaged file is kept under another name.

        Raises
        ------
        DamagedError
            If it is damaged, or holds fewer events than were acknowledged.
        """
        with self._lock:
            try:
                self.check()
            except DamagedError:
                if not accept_loss:
                    raise
                self._salvage()
            self._end.write(self.about.id, self.next)

    @property
    def unused(self) -> float:
        """Seconds since it was written."""
        return time.monotonic() - self._used

    def release(self) -> None:
        """Close the files; the next call that needs them opens them again."""
        with self._lock:
            self._end.close()
            if self._connection is not None:
                with suppress(sqlite3.Error):  # SQLite moves its log to the file then
                    self._connection.close()
                self._connection = None

    def _connect(self) -> sqlite3.Connection:
        self._used = time.monotonic()
        if self._connection is None:
            self._connection = sqlite3.connect(
                self.path, check_same_thread=False, isolation_level=None, timeout=30.0
            )
            for setting in (
                "synchronous=full",
                f"wal_autocheckpoint={_LOG_PAGES}",
                f"journal_size_limit={_LOG_PAGES * _PAGE}",
            ):
                self._connection.execute(f"pragma {setting}")
        return self._connection

    @contextmanager
    def _errors(self, action: str = "written") -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = f"{error.strerror}" if isinstance(error, OSError) else f"{error}"
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                reason = "No space left on device"
            raise StoreError(self.path, f" cannot be {action}: {reason}") from error

    # -- events ----------------------------------------------------------------------------------

    def append(self, records: Sequence[Record], time: float) -> int:
        """Write a group of records, synchronize it to disk, and return the first event's number.

        Raises
        ------
        StoreError
            If it cannot be written; then none of it is in the file.
        """
        first = seq = self.next
        rows = []
        for record in records:
            rows.append(_values(record, seq, time))
            seq += record.count
        with self._lock:
            if self._torn:
                self._withdraw()
            try:
                with self._transaction() as connection:
                    connection.executemany(_INSERT, rows)
            except StoreError:
                self._torn = True
                with suppress(StoreError):
                    self._withdraw()
                raise
            self.next, self.time = seq, time
            with suppress(OSError):  # the next group writes it
                self._end.write(self.about.id, seq)
        return first

    def _withdraw(self) -> None:
        """Empty the write-ahead log: a group whose writing failed must not be found in it."""
        with self._errors():
            busy, *_ = self._connect().execute("pragma wal_checkpoint(truncate)").fetchone()
        self._torn = bool(busy)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._errors():
            connection = self._connect()
            connection.execute("begin immediate")
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise

    def drop_before(self, seq: int, *, keep_bytes: int, older_than: float | None) -> None:
        """Remove old records with no event from a number on.

        They are removed while the file is larger than ``keep_bytes``, or if they are older than a
        time. SQLite writes new events where they were.
        """
        while True:
            with self._transaction() as connection:
                pages, free = (
                    connection.execute(f"pragma {name}").fetchone()[0]
                    for name in ("page_count", "freelist_count")
                )
                excess = (pages - free) * _PAGE - keep_bytes
                oldest = connection.execute(
                    "select seq, count, time, length(payload) from events where seq < ? "
                    "order by seq limit ?",
                    (seq, _DELETED),
                ).fetchall()
                first = self.about.first
                for start, number, written, size in oldest:
                    if start + number > seq:
                        break
                    if excess <= 0 and (older_than is None or written >= older_than):
                        break
                    first = start + number
                    excess -= size
                if first == self.about.first:
                    return
                connection.execute("delete from events where seq < ?", (first,))
                self.about.first = self._after_lost(first)
                self._write_about(connection)

    # -- versions and snapshots ------------------------------------------------------------------

    def _write_about(self, connection: sqlite3.Connection) -> None:
        document = msgspec.json.encode(self.about)
        connection.execute(
            "update about set document = ?, checksum = ?", (document, zlib.crc32(document))
        )

    @contextmanager
    def changing(self) -> Iterator[About]:
        """Yield what is known about the model, to be changed and written."""
        with self._lock:
            before = msgspec.json.encode(self.about)
            try:
                with self._transaction() as connection:
                    yield self.about
                    self._write_about(connection)
            except BaseException:
                self.about = msgspec.json.decode(before, type=About)
                raise

    def add_version(self, info: Version, model: bytes) -> None:
        """Store a version with its first snapshot."""
        self._put_parts(info.version, info.start, model)
        with self.changing() as about:
            about.next_version = info.version + 1
            about.versions.append(info)
            if info.role == SHADOW:
                _note(about, f"{info.version} added")
            new = Snapshot(info.version, info.start, info.start, _parts_of(model))
            about.snapshots.append(new)

    def remove_version(self, version: int) -> None:
        """Remove a version and its snapshots."""
        with self.changing() as about:
            about.versions = [info for info in about.versions if info.version != version]
            self._keep_snapshots([old for old in about.snapshots if old.version != version])

    def promote(self, version: int) -> None:
        """Make a version the champion; the previous champion becomes a shadow."""
        with self.changing() as about:
            for info in about.versions:
                if info.role == CHAMPION:
                    about.previous = info.version
                info.role = CHAMPION if info.version == version else SHADOW
            _note(about, f"{version} promoted")

    def put_snapshot(self, version: int, next_: int, keep_from: int, model: bytes) -> None:
        """Write a snapshot, and remove old ones; a version that was removed gets none."""
        self._put_parts(version, next_, model)
        with self.changing() as about:
            new = Snapshot(version, next_, keep_from, _parts_of(model))
            mine = [old for old in about.snapshots if old.version == version and old.next != next_]
            others = [old for old in about.snapshots if old.version != version]
            there = any(info.version == version for info in about.versions)
            self._keep_snapshots(others + ([*mine[-SNAPSHOTS + 1 :], new] if there else []))

    def _put_parts(self, version: int, next_: int, model: bytes) -> None:
        with self._lock:
            if any((old.version, old.next) == (version, next_) for old in self.about.snapshots):
                return  # it is there already
        for part in range(_parts_of(model)):
            data = model[part * _PART : (part + 1) * _PART]
            with self._transaction() as connection:
                connection.execute(
                    "insert or replace into snapshots values (?, ?, ?, ?, ?)",
                    (version, next_, part, zlib.crc32(data), data),
                )

    def _keep_snapshots(self, kept: list[Snapshot]) -> None:
        """Remove all other snapshots, unfinished ones included."""
        self.about.snapshots = kept
        listed = {(snapshot.version, snapshot.next) for snapshot in kept}
        connection = self._connect()
        there = connection.execute("select distinct version, next from snapshots").fetchall()
        connection.executemany(
            "delete from snapshots where version = ? and next = ?",
            [pair for pair in there if pair not in listed],
        )


def _note(about: About, change: str) -> None:
    about.changes = [*about.changes[-99:], (time.time(), change)]


def _parts_of(model: bytes) -> int:
    return -(-len(model) // _PART)


def _values(record: Record, seq: int, time: float) -> tuple[int, int, int, int, float, int, bytes]:
    head = (seq, record.count, record.kind, record.encoding, time)
    return (*head, checksum_of(*head, record.payload), record.payload)
