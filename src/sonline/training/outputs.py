"""Files that are written during a run: predictions, bad rows and checkpoints."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self, cast

from sonline.errors import ParameterError
from sonline.files import check_writable, is_replaced, open_stream
from sonline.streams.sources import expand

STDOUT = "-"


def check_outputs(data: Sequence[str], outputs: Mapping[str, Path | None]) -> None:
    """Raise an error if an output cannot be written, is also an input, or is named twice.

    Parameters
    ----------
    data : sequence of str
        The files that are read.
    outputs : mapping
        From the option, as the user knows it, to the file that it names.
    """
    read = [name for name in expand(data) if os.path.isfile(name)]  # noqa: PTH113 - may be remote
    written: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None or str(path) == STDOUT:
            continue
        if path.is_file() and any(path.samefile(other) for other in read):
            raise ParameterError(f"{option} {path}: this file is read; name another one")
        target = os.path.realpath(path)
        if target in written and is_replaced(path):
            raise ParameterError(f"{option} {path}: {written[target]} is the same file")
        written[target] = option
        try:
            check_writable(path)
        except OSError as error:
            raise type(error)(f"{option} {error}") from None


def check_checkpoint(option: str, path: Path | None) -> None:
    """Raise an error if training could not resume from this file."""
    if path is not None and not is_replaced(path):
        raise ParameterError(
            f"{option} {path}: training cannot resume from a pipe or device; name a file"
        )


def best_of(checkpoint: Path) -> Path:
    """Return the file for the best model so far, beside a checkpoint."""
    return checkpoint.with_name(checkpoint.name + ".best")


class _Named(io.FileIO):
    """A file whose errors, such as a full disk, name it."""

    def write(self, data: Any) -> int:
        """Write bytes."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self.name if isinstance(self.name, str) else "standard output"
            raise


def open_output(path: Path, mode: str = "wb") -> IO[bytes]:
    """Open a file for writing; "-" and the names of open streams are copies of these streams."""
    number = 1 if str(path) == STDOUT else open_stream(path)
    if number is not None:
        return cast(IO[bytes], io.BufferedWriter(_Named(os.dup(number), "wb")))
    return cast(IO[bytes], io.BufferedWriter(_Named(os.fspath(path), mode)))


class GrowingFiles:
    """Files that grow during a run, by their content; None for files that are not written.

    A resumed run cuts them to the length that they had at the checkpoint.
    """

    def __init__(self, paths: dict[str, Path | None], say: Callable[[str], None]) -> None:
        self.lengths: dict[str, int] = {}  # in bytes; stored with the state of the run
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

    def resume(self, lengths: Mapping[str, int]) -> None:
        """Continue files after these lengths, or at their end if they were complete."""
        for name, path in self._paths.items():
            if name in lengths:
                self.lengths[name] = lengths[name]
            elif path.is_file() and open_stream(path) is None:
                self.lengths[name] = path.stat().st_size

    def write(self, name: str, data: bytes) -> None:
        """Append to a file; if the reader of a pipe is gone, report it and continue."""
        if name not in self._files or name in self._broken:
            return
        try:
            self._files[name].write(data)
            self._files[name].flush()
        except BrokenPipeError:
            self._broken.add(name)
            self._say(f"the reader of {name} is gone: the rest is not written")
        self.lengths[name] += len(data)

    def sync(self) -> None:
        """Flush all files to disk."""
        for name, file in self._files.items():
            if name in self._broken:
                continue
            file.flush()
            with suppress(OSError):  # a pipe
                os.fsync(file.fileno())


def _grow(path: Path, length: int) -> IO[bytes]:
    """Open a file to append to after its first ``length`` bytes."""
    file = open_output(path, "r+b" if path.exists() else "wb")
    if path.is_file() and str(path) != STDOUT and open_stream(path) is None:
        file.truncate(length)
        file.seek(length)
    return file
