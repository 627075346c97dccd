"""CSV and TSV: cells are read as text first, so that a bad cell is a bad row and not a bad file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonline.errors import DataFormatError
from sonline.streams.batch import BadRow
from sonline.streams.files import REPLACED, Again, Utf8File, peek
from sonline.streams.rows import label_column
from sonline.streams.sources import open_source

if TYPE_CHECKING:
    from sonline.streams.sources import Source
    from sonline.streams.stream import Options

ROWS = 8192  # of a piece at most
CELLS = 1 << 18  # of a piece of several rows at most: they are in memory several times
_BLOCK = 1 << 20  # what types are told from, and what is read at a time
_LARGE_BLOCK = 1 << 24  # ... where the first rows are long; a row must fit in
DELIMITERS = ",;\t|"
# Beside those that pyarrow takes for missing: "", NA, N/A, NaN, null, ...
MISSING = ("?", "None", "none")
_MANY = 0.9  # so many numbers among its cells, and a column is one of numbers
_NUMBER = r"^[ \t]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t]*$"
_DECIMAL_COMMA = r"^[ \t]*[+-]?\d+,\d+[ \t]*$"
_LOOKED_AT = 20  # lines that the delimiter is told from
_LOOKED_FOR = 1_000_000  # rows whose lines are looked for


class Delimited:
    """Reads files of rows with a delimiter between their cells.

    Parameters
    ----------
    arrow : module
        pyarrow.
    options : Options
        Of the stream.
    columns : dict
        Types of the columns known from before.

    Attributes
    ----------
    malformed : list of BadRow
        Rows with too few or too many cells, or with a quotation mark that is not closed. Their
        ``offset`` is the number of the table's row before them (-1 for none). The reader appends
        to it from a thread of its own, and ahead of the rows that it has given.
    """

    def __init__(self, arrow: Any, options: Options, columns: dict[str, str]) -> None:
        self._arrow = arrow
        self._options = options
        self._columns = columns
        self._delimiter = "\t" if options.format == "tsv" else options.delimiter or ","
        self._kinds: dict[str, str] = {}  # of the columns: "number" or "text"
        self._repaired = False  # bytes of this file were not UTF-8
        self._invalid_rows = 0  # of this file
        self.malformed: list[BadRow] = []

    def read(self, source: Source) -> Iterator[Any]:
        """Yield pieces of a file; their cells are text."""
        from pyarrow import csv as arrow_csv  # noqa: PLC0415 - what is needed only

        self._invalid_rows = 0
        text = Utf8File(source)
        head = peek(text, _BLOCK)
        if not head.strip():
            return
        if self._options.format == "csv" and self._options.delimiter is None:
            self._delimiter = sniffed(head)
        parse = arrow_csv.ParseOptions(
            delimiter=self._delimiter,
            newlines_in_values=True,
            invalid_row_handler=lambda row: self._invalid(row, source.name),
        )
        self._kinds = self._told(arrow_csv, head, source.name)
        long = max(map(len, head.split(b"\n"))) > _BLOCK // 8
        read = arrow_csv.ReadOptions(
            block_size=_LARGE_BLOCK if long else _BLOCK,
            use_threads=False,
            column_names=None if self._options.header else list(self._kinds),
        )
        # Cells stay text for now, so that one that is no number is a bad row, not a bad file.
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(self._kinds, self._arrow.string()),
            strings_can_be_null=True,
            null_values=self._nulls(arrow_csv),
        )
        rows = 0
        tables = iter(arrow_csv.open_csv(Again(head, text), read, parse, convert))
        for table in tables:
            # Few tables are left when the file has been read: one of them has its last row.
            left = [table, *tables] if text.ended else [table]
            self._repaired = text.repaired
            rows += sum(one.num_rows for one in left)
            last = left[-1]
            if text.ended and last.num_rows and _is_open(last, text.tail, self._delimiter):
                left[-1] = self._without_last(last, rows, source.name)
            for one in left:
                yield from pieces(one)
        if self.malformed:  # in blocks without any other rows
            nothing = [self._arrow.array([], self._arrow.string())] * len(self._kinds)
            yield self._arrow.RecordBatch.from_arrays(nothing, list(self._kinds))

    def _without_last(self, table: Any, number: int, file: str) -> Any:
        """Return a table without its last row, in which a quotation mark is not closed."""
        reason = f"row {number}: the quotation mark in column {table.schema.names[-1]!r} is not "
        reason += "closed; what follows it to the end of the file is in its cell"
        text = self.text_of(table, table.num_rows - 1)
        word = (table.columns[-1][-1].as_py() or "")[:40]
        self.malformed.append(BadRow(file, None, None, number - 2, reason, word, text))
        return table.slice(0, table.num_rows - 1)

    def line_of(self, file: str, number: int) -> int | None:
        """Return the line that a row of a file begins on, counted from 1; None if it is unknown.

        Rows and lines differ where there are blank lines, or line breaks in cells. The file is read
        again for it, which takes a second or two for the rows that are looked for.
        """
        if number > _LOOKED_FOR or not Path(file).is_file():
            return None
        source = open_source(file)
        plain = io.TextIOWrapper(source.plain, "utf-8", errors="replace", newline="")
        reader = csv.reader(plain, delimiter=self._delimiter)
        before, records = 0, 0
        try:
            for record in reader:
                records += bool(record)  # a blank line is none
                if records == number + self._options.header:  # after the names of the columns
                    return before + 1
                before = reader.line_num
        except csv.Error:
            pass
        finally:
            source.close()
        return None

    def _told(self, arrow_csv: Any, head: bytes, name: str) -> dict[str, str]:
        """Return which columns are numbers: as known, else as the first rows show them."""
        if len(head) >= _BLOCK:
            head = head[: head.rfind(b"\n") + 1] or head
        quiet = arrow_csv.ParseOptions(
            delimiter=self._delimiter,
            newlines_in_values=True,
            invalid_row_handler=lambda _: "skip",
        )
        read = arrow_csv.ReadOptions(
            block_size=2 * _BLOCK,
            use_threads=False,
            autogenerate_column_names=not self._options.header,
        )
        convert = arrow_csv.ConvertOptions(null_values=self._nulls(arrow_csv))
        table = arrow_csv.read_csv(io.BytesIO(head), read, quiet, convert)
        if not self._options.header:
            table = table.rename_columns([f"c{n + 1}" for n in range(table.num_columns)])
            most = max((int(known[1:]) for known in self._columns), default=0)
            if table.num_columns < most:
                raise DataFormatError(
                    f"{table.num_columns} columns, and there were {most} before: without names of "
                    "columns all of them must be there, in their order",
                    file=name,
                )
        elif table.num_columns > 1 and None not in map(number_of, table.schema.names):
            raise DataFormatError(
                "the first row holds numbers, not names of columns; if there are no names, use "
                "header=False (--no-header), which calls the columns c1, c2, ...",
                file=name,
                line=1,
            )
        schema = table.schema
        check_names(schema.names, name)
        options = self._options
        label = label_column(options, schema.names, name)
        kinds = {}
        for field in schema:
            if (field.name == label and options.tokens) or field.name == options.tag:
                kind = "text"
            elif field.name in (label, options.weight):
                kind = "number"
            elif field.name in options.text:
                kind = "text"
            else:
                kind = self._columns.get(field.name) or "number"
                if field.name not in self._columns and not is_number(self._arrow, field.type):
                    kind = "text"
                    if field.name not in options.ignore:
                        self._refuse_doubtful(table.column(field.name), field.name, name)
            kinds[field.name] = kind
        return kinds

    def _nulls(self, arrow_csv: Any) -> list[str]:
        known = arrow_csv.ConvertOptions().null_values
        return [*known, *MISSING, *self._options.missing]

    def _refuse_doubtful(self, column: Any, name: str, file: str) -> None:
        """Raise an error about a column that would be one of words for a few cells of it."""
        from pyarrow import compute  # noqa: PLC0415 - what is needed only

        if not self._arrow.types.is_string(column.type):
            return
        cells = column.drop_null()
        if not len(cells):
            return
        numbers = compute.match_substring_regex(cells, _NUMBER)
        share = compute.mean(numbers.cast("float64")).as_py()
        if share < _MANY:
            commas = compute.match_substring_regex(cells, _DECIMAL_COMMA)
            if compute.mean(commas.cast("float64")).as_py() >= _MANY:
                raise DataFormatError(
                    f"column {name!r} has decimal commas, which are not read; write points, or "
                    f"read the column as words with --text {name}",
                    file=file,
                    text=cells[0].as_py(),
                )
            return
        word = cells.filter(compute.invert(numbers))[0].as_py()
        raise DataFormatError(
            f"column {name!r} holds numbers, and a word that is none: if it means that nothing is "
            f"known, use --missing {word}; if the numbers are words, --text {name}",
            file=file,
            text=word,
        )

    def typed(self, table: Any) -> tuple[Any, dict[int, str]]:
        """Return a piece of a CSV with its numbers read, and why rows cannot be used."""
        reasons: dict[int, str] = {}
        columns = []
        for name, column in zip(table.schema.names, table.columns, strict=True):
            if self._repaired:
                cells = column.to_pylist()
                for row in [n for n, cell in enumerate(cells) if cell and REPLACED in cell]:
                    reasons.setdefault(row, f"column {name!r}: not valid UTF-8, or a NUL")
            if self._kinds[name] == "text":
                columns.append(column)
                continue
            numbers, wrong = self._parsed(column)
            columns.append(numbers)
            for row in wrong:
                cell = column[row].as_py()
                reasons.setdefault(
                    row,
                    f"column {name!r}: {cell[:40]!r} is not a number, as its first rows were; to "
                    f"read it as words, use --text {name}",
                )
        return self._arrow.RecordBatch.from_arrays(columns, table.schema.names), reasons

    def _parsed(self, column: Any) -> tuple[Any, list[int]]:
        """Return a column of text as numbers, and the rows that hold none (missing there)."""
        from pyarrow import compute  # noqa: PLC0415 - what is needed only

        try:
            return compute.ascii_trim_whitespace(column).cast("float64"), []
        except self._arrow.ArrowInvalid:
            numbers: list[float | None] = []
            wrong = []
            for row, cell in enumerate(column.to_pylist()):
                number = None if cell is None else number_of(cell)
                if cell is not None and number is None:
                    wrong.append(row)
                numbers.append(number)
            return self._arrow.array(numbers, "float64"), wrong

    def _invalid(self, row: Any, name: str) -> str:
        """Take a row with too few or too many cells."""
        number = int(row.number) - self._options.header  # the names of the columns do not count
        reason = f"row {number}: {row.actual_columns} cells, expected {row.expected_columns}"
        text = (row.text or "").encode()
        before = number - 2 - self._invalid_rows
        self._invalid_rows += 1
        word = (row.text or "")[:40]
        self.malformed.append(BadRow(name, None, None, before, reason, word, text))
        return "skip"

    def text_of(self, table: Any, row: int) -> bytes:
        """Return a row as it may stand in a file."""
        line = io.StringIO()
        cells = [column[row].as_py() for column in table.columns]
        csv.writer(line, delimiter=self._delimiter, lineterminator="").writerow(cells)
        return line.getvalue().encode()


def number_of(cell: str) -> float | None:
    """Return the number that a cell of text holds; None if there is none."""
    word = cell.strip()
    if word.lower() in ("true", "false"):
        return float(word.lower() == "true")
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def _is_open(table: Any, tail: bytes, delimiter: str) -> bool:
    """Return whether the last cell of a file began with a quotation mark that is not closed."""
    cell = (table.columns[-1][-1].as_py() or "").replace('"', '""').encode()
    if len(cell) >= len(tail):
        return cell.endswith(tail)
    before = tail.removesuffix(cell)
    return tail.endswith(cell) and before.endswith((f'{delimiter}"'.encode(), b'\n"', b'\r"'))


def check_names(columns: list[str], file: str) -> None:
    """Raise an error about columns that cannot be told from one another, or read."""
    seen = set()
    for name in columns:
        if REPLACED in name:
            raise DataFormatError("a column's name is not valid UTF-8", file=file, line=1)
        if name in seen:
            raise DataFormatError(f"there are two columns {name!r}; rename one", file=file, line=1)
        seen.add(name)


def is_number(arrow: Any, kind: Any) -> bool:
    """Return whether an Arrow type is that of numbers."""
    types = arrow.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    )


def pieces(table: Any) -> Iterator[Any]:
    """Yield a table some rows at a time; an empty one as it is."""
    rows = max(1, min(ROWS, CELLS // max(table.num_columns, 1)))
    for first in range(0, max(table.num_rows, 1), rows):
        yield table.slice(first, rows)


def sniffed(head: bytes) -> str:
    r"""Return the delimiter of a file from its beginning: the one that splits the first rows alike.

    Examples
    --------
    >>> sniffed(b"a;b;c\n1,5;2;3\n"), sniffed(b"a,b\n1;2,3\n")
    (';', ',')
    """
    lines = head.decode("utf-8", "replace").splitlines()[:_LOOKED_AT]
    best, most = ",", 0
    for delimiter in DELIMITERS:
        try:
            counts = [len(cells) - 1 for cells in csv.reader(lines, delimiter=delimiter) if cells]
        except csv.Error:  # a cell that is longer than this reader takes
            continue
        least = min(counts, default=0)
        if least > most:
            best, most = delimiter, least
    return best
