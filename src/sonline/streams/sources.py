"""Sources of bytes: files, globs, standard input and URLs; their compression and format."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import hashlib
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any, cast
from urllib.parse import unquote

from sonline.errors import DataFormatError, InvalidInputError, ParameterError, SonlineError
from sonline.streams.files import Frames, SniffedFile
from sonline.streams.formats import FORMATS, by_line, by_magic, by_suffix

STDIN = "-"

_COMPRESSED_SUFFIXES = {
    ".gz": "gzip",
    ".bgz": "gzip",
    ".bz2": "bz2",
    ".xz": "xz",
    ".zst": "zstd",
    ".zstd": "zstd",
}
MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_SAMPLE = 1 << 16


def expand(sources: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the names of all files, with globs and folders expanded.

    Examples
    --------
    >>> expand(["-"])
    ['-']
    """
    names: list[str] = []
    for source in sources:
        name = os.fspath(source)
        if os.path.isdir(name):  # noqa: PTH112 - may be remote
            names += _in_folder(name)
        elif name == STDIN or is_remote(name) or os.path.exists(name):  # noqa: PTH110 - may be remote
            names.append(name)
        elif glob.has_magic(name):
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - absolute ones, too
            if not matches:
                raise FileNotFoundError(f"no file matches {name!r}")
            names += matches
        else:
            raise FileNotFoundError(f"no file {name!r}")
    if not names:
        raise ParameterError("name at least one file, or - for standard input")
    if names.count(STDIN) > 1:
        raise ParameterError("standard input (-) can be read once only")
    return names


def _in_folder(folder: str) -> list[str]:
    """Return the files of a folder, and of the folders in it, that have the suffix of a format."""
    files = []
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        files += [
            os.path.join(path, name)  # noqa: PTH118 - as it was written
            for name in sorted(names)
            if not name.startswith((".", "_")) and format_of_name(name)
        ]
    if not files:
        raise FileNotFoundError(
            f"{folder!r} is a folder without files of a known suffix ({_suffixes()}); rename its "
            "files, or name them one by one with format=NAME (--format NAME)"
        )
    return files


def _suffixes() -> str:
    return ", ".join(entry.suffixes[0] for entry in FORMATS.values())


def partitions(name: str) -> dict[str, str | None]:
    """Return the columns that the folders of a file stand for, as Hive and Spark write them.

    Examples
    --------
    >>> partitions("clicks/day=3/city=S%C3%A3o/part-0.parquet")
    {'day': '3', 'city': 'São'}
    """
    pairs = (part.partition("=") for part in PurePosixPath(name).parts[:-1] if "=" in part)
    return {
        unquote(key): None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
        for key, _, value in pairs
        if key
    }


def fingerprint(name: str, size: int | None = None) -> dict[str, Any] | None:
    """Return size and digest of a file, to recognise it later; None for pipes and URLs.

    Only the first ``size`` bytes count, so a file that has grown is still the same. The digest
    covers the start and the end of these bytes.
    """
    if not os.path.isfile(name):  # noqa: PTH113 - may be remote
        return None
    digest = hashlib.blake2b(digest_size=16)
    with open(name, "rb") as file:  # noqa: PTH123
        file_size = os.fstat(file.fileno()).st_size
        size = file_size if size is None else min(size, file_size)
        for start in (0, max(0, size - _SAMPLE)):
            file.seek(start)
            digest.update(file.read(min(_SAMPLE, size - start)))
    return {"size": size, "digest": digest.hexdigest()}


