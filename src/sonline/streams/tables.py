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
from sonline.errors import DataFormatError, InvalidInputError, ParameterError, SonlineError
from sonline.labels import token_of
from sonline.rows import (
    LARGEST_VALUES,
    Column,
    Floats,
    arrow_column,
    marked,
    no_value,
    warn_about_gaps,
)
from sonline.streams.batch import BadRow, Batch, Position
from sonline.streams.dates import days_of, features_of, holds_dates, numbers_of
from sonline.streams.delimited import number_of
from sonline.streams.files import SourceFile
from sonline.streams.interactions import column_pairs, product
from sonline.streams.rows import (
    RowBuilder,
    add_bad_weights,
    check_columns,
    check_known,
    check_names,
    label_column,
    ngram_columns,
    ngrams,
    not_a_date,
    too_large,
    warn_about_unique,
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
        self._largest = LARGEST_VALUES[options.dtype]
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
        special = {options.weight, options.tag, *options.ignore}
        check_names(table.schema.names, name)
        check_known(options, table.schema.names, name)
        self._seen.update(table.schema.names)
        label = label_column(options, table.schema.names, name)
        reasons: dict[int, str] = {}
        check_columns((options.weight, options.tag, *self._ngrams), table.schema.names, name)
        if not self._columns and not options.frozen:  # later files may lack them
            named = (*options.ignore, *options.text, *options.amounts)
            check_columns(named, table.schema.names, name)
        columns = [c for c in table.schema.names if c != label and c not in special]
        parsed = self._parsed(table, columns, reasons)
        features = [part for column in columns for part in parsed.get(column, {column: None})]
        numbers = {part: values for parts in parsed.values() for part, values in parts.items()}
        rows = table.num_rows
        names: list[str] = []  # by number of the cell's feature
        products = column_pairs(options.interactions, features, name)
        cells = np.empty((rows, len(features) + len(products)), np.int64)
        values = np.empty((rows, len(features) + len(products)))
        for number, column in enumerate(features):
            if column in numbers:
                absent = np.isnan(numbers[column])
                cells[:, number], values[:, number] = self._numbers(
                    column, numbers[column], names, mark=column in parsed
                )
            else:
                cells[:, number], values[:, number], absent = self._cells(
                    table.column(column), column, names
                )
            if options.missing == "refuse":
                for row in np.flatnonzero(absent).tolist():
                    reasons.setdefault(row, no_value(column))
        self._warn_about_gaps(table, [c for c in features if c not in numbers])
        for number, (first, second) in enumerate(products, len(features)):
            cells[:, number], values[:, number] = product(
                names, cells[:, first], cells[:, second], values[:, first] * values[:, second]
            )
        shown = [*features, *options.interactions]
        for row, why in self._reasons(values, shown).items():
            reasons.setdefault(row, why)
        labels = self._labels(table, label, reasons)
        weights = None
        if options.weight:
            weights = _numbers(table.column(options.weight))
            add_bad_weights(weights, reasons)
        read = rows
        if options.on_error == "stop" and reasons:
            read = min(reasons)  # the stream stops at the first bad row
            reasons = {read: reasons[read]}
        keep = np.arange(rows) < read
        keep[list(reasons)] = False
        bad = [
            BadRow.of_table(name, start.rows + row, why, _text_of(table, row))
            for row, why in sorted(reasons.items())
        ]
        cells, values = cells[keep], values[keep]
        present = values != 0
        counts = present.sum(axis=1).astype(np.int64)
        used, sizes = cells[present], values[present]
        for column in self._ngrams:
            counts, used, sizes = self._split(column, names, counts, used, sizes)
        keys = self._keys(used, names, name)
        good_rows = np.flatnonzero(keep)
        return self._builder.batch(
            counts=counts,
            keys=keys,
            values=sizes,
            labels=[labels[row] for row in good_rows.tolist()]
            if isinstance(labels, list)
            else labels[keep],
            weights=None if weights is None else weights[keep],
            tags=self._tags(table, good_rows),
            bad=bad,
            file=name,
            start=start,
            end=replace(start, rows=start.rows + read),
            row_ends=(start.rows + good_rows + 1).astype(np.int64),
        )

    def _parsed(
        self, table: Any, columns: list[str], reasons: dict[int, str]
    ) -> dict[str, dict[str, Floats]]:
        """Return the features of the columns with dates and amounts, by column."""
        options = self._options
        parsed: dict[str, dict[str, Floats]] = {}
        for name in columns:
            column = table.column(name)
            known = "text" if name in options.text or name in self._ngrams else None
            known = known or self._columns.get(name)
            if name in options.amounts and not _is_number(self._arrow.types, column.type):
                self._columns.setdefault(name, "number")
                values, wrong = numbers_of(_core.read_amount, name, column)
                parsed[name] = {name: values}
                why = f"column {name!r}: not a number"
            elif known == "date" or (known is None and holds_dates(self._arrow.types, column)):
                self._columns[name] = "date"
                days, wrong = days_of(self._arrow, name, column)
                parsed[name] = features_of(name, days)
                why = not_a_date(name)
            else:
                continue
            reasons.update(dict.fromkeys(wrong, why) | reasons)
        return parsed

    def _warn_about_gaps(self, table: Any, columns: list[str]) -> None:
        """Warn once about columns whose missing cells count as 0, far from the others."""
        if self._options.missing != "absent" or self._options.frozen or self._warned:
            return
        self._warned = True
        gaps = [
            Column(column, _numbers(table.column(column)))
            for column in columns
            if table.column(column).null_count and self._columns.get(column) == "number"
        ]
        warn_about_gaps(gaps, self._file, stacklevel=2)

    def _numbers(
        self, name: str, numbers: Floats, names: list[str], mark: bool
    ) -> tuple[NDArray[np.int64] | int, Floats]:
        """Return the numbers of the features of a column of numbers, and their values."""
        absent = np.isnan(numbers)
        cells: NDArray[np.int64] | int = len(names)
        values: Floats = np.where(absent, 0.0, numbers)
        names.append(name)
        if mark and self._options.missing == "mark" and absent.any():
            cells, values = np.where(absent, len(names), cells), np.where(absent, 1.0, values)
            names.append(marked(name))
        return cells, values

    def _cells(
        self, column: Any, name: str, names: list[str]
    ) -> tuple[NDArray[np.int64] | int, Floats, NDArray[np.bool_]]:
        """Return the numbers of a column's features, their values, and which cells are missing.

        The value of a missing cell is 0, or 1 where it is marked.
        """
        as_text = name in self._options.text or self._columns.get(name) == "text"
        read = arrow_column(name, column, as_text or name in self._categories)
        if read is None:
            raise DataFormatError(
                f"column {name!r} has the type {column.type}, which cannot be a feature; "
                f"leave it out with --ignore {name}, or convert it"
            )
        if not self._arrow.types.is_null(column.type):
            kind = "text" if read.numbers is None else "number"
            if self._columns.setdefault(name, kind) == "number" and not as_text and kind == "text":
                raise DataFormatError(f"column {name!r} was a number before and is text now")
        if read.numbers is not None:
            cells, values = self._numbers(name, read.numbers, names, mark=True)
            return cells, values, np.isnan(read.numbers)
        assert read.codes is not None  # noqa: S101 - numbers or codes
        seen = {*self._checked, *self._ngrams, *self._options.text}
        if not self._options.frozen and name not in seen:
            warn_about_unique(name, len(read.words), read.codes.size, self._file)
        self._checked.add(name)
        absent = read.codes < 0
        numbers: NDArray[np.int64] = read.codes + len(names)
        values = (~absent).astype(np.float64)
        names += [f"{name}={word}" for word in read.words]
        if self._options.missing == "mark" and absent.any():
            numbers, values = np.where(absent, len(names), numbers), np.where(absent, 1.0, values)
            names.append(marked(name))
        return numbers, values, absent

    def _split(
        self,
        column: str,
        names: list[str],
        counts: NDArray[np.int64],
        used: NDArray[np.int64],
        sizes: Floats,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """Replace the cells of a column by their n-grams."""
        prefix = f"{column}="
        pieces: dict[int, tuple[list[int], list[float]]] = {}
        for number in np.unique(used).tolist():
            if names[number].startswith(prefix) and names[number] != marked(column):
                grams = ngrams(names[number].removeprefix(prefix), self._ngrams[column])
                first = len(names)
                names += [f"{prefix}{gram}" for gram in grams]
                pieces[number] = ([*range(first, len(names))], [*grams.values()])
        replaced = [pieces.get(number, ([number], None)) for number in used.tolist()]
        lengths = np.array([len(numbers) for numbers, _ in replaced], np.int64)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.concatenate([[0], np.cumsum(counts)])
        values = [
            counted or [size] * len(numbers)
            for (numbers, counted), size in zip(replaced, sizes.tolist(), strict=True)
        ]
        return (
            np.diff(ends[rows]).astype(np.int64),
            np.array([number for numbers, _ in replaced for number in numbers], np.int64),
            np.array([value for several in values for value in several], np.float64),
        )

    def _keys(self, used: NDArray[np.int64], names: list[str], file: str) -> NDArray[np.int64]:
        """Return the key of each cell; new names get theirs in the order of the rows."""
        if not used.size:
            return used
        firsts = np.full(len(names), used.size)
        firsts[used[::-1]] = np.arange(used.size - 1, -1, -1)  # the last assignment wins
        order = np.argsort(firsts, kind="stable")
        keys = np.empty(len(names), np.int64)
        try:
            for number in order[: np.count_nonzero(firsts < used.size)].tolist():
                keys[number] = self._builder.key(names[number])
        except DataFormatError as error:
            raise DataFormatError(error.message, file=file) from None
        return keys[used]

    def _reasons(self, values: Floats, features: list[str]) -> dict[int, str]:
        """Return, by row, why a value cannot be used."""
        wrong = np.argwhere(~(np.abs(values) <= self._largest))
        reasons: dict[int, str] = {}
        for row, column in wrong.tolist():
            value = f"{values[row, column]:g}"
            reasons.setdefault(row, too_large(features[column], value, self._options))
        return reasons

    def _labels(
        self, table: Any, label: str | None, reasons: dict[int, str]
    ) -> list[str | None] | Floats:
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
                        reasons.setdefault(row, f"no label in column {label!r}")
            return tokens
        if not _is_number(self._arrow.types, column.type):
            raise DataFormatError(
                f"the label {label!r} has the type {column.type}, expected numbers"
            )
        numbers = _numbers(column)
        for row in np.flatnonzero(~np.isfinite(numbers)).tolist():
            if not (options.unlabelled and np.isnan(numbers[row])):
                reasons.setdefault(row, f"column {label!r}: the label is not a finite number")
        return numbers

    def _tags(self, table: Any, good_rows: NDArray[np.int64]) -> list[str] | None:
        if self._options.tag is None:
            return None
        tags = table.column(self._options.tag).to_pylist()
        return ["" if tags[row] is None else token_of(tags[row]) for row in good_rows.tolist()]


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
