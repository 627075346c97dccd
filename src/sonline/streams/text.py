"""svmlight and Vowpal Wabbit text through the native parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sonline import _core
from sonline.errors import DataFormatError
from sonline.rows import LARGEST_VALUES
from sonline.streams.batch import BadRow, Batch, Dictionary, Position
from sonline.streams.interactions import add_products

if TYPE_CHECKING:
    from sonline.streams.sources import Source
    from sonline.streams.stream import Options

CHUNK = 1 << 18  # bytes of text for a batch; some 500 to 25,000 rows
_SKIP = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TextReader:
    """Reads files of one text format; names keep their ids from file to file.

    Parameters
    ----------
    options : Options
        Of the stream; its format and features are decided.
    start : Position
        Where the first file is read on.
    """

    def __init__(
        self, options: Options, start: Position, columns: dict[str, str] | None = None
    ) -> None:
        self._options = options
        self._parser = _core.TextParser(
            options.format,
            labels="token" if options.tokens else "number",
            features=options.features,
            hash_bits=options.hash_bits or 18,
            hash_seed=options.hash_seed,
            dtype=options.dtype,
            largest_value=LARGEST_VALUES[options.dtype],
            on_error=options.on_error,
            allow_unlabelled=options.unlabelled,
            frozen_names=options.frozen,
            namespaces=bool(options.interactions),
            line=start.line,
            offset=start.offset,
            names=options.names,
            label_names=options.label_names,
        )
        self._names = Dictionary(options.name_count, list(options.label_names))
        self._initials: list[str] = []  # of the namespaces met
        self._first_name = options.name_count
        self._first_label = len(options.label_names)

    def read(self, source: Source, start: Position) -> Iterator[Batch]:
        """Yield the batches of a file from a position in it."""
        # What the parser counts on top of the file's own lines and bytes.
        lines = self._parser.line - start.line
        self._bytes = self._parser.offset - start.offset
        seek(source, start.offset)
        place = start
        at_start = start.offset == 0
        while chunk := source.read(CHUNK):
            if at_start and self._bytes and chunk.startswith(_BYTE_ORDER_MARK):
                # The parser takes the mark away at its own beginning only.
                chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
                self._bytes -= len(_BYTE_ORDER_MARK)
            at_start = False
            batch = self._batch(self._parser.feed(chunk), source.name, place, lines)
            place = batch.end
            yield batch
            if self._parser.failed:
                return
        if self._parser.pending:
            found = self._parser.feed(b"\n")  # rather than finish(): another file may follow
            batch = self._batch(found, source.name, place, lines)
            end = replace(batch.end, offset=batch.end.offset - 1)
            if batch.ends is not None and batch.ends.size:
                batch.ends[-1] = end.offset
            batch.end = end
            yield batch

    def _batch(self, found: _core.TextBatch, name: str, start: Position, lines: int) -> Batch:
        bad = [self._bad(error, name, lines) for error in found.errors]
        if found.bases is not None:
            row = int(found.bases.nonzero()[0][0])
            raise DataFormatError(
                "a base prediction (the third number before the bar) cannot be learnt from; "
                "remove it",
                file=name,
                line=int(found.lines[row]) - lines,
                text=f"{found.bases[row]:g}",
            )
        end = replace(
            start,
            offset=self._parser.offset - self._bytes,
            line=self._parser.line - lines,
            rows=start.rows + len(found),
        )
        new_names, new_labels = found.new_names, found.new_labels
        self._names.words += new_labels
        batch = Batch(
            indptr=found.indptr,
            indices=found.indices,
            values=cast(Any, found.values),
            labels=None if self._options.tokens else found.labels,
            codes=found.label_codes if self._options.tokens else None,
            weights=found.weights,
            tags=found.tags,
            named=self._options.features == "name",
            new_names=new_names,
            new_labels=new_labels,
            first_name=self._first_name,
            first_label=self._first_label,
            start=start,
            end=end,
            lines=found.lines - lines if lines else found.lines,
            ends=found.ends - self._bytes if self._bytes else found.ends,
            bad=bad,
            unknown_features=found.unknown_features,
            keeper=found,
            names=self._names,
            file=name,
        )
        if self._options.interactions:
            self._initials += [space[:1] or " " for space in found.new_namespaces]
            initials = np.array([*self._initials, " "])[found.namespaces]
            pairs = [pair.replace("*", "") for pair in self._options.interactions]
            add_products(batch, initials, pairs, self._options.hash_bits or 18)
        self._first_name += len(new_names)
        self._first_label += len(new_labels)
        return batch

    def _bad(self, error: _core.TextError, name: str, lines: int) -> BadRow:
        return BadRow(
            name,
            error.line - lines,
            error.column,
            error.offset - self._bytes,
            error.reason,
            error.word.decode("utf-8", "replace"),
            error.text,
        )


def seek(source: Source, offset: int) -> None:
    """Go to a byte: at once in a plain file, by reading and discarding elsewhere."""
    if source.seekable:
        source.plain.seek(offset)
        return
    while offset > 0:
        chunk = source.read(min(offset, _SKIP))
        if not chunk:
            raise DataFormatError(
                f"ends before the position to go on from ({offset} bytes are missing)",
                file=source.name,
            )
        offset -= len(chunk)
