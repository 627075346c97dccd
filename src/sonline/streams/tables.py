"""Parquet and Arrow through pyarrow.

A number is a feature with the name of its column, text is the feature ``column=value`` with value
1, as are all values of a dictionary (categories), and missing cells and NaN are absent. A column
keeps its first type.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from sonline import _core
from sonline.errors import (
    DataFormatError,
    InvalidInputError,
    ParameterError,
    SonlineError,
    as_option,
)
from sonline.labels import token_of
from sonline.rows import Column, Floats
from sonline.rows.amounts import number_of, refuse_amounts
from sonline.rows.cells import SparseRows, Table
from sonline.rows.checks import Reason, Reasons, number_reasons, offset_reasons, weight_reasons
from sonline.rows.columns import (
    amount_of,
    arrow_column,
    date_parts,
    days_of,
    holds_dates,
    marked,
    warn_about_gaps,
    warn_if_unique,
)
from sonline.rows.dates import numbers_of
from sonline.streams.batch import BadRow, Batch, Position
from sonline.streams.files import SourceFile
from sonline.streams.interactions import column_pairs
from sonline.streams.rows import (
    RowBuilder,
    check_header,
    identifier,
    ngram_columns,
    ngrams,
    not_a_date,
)
from sonline.streams.sources import partitions

if TYPE_CHECKING:
    from sonline.streams.sources import Source
    from sonline.streams.stream import Options

_ROWS = 8192  # in a piece at most
_CELLS = 1 << 18  # in a piece of several rows at most, because memory holds several copies of each


def arrow(who: str = "tables (parquet, arrow) need") -> Any:
    """Return pyarrow; if it is missing, the error says who needs it."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
    except ImportError:
        raise InvalidInputError(f'{who} pyarrow: pip install "sonline[arrow]"') from None
    return pa


