"""Files that commands write: none over what is read, and errors that name them."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO, Any, cast

from sonline.errors import ParameterError
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
    """Raise an error if something is to be written over what is read, or twice to one file."""
    read = [name for name in expand(data) if os.path.isfile(name)]  # noqa: PTH113 - may be remote
    written: dict[Path, str] = {}
    for name, path in outputs.items():
        if path is None or str(path) == "-" or (path.exists() and not path.is_file()):
            continue
        flag = f"--{name.replace('_', '-')}"
        if any(path.exists() and path.samefile(other) for other in read):
            raise ParameterError(f"{flag} {path}: this file is read; name another one")
        place = path.absolute()
        if place in written:
            raise ParameterError(f"{flag} {path}: {written[place]} is the same file")
        if not place.parent.is_dir():
            raise ParameterError(f"{flag} {path}: there is no folder {place.parent}; make it")
        written[place] = flag
