"""`Batch`: some rows of a stream with the position after them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.errors import DataFormatError
from sonline.labels import Label, label_or_none
from sonline.rows import Floats
from sonline.rows import Indices as Integers
from sonline.rows.cells import stored_rows
from sonline.streams.sources import MAGIC

ROW_COLUMNS = (
    *("labels", "codes", "weights", "offsets"),
    *("lines", "ends", "row_ends", "next_lines"),
)
NO_LABEL = "a label must be a finite number or a word"


@dataclass(frozen=True)
class Position:
    """A position between two rows of a stream, from which reading can continue.

    Parameters
    ----------
    turn : int
        The pass over the files, counted from 0.
    file : int
        The number of the file within the stream.
    offset : int
        Bytes of the (uncompressed) file read so far; 0 for Parquet and Arrow.
    line : int
        Number of the next line, counted from 1; 1 for Parquet and Arrow.
    rows : int
        Rows of the file read so far; for tables, including bad rows.

    Examples
    --------
    >>> Position(offset=20, line=3, rows=2)
    Position(turn=0, file=0, offset=20, line=3, rows=2)
    """

    turn: int = 0
    file: int = 0
    offset: int = 0
    line: int = 1
    rows: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return it as values that JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class BadRow:
    """A row that could not be read: its position, the reason and, if known, its text.

    ``offset`` is its first byte or, for tables, its number within the file (from 0).
    """

    file: str
    line: int | None
    column: int | None
    offset: int
    reason: str
    word: str
    text: bytes

    @classmethod
    def of_table(cls, file: str, row: int, reason: str, text: bytes = b"") -> BadRow:
        """Return a bad row of a table; ``row`` is its number within the file, from 0."""
        return cls(file, None, None, row, f"row {row + 1}: {reason}", "", text)

    def error(self) -> DataFormatError:
        """Return this as an error."""
        return DataFormatError(
            self.reason,
            file=self.file,
            line=self.line,
            column=self.column,
            text=self.word or None,
        )


@dataclass
class Dictionary:
    """The names and labels behind the ids of a stream; all its batches share one.

    Parameters
    ----------
    initial : int
        How many names of features were known when the stream was opened.
    words : list of str
        The labels read so far, in the order of their codes.
    """

    initial: int = 0
    words: list[str] = field(default_factory=list)
    _labels: list[Label] = field(default_factory=list)

    def label(self, code: int) -> Label:
        """Return the label of a code; None if its word cannot be a label, such as nan."""
        while len(self._labels) <= code:
            self._labels.append(label_or_none(self.words[len(self._labels)]))
        return self._labels[code]


@dataclass
class Batch:
    """Rows of a stream as a sparse matrix (CSR), with their labels, weights and offsets.

    ``indices`` are feature indices or hash slots, or ids of names if ``named``. Names are numbered
    in the order in which they appear in the stream; ``new_names`` are those that first appear in
    this batch. Labels are numbers (``labels``, NaN if a row has none) or, for classes, codes of
    words (``codes``, -1 if a row has none), numbered in the same way (``new_labels``).
    """

    indptr: Integers
    indices: Integers
    values: NDArray[Any]
    labels: Floats | None
    codes: Integers | None
    weights: Floats | None
    tags: list[str] | None
    named: bool
    new_names: list[str]
    new_labels: list[str]
    first_name: int  # the id of new_names[0]
    first_label: int
    start: Position
    end: Position
    offsets: Floats | None = None
    lines: Integers | None = None  # of each row; None for tables
    ends: Integers | None = None  # the offset after each row
    row_ends: Integers | None = None  # tables: rows of the file up to each row, with bad rows
    next_lines: Integers | None = None  # CSV: the line after each row, which may span several
    bad: list[BadRow] = field(default_factory=list)
    unknown_features: int = 0
    table: bool = False  # rows of columns, as of CSV
    keeper: object = None  # owns the memory of the arrays
    names: Dictionary = field(default_factory=Dictionary)
    file: str = ""

    def __len__(self) -> int:
        return int(self.indptr.size) - 1

    def stream_labels(self) -> list[Label]:
        """Return the labels of the stream so far, in the order of their codes."""
        return [self.names.label(code) for code in range(self.label_count)]

    @property
    def label_count(self) -> int:
        """How many different labels the stream has had up to the end of this batch."""
        return self.first_label + len(self.new_labels)

    def label_values(self) -> list[Label]:
        """Return the label of each row, where labels are words.

        Raises
        ------
        DataFormatError
            About the line of a row that has no label, or a word that cannot be one.
        """
        assert self.codes is not None  # noqa: S101 - labels are words
        codes = self.codes.tolist()
        labels: dict[int, Label] = {}
        for row, code in enumerate(codes):
            if code not in labels:
                if code < 0:
                    raise self.error(row, "this row has no label")
                labels[code] = self.names.label(code)
                if labels[code] is None:
                    raise self.error(row, NO_LABEL)
        return [labels[code] for code in codes]

    def rows(self, numbers: Integers) -> Batch:
        """Return the rows with these numbers, in this order; all else is as in this batch."""
        indptr, stored = stored_rows(self.indptr, numbers)
        columns: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[numbers]
            for name in ROW_COLUMNS
        }
        return replace(
            self,
            **columns,
            indptr=indptr,
            indices=self.indices[stored],
            values=self.values[stored],
            tags=None if self.tags is None else [self.tags[row] for row in numbers.tolist()],
        )

    def without(self, reasons: Mapping[int, object]) -> Batch:
        """Return the batch without some rows, which become bad rows for these reasons."""
        keep = np.ones(len(self), np.bool_)
        keep[list(reasons)] = False
        bad = [self._bad(row, str(reasons[row])) for row in sorted(reasons)]
        batch = self.rows(np.flatnonzero(keep))
        batch.bad = sorted([*self.bad, *bad], key=lambda row: row.offset)
        return batch

    def checked(self, reasons: Mapping[int, object], on_error: str) -> Batch:
        """Return the batch `without` some rows, or with "stop" raise an error about the first."""
        if not reasons:
            return self
        if on_error == "stop":
            row = min(reasons)
            raise self.error(row, str(reasons[row]))
        return self.without(reasons)

    def _bad(self, row: int, reason: str) -> BadRow:
        """Return a row that cannot be learned as a bad row, with its text if it can be read."""
        error = self.error(row, reason)
        if self.ends is None:
            number = int(self.row_ends[row]) - 1 if self.row_ends is not None else row
            text = json.dumps({"row": number + 1, "label": error.text}).encode()
            return BadRow(self.file, None, None, number, error.message, error.text or "", text)
        before = int(self.ends[row - 1]) if row else self.start.offset
        content = _read_again(self.file, before, int(self.ends[row]))
        if content is None:
            content = json.dumps({"line": error.line, "label": error.text}).encode()
        count = 1
        if self.next_lines is not None and self.lines is not None:
            count = int(self.next_lines[row]) - int(self.lines[row])
        lines = content.rstrip(b"\r\n").split(b"\n")  # after blank lines and comments
        text = b"\n".join(lines[-count:])
        return BadRow(self.file, error.line, None, before, reason, error.text or "", text)

    def error(self, row: int, message: str) -> DataFormatError:
        """Return an error about a row, with its line, or number in a table, and its label."""
        line = None if self.lines is None else int(self.lines[row])
        if self.row_ends is not None:
            message = f"row {int(self.row_ends[row])}: {message}"
        code = -1 if self.codes is None else int(self.codes[row])
        text = self.names.words[code][:40] if code >= 0 else None
        return DataFormatError(message, file=self.file or None, line=line, text=text)

    @property
    def skipped(self) -> int:
        """How many bad rows there were among the rows of this batch."""
        return len(self.bad)

    def bad_text(self) -> bytes:
        """Return the text of the bad rows, a line each."""
        return b"".join(row.text + b"\n" for row in self.bad)

    def head(self, count: int) -> Batch:
        """Return the first rows only, as if the stream had ended after them."""
        if count >= len(self):
            return self
        end = replace(self.start, rows=self.start.rows + count)
        if self.ends is not None and self.lines is not None and count > 0:
            after = self.lines + 1 if self.next_lines is None else self.next_lines
            end = replace(end, offset=int(self.ends[count - 1]), line=int(after[count - 1]))
        if self.row_ends is not None and count > 0:
            end = replace(end, rows=int(self.row_ends[count - 1]))
        limit = end.rows if self.ends is None else end.offset
        first = self.rows(np.arange(count))
        used_names = int(first.indices.max(initial=-1)) + 1 if self.named else 0
        used_labels = 0 if first.codes is None else int(first.codes.max(initial=-1)) + 1
        return replace(
            first,
            new_names=self.new_names[: max(0, used_names - self.first_name)],
            new_labels=self.new_labels[: max(0, used_labels - self.first_label)],
            bad=[row for row in self.bad if row.offset < limit],
            end=end,
        )


def joined_column(
    parts: Sequence[Floats | None], rows: Sequence[int], default: float
) -> Floats | None:
    """Return the numbers of several batches; None stands for the default in all rows of one."""
    if all(part is None for part in parts):
        return None
    every = zip(parts, rows, strict=True)
    return np.concatenate([np.full(n, default) if part is None else part for part, n in every])


def _read_again(file: str, start: int, end: int) -> bytes | None:
    """Return some bytes of a file; None if it is compressed, a pipe or not there."""
    try:
        with Path(file).open("rb") as plain:
            if not plain.seekable() or plain.read(8).startswith(tuple(MAGIC)):
                return None
            plain.seek(start)
            return plain.read(end - start)
    except OSError:
        return None
