"""CSV and TSV, read by the native parser. A bad cell makes its row a bad row.

A number is a feature with the name of its column, text is the feature ``column=value`` with value
1, and missing cells are absent. The first rows decide the type of a column, which does not change.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sonline import _core
from sonline.errors import DataFormatError, ParameterError, as_option
from sonline.rows.amounts import NUMBER_SHARE, Looks, number_of, refuse_amounts
from sonline.rows.checks import no_value
from sonline.rows.columns import Column, warn_about_gaps, warn_if_unique
from sonline.streams.batch import BadRow, Position
from sonline.streams.interactions import column_pairs
from sonline.streams.rows import (
    NOT_UTF8,
    check_header,
    ngram_columns,
    not_a_date,
    not_indices,
    too_large,
)
from sonline.streams.sources import refuse_other_files
from sonline.streams.text import TextReader, seek

if TYPE_CHECKING:
    from sonline.streams.sources import Source
    from sonline.streams.stream import Options

DELIMITERS = ",;\t|"
_NO_DELIMITERS = (*'0123456789+-."\r\n',)
NA_VALUES = (
    *("?", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NaN", "nan", "-NaN", "-nan"),
    *("NULL", "null", "None", "none", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", r"\N", "<NA>"),
)
_HEAD = 1 << 20  # bytes that delimiter and types are detected from
_DIFFERENT_ROWS = 5000  # rows whose values are compared
_SAMPLED_CELLS = 100_000  # that are looked at for missing values
_DELIMITER_ROWS = 20  # rows that the delimiter is detected from
_MUST_BE = {
    "weight": "a weight must be a number of at least 0",
    "offset": "an offset must be a finite number",
}
_NOT_FINITE = ("not_finite", "overflow", "overflow_float32", "value_too_large")


class CsvReader(TextReader):
    """Reads files whose rows have a delimiter between their cells."""

    def __init__(self, options: Options, columns: dict[str, str]) -> None:
        if options.delimiter is not None and options.delimiter in _NO_DELIMITERS:
            raise ParameterError(
                f"delimiter (--delimiter) {options.delimiter!r} may be part of a number, or has "
                "another meaning in CSV"
            )
        super().__init__(options, columns)
        self._ngrams = ngram_columns(options.ngrams)
        self._kinds: dict[str, str] = {}  # the type of each column of this file
        self._seen: set[str] = set()  # the columns of all files
        self._shown: list[str] = []  # these columns, then the products of columns, for errors

    def _na_values(self) -> list[str]:
        return [*NA_VALUES, *self._options.na_values]

    def seen_columns(self) -> set[str]:
        """Return the columns that files had."""
        return self._seen

    def _begin(self, source: Source, start: Position) -> tuple[Position, bytes]:
        """Read the names and types of the columns; return where the rows start."""
        options = self._options
        head = b""
        while b"\n" not in head and (chunk := source.read(_HEAD)):
            head += chunk
        refuse_other_files(head, source.name)
        delimiter, names, position = self._first_row(head, start, source.name)
        sure = options.header or options.delimiter or options.format == "tsv"
        if not sure or not {*names} <= self._known():  # more rows are needed to detect the rest
            while len(head) < _HEAD and (chunk := source.read(_HEAD - len(head))):
                head += chunk
            delimiter, names, position = self._first_row(head, start, source.name)
        if names:
            end = b"" if len(head) >= _HEAD else b"\n"
            self._set_columns(names, head[position.offset :] + end, delimiter, source.name)
        position = start if start.offset > position.offset else position
        if position.offset <= len(head):
            return position, head[position.offset :]
        seek(source, position.offset if source.seekable else position.offset - len(head))
        return position, b""

    def _known(self) -> set[str | None]:
        """Return the columns whose type is known."""
        options = self._options
        special = (options.label or "label", options.weight, options.offset, options.tag)
        return {*special, *self._types, *options.text, *options.ignore}

    def _first_row(
        self, head: bytes, start: Position, file: str
    ) -> tuple[str, list[str], Position]:
        """Return the delimiter, the names of the columns and where the rows start."""
        options = self._options
        mark = len(BOM_UTF8) if head.startswith(BOM_UTF8) else 0
        head = head[mark:]
        delimiter = "\t" if options.format == "tsv" else options.delimiter or sniffed(head)
        rows, used = _core.split_csv(head, delimiter, 1)
        cells = [cell.decode("utf-8", "replace") for row in rows for cell in row]
        if any("\r" in cell and "\n" not in cell for cell in cells):
            raise DataFormatError(
                "lines end with carriage returns, expected line feeds: convert the file (tr)",
                file=file,
                line=1,
            )
        position = replace(start, line=1, offset=mark, rows=0)
        if not options.header:
            return delimiter, [f"c{number + 1}" for number in range(len(cells))], position
        if len(cells) > 1 and None not in map(number_of, cells):
            hint = (
                "the model was trained on a table with a header"
                if options.frozen
                else "if there is no header, use header=False (--no-header): the columns are then "
                "called c1, c2, ..."
            )
            raise DataFormatError(
                f"the first row holds numbers, not column names; {hint}", file=file, line=1
            )
        position = replace(position, line=1 + head.count(b"\n", 0, used), offset=mark + used)
        return delimiter, cells, position

    def _set_columns(self, names: list[str], sample: bytes, delimiter: str, file: str) -> None:
        """Set the types of a file's columns; those not known yet are detected from a sample."""
        options = self._options
        first = not self._types and not options.frozen
        label = check_header(options, names, file, first)
        self._seen.update(names)
        if not options.header:
            most = max((int(known[1:]) for known in self._types), default=0)
            if len(names) < most:
                raise DataFormatError(
                    f"{len(names)} columns, and there were {most} before: without a header, "
                    "all files need the same columns in the same order",
                    file=file,
                )
        self._kinds = dict.fromkeys(names, "ignored")
        kinds = {
            label: "label",
            options.weight: "weight",
            options.offset: "offset",
            options.tag: "tag",
        }
        features = [name for name in names if name not in kinds and name not in options.ignore]
        self._kinds |= {name: kind for name, kind in kinds.items() if name is not None}
        text = {*options.text, *self._ngrams}
        for name in options.amounts:
            self._types.setdefault(name, "number")
        unknown = [name for name in features if name not in self._types and name not in text]
        cells = []
        if unknown:
            cells = _core.describe_csv(sample, delimiter, len(names), self._na_values())
        described = dict(zip(names, cells, strict=False))
        words = [n for n in unknown if described[n][1] > (1 - NUMBER_SHARE) * described[n][0]]
        dates: set[str] = set()
        if words and not options.frozen:
            dates = self._check_words(words, names, sample, delimiter, file)
        for name in features:
            kind = "text" if name in text else self._types.get(name)
            if name in dates:
                kind = "date"
            self._kinds[name] = kind or _kind_of(name, file, described[name], options.frozen)
            if self._kinds[name] != "unknown":
                self._types.setdefault(name, self._kinds[name])
            if name in options.amounts:
                self._kinds[name] = "amount"
        if described and not options.frozen and options.missing == "absent":
            self._warn_about_gaps(names, described, sample, delimiter, file)
        products = column_pairs(options.interactions, features, file)
        positions = {name: number for number, name in enumerate(names)}
        self._shown = [*names, *options.interactions]
        self._parser.set_columns(
            names,
            list(self._kinds.values()),
            [self._ngrams.get(name, 0) for name in names],
            [
                (positions[features[first]], positions[features[second]])
                for first, second in products
            ],
            delimiter,
        )

    def _warn_about_gaps(
        self,
        names: list[str],
        described: dict[str, tuple[int, int, int, bytes]],
        sample: bytes,
        delimiter: str,
        file: str,
    ) -> None:
        """Warn about columns whose missing cells count as 0, far from the others."""
        most = max(count for count, *_ in described.values())
        chosen = [
            name
            for name, (count, *_) in described.items()
            if count < most and self._kinds[name] == "number"
        ]
        if not chosen:
            return
        rows, _ = _core.split_csv(sample, delimiter, max(_SAMPLED_CELLS // len(names), 1))
        table = [[cell.decode("utf-8", "replace") for cell in row] for row in rows]
        columns = []
        for name in chosen:
            number = names.index(name)
            cells = [number_of(row[number]) for row in table if len(row) == len(names)]
            columns.append(Column(name, np.array(cells, np.float64)))  # NaN for None
        warn_about_gaps(columns, file, stacklevel=2)

    def _check_words(
        self, chosen: list[str], names: list[str], sample: bytes, delimiter: str, file: str
    ) -> set[str]:
        """Return columns of dates; raise an error about words that seem to be meant as numbers."""
        dates = set()
        amounts: dict[str, str] = {}  # columns, and a cell of each
        rows, _ = _core.split_csv(sample, delimiter, _DIFFERENT_ROWS)
        missing = {"", *self._na_values()}
        for name in chosen:
            number = names.index(name)
            cells = {row[number].decode("utf-8", "replace").strip() for row in rows if row[number:]}
            cells -= missing
            if cells and all(_core.read_date(cell) is not None for cell in cells):
                dates.add(name)
                continue
            looks = Looks.of(cells)
            if looks.are_numbers:
                raise _words_among_numbers(name, file, looks.word)
            if looks.amount is not None:
                amounts[name] = looks.amount
            else:
                warn_if_unique(name, len(cells), len(rows), file)
        refuse_amounts(amounts, file)
        return dates

    def _bad(self, error: _core.TextError, name: str) -> BadRow:
        word = error.word.decode("utf-8", "replace")
        reason, text = self._reason(error, word)
        reason = f"row {error.row + 1}: {reason}"
        return BadRow(name, error.line, None, error.offset, reason, text, error.text)

    def _reason(self, error: _core.TextError, word: str) -> tuple[str, str]:
        """Return why a row is bad, and the text to show with it."""
        options = self._options
        if error.kind == "cell_count":
            return f"{error.cell} cells, expected {len(self._kinds)}", word
        if error.kind == "invalid_utf8":
            return f"a NUL, or {NOT_UTF8}", ""
        if error.kind == "line_too_long":
            return "it has more than 64 MB: perhaps a quotation mark is not closed", word
        column = self._shown[error.cell]
        if error.kind == "quote_open":
            what = f"the quotation mark in column {column!r} is not closed"
            return f"{what}; the rest of the file is inside this cell", word
        if error.kind == "name_not_index":
            raise DataFormatError(
                f"column {column!r} holds features that are not indices; {not_indices(options)}"
            )
        kind = self._kinds.get(column, "number")
        if kind == "label":
            if error.kind == "label_missing":
                return f"no label in column {column!r}", ""
            commas = re.fullmatch(r'"?[+-]?\d{1,3}(,\d{3})+(\.\d+)?"?', word)
            hint = "; write it without commas" if commas else ""
            return f"column {column!r}: the label is not a finite number{hint}", word
        if kind in _MUST_BE:
            cell = word.strip(' \t\r\n",;|')  # the word of an empty cell is its delimiter
            if not cell or cell in self._na_values():
                return f"no {kind} in column {column!r}", ""
            return f"column {column!r}: {_MUST_BE[kind]}", word
        if error.kind in ("cell_missing", "not_a_date"):
            return (no_value(column) if error.kind == "cell_missing" else not_a_date(column)), ""
        if error.kind in _NOT_FINITE:
            return too_large(column, word, options), ""
        if options.frozen:
            return f"column {column!r}: {word!r} is not a number, but the model has numbers", ""
        what = f"{word!r} is not a number, but the first rows are"
        how = as_option("text", column)
        return f"column {column!r}: {what}; to read the column as categories, use {how}", ""


def _kind_of(name: str, file: str, cells: tuple[int, int, int, bytes], frozen: bool = False) -> str:
    """Return the type of a column: "number", "text" or, if it has no cells, "unknown".

    ``cells`` has the number of its cells, of the words and the decimal commas among them, and the
    first word. A few words among numbers are an error.
    """
    total, words, decimal_commas, first = cells
    if not total:
        return "unknown"
    if not words:
        return "number"
    word = first.decode("utf-8", "replace")
    if words <= (1 - NUMBER_SHARE) * total:
        raise _words_among_numbers(name, file, word, frozen)
    if decimal_commas >= NUMBER_SHARE * total:
        how = as_option("text", name)
        raise DataFormatError(
            f"column {name!r} has commas in its numbers: write 1.5 and 1500 instead of 1,5 and "
            "1,500" + ("" if frozen else f", or read the column as categories with {how}"),
            file=file,
            text=word,
        )
    return "text"


def _words_among_numbers(name: str, file: str, word: str, frozen: bool = False) -> DataFormatError:
    remedy = (
        "leave the cell empty if its value is missing"
        if frozen
        else f"if it stands for a missing value, use {as_option('na_values', word)}; to read the "
        f"column as categories, use {as_option('text', name)}"
    )
    return DataFormatError(
        f"column {name!r} holds numbers and this word: {remedy}", file=file, text=word
    )


def sniffed(head: bytes) -> str:
    r"""Return the delimiter of a file: the one that splits the first rows into the most cells.

    Examples
    --------
    >>> sniffed(b"a;b;c\n1,5;2;3\n"), sniffed(b"a,b\n1;2,3\n")
    (';', ',')
    """
    best, most = ",", 0
    for delimiter in DELIMITERS:
        rows, _ = _core.split_csv(head, delimiter, _DELIMITER_ROWS)
        least = min((len(cells) - 1 for cells in rows), default=0)
        if least > most:
            best, most = delimiter, least
    return best
