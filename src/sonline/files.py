"""Files that replace older ones atomically, without leftovers.

A file is written under a temporary name in the same folder, and renamed. The writer holds a lock on
it, which distinguishes files being written from leftovers of killed processes; those are removed.
"""

from __future__ import annotations

import fcntl
import glob
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_SUFFIX = ".part"


@contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` when all of it has been written.

    A symbolic link stays: the file that it points to is replaced. Pipes, character devices and
    open streams (``/dev/stdout``) are written into.

    Parameters
    ----------
    path : path-like
        The file; an existing one is replaced.
    durable : bool, default=True
        Whether to wait until the content is on disk, so that it is complete even after a power
        failure. False is for files that can be made again and whose content is checked.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sonline.files import replacing
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> with replacing(path) as file:
    ...     _ = file.write(b"all of it")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'all of it'
    """
    if not is_replaced(path):
        try:
            number = open_stream(path)
            with open(path if number is None else os.dup(number), "wb", buffering=0) as device:  # noqa: PTH123
                yield device
        except OSError as error:
            if error.errno and error.filename is None:
                raise OSError(error.errno, error.strerror, os.fspath(path)) from error
            raise
        return
    target = _target(path)
    _remove_leftovers(target)
    part, file = _begin(target)
    try:
        with file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            part.replace(target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(part)):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    if durable:
        with suppress(OSError):  # a file system that cannot synchronize folders
            sync_folder(target.parent)


def open_stream(path: str | os.PathLike[str]) -> int | None:
    """Return the number of the stream that a name such as /dev/stdout stands for; None for others.

    To open such a name would start at the beginning of the file behind it, and not at its end.

    Examples
    --------
    >>> from sonline.files import open_stream
    >>> open_stream("/dev/stdout"), open_stream("/dev/fd/3"), open_stream("a.txt")
    (1, 3, None)
    """
    found = re.fullmatch(r"/dev/(?:fd/(\d{1,9})|(stdout)|stderr)", os.fspath(path))
    if found is None:
        return None
    return int(found[1]) if found[1] else 1 if found[2] else 2


def is_replaced(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is replaced (or created), rather than written into.

    Raises
    ------
    OSError
        If it can be neither.
    """
    if open_stream(path) is not None:
        return False
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; name a file")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise OSError(f"{os.fspath(path)} is a disk or a socket; name a file")
    return stat.S_ISREG(mode)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an error now if `replacing` would fail later.

    Raises
    ------
    OSError
        If it is a folder, its folder is missing, or nothing can be written there.
    """
    if not is_replaced(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{os.fspath(path)} cannot be written")
        return
    target = _target(path)
    try:
        part, file = _begin(target)
    except OSError as error:
        raise type(error)(
            f"{os.fspath(path)}: cannot be written there: {error.strerror or error}"
        ) from error
    part.unlink(missing_ok=True)
    file.close()


def _target(path: str | os.PathLike[str]) -> Path:
    """Return the file to replace, without links; raise an error if its folder is missing."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{os.fspath(path)}: there is no folder {target.parent}; make it")
    return target


def _begin(target: Path) -> tuple[Path, IO[bytes]]:
    """Make the file that becomes the target, and lock it."""
    while True:
        part = target.with_name(f".{target.name}.{os.urandom(8).hex()}{_SUFFIX}")
        file = part.open("x+b")
        with suppress(OSError):  # a file system without locks: leftovers stay
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_nlink:
            return part, file
        file.close()  # removed by another process, before it was locked


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of killed processes: those without a lock."""
    for part in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 16}{_SUFFIX}"):
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def sync_folder(folder: Path) -> None:
    """Make the names of new files durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def discard_output(stream: Any) -> None:
    """Discard all further output to a stream whose reader has gone."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
