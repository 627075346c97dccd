"""The files of a log: frames in segments, one frame for each group of events.

.. code-block:: text

   segment  00000000000000000001.log, named after its first event: MAGIC, SALT random bytes, frames
   frame    FRAME: mark, length of the body, CRC-32 of the salt and of everything after the CRC,
            number of the first event, number of events, time; then the body: records
   record   RECORD: kind, encoding, number of events, length of the payload; then the payload
   end      the number of the next event, twice: as it is, and with all bits flipped

The salt keeps clients from forging frames: without it, a payload that holds a complete frame would
look like a good frame after a damaged one.

The file ``end`` is for processes that read the log while it is written. A frame in a segment may
not be on disk yet, and may be withdrawn; ``end`` is written after the frame is on disk.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from sonline.errors import SonlineError

MAGIC = b"sonline log 1\n\0\0"
SALT = 8
HEADER = len(MAGIC) + SALT
MARK = b"\xa5\x5a\xf0\x0f"
FRAME = struct.Struct("<4sIIQId")
RECORD = struct.Struct("<BBII")
SUFFIX = ".log"
_CHECKED = 12  # bytes of a frame before those that the checksum covers
_END = struct.Struct("<QQ")
_FLIP = (1 << 64) - 1

LEARN, KEEP = 1, 2  # rows with labels; rows that wait for their labels
LINES, ARROW = 1, 2  # encodings of payloads: JSON lines, Arrow IPC


class LogError(SonlineError):
    """The log is damaged, or cannot be written."""


class BadFrameError(LogError):
    """There is no good frame at this offset."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"no frame at byte {offset}")
        self.offset = offset


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


class Head(NamedTuple):
    """The head of a frame."""

    mark: bytes
    length: int
    checksum: int
    seq: int  # the number of its first event
    events: int
    time: float

    @property
    def end(self) -> int:
        """The number of the event after its last one."""
        return self.seq + self.events


def pack(records: Sequence[Record], salt: bytes, seq: int, time: float) -> bytes:
    """Return a group of records as a frame."""
    body = b"".join(
        part
        for record in records
        for part in (
            RECORD.pack(record.kind, record.encoding, record.count, len(record.payload)),
            record.payload,
        )
    )
    count = sum(record.count for record in records)
    head = FRAME.pack(MARK, len(body), 0, seq, count, time)
    return FRAME.pack(MARK, len(body), checksum(salt, head, body), seq, count, time) + body


def checksum(salt: bytes, head: bytes, body: bytes | memoryview) -> int:
    """Return the checksum of a frame."""
    return zlib.crc32(body, zlib.crc32(head[_CHECKED : FRAME.size], zlib.crc32(salt)))


def read_header(file: BinaryIO) -> bytes:
    """Return the salt of a segment."""
    header = file.read(HEADER)
    if len(header) < HEADER or not header.startswith(MAGIC):
        raise BadFrameError(0)
    return header[len(MAGIC) :]


def read_frame(file: BinaryIO, salt: bytes, expected: int) -> tuple[Head, bytes] | None:
    """Return head and body of the next frame, checked; None at the end of the file."""
    offset = file.tell()
    data = file.read(FRAME.size)
    if not data:
        return None
    if len(data) < FRAME.size:
        raise BadFrameError(offset)
    head = Head(*FRAME.unpack(data))
    if head.mark != MARK or head.seq != expected:
        raise BadFrameError(offset)
    if head.length > os.fstat(file.fileno()).st_size:
        raise BadFrameError(offset)
    body = file.read(head.length)
    if len(body) < head.length or checksum(salt, data, body) != head.checksum:
        raise BadFrameError(offset)
    return head, body


def frames(path: Path, first: int, size: int | None = None) -> Iterator[tuple[int, Head, bytes]]:
    """Yield offset, head and body of the frames of a segment, up to a size, all checked."""
    expected, offset = first, HEADER
    with path.open("rb") as file:
        salt = read_header(file)
        while size is None or offset < size:
            frame = read_frame(file, salt, expected)
            if frame is None:
                return
            head, body = frame
            yield offset, head, body
            offset += FRAME.size + len(body)
            expected = head.end


def good_frame_after(path: Path, salt: bytes, offset: int, seq: int) -> bool:
    """Return whether there is a whole frame, with events from a number on, after an offset."""
    data = path.read_bytes()
    while (offset := data.find(MARK, offset + 1)) >= 0:
        start = offset + FRAME.size
        if start > len(data):
            return False
        head = Head(*FRAME.unpack(data[offset:start]))
        end = start + head.length
        if head.seq >= seq and end <= len(data):
            body = memoryview(data)[start:end]
            if checksum(salt, data[offset:start], body) == head.checksum:
                return True
    return False


def records(head: Head, body: bytes) -> Iterator[Record]:
    """Yield the records of a frame."""
    seq, offset = head.seq, 0
    while offset < len(body):
        kind, encoding, count, length = RECORD.unpack_from(body, offset)
        offset += RECORD.size
        yield Record(kind, encoding, count, body[offset : offset + length], seq, head.time)
        offset += length
        seq += count


def end_of(folder: Path) -> Path:
    """Return the file with the number of the next event."""
    return folder / "end"


def write_end(handle: int, number: int) -> None:
    """Write the number of the next event."""
    os.pwrite(handle, _END.pack(number, number ^ _FLIP), 0)


def read_end(folder: Path) -> int:
    """Return the number of the event after the last one on disk.

    Raises
    ------
    LogError
        If there is no log, or the number cannot be read.
    """
    try:
        with end_of(folder).open("rb", buffering=0) as file:
            for _ in range(100):  # read again while it is being written
                number, flipped = _END.unpack(os.pread(file.fileno(), _END.size, 0))
                if number == flipped ^ _FLIP:
                    return int(number)
    except (FileNotFoundError, struct.error):
        raise LogError(f"{folder}: there is no log yet; start the writer") from None
    raise LogError(f"{folder}: the end of the log cannot be read")