def is_remote(name: str) -> bool:
    """Return whether a name is a URL such as s3://bucket/file."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", name) is not None


@dataclass
class Source:
    """An open file: its raw bytes, and the decompressed (plain) bytes to read."""

    name: str
    raw: IO[bytes]
    plain: IO[bytes]
    compression: str | None
    failed: Exception | None = None  # the next read raises it

    @property
    def seekable(self) -> bool:
        """Whether any byte can be reached without reading those before it."""
        return self.compression is None and self.raw.seekable()

    def consumed(self) -> int:
        """Return how many raw bytes have been read."""
        try:
            return self.raw.tell()
        except (OSError, ValueError):
            return 0

    def close(self) -> None:
        """Close the file."""
        self.plain.close()
        self.raw.close()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, those of a pipe as soon as there are any; b"" at the end."""
        if self.failed is not None:
            raise self.failed
        pieces = [self._piece(size)]
        # Decompressors return a few kilobytes at a time, and a batch of a few rows is slow.
        while self.compression is not None and self.raw.seekable() and pieces[-1]:
            size -= len(pieces[-1])
            if size <= 0:
                break
            try:
                pieces.append(self._piece(size))
            except Exception as error:  # noqa: BLE001 - after the bytes before the damage
                self.failed = error
                break
        return b"".join(pieces) if len(pieces) > 1 else pieces[0]

    def _piece(self, size: int) -> bytes:
        with _reaching(self.name), self.named_damage():
            read1 = getattr(self.plain, "read1", self.plain.read)
            return cast(bytes, read1(size))

    @contextmanager
    def named_damage(self) -> Iterator[None]:
        """Turn errors about compressed data into an error that names the file."""
        try:
            yield
        except (EOFError, OSError, lzma.LZMAError, zlib.error, ValueError) as error:
            raise self._damaged(error) from error
        except Exception as error:
            if type(error).__name__ != "ZstdError":
                raise
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> Exception:
        if self.compression is None:
            return error
        return DataFormatError(
            f"the {self.compression} data is damaged or cut off ({error}); "
            "the rows before the damage have been read",
            file=self.name,
        )


def open_source(name: str) -> Source:
    """Open a file, a URL or standard input; compression is detected from the first bytes."""
    raw = _open_raw(name)
    if not raw.seekable():
        raw = cast(IO[bytes], SniffedFile(raw, _shows_compression_and_format))
    # A BufferedReader can peek at the first bytes, and its tell() is exact enough for progress.
    raw = cast(IO[bytes], io.BufferedReader(cast(Any, raw), _SAMPLE))
    with _reaching(name):
        head = cast(Any, raw).peek(8)
    compression = next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)
    return Source(name, raw, _decompressed(raw, compression), compression)


def guess_format(source: Source, columns: Collection[str] = ()) -> tuple[str, str]:
    """Return the format, and whether it was detected from the name or the content.

    A single word in the first line may be a label (svmlight) or the name of a column: it is that of
    a column if it is among those that are known.
    """
    named = format_of_name(source.name)
    if named:
        return named, "name"
    if source.compression is not None:
        sniffed: Any = SniffedFile(source.plain, _shows_format)
        source.plain = cast(IO[bytes], io.BufferedReader(sniffed, _SAMPLE))
    with _reaching(source.name), source.named_damage():
        sample = bytes(cast(Any, source.plain).peek(_SAMPLE))
    line = next(_content(sample.split(b"\n")), b"")
    if line.decode("utf-8", "replace").strip('"') in columns:
        return "csv", "content"
    return format_of_content(sample, source.name), "content"


def format_of_name(name: str) -> str | None:
    """Return the format of the suffix of a file; None if there is none.

    Examples
    --------
    >>> format_of_name("clicks.svm.gz")
    'svmlight'
    """
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
    while suffixes and suffixes[-1] in _COMPRESSED_SUFFIXES:
        suffixes.pop()
    return by_suffix(suffixes[-1]) if suffixes else None


def compression_of_name(name: str) -> str | None:
    """Return the compression of the suffix of a file; None if there is none.

    Examples
    --------
    >>> compression_of_name("clicks.svm.gz")
    'gzip'
    """
    return _COMPRESSED_SUFFIXES.get(PurePosixPath(name).suffix.lower())


def compressed(raw: IO[bytes], compression: str | None) -> IO[bytes]:
    """Return a file that writes compressed bytes to ``raw``; close it before ``raw``."""
    if compression is None:
        return raw
    if compression == "gzip":
        # Without a time in the header, the same rows give the same bytes.
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0))
    if compression == "bz2":
        return cast(IO[bytes], bz2.BZ2File(raw, "wb"))
    if compression == "xz":
        return cast(IO[bytes], lzma.LZMAFile(raw, "wb"))
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        raise ParameterError('zstd needs zstandard: pip install "sonline[arrow]"') from None
    return cast(IO[bytes], zstandard.ZstdCompressor().stream_writer(raw, closefd=False))


# First bytes of common files that cannot be read, with advice.
_NOT_READ = {
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save it as CSV",
    b"\xff\xfe": "UTF-16, expected UTF-8: convert it (iconv -f UTF-16 -t UTF-8 FILE)",
    b"\xfe\xff": "UTF-16, expected UTF-8: convert it (iconv -f UTF-16 -t UTF-8 FILE)",
}
_JSON_ARRAY = re.compile(rb"\[\s*([\[{]|$)")
_JSON_OBJECT = re.compile(rb"\{\s*$")  # that continues on the next line


