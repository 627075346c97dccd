"""Files that commands write: none over what is read, and errors that name them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self, cast

from sonline.errors import ParameterError
from sonline.files import check_writable, is_replaced
from sonline.streams.sources import expand

STDOUT = "-"


class _Named(io.FileIO):
    """A file whose errors on writing say which it is, such as on a full disk."""

    def write(self, data: Any) -> int:
        """Write bytes."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self.name if isinstance(self.name, str) else "standard output"
            raise


def open_output(path: Path, mode: str = "wb") -> IO[bytes]:
    """Open a file to be written, or a copy of standard output for "-"."""
    if str(path) == STDOUT:
        return cast(IO[bytes], io.BufferedWriter(_Named(os.dup(1), "wb")))
    return cast(IO[bytes], io.BufferedWriter(_Named(os.fspath(path), mode)))


def check_outputs(data: list[str], **outputs: Path | None) -> None:
    """Raise an error if an output cannot be written, is read, or is named twice.

    Nothing is worse than to find it out when all rows have been learned.
    """
    read = [name for name in expand(data) if os.path.isfile(name)]  # noqa: PTH113 - may be remote
    written: dict[str, str] = {}
    for name, path in outputs.items():
        if path is None or str(path) == STDOUT:
            continue
        flag = f"--{name.replace('_', '-')}"
        if path.is_file() and any(path.samefile(other) for other in read):
            raise ParameterError(f"{flag} {path}: this file is read; name another one")
        place = os.path.realpath(path)
        if place in written and is_replaced(path):
            raise ParameterError(f"{flag} {path}: {written[place]} is the same file")
        written[place] = flag
        try:
            check_writable(path)
        except OSError as error:
            raise type(error)(f"{flag} {error}") from None


class GrowingFiles:
    """Files that grow during a run, and that a later run cuts to where it goes on from.

    Parameters
    ----------
    paths : dict
        The files by what they hold; None where it is not wanted.
    say : callable
        What takes messages for people.
    """

    def __init__(self, paths: dict[str, Path | None], say: Callable[[str], None]) -> None:
        self.lengths: dict[str, int] = {}  # in bytes, to be kept with the state of the run
        self._paths = {name: path for name, path in paths.items() if path is not None}
        self._say = say
        self._files: dict[str, IO[bytes]] = {}
        self._broken: set[str] = set()  # pipes whose readers have gone

    def __enter__(self) -> Self:
        try:
            for name, path in self._paths.items():
                self._files[name] = _grow(path, self.lengths.setdefault(name, 0))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all of them."""
        for file in self._files.values():
            with suppress(BrokenPipeError):
                file.close()

    def write(self, name: str, data: bytes) -> None:
        """Write on, where it is wanted; if nobody reads a pipe any more, say so and go on."""
        if name not in self._files or name in self._broken:
            return
        try:
            self._files[name].write(data)
            self._files[name].flush()
        except BrokenPipeError:
            self._broken.add(name)
            self._say(f"nobody reads {name} any more: the rest of them is left out")
        self.lengths[name] += len(data)

    def sync(self) -> None:
        """Let all that was written reach the disk."""
        for name, file in self._files.items():
            if name in self._broken:
                continue
            file.flush()
            with suppress(OSError):  # a pipe
                os.fsync(file.fileno())


def _grow(path: Path, length: int) -> IO[bytes]:
    """Open a file to be written on after so many bytes."""
    file = open_output(path, "r+b" if path.exists() else "wb")
    if path.is_file() and str(path) != STDOUT:
        file.truncate(length)
        file.seek(length)
    return file
