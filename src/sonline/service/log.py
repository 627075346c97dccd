"""The log of a model, as the process that writes it sees it.

A frame is written with one call and synchronized to disk; only then are its events acknowledged.
Its checksum covers the whole group, so a crash leaves at most one bad frame, at the very end of the
log: it is cut off. A bad frame with a good one after it was acknowledged: the log is damaged, and
opening it fails with an error that names the offset.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sonline.files import sync_folder
from sonline.service import frames
from sonline.service.frames import HEADER, MAGIC, SALT, SUFFIX, BadFrameError, LogError, Record

Writer: TypeAlias = Callable[[int, bytes | memoryview], int]
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFullError(LogError):
    """The disk is full; none of the events of the group are in the log."""


@dataclass
class Segment:
    """A file of the log."""

    path: Path
    first: int
    size: int
    end: int  # the number of the event after its last one
    salt: bytes = b""
    time: float = 0.0  # of its last frame


class Log:
    """An append-only log in a folder.

    Parameters
    ----------
    folder : Path
        Created if missing. One process at a time may write.
    segment_bytes : int
        A new segment begins when the last one is larger.
    write : callable
        Writes bytes to a file; tests of full and slow disks replace it.
    sync : callable
        Synchronizes a file to disk.

    Raises
    ------
    LogError
        If a segment is damaged anywhere but at the end of the log.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sonline.service.frames import LEARN, LINES, Record
    >>> folder = Path(tempfile.mkdtemp())
    >>> log = Log(folder)
    >>> log.append([Record(LEARN, LINES, 2, b"two rows")], time=1.0)
    1
    >>> log.close()
    >>> [(record.seq, record.payload) for record in Log(folder).read(1)]
    [(1, b'two rows')]
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = 64 << 20,
        write: Writer = os.write,
        sync: Callable[[int], None] = os.fdatasync,
    ) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.cut = 0  # bytes of an unfinished group that were cut off
        self._write, self._sync = write, sync
        self._handle: int | None = None
        self._dirty = False  # there may be bytes of a failed group behind the last frame
        self._lock = threading.Lock()  # of `segments`, which readers list
        self._end: int | None = None  # the file with the number of the next event
        folder.mkdir(parents=True, exist_ok=True)
        self.segments = self._recover()
        self._publish()

    @property
    def next(self) -> int:
        """The number of the next event."""
        return self.segments[-1].end if self.segments else 1

    @property
    def first(self) -> int:
        """The number of the first event that is still here."""
        return self.segments[0].first if self.segments else 1

    @property
    def time(self) -> float:
        """The time of the last frame."""
        return max((segment.time for segment in self.segments), default=0.0)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def append(self, records: Sequence[Record], time: float) -> int:
        """Write a group to disk and return the number of its first event.

        Raises
        ------
        DiskFullError, LogError
            If the group cannot be written; then none of its events are in the log.
        """
        count = sum(record.count for record in records)
        first = self.next
        try:
            segment = self._room()
            frame = frames.pack(records, segment.salt, first, time)
            handle = self._handle
            assert handle is not None  # noqa: S101 - opened by `_room`
            self._dirty = True
            _write_all(self._write, handle, frame)
            self._sync(handle)
        except OSError as error:
            self._withdraw()
            kind = DiskFullError if error.errno in _NO_ROOM else LogError
            raise kind(f"{self.folder}: the log cannot be written: {error}") from error
        self._dirty = False
        segment.size += len(frame)
        segment.end = first + count
        segment.time = time
        self._publish()
        return first

    def _publish(self) -> None:
        """Publish which events are on disk; if this fails, the next group does it."""
        with suppress(OSError):
            if self._end is None:
                path = frames.end_of(self.folder)
                self._end = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            frames.write_end(self._end, self.next)

    def _room(self) -> Segment:
        """Return the segment to write to, open and without bytes of a failed group."""
        last = self.segments[-1] if self.segments else None
        if last is None or (last.size >= self.segment_bytes and last.end > last.first):
            self._close_segment()
            last = self._new_segment()
        if self._handle is None:
            self._handle = os.open(last.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if self._dirty:
            os.ftruncate(self._handle, last.size)
            self._dirty = False
        return last

    def _new_segment(self) -> Segment:
        path = self.folder / f"{self.next:020d}{SUFFIX}"
        # A file that a failed attempt left behind has no frame.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        handle = os.open(path, flags, 0o600)
        try:
            salt = secrets.token_bytes(SALT)
            _write_all(self._write, handle, MAGIC + salt)
            self._sync(handle)
            sync_folder(self.folder)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        segment = Segment(path, self.next, HEADER, self.next, salt)
        with self._lock:
            self.segments.append(segment)
        return segment

    def _withdraw(self) -> None:
        """Remove the written part of a group; if this fails, it is done before the next group."""
        if self._handle is None or not self._dirty:
            return
        try:
            os.ftruncate(self._handle, self.segments[-1].size)
            self._sync(self._handle)
        except OSError:
            return
        self._dirty = False

    def close(self) -> None:
        """Close the files."""
        self._close_segment()
        if self._end is not None:
            os.close(self._end)
            self._end = None

    def _close_segment(self) -> None:
        if self._handle is not None:
            self._withdraw()
            os.close(self._handle)
            self._handle = None

    def read(self, start: int, end: int | None = None) -> Iterator[Record]:
        """Yield the records with the events from a number on, up to another one.

        Raises
        ------
        LogError
            If they have been removed, or a segment was damaged since the log was opened.
        """
        if start < self.first:
            raise LogError(f"{self.folder}: the log begins with event {self.first}, not {start}")
        with self._lock:
            segments = list(self.segments)
        for segment in segments:
            if segment.end <= start or (end is not None and segment.first >= end):
                continue
            for _, head, body in frames.frames(segment.path, segment.first, segment.size):
                for record in frames.records(head, body):
                    if end is not None and record.seq >= end:
                        return
                    if record.end > start:
                        yield record

    def drop_before(self, seq: int, *, keep_bytes: int, older_than: float | None) -> int:
        """Remove old segments with no event from a number on; return how many were removed.

        Segments are removed while the log is larger than ``keep_bytes``, or if their last event is
        older than a time.
        """
        removed = 0
        while len(self.segments) > 1 and self.segments[0].end <= seq:
            oldest = self.segments[0]
            if self.size <= keep_bytes and (older_than is None or oldest.time >= older_than):
                break
            with self._lock:
                self.segments.pop(0)
            oldest.path.unlink()
            removed += 1
        return removed

    def _recover(self) -> list[Segment]:
        segments: list[Segment] = []
        paths = sorted(self.folder.glob(f"*{SUFFIX}"))
        for path in paths:
            first = int(path.stem)
            if segments and first != segments[-1].end:
                raise LogError(
                    f"{path}: the segment before ends with event {segments[-1].end - 1}, this one "
                    f"begins with {first}; a segment is missing or damaged: restore it from a copy"
                )
            segment = Segment(path, first, HEADER, first, _salt(path))
            try:
                for offset, head, body in frames.frames(path, first):
                    segment.size = offset + frames.FRAME.size + len(body)
                    segment.end, segment.time = head.end, head.time
            except BadFrameError as bad:
                after = segment.salt, bad.offset, segment.end
                if path != paths[-1] or frames.good_frame_after(path, *after):
                    raise LogError(
                        f"{path}: damaged at byte {bad.offset}, after event {segment.end - 1}, "
                        "with good events after it; restore the file from a copy"
                    ) from None
                self.cut = path.stat().st_size - segment.size
                if not bad.offset:  # the file had just been created
                    path.unlink()
                    break
                with path.open("r+b") as file:
                    file.truncate(segment.size)
                    os.fsync(file.fileno())
            segments.append(segment)
        return segments


def _write_all(write: Writer, handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[write(handle, rest) :]


def _salt(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEADER)[len(MAGIC) :]