def refuse_other_files(sample: bytes, name: str) -> None:
    """Raise an error about a file that starts like a spreadsheet, an archive or text in UTF-16."""
    for mark, advice in _NOT_READ.items():
        if sample.startswith(mark):
            raise DataFormatError(advice, file=name or None)
    if b"\0" in sample.partition(b"\n")[0] and by_magic(sample) is None:
        raise DataFormatError(
            "it has NUL bytes, so it is not text; if it is an archive (tar), unpack it",
            file=name or None,
            line=1,
        )


def format_of_content(sample: bytes, name: str = "") -> str:
    r"""Return the format of data from its first bytes.

    Examples
    --------
    >>> format_of_content(b"1 |user age:3\\n")
    'vw'
    """
    refuse_other_files(sample, name)
    line = next(_content(sample.split(b"\n")), b"")
    if _JSON_ARRAY.match(line):
        raise DataFormatError(
            "a JSON array, expected an object per line: convert it (jq -c '.[]' FILE)",
            file=name or None,
            line=1,
        )
    if _JSON_OBJECT.match(line):
        raise DataFormatError(
            "a JSON object over several lines, expected one per line: convert it (jq -c . FILE)",
            file=name or None,
            line=1,
        )
    kind = by_magic(sample) or by_line(line)
    if kind is not None:
        return kind
    raise DataFormatError(
        f"cannot detect the format; set it with format=NAME, --format NAME ({', '.join(FORMATS)})",
        file=name or None,
        line=1,
        text=line[:40].decode("utf-8", "replace"),
    )


def _content(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that are neither empty nor comments."""
    for line in lines:
        stripped = line.removeprefix(codecs.BOM_UTF8).strip()
        if stripped and not stripped.startswith(b"#"):
            yield stripped


def _shows_format(head: bytes) -> bool:
    """Return whether the bytes are enough to detect the format: a whole line, or magic bytes."""
    return by_magic(head) is not None or any(_content(head.split(b"\n")[:-1]))


def _shows_compression_and_format(head: bytes) -> bool:
    if head.startswith(tuple(MAGIC)):
        return True
    return not any(magic.startswith(head) for magic in MAGIC) and _shows_format(head)


def _open_raw(name: str) -> IO[bytes]:
    if name == STDIN:
        # A duplicate: a thread that waits in sys.stdin itself would block the exit.
        return cast(IO[bytes], open(os.dup(sys.stdin.fileno()), "rb", buffering=0))  # noqa: PTH123
    if is_remote(name):
        try:
            import fsspec  # noqa: PLC0415 - an extra
        except ImportError:
            raise InvalidInputError(
                f'{name}: reading URLs needs fsspec: pip install "sonline[remote]"'
            ) from None
        with _reaching(name):
            files, path = fsspec.core.url_to_fs(name)
            return cast(IO[bytes], files.open(path, "rb"))
    return cast(IO[bytes], open(name, "rb", buffering=0))  # noqa: PTH123 - closed with the Source


@contextmanager
def _reaching(name: str) -> Iterator[None]:
    """Turn errors about a URL, which differ by protocol, into an OSError that names it."""
    try:
        yield
    except Exception as error:
        if not is_remote(name) or isinstance(error, SonlineError):
            raise
        if isinstance(error, FileNotFoundError):
            cause = f": {error.__cause__}" if error.__cause__ is not None else ""
            raise FileNotFoundError(f"no file {name!r}{cause}") from error
        raise OSError(f"{name}: cannot be read: {error or type(error).__name__}") from error


def _decompressed(raw: IO[bytes], compression: str | None) -> IO[bytes]:
    if compression is None:
        return raw
    if compression == "gzip":
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb"))
    if compression == "bz2":
        return cast(IO[bytes], bz2.BZ2File(raw, "rb"))
    if compression == "xz":
        return cast(IO[bytes], lzma.LZMAFile(raw, "rb"))
    return _zstd(raw)


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        raise InvalidInputError('zstd needs zstandard: pip install "sonline[arrow]"') from None
    frames: Any = Frames(raw, zstandard.ZstdDecompressor().decompressobj)
    return cast(IO[bytes], io.BufferedReader(frames, _SAMPLE))
