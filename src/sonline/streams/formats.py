"""The formats of rows: name, suffixes, how to recognise the content, reader.

A format is a module with its reader, and one entry in `FORMATS`. Readers are imported when they are
needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sonline.streams.batch import Batch, Position
    from sonline.streams.sources import Source
    from sonline.streams.stream import Options

_SVMLIGHT_LINE = re.compile(rb"[^\s:;,|]+([ \t]+qid:\d+)?([ \t]+\d+:\S+)*[ \t]*(#.*)?")
_SVMLIGHT_START = re.compile(rb"\S+([ \t]+\d+:\S*)+")  # also if a later part of the line is wrong


class Reader(Protocol):
    """Reads the files of a stream, one after another.

    It is constructed with the options of the stream (format and features detected) and the types of
    the columns of tables, to which it adds those of its files.
    """

    def read(self, source: Source, start: Position) -> Iterator[Batch]:
        """Yield the batches of a file from a position in it."""


@dataclass(frozen=True)
class Format:
    """A format of rows.

    Parameters
    ----------
    name : str
        The name that users know.
    suffixes : tuple of str
        Endings of the names of such files.
    reader : str
        ``module:Class`` of the reader.
    magic : tuple of bytes
        First bytes of such files.
    looks : callable, optional
        Whether a line, the first that is neither empty nor a comment, is in this format.
    table : bool
        Whether rows have named columns, one of which is the label.
    """

    name: str
    suffixes: tuple[str, ...]
    reader: str
    magic: tuple[bytes, ...] = ()
    looks: Callable[[bytes], bool] = lambda line: False
    table: bool = True

    def open(self, options: Options, columns: dict[str, str]) -> Reader:
        """Return the reader for a stream."""
        module, name = self.reader.split(":")
        reader: Reader = getattr(import_module(module), name)(options, columns)
        return reader


def _looks_svmlight(line: bytes) -> bool:
    if not line or _SVMLIGHT_LINE.fullmatch(line):
        return True
    return b"|" not in line and _SVMLIGHT_START.match(line) is not None


def _looks_csv(line: bytes) -> bool:
    return (b"," in line or b";" in line) and b"\t" not in line


_TEXT, _TABLE = "sonline.streams.text:TextReader", "sonline.streams.tables:TableReader"
_CSV = "sonline.streams.delimited:CsvReader"

# The first format that recognises a line is used.
FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format("svmlight", (".svm", ".svmlight", ".libsvm"), _TEXT, (), _looks_svmlight, False),
        Format("vw", (".vw",), _TEXT, (), lambda line: b"|" in line, False),
        Format("csv", (".csv",), _CSV, (), _looks_csv),
        Format("tsv", (".tsv", ".tab"), _CSV, (), lambda line: b"\t" in line),
        Format(
            "jsonl",
            (".jsonl", ".ndjson"),
            "sonline.streams.jsonlines:JsonReader",
            looks=lambda line: line[:1] == b"{",
        ),
        Format("parquet", (".parquet", ".pq"), _TABLE, (b"PAR1",)),
        Format(
            "arrow",
            (".arrow", ".arrows", ".feather", ".ipc"),
            _TABLE,
            (b"ARROW1", b"\xff\xff\xff\xff"),
        ),
    )
}


def by_suffix(suffix: str) -> str | None:
    """Return the format of files with this suffix.

    Examples
    --------
    >>> by_suffix(".tab")
    'tsv'
    """
    return next((entry.name for entry in FORMATS.values() if suffix in entry.suffixes), None)


def by_magic(head: bytes) -> str | None:
    """Return the format of a file that starts with these bytes; None if it may be any text."""
    marked = (f.name for f in FORMATS.values() if f.magic and head.startswith(f.magic))
    return next(marked, None)


def by_line(line: bytes) -> str | None:
    """Return the format of a line of text.

    Examples
    --------
    >>> by_line(b"1 |user age:3"), by_line(b'{"label": 1, "text": "a|b"}')
    ('vw', 'jsonl')
    """
    formats = FORMATS.values() if line[:1] != b"{" else [FORMATS["jsonl"]]
    return next((entry.name for entry in formats if entry.looks(line)), None)


def text_formats() -> list[str]:
    """Return the text formats without columns, where the label is part of the line."""
    return [entry.name for entry in FORMATS.values() if not entry.table]