class TableReader:
    """Reads files of tables."""

    def __init__(self, options: Options, columns: dict[str, str]) -> None:
        self._arrow = arrow()
        self._options = options
        self._builder = RowBuilder(options)
        self._columns = columns
        self._warned = False
        self._file = ""  # that is read
        self._checked: set[str] = set()  # columns of text whose number of values was looked at
        self._categories: set[str] = set()
        self._seen: set[str] = set()  # the columns of all files
        self._ngrams = ngram_columns(options.ngrams)
        for words in options.interactions:
            if set(words.split("*")) & set(self._ngrams):
                raise ParameterError(f"n-grams of Parquet and Arrow cannot be multiplied: {words}")

    def read(self, source: Source, start: Position) -> Iterator[Batch]:
        """Yield the batches of a file from a position in it."""
        position = replace(start, rows=0)
        skip = start.rows
        try:
            added = partitions(source.name)
            self._file = source.name
            for stored in self._tables(source):
                table = self._with_partitions(stored, added)
                rows = table.num_rows
                if skip and skip >= rows:
                    skip -= rows
                    position = replace(position, rows=position.rows + rows)
                    continue
                piece = table.slice(skip) if skip else table
                position = replace(position, rows=position.rows + skip)
                skip = 0
                batch = self._batch(piece, source.name, position)
                position = batch.end
                yield batch
                if batch.bad and self._options.on_error == "stop":
                    return
        except (self._arrow.ArrowException, OSError, ValueError) as error:
            if isinstance(error, SonlineError):
                raise
            reason = str(error).replace("\n", " ")
            raise DataFormatError(reason, file=source.name) from error
        if skip:
            raise DataFormatError(
                f"ends before the position to continue from ({skip} rows are missing)",
                file=source.name,
            )

    def _tables(self, source: Source) -> Iterator[Any]:
        """Yield pieces of the table."""
        if self._options.format == "parquet":
            from pyarrow import parquet  # noqa: PLC0415 - only for this format

            file = parquet.ParquetFile(_seekable(source))
            self._categories = self._dictionaries(file.metadata.metadata or {})
            yield from file.iter_batches(batch_size=_ROWS)
        else:
            ipc = self._arrow.ipc
            if cast(Any, source.plain).peek(6).startswith(b"ARROW1"):
                reader = ipc.open_file(_seekable(source))
                for number in range(reader.num_record_batches):
                    yield from pieces(reader.get_batch(number))
            else:
                for table in ipc.open_stream(SourceFile(source)):
                    yield from pieces(table)

    def _with_partitions(self, table: Any, added: dict[str, str | None]) -> Any:
        """Return a piece with the columns that the folders of its file stand for."""
        arrays, names = list(table.columns), list(table.schema.names)
        for name, word in added.items():
            if name not in names:
                number = None if word is None else number_of(word)
                value = self._arrow.scalar(word if number is None else number)
                arrays.append(self._arrow.repeat(value, table.num_rows))
                names.append(name)
        if len(names) == table.num_columns:
            return table
        return self._arrow.RecordBatch.from_arrays(arrays, names)

    def _dictionaries(self, metadata: dict[bytes, bytes]) -> set[str]:
        """Return the columns of a Parquet file that were dictionaries when it was written.

        Parquet has numbers for a dictionary of numbers.
        """
        if b"ARROW:schema" not in metadata:
            return set()
        stored = base64.b64decode(metadata[b"ARROW:schema"])
        schema = self._arrow.ipc.read_schema(self._arrow.py_buffer(stored))
        return {field.name for field in schema if self._arrow.types.is_dictionary(field.type)}

    def seen_columns(self) -> set[str]:
        """Return the columns that files had."""
        return self._seen

    def _batch(self, table: Any, name: str, start: Position) -> Batch:
        options = self._options
        special = {options.weight, options.offset, options.tag, *options.ignore}
        first = not self._columns and not options.frozen
        label = check_header(options, table.schema.names, name, first)
        self._seen.update(table.schema.names)
        features = [c for c in table.schema.names if c != label and c not in special]
        rows = table.num_rows
        columns: list[Column] = []
        reasons = Reasons()
        amounts: dict[str, str] = {}
        for column in features:
            columns += self._features(table.column(column), column, reasons, amounts)
        refuse_amounts(amounts, name)
        if options.missing == "absent" and not options.frozen and not self._warned:
            self._warned = True
            warn_about_gaps(columns, name, stacklevel=2)
        cells = Table.of(columns, rows, options.missing == "mark")
        pairs = column_pairs(options.interactions, cells.columns, name)
        cells.multiply(pairs, options.interactions)
        reasons.join(
            cells.reasons(
                options.dtype, options.missing, lambda column: identifier(column, options)
            )
        )
        labels = self._labels(table, label, reasons)
        weights = None
        if options.weight:
            weights = _numbers(table.column(options.weight))
            reasons.join(weight_reasons(options.weight, weights))
        offsets = None
        if options.offset:
            offsets = _numbers(table.column(options.offset))
            reasons.join(offset_reasons(options.offset, offsets, log_link=False))
        read = rows
        if options.on_error == "stop" and reasons:
            read = min(reasons)  # the stream stops at the first bad row
            reasons = Reasons({read: reasons[read]})
        keep = np.arange(rows) < read
        keep[list(reasons)] = False
        bad = [
            BadRow.of_table(name, start.rows + row, str(why), _text_of(table, row))
            for row, why in sorted(reasons.items())
        ]
        sparse = cells.rows(keep)
        for column in self._ngrams:
            sparse = self._split(column, cells.names, sparse)
        try:
            sparse = sparse.named(cells.names, self._builder.keys)
        except DataFormatError as error:
            raise DataFormatError(error.message, file=name) from None
        good_rows = np.flatnonzero(keep)
        return self._builder.batch(
            rows=sparse,
            labels=[labels[row] for row in good_rows.tolist()]
            if isinstance(labels, list)
            else labels[keep],
            weights=None if weights is None else weights[keep],
            offsets=None if offsets is None else offsets[keep],
            tags=self._tags(table, good_rows),
            bad=bad,
            file=name,
            start=start,
            end=replace(start, rows=start.rows + read),
            row_ends=(start.rows + good_rows + 1).astype(np.int64),
        )

    def _features(
        self, column: Any, name: str, reasons: Reasons, amounts: dict[str, str]
    ) -> list[Column]:
        """Return a column, or the parts of its dates; adds the cells that cannot be read.

        A text of a column of amounts is added to ``amounts``.

        A column keeps its first type.
        """
        options, known = self._options, self._columns.get(name)
        if name in options.text or name in self._ngrams:
            known = "text"
        is_amount = name in options.amounts and not _is_number(self._arrow.types, column.type)
        as_text = known == "text" or name in self._categories or is_amount
        read = arrow_column(name, column, as_text)
        if read is None:
            raise DataFormatError(
                f"column {name!r} has the type {column.type}, which cannot be a feature; "
                f"leave it out with {as_option('ignore', name)}, or convert it"
            )
        if is_amount:
            read, wrong = _amounts(read)
            reasons.join(dict.fromkeys(wrong, Reason(f"column {name!r}: not a number", name)))
        elif known == "date" or (known is None and holds_dates(read)):
            read, others = days_of(read)
            reasons.join(dict.fromkeys(others, Reason(not_a_date(name), name)))
        if not self._arrow.types.is_null(column.type):
            first = self._columns.setdefault(name, known or read.kind)
            if read.kind not in (first, known):
                raise DataFormatError(f"column {name!r} was {first} before and is {read.kind} now")
        seen = {*self._checked, *self._ngrams, *self._options.text}
        if read.codes is not None and not self._options.frozen and name not in seen:
            amount = None if known else amount_of(read)
            if amount is not None:
                amounts[name] = amount
            else:
                warn_if_unique(name, len(read.words), read.codes.size, self._file)
        self._checked.add(name)
        return date_parts([read])

    def _split(self, column: str, names: list[str], rows: SparseRows) -> SparseRows:
        """Replace the cells of a column by their n-grams."""
        prefix = f"{column}="
        grams_of: dict[int, dict[int, float]] = {}
        for number in np.unique(rows.keys).tolist():
            if names[number].startswith(prefix) and names[number] != marked(column):
                grams = ngrams(names[number].removeprefix(prefix), self._ngrams[column])
                grams_of[number] = dict(enumerate(grams.values(), len(names)))
                names += [f"{prefix}{gram}" for gram in grams]
        cells = [
            grams_of.get(number, {number: value})
            for number, value in zip(rows.keys.tolist(), rows.values.tolist(), strict=True)
        ]
        ends = np.concatenate([[0], np.cumsum([len(cell) for cell in cells], dtype=np.int64)])
        return SparseRows(
            ends[rows.indptr],
            np.array([number for cell in cells for number in cell], np.int64),
            np.array([value for cell in cells for value in cell.values()], np.float64),
        )

    def _labels(self, table: Any, label: str | None, reasons: Reasons) -> list[str | None] | Floats:
        options = self._options
        if label is None:
            return [None] * table.num_rows if options.tokens else np.full(table.num_rows, np.nan)
        column = table.column(label)
        if options.tokens:
            coded = column.dictionary_encode()
            values = coded.dictionary.to_pylist()
            words = [None if v is None or v != v else token_of(v) for v in values]  # noqa: PLR0124 - NaN
            codes = coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
            tokens: list[str | None] = np.array([*words, None], dtype=object)[codes].tolist()
            if not options.unlabelled:
                for row, token in enumerate(tokens):
                    if token is None:
                        reasons.setdefault(row, Reason(f"no label in column {label!r}", label))
            return tokens
        if not _is_number(self._arrow.types, column.type):
            raise DataFormatError(
                f"the label {label!r} has the type {column.type}, expected numbers"
            )
        numbers = _numbers(column)
        allowed = np.isnan(numbers) if options.unlabelled else None
        reasons.join(number_reasons(label, numbers, allowed))
        return numbers

    def _tags(self, table: Any, good_rows: NDArray[np.int64]) -> list[str] | None:
        if self._options.tag is None:
            return None
        tags = table.column(self._options.tag).to_pylist()
        return ["" if tags[row] is None else token_of(tags[row]) for row in good_rows.tolist()]


