"""The log of a model: frames in append-only segments, one frame for each group of events.

A frame is written with one call, synchronised to disk, and only then are its events acknowledged.
Its checksum covers the whole group, so what a crash leaves of an unfinished group is one bad frame
at the very end, which is cut off. A bad frame with a good one behind it had been acknowledged:
that is damage, and opening the log fails with its place.

.. code-block:: text

   segment  00000000000000000001.log, named after its first event: MAGIC, SALT random bytes, frames
   frame    FRAME: mark, length of the body, CRC-32 of the salt and all that follows it, number
            of the first event, number of events, time; then the body: records
   record   RECORD: kind, encoding, number of events, length of the payload; then the payload
   end      the number of the next event, twice: as it is, and with all bits flipped

The file ``end`` is for processes that read the log while it is written (`Tail`): a frame that they
see may not be on disk yet, and may be taken back. It is written after each frame is on disk.

Without the salt, a client could send a whole frame as its payload, which would look like a good
frame behind a bad one.
"""

from __future__ import annotations

import errno
import os
import secrets
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from sonline.errors import SonlineError

MAGIC = b"sonline log 1\n\0\0"
SALT = 8
HEADER = len(MAGIC) + SALT
MARK = b"\xa5\x5a\xf0\x0f"
FRAME = struct.Struct("<4sIIQId")
RECORD = struct.Struct("<BBII")
_CHECKED = 12  # bytes of a frame before those that the checksum covers
SUFFIX = ".log"
END = struct.Struct("<QQ")
_FLIP = (1 << 64) - 1
Writer: TypeAlias = Callable[[int, bytes | memoryview], int]

LEARN, KEEP = 1, 2  # rows with labels; rows whose labels are waited for
LINES, ARROW = 1, 2  # encodings of payloads: JSON lines, Arrow IPC


class LogError(SonlineError):
    """The log is damaged, or cannot be written."""


