"""JSON lines: an object a line, from column to number, text, true, false or null.

Nested objects have the features ``column.key``, arrays of numbers ``column.0``, ``column.1``, ...,
and arrays of words ``column=word`` with the number of times that it is there.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sonline.errors import DataFormatError
from sonline.labels import token_of
from sonline.rows import LARGEST_VALUES
from sonline.streams.batch import BadRow, Batch, Position
from sonline.streams.interactions import split_pair
from sonline.streams.rows import RowBuilder, ngram_columns, ngrams
from sonline.streams.text import seek

if TYPE_CHECKING:
    from sonline.streams.sources import Source
    from sonline.streams.stream import Options

_CHUNK = 1 << 18
_LONGEST = 64 << 20  # bytes of a line, as in the other text formats


class _RowError(Exception):
    """A line that is no row: the reason, the place in the line and the piece of text.

    Instead of the place there may be the key that the text stands under.
    """

    def __init__(self, reason: str, place: int = 1, word: str = "", key: str | None = None) -> None:
        super().__init__(reason)
        self.place = place
        self.word = word
        self.key = key

    def column(self, text: bytes) -> int:
        """Return where in its line it is wrong, counted from 1."""
        if self.key is None:
            return self.place
        written = (
            json.dumps(name, ensure_ascii=plain).encode(errors="surrogatepass")
            for name in (self.key, self.key.partition(".")[0])  # nested: the column it is in
            for plain in (False, True)
        )
        return next((text.index(key) + 1 for key in written if key in text), self.place)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; a key that stands in it twice is an error, not the last one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise _RowError(f"column {twice!r} is there twice", key=twice)
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)  # made once: json.loads would for each row


class _LongLine(bytes):
    """The first bytes of a line that is too long; ``length`` is that of all of it."""

    length: int


class _Rest:
    """A line that has not come to its end, in pieces: put together once."""

    def __init__(self) -> None:
        self.length = 0
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        """Append to the line; what is beyond the limit is only counted."""
        if self.length <= _LONGEST:
            self._pieces.append(piece)
        self.length += len(piece)

    def taken(self, piece: bytes) -> bytes:
        """Return the line with its last piece, and begin another one."""
        self.add(piece)
        text, length = b"".join(self._pieces), self.length
        self.length, self._pieces = 0, []
        if length <= _LONGEST:
            return text
        line = _LongLine(text[:65536])
        line.length = length
        return line


class JsonReader:
    """Reads files of JSON lines.

    Parameters
    ----------
    options : Options
        Of the stream.
    start : Position
        Where the first file is read on.
    columns : dict
        Filled with the types of the columns.
    """

    def __init__(self, options: Options, start: Position, columns: dict[str, str]) -> None:
        self._options = options
        self._builder = RowBuilder(options)
        self._columns = columns
        self._label = options.label or "label"
        self._special = {self._label, options.weight, options.tag, *options.ignore}
        self._text = {*options.text}
        self._products = [split_pair(words) for words in options.interactions]
        self._multiplied = {name for pair in self._products for name in pair}
        self._largest = LARGEST_VALUES[options.dtype]
        # Columns whose numbers and words are not just features.
        self._ngrams = ngram_columns(options.ngrams)
        self._careful = {*self._special, *self._text, *self._multiplied, *self._ngrams}

    def read(self, source: Source, start: Position) -> Iterator[Batch]:
        """Yield the batches of a file from a position in it."""
        seek(source, start.offset)
        place, rest = start, _Rest()
        while True:
            chunk = source.read(_CHUNK)
            *lines, last = chunk.split(b"\n")
            if lines:
                lines[0] = rest.taken(lines[0])
            rest.add(last)
            if not chunk and rest.length:
                lines = [rest.taken(b"")]
            if lines:
                batch = self._batch(source.name, lines, place, complete=bool(chunk))
                place = batch.end
                yield batch
                if batch.bad and self._options.on_error == "stop":
                    return
            if not chunk:
                return

    def _batch(self, name: str, lines: list[bytes], start: Position, complete: bool) -> Batch:
        counts, keys, values, labels, weights, tags = [], [], [], [], [], []
        bad, rows, ends = [], [], []
        offset, line = start.offset, start.line
        for text in lines:
            stop = offset + (text.length if isinstance(text, _LongLine) else len(text)) + 1
            try:
                row = self._row(text, first=offset == 0)
            except _RowError as wrong:
                shown = text[:65536]
                column = wrong.column(text)
                bad.append(BadRow(name, line, column, offset, str(wrong), wrong.word, shown))
                if self._options.on_error == "stop":
                    break
            else:
                if row is not None:
                    names, numbers, label, weight, tag = row
                    try:
                        keys += self._builder.keys(names)
                    except DataFormatError as error:
                        raise DataFormatError(error.message, file=name, line=line) from None
                    values += numbers
                    counts.append(len(names))
                    labels.append(label)
                    weights.append(weight)
                    tags.append(tag)
                    rows.append(line)
                    ends.append(stop)
            offset, line = stop, line + 1
        if not complete and offset > start.offset:
            offset -= 1  # the last line has no newline
            if ends and ends[-1] > offset:
                ends[-1] = offset
        tokens = self._options.tokens
        return self._builder.batch(
            counts=np.array(counts, np.int64),
            keys=np.fromiter(keys, np.int64, len(keys)),
            values=np.fromiter(values, np.float64, len(values)),
            labels=labels if tokens else np.array(labels, np.float64),
            weights=np.array(weights, np.float64) if self._options.weight else None,
            tags=tags if self._options.tag else None,
            bad=bad,
            start=start,
            end=replace(start, offset=offset, line=line, rows=start.rows + len(counts)),
            lines=np.array(rows, np.int64),
            ends=np.array(ends, np.int64),
        )

    def _row(
        self, text: bytes, first: bool
    ) -> tuple[list[str], list[float], Any, float, str] | None:
        row = _parsed(text, first)
        if row is None:
            return None
        weight, tag = 1.0, ""
        if self._options.weight:
            weight = self._number(self._options.weight, row.get(self._options.weight, 1.0))
            if weight < 0:
                raise _RowError(
                    "a weight must be 0 or more", word=f"{weight:g}", key=self._options.weight
                )
        if self._options.tag:
            tag = token_of(row.get(self._options.tag) or "")
        return *self._cells(row), self._label_of(row), weight, tag

    def _cells(self, row: dict[str, Any]) -> tuple[list[str], list[float]]:
        """Return the features of a row: their names and values."""
        names: list[str] = []
        values: list[float] = []
        by_column: dict[str, list[tuple[str, float]]] = {}
        types, careful, largest = self._columns, self._careful, self._largest
        for column, value in row.items():
            kind = type(value)
            # Nearly all cells are these two kinds, and every call of a function shows.
            if kind is float and column not in careful and -largest <= value <= largest:
                if column not in types:
                    types[column] = "number"
                if value:
                    names.append(column)
                    values.append(value)
            elif kind is str and column not in careful:
                if column not in types:
                    types[column] = "text"
                names.append(f"{column}={value}")
                values.append(1.0)
            elif column not in self._special and value is not None:
                found = self._features(column, value)
                names += [name for name, _ in found]
                values += [size for _, size in found]
                if column in self._multiplied:
                    by_column[column] = found
        for one, other in self._products:
            for name, size in by_column.get(one, ()):
                for second, other_size in by_column.get(other, ()):
                    self._check(one, size * other_size, size * other_size)
                    names.append(f"{name}*{second}")
                    values.append(size * other_size)
        return names, values

    def _features(self, column: str, value: Any) -> list[tuple[str, float]]:
        """Return the features of a cell: ``column.key`` of objects, counts of words of arrays."""
        if isinstance(value, dict):
            inside = [
                self._features(f"{column}.{key}", one)
                for key, one in value.items()
                if one is not None
            ]
            return [pair for pairs in inside for pair in pairs]
        if column in self._ngrams and isinstance(value, str):
            self._columns.setdefault(column, "text")
            grams = ngrams(value, self._ngrams[column])
            return [(f"{column}={gram}", count) for gram, count in grams.items()]
        if not isinstance(value, list):
            pair = self._feature(column, value)
            return [] if pair is None else [pair]
        if value and all(isinstance(one, str) for one in value):
            self._columns.setdefault(column, "text")
            return [(f"{column}={one}", float(count)) for one, count in Counter(value).items()]
        named = {str(place): one for place, one in enumerate(value)}
        return self._features(column, named)

    def _feature(self, column: str, value: Any) -> tuple[str, float] | None:
        if isinstance(value, str) or column in self._text:
            if not isinstance(value, (str, int, float)):
                raise _wrong_kind(column, value, "text")
            self._columns.setdefault(column, "text")
            return f"{column}={token_of(value)}", 1.0
        number = self._number(column, value)
        self._columns.setdefault(column, "number")
        return (column, number) if number != 0 else None

    def _number(self, column: str, value: Any) -> float:
        if not isinstance(value, (int, float)):
            raise _wrong_kind(column, value, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        self._check(column, number, value)
        return number

    def _check(self, column: str, number: float, written: Any) -> None:
        if not abs(number) <= self._largest:
            raise _RowError(
                f"column {column!r}: not a number of at most {self._largest:g}, which "
                f"{self._options.dtype} can learn from",
                word=f"{written}"[:40],
                key=column,
            )

    def _label_of(self, row: dict[str, Any]) -> str | float | None:
        value = row.get(self._label)
        tokens = self._options.tokens
        if value is None:
            if not self._options.unlabelled:
                raise _RowError(
                    f"no label: column {self._label!r} is missing; name it with --label"
                )
            return None if tokens else math.nan
        if tokens:
            if isinstance(value, (list, dict)):
                raise _wrong_kind(self._label, value, "text or a number")
            return token_of(value)
        return self._number(self._label, value)


def _parsed(text: bytes, first: bool) -> dict[str, Any] | None:
    """Return the object of a line; None for a blank one."""
    if isinstance(text, _LongLine):
        raise _RowError(f"the line has {text.length} bytes, more than {_LONGEST}", _LONGEST + 1)
    try:
        words = text.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise _RowError("not valid UTF-8", error.start + 1) from None
    if not words.strip():
        return None
    try:
        row = _DECODER.decode(words)
    except json.JSONDecodeError as error:
        piece = words[error.pos : error.pos + 40]
        raise _RowError(f"not valid JSON ({error.msg})", error.pos + 1, piece) from None
    except RecursionError:
        raise _RowError("JSON nested too deeply") from None
    except ValueError as error:  # an integer with thousands of digits
        raise _RowError(f"not valid JSON ({error})") from None
    if not isinstance(row, dict):
        raise _RowError("expected an object from columns to values", 1, words[:40])
    if "\\u" in words:
        _refuse_half_characters(row)
    return row


def _refuse_half_characters(row: dict[str, Any]) -> None:
    """Raise an error about an escape that is one half of a pair: no text can hold it."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise _RowError("half of a surrogate pair, which is no character", word=half) from None


def _wrong_kind(column: str, value: Any, expected: str) -> _RowError:
    kind = {"list": "an array", "dict": "an object"}.get(type(value).__name__, "text")
    shown = json.dumps(value, ensure_ascii=False)[:40]
    return _RowError(f"column {column!r} holds {kind}, expected {expected}", word=shown, key=column)
