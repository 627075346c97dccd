"""svmlight and Vowpal Wabbit text through the native parser; the base of CSV and JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sonline import _core
from sonline.errors import DataFormatError
from sonline.rows.checks import LARGEST_VALUES, Reasons, offset_reasons, weight_reasons
from sonline.streams.batch import BadRow, Batch, Dictionary, Position
from sonline.streams.formats import FORMATS
from sonline.streams.interactions import add_grams, add_products, gram_letters
from sonline.streams.rows import LABEL_WEIGHTS

if TYPE_CHECKING:
    from sonline.streams.sources import Source
    from sonline.streams.stream import Options

LONGEST_LINE = 64 << 20  # bytes
CHUNK = 1 << 18  # bytes of text per batch; about 500 to 25,000 rows
_SKIP = 1 << 20


class TextReader:
    """Reads files of one text format; names keep their ids from file to file."""

    def __init__(self, options: Options, columns: dict[str, str]) -> None:
        self._options = options
        self._types = columns  # of tables: "number", "text" or "date"
        table = FORMATS[options.format].table
        self._csv = options.format in ("csv", "tsv")
        self._pairs = [] if table else [pair.replace("*", "") for pair in options.interactions]
        self._grams = gram_letters(options.ngrams) if options.format == "vw" else {}
        self._parser = _core.TextParser(
            "csv" if self._csv else options.format,
            labels="token" if options.tokens else "number",
            features=options.features,
            hash_bits=options.hash_bits or 18,
            hash_seed=options.hash_seed,
            dtype=options.dtype,
            largest_value=LARGEST_VALUES[options.dtype],
            on_error=options.on_error,
            allow_unlabelled=options.unlabelled,
            frozen_names=options.frozen,
            namespaces=bool(self._pairs or self._grams),
            max_line_bytes=LONGEST_LINE,
            names=options.names,
            label_names=options.label_names,
            na_values=self._na_values(),
            refuse_missing=options.missing == "refuse",
            mark_missing=options.missing == "mark",
            label_weights=options.format == "svmlight" and options.weight == LABEL_WEIGHTS,
            skipped_spaces=_skipped_spaces(options),
        )
        self._names = Dictionary(options.name_count, list(options.label_names))
        self._initials: list[str] = []  # first letters of the namespaces read so far
        self._first_name = options.name_count
        self._first_label = len(options.label_names)

    def read(self, source: Source, start: Position) -> Iterator[Batch]:
        """Yield the batches of a file from a position in it."""
        position, read_ahead = self._begin(source, start)
        self._parser.seek(position.line, position.offset, position.rows)
        while chunk := read_ahead[:CHUNK] or source.read(CHUNK):
            read_ahead = read_ahead[CHUNK:]
            batch = self._batch(self._parser.feed(chunk), source.name, position)
            position = batch.end
            yield batch
            if self._parser.failed:
                return
        if self._parser.pending:
            yield self._batch(self._parser.end_file(), source.name, position)

    def _begin(self, source: Source, start: Position) -> tuple[Position, bytes]:
        """Go to a position; return it with the bytes after it that were read already."""
        seek(source, start.offset)
        return start, b""

    def _na_values(self) -> list[str]:
        """Return the markers of missing cells."""
        return []

    def _batch(self, parsed: _core.TextBatch, name: str, start: Position) -> Batch:
        for kind in ("number", "text", "date"):
            for column in getattr(parsed, f"{kind}_columns"):
                self._types.setdefault(column, kind)
        bad = [self._bad(error, name) for error in parsed.errors]
        end = replace(
            start,
            offset=self._parser.offset,
            line=self._parser.line,
            rows=self._parser.rows if self._csv else start.rows + len(parsed),
        )
        new_names, new_labels = parsed.new_names, parsed.new_labels
        no_tags = self._options.tag is not None and parsed.tags is None
        self._names.words += new_labels
        batch = Batch(
            indptr=parsed.indptr,
            indices=parsed.indices,
            values=cast(Any, parsed.values),
            labels=None if self._options.tokens else parsed.labels,
            codes=parsed.label_codes if self._options.tokens else None,
            weights=parsed.weights,
            offsets=parsed.offsets,
            tags=[""] * len(parsed) if no_tags else parsed.tags,
            named=self._options.features == "name",
            new_names=new_names,
            new_labels=new_labels,
            first_name=self._first_name,
            first_label=self._first_label,
            start=start,
            end=end,
            lines=parsed.lines,
            ends=parsed.ends,
            next_lines=parsed.next_lines if self._csv else None,
            row_ends=parsed.row_ends if self._csv else None,
            bad=bad,
            unknown_features=parsed.unknown_features,
            table=self._csv,
            keeper=parsed,
            names=self._names,
            file=name,
        )
        if self._pairs or self._grams:
            self._initials += [space[:1] or " " for space in parsed.new_namespaces]
            initials = np.array([*self._initials, " "])[parsed.namespaces]
            hash_bits = self._options.hash_bits or 18
            if self._grams:
                initials = add_grams(batch, initials, self._grams, hash_bits)
            if self._pairs:
                add_products(batch, initials, self._pairs, hash_bits)
        self._first_name += len(new_names)
        self._first_label += len(new_labels)
        return self._without_bad_weights(batch)

    def _without_bad_weights(self, batch: Batch) -> Batch:
        """Return a batch without rows of unusable weights and offsets.

        If these are errors, it has the rows before the first one.
        """
        reasons = Reasons() if batch.weights is None else weight_reasons("weight", batch.weights)
        if batch.offsets is not None:
            reasons.join(offset_reasons("offset", batch.offsets, log_link=False))
        if not reasons:
            return batch
        if self._options.on_error == "skip":
            return batch.without(reasons)
        row = min(reasons)
        return replace(batch.head(row), bad=batch.without({row: reasons[row]}).bad)

    def _bad(self, error: _core.TextError, name: str) -> BadRow:
        return BadRow(
            name,
            error.line,
            error.column,
            error.offset,
            error.reason,
            error.word.decode("utf-8", "replace"),
            error.text,
        )


def _skipped_spaces(options: Options) -> bytes:
    """Return the first bytes of the namespaces of Vowpal Wabbit text that are left out."""
    if options.format != "vw":
        return b""
    return bytes({word.encode()[0] for word in options.ignore if word})


def seek(source: Source, offset: int) -> None:
    """Go to a byte: at once in a plain file, by reading and discarding elsewhere."""
    if source.seekable:
        source.plain.seek(offset)
        return
    while offset > 0:
        chunk = source.read(min(offset, _SKIP))
        if not chunk:
            raise DataFormatError(
                f"ends before the position to continue from ({offset} bytes are missing)",
                file=source.name,
            )
        offset -= len(chunk)
