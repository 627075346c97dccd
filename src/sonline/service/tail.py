"""The reader of a log that another process writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sonline.service.frames import (
    SUFFIX,
    BadFrameError,
    LogError,
    Record,
    read_end,
    read_frame,
    read_header,
    records,
)


class Tail:
    """Reads the events on disk of a log that another process writes.

    Parameters
    ----------
    folder : Path
        Folder of the log.
    start : int
        The number of the first event to read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sonline.service.frames import LEARN, LINES, Record
    >>> from sonline.service.log import Log
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
            If there is no log, or it ends before events that were read: it is another log.
        """
        number = read_end(self.folder)
        if number < self.next:
            raise LogError(
                f"{self.folder}: events up to {self.next - 1} were read, the log ends with "
                f"{number - 1}; was it restored from a copy?"
            )
        return number

    def read(self) -> Iterator[Record]:
        """Yield the records that are new since the last call.

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
                frame = read_frame(self._file, self._salt, self._expected)
            except BadFrameError as bad:
                raise LogError(f"{self._file.name}: damaged at byte {bad.offset}") from None
            if frame is None:  # the log continues in another segment
                self.close()
                continue
            head, body = frame
            self._expected = head.end
            for record in records(head, body):
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
        # Unbuffered: bytes after the last frame may be withdrawn and written again.
        file: BinaryIO = paths[-1].open("rb", buffering=0)
        try:
            self._salt = read_header(file)
        except BadFrameError:
            file.close()
            raise LogError(f"{paths[-1]}: damaged at byte 0") from None
        self._file, self._expected = file, int(paths[-1].stem)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
