"""Sources as files: for the readers of pyarrow, and to detect the format of a pipe."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sonline.streams.sources import Source

_PIECE = 1 << 13  # compressed bytes per read, because the decompressed bytes must fit in memory


class Readable(io.RawIOBase):
    """A file to be read."""

    def readable(self) -> bool:
        """Return True."""
        return True


class SourceFile(Readable):
    """The decompressed bytes of a source as a file; errors about damage name the source."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; pyarrow takes fewer bytes for the end of the file."""
        count = 0
        while count < len(buffer) and (chunk := self._source.read(len(buffer) - count)):
            buffer[count : count + len(chunk)] = chunk
            count += len(chunk)
        return count


class Frames(Readable):
    """The decompressed bytes of compressed frames; a file that ends within a frame is an error.

    The reader of zstandard would take the end of the file for the end of the frame.
    """

    def __init__(self, file: Any, begin: Callable[[], Any]) -> None:
        self._file = file
        self._begin = begin  # returns a decompressor for one frame
        self._frame: Any = None
        self._packed = b""
        self._plain = memoryview(b"")

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the bytes that are available."""
        while not self._plain:
            packed = self._packed or self._file.read1(_PIECE)
            if not packed:
                if self._frame is not None:
                    raise EOFError("it ends within a frame")
                return 0
            self._frame = self._frame or self._begin()
            self._plain = memoryview(self._frame.decompress(packed))
            self._packed = b""
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._plain))
        buffer[:count], self._plain = self._plain[:count], self._plain[count:]
        return count


class SniffedFile(Readable):
    """A file whose first read returns enough bytes to detect its format.

    The first read of a pipe may return a single byte.
    """

    def __init__(self, file: Any, is_enough: Callable[[bytes], bool]) -> None:
        self._file = file
        self._read = getattr(file, "readinto1", file.readinto)  # returns the bytes available so far
        self._is_enough: Callable[[bytes], bool] | None = is_enough

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the bytes that are available."""
        count = int(self._read(buffer) or 0)
        if self._is_enough is not None:
            view, more = memoryview(buffer), count
            while more and count < len(view) and not self._is_enough(bytes(view[:count])):
                more = int(self._read(view[count:]) or 0)
                count += more
            self._is_enough = None
        return count

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()
