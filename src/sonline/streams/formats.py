"""The formats of rows: name, suffixes of files, what the content looks like, reader and writer.

A format is a file with its reader (and, for ``sonline convert``, a function that writes a row as a
line) and one entry in `FORMATS`. Readers are imported when they are needed.
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

_SVMLIGHT_LINE = re.compile(rb"[^\s:,|]+([ \t]+qid:\d+)?([ \t]+\d+:\S+)*[ \t]*(#.*)?")
_SVMLIGHT_START = re.compile(rb"\S+([ \t]+\d+:\S*)+")  # with something wrong in it


class Reader(Protocol):
    """Reads the files of a stream, one after another."""

    def read(self, source: Source, start: Position) -> Iterator[Batch]:
        """Yield the batches of a file from a position in it."""


@dataclass(frozen=True)
class Format:
    """A format of rows.

    Parameters
    ----------
    name : str
        What users call it.
    suffixes : tuple of str
        How the names of such files end.
    reader : str
        ``module:Class`` of the reader.
    magic : tuple of bytes
        How such files begin.
    looks : callable, optional
        Whether the first line that is neither empty nor a comment is one of this format.
    table : bool
        Rows have columns with names, one of which is the label.
    """

    name: str
    suffixes: tuple[str, ...]
    reader: str
    magic: tuple[bytes, ...] = ()
    looks: Callable[[bytes], bool] = lambda line: False
    table: bool = True

    def open(self, options: Options, start: Position, columns: dict[str, str]) -> Reader:
        """Return the reader for a stream."""
        module, name = self.reader.split(":")
        reader: Reader = getattr(import_module(module), name)(options, start, columns)
        return reader


def _looks_svmlight(line: bytes) -> bool:
    if not line or _SVMLIGHT_LINE.fullmatch(line):
        return True
    return b"|" not in line and _SVMLIGHT_START.match(line) is not None


def _looks_csv(line: bytes) -> bool:
    return (b"," in line or b";" in line) and b"\t" not in line


_TEXT, _TABLE = "sonline.streams.text:TextReader", "sonline.streams.tables:TableReader"
_CSV = "sonline.streams.delimited:CsvReader"

# The first whose look fits is taken.
FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
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
    """Return the format of files whose names end like this.

    Examples
    --------
    >>> by_suffix(".tab")
    'tsv'
    """
    return next((one.name for one in FORMATS.values() if suffix in one.suffixes), None)


def by_magic(head: bytes) -> str | None:
    """Return the format of a file that begins like this; None if it may be any text."""
    marked = (one for one in FORMATS.values() if one.magic and head.startswith(one.magic))
    return next((one.name for one in marked), None)


def by_line(line: bytes) -> str | None:
    """Return the format of a line of text.

    Examples
    --------
    >>> by_line(b"1 |user age:3"), by_line(b'{"label": 1, "text": "a|b"}')
    ('vw', 'jsonl')
    """
    formats = FORMATS.values() if line[:1] != b"{" else [FORMATS["jsonl"]]
    return next((one.name for one in formats if one.looks(line)), None)


def text_formats() -> list[str]:
    """Return the formats of lines that have their label inside, without columns."""
    return [one.name for one in FORMATS.values() if not one.table]