class DiskFullError(LogError):
    """There was no room for a group; nothing of it was kept."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """Some events of one request."""

    kind: int
    encoding: int
    count: int
    payload: bytes
    seq: int = 0  # the number of its first event, counted from 1
    time: float = 0.0

    @property
    def end(self) -> int:
        """The number of the event after its last one."""
        return self.seq + self.count


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
        Made if it is not there. One process at a time may write.
    segment_bytes : int
        A new segment begins when the last one is larger.
    write : callable
        Writes bytes to a file; to be replaced by tests of full and slow disks.
    sync : callable
        Brings a file to disk.

    Raises
    ------
    LogError
        If a segment is damaged anywhere but at the end of the log.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
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
        return max((one.time for one in self.segments), default=0.0)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(one.size for one in self.segments)

    def append(self, records: Sequence[Record], time: float) -> int:
        """Write a group and bring it to disk; the number of its first event.

        Raises
        ------
        DiskFullError, LogError
            If that was not possible; then nothing of the group is kept.
        """
        body = b"".join(
            part
            for one in records
            for part in (
                RECORD.pack(one.kind, one.encoding, one.count, len(one.payload)),
                one.payload,
            )
        )
        count = sum(one.count for one in records)
        first = self.next
        try:
            segment = self._room()
            frame = FRAME.pack(MARK, len(body), 0, first, count, time)
            checksum = _checksum(segment.salt, frame, body)
            frame = FRAME.pack(MARK, len(body), checksum, first, count, time) + body
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
        """Tell readers how far the log is on disk; if that fails they wait for the next time."""
        with suppress(OSError):
            if self._end is None:
                self._end = os.open(_end_of(self.folder), os.O_WRONLY | os.O_CREAT, 0o600)
            os.pwrite(self._end, END.pack(self.next, self.next ^ _FLIP), 0)

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
        # What a failed attempt left has no frame in it.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        handle = os.open(path, flags, 0o600)
        try:
            salt = secrets.token_bytes(SALT)
            _write_all(self._write, handle, MAGIC + salt)
            self._sync(handle)
            _sync_folder(self.folder)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        segment = Segment(path, self.next, HEADER, self.next, salt)
        with self._lock:
            self.segments.append(segment)
        return segment

    def _withdraw(self) -> None:
        """Take back what was written of a group; if that fails it is done before the next one."""
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
        """Yield the records that hold events from a number on, up to another one.

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
            for _, frame, body in _frames(segment.path, segment.first, segment.size):
                for record in _records(frame, body):
                    if end is not None and record.seq >= end:
                        return
                    if record.end > start:
                        yield record

    def drop_before(self, seq: int, *, keep_bytes: int, older_than: float | None) -> int:
        """Remove segments that hold only events before a number; how many were removed.

        As many as are needed to come down to ``keep_bytes``, and those whose last event is older
        than a time.
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
                for place, (_, _, _, seq, count, time), body in _frames(path, first):
                    segment.size = place + FRAME.size + len(body)
                    segment.end, segment.time = seq + count, time
            except _BadFrameError as bad:
                if path != paths[-1] or _good_frame_after(segment, bad.place):
                    raise LogError(
                        f"{path}: damaged at byte {bad.place}, after event {segment.end - 1}, with "
                        "good events behind it; restore the file from a copy"
                    ) from None
                self.cut = path.stat().st_size - segment.size
                if not bad.place:  # the file had just been made
                    path.unlink()
                    break
                with path.open("r+b") as file:
                    file.truncate(segment.size)
                    os.fsync(file.fileno())
            segments.append(segment)
        return segments


class Tail:
    """Reads a log that another process writes, up to what is on disk.

    Parameters
    ----------
    folder : Path
        Of the log.
    start : int
        The number of the first event to read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> log, tail = Log(folder), Tail(folder, 1)
    >>> list(tail.read())
    []
    >>> log.append([Record(LEARN, LINES, 2, b"two rows")], time=1.0)
    1
    >>> [record.payload for record in tail.read()], tail.next
    ([b'two rows'], 3)
    >>> tail.close()
    >>> log.close()
    """

    def __init__(self, folder: Path, start: int) -> None:
        self.folder = folder
        self.next = start  # the number of the next event to read
        self._file: BinaryIO | None = None
        self._salt = b""
        self._expected = 0  # the number of the first event of the next frame

    def end(self) -> int:
        """Return the number of the event after the last one on disk.

        Raises
        ------
        LogError
            If there is no log, or it ends before events that were read: another one is there.
        """
        try:
            with _end_of(self.folder).open("rb", buffering=0) as file:
                for _ in range(100):  # a number that is just being written is read again
                    number, flipped = END.unpack(os.pread(file.fileno(), END.size, 0))
                    if number == flipped ^ _FLIP:
                        break
                else:
                    raise LogError(f"{self.folder}: the end of the log cannot be read")
        except (FileNotFoundError, struct.error):
            raise LogError(f"{self.folder}: there is no log yet; start the writer") from None
        if number < self.next:
            raise LogError(
                f"{self.folder}: events up to {self.next - 1} were read, the log ends with "
                f"{number - 1}; was it restored from a copy?"
            )
        return int(number)

    def read(self) -> Iterator[Record]:
        """Yield the records that came since the last call.

        Raises
        ------
        LogError
            If they are damaged, or no longer in the log.
        """
        end = self.end()
        while self.next < end:
            if self._file is None:
                self._open()
            assert self._file is not None  # noqa: S101 - opened above
            try:
                frame = _read_frame(self._file, self._salt, self._expected)
            except _BadFrameError as bad:
                raise LogError(f"{self._file.name}: damaged at byte {bad.place}") from None
            if frame is None:  # the log goes on in another segment
                self.close()
                continue
            head, body = frame
            self._expected = head[3] + head[4]
            for record in _records(head, body):
                if record.end > self.next:
                    yield record
            self.next = max(self.next, self._expected)

    def _open(self) -> None:
        """Open the segment with the next event."""
        paths = sorted(
            path for path in self.folder.glob(f"*{SUFFIX}") if int(path.stem) <= self.next
        )
        if not paths or (self._expected and int(paths[-1].stem) != self._expected):
            raise LogError(f"{self.folder}: event {self.next} is no longer in the log")
        # Unbuffered: bytes behind the last frame may be taken back and written again.
        file: BinaryIO = paths[-1].open("rb", buffering=0)
        try:
            self._salt = _read_header(file)
        except _BadFrameError:
            file.close()
            raise LogError(f"{paths[-1]}: damaged at byte 0") from None
        self._file, self._expected = file, int(paths[-1].stem)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class _BadFrameError(LogError):
    def __init__(self, place: int) -> None:
        super().__init__(f"no frame at byte {place}")
        self.place = place


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_Head = tuple[bytes, int, int, int, int, float]


def _frames(path: Path, first: int, size: int | None = None) -> Iterator[tuple[int, _Head, bytes]]:
    """Yield place, head and body of the frames of a segment, up to a size, all checked."""
    expected = first
    with path.open("rb") as file:
        salt = _read_header(file)
        place = HEADER
        while size is None or place < size:
            frame = _read_frame(file, salt, expected)
            if frame is None:
                return
            head, body = frame
            yield place, head, body
            place += FRAME.size + len(body)
            expected = head[3] + head[4]


def _read_header(file: BinaryIO) -> bytes:
    """Return the salt of a segment."""
    header = file.read(HEADER)
    if len(header) < HEADER or not header.startswith(MAGIC):
        raise _BadFrameError(0)
    return header[len(MAGIC) :]


def _read_frame(file: BinaryIO, salt: bytes, expected: int) -> tuple[_Head, bytes] | None:
    """Return head and body of the next frame, checked; None at the end of the file."""
    place = file.tell()
    head = file.read(FRAME.size)
    if not head:
        return None
    if len(head) < FRAME.size:
        raise _BadFrameError(place)
    frame = FRAME.unpack(head)
    mark, length, checksum, seq, _, _ = frame
    if mark != MARK or seq != expected or length > os.fstat(file.fileno()).st_size:
        raise _BadFrameError(place)
    body = file.read(length)
    if len(body) < length or _checksum(salt, head, body) != checksum:
        raise _BadFrameError(place)
    return frame, body


def _write_all(write: Writer, handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[write(handle, rest) :]


def _salt(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEADER)[len(MAGIC) :]


def _checksum(salt: bytes, head: bytes, body: bytes | memoryview) -> int:
    return zlib.crc32(body, zlib.crc32(head[_CHECKED : FRAME.size], zlib.crc32(salt)))


def _good_frame_after(segment: Segment, place: int) -> bool:
    """Return whether a whole frame with later events stands anywhere behind a place."""
    data = segment.path.read_bytes()
    found = place
    while (found := data.find(MARK, found + 1)) >= 0:
        head = data[found : found + FRAME.size]
        if len(head) < FRAME.size:
            return False
        _, length, checksum, seq, _, _ = FRAME.unpack(head)
        end = found + FRAME.size + length
        if seq >= segment.end and end <= len(data):
            body = memoryview(data)[found + FRAME.size : end]
            if _checksum(segment.salt, head, body) == checksum:
                return True
    return False


def _records(frame: _Head, body: bytes) -> Iterator[Record]:
    seq, time = frame[3], frame[5]
    place = 0
    while place < len(body):
        kind, encoding, count, length = RECORD.unpack_from(body, place)
        place += RECORD.size
        yield Record(kind, encoding, count, body[place : place + length], seq, time)
        place += length
        seq += count


def _end_of(folder: Path) -> Path:
    return folder / "end"


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
