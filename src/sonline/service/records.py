"""What the file of a model holds: records of events, versions, and the number of the next event."""

from __future__ import annotations

import os
import re
import struct
import zlib
from itertools import count
from pathlib import Path

import msgspec

from sonline.errors import InvalidInputError, SonlineError

NAME = "[a-z0-9][a-z0-9_-]{0,62}"  # of a model
CHAMPION, SHADOW = "champion", "shadow"
LEARN, KEEP = 1, 2  # rows with labels; rows that wait for their labels
AS_LINES, AS_ARROW = 1, 2  # encodings of payloads: JSON lines, Arrow IPC
_HEAD = struct.Struct("<qqqqd")
_END = struct.Struct("<16sQ")


class StoreError(SonlineError):
    """A file of the service is damaged or lost, or cannot be read or written.

    Parameters
    ----------
    path : Path
        The file.
    why : str
        What is wrong, after the path.
    advice : str, optional
        What to do.

    Examples
    --------
    >>> error = StoreError(Path("data/models/clicks.db"), " is missing", "restore it")
    >>> print(error)
    data/models/clicks.db is missing; restore it
    >>> error.brief
    'clicks.db is missing'
    """

    def __init__(self, path: Path, why: str, advice: str = "") -> None:
        super().__init__(path, why, advice)

    def __str__(self) -> str:
        path, why, advice = self.args
        return f"{path}{why}; {advice}" if advice else f"{path}{why}"

    @property
    def brief(self) -> str:
        """The message for clients, which names no folder."""
        return f"{self.args[0].name}{self.args[1]}"


class DamagedError(StoreError):
    """A file is lost, damaged, or holds fewer events than were acknowledged."""


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


class Version(msgspec.Struct):
    """A version of a model: its role and its origin."""

    version: int
    role: str
    origin: str
    created: float
    start: int  # the first event that it learns


class Snapshot(msgspec.Struct, frozen=True):
    """A model file in the database."""

    version: int
    next: int  # the first event that it has not learned
    keep_from: int  # the first event that is needed to restore the ids
    parts: int


class About(msgspec.Struct):
    """What the database knows about its model."""

    id: str
    created: float
    first: int = 1  # the number of the first event that is still here
    next_version: int = 1
    previous: int | None = None  # the champion before this one
    versions: list[Version] = []
    snapshots: list[Snapshot] = []  # the oldest first
    lost: list[tuple[int, int]] = []  # events that are missing: the first, and the next one here
    changes: list[tuple[float, str]] = []  # of versions: when, and what


def check_name(name: str) -> str:
    """Return the name of a model, which is also the name of its file.

    Examples
    --------
    >>> check_name("clicks-2")
    'clicks-2'
    """
    if not re.fullmatch(NAME, name):
        raise InvalidInputError(
            f"the name of a model has 1 to 63 of a-z, 0-9, - and _, and begins with a letter or "
            f"digit; got {name[:80]!r}"
        )
    return name


def brief(error: BaseException) -> str:
    """Return why something failed, for clients: without folders, which are for the log."""
    if isinstance(error, StoreError):
        return error.brief
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


class End:
    """The file that holds the number of the next event, whatever happens to the database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def write(self, owner: str, number: int, durable: bool = False) -> None:
        """Write the number, which survives a kill; if it is durable, also a power failure."""
        if self._handle is None:
            self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        data = _END.pack(owner.encode(), number)
        os.pwrite(self._handle, data + zlib.crc32(data).to_bytes(4, "little"), 0)
        if durable:
            os.fsync(self._handle)

    def read(self) -> tuple[str, int]:
        """Return the id of the database and the number; an empty id if there is none."""
        data = self.path.read_bytes() if self.path.is_file() else b""
        head, checksum = data[: _END.size], data[_END.size :]
        if len(head) < _END.size or zlib.crc32(head).to_bytes(4, "little") != checksum:
            return "", 0
        owner, number = _END.unpack(head)
        return owner.decode(), int(number)

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def checksum_of(  # noqa: PLR0917 - as they are stored
    seq: int, count: int, kind: int, encoding: int, time: float, payload: bytes
) -> int:
    """Return the checksum of a record."""
    return zlib.crc32(payload, zlib.crc32(_HEAD.pack(seq, count, kind, encoding, time)))


def set_aside(path: Path) -> None:
    """Rename a file that is there, so that it is kept and no longer used."""
    if path.exists():
        path.rename(next(new for n in count(1) if not (new := Path(f"{path}.lost-{n}")).exists()))