def _amounts(column: Column) -> tuple[Column, list[int]]:
    """Return texts such as 1,234.50 € as numbers, and the rows that are not numbers."""
    codes = np.full(len(column), -1) if column.codes is None else column.codes
    numbers = np.append(numbers_of(_core.read_amount, column.words), np.nan)[codes]
    return Column(column.name, numbers), np.flatnonzero(np.isnan(numbers) & (codes >= 0)).tolist()


def _is_number(types: Any, kind: Any) -> bool:
    is_integer = types.is_integer(kind) or types.is_boolean(kind)
    return bool(is_integer or types.is_floating(kind) or types.is_decimal(kind))


def pieces(table: Any) -> Iterator[Any]:
    """Yield a table in pieces of several rows; an empty table is one piece."""
    rows = max(1, min(_ROWS, _CELLS // max(table.num_columns, 1)))
    for first in range(0, max(table.num_rows, 1), rows):
        yield table.slice(first, rows)


def _text_of(table: Any, row: int) -> bytes:
    """Return a row for the file of bad rows."""
    cells = {name: table.column(name)[row].as_py() for name in table.schema.names}
    return json.dumps(cells, default=str).encode()


def _numbers(column: Any) -> Floats:
    numbers: Floats = np.asarray(
        column.cast("float64").to_numpy(zero_copy_only=False), dtype=np.float64
    )
    return numbers


def _seekable(source: Source) -> Any:
    """Return a file that supports seeking."""
    if not source.seekable:
        raise InvalidInputError(
            f"{source.name}: this format needs a plain file, not a pipe or a compressed one "
            "(it is compressed inside); for pipes there is the Arrow stream format"
        )
    source.raw.seek(0)
    return source.raw
