"""Shared by the readers of tables: ids of names and labels, n-grams, checks of columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sonline import _core
from sonline.errors import DataFormatError, ParameterError, as_option
from sonline.rows import Floats, contiguous
from sonline.rows import Indices as Integers
from sonline.rows.cells import SparseRows
from sonline.rows.checks import value_text
from sonline.streams.batch import BadRow, Batch, Dictionary, Position

if TYPE_CHECKING:
    from sonline.streams.stream import Options

UNKNOWN = -1
LABEL_WEIGHTS = "label"  # svmlight: weights follow the labels, as in 1:0.5
NOT_UTF8 = "not valid UTF-8; convert the file, such as iconv -f ISO-8859-1 -t UTF-8 FILE"
_REPLACED = "\ufffd"  # Python decodes invalid UTF-8 to this character
_INDEX = re.compile(r"0|[1-9][0-9]{0,18}")


class RowBuilder:
    """Gives names and labels their ids, in the order of their appearance, and makes batches."""

    def __init__(self, options: Options) -> None:
        self.options = options
        names = options.names.names() if isinstance(options.names, _core.Model) else options.names
        self._names = {name: number for number, name in enumerate(names)}
        self._labels = {name: number for number, name in enumerate(options.label_names)}
        self._new_names: list[str] = []
        self._new_labels: list[str] = []
        self._dictionary = Dictionary(options.name_count, list(options.label_names))

    def key(self, name: str) -> int:
        """Return the index, id or slot of a feature; `UNKNOWN` for new names if frozen."""
        mode = self.options.features
        if mode == "name":
            stored = self._names.get(name)
            if stored is not None:
                return stored
            if self.options.frozen:
                return UNKNOWN
            self._new_names.append(name)
            self._names[name] = number = len(self._names)
            return number
        if mode == "hash":
            bits = self.options.hash_bits or 0
            return _core.hash_slot(name.encode(), bits, self.options.hash_seed)
        if not _INDEX.fullmatch(name) or int(name) >= 1 << 63:
            raise DataFormatError(f"feature {name!r} is not an index; {not_indices(self.options)}")
        return int(name)

    def keys(self, names: Sequence[str]) -> Integers:
        """Return the keys of features."""
        return np.array([self.key(name) for name in names], np.int64)

    def code(self, label: str) -> int:
        """Return the code of a class label."""
        number = self._labels.get(label)
        if number is None:
            self._labels[label] = number = len(self._labels)
            self._new_labels.append(label)
        return number

    def batch(
        self,
        *,
        rows: SparseRows,
        labels: Sequence[str | None] | Floats,
        start: Position,
        end: Position,
        weights: Floats | None = None,
        offsets: Floats | None = None,
        tags: list[str] | None = None,
        bad: Sequence[BadRow] = (),
        row_ends: Integers | None = None,
        file: str = "",
    ) -> Batch:
        """Return a batch; features with unknown keys are dropped."""
        unknown = int(rows.keys.size)
        rows = rows.known()
        unknown -= int(rows.keys.size)
        codes: Integers | None = None
        numbers: Floats | None = None
        if not isinstance(labels, np.ndarray):
            for label in dict.fromkeys(labels):
                if label is not None:
                    self.code(label)
            known_codes = self._labels
            codes = np.array(
                [UNKNOWN if label is None else known_codes[label] for label in labels], np.int64
            )
        else:
            numbers = labels
        new_names, self._new_names = self._new_names, []
        new_labels, self._new_labels = self._new_labels, []
        self._dictionary.words += new_labels
        if weights is not None and (weights == 1).all():
            weights = None
        return Batch(
            indptr=rows.indptr,
            indices=contiguous(rows.keys, np.int64),
            values=contiguous(rows.values, self.options.dtype),
            labels=numbers,
            codes=codes,
            weights=weights,
            offsets=offsets,
            tags=tags,
            named=self.options.features == "name",
            new_names=new_names,
            new_labels=new_labels,
            first_name=len(self._names) - len(new_names),
            first_label=len(self._labels) - len(new_labels),
            start=start,
            end=end,
            row_ends=row_ends,
            bad=list(bad),
            unknown_features=unknown,
            table=True,
            names=self._dictionary,
            file=file,
        )


def not_indices(options: Options) -> str:
    """Return what to do about names where indices are expected."""
    if options.frozen:
        return "the model knows its features by index, as in svmlight files"
    return 'read names with features="name" (--features name)'


def too_large(column: str, value: str, options: Options) -> str:
    """Return a message about a number in a column that a learner cannot use."""
    return value_text(f"column {column!r}", value, options.dtype, identifier(column, options))


def identifier(column: str, options: Options) -> str:
    """Return what to do about a column of large numbers."""
    if options.frozen:
        return ""
    return (
        f"if it is an identifier, leave the column out with {as_option('ignore', column)} or "
        f"read it as categories with {as_option('text', column)}"
    )


def ngram_columns(options: Sequence[str]) -> dict[str, int]:
    """Return the largest n of the n-grams of each column.

    Examples
    --------
    >>> ngram_columns(["review:2"])
    {'review': 2}
    """
    columns = {}
    for option in options:
        column, _, largest = option.rpartition(":")
        if not (column and largest.isdigit() and int(largest) > 0):
            raise ParameterError(f"ngrams (--ngrams) must be COLUMN:N, got {option!r}")
        columns[column] = int(largest)
    return columns


def ngrams(text: str, largest: int) -> dict[str, float]:
    """Return the n-grams of a text for n up to ``largest``, and how often each occurs.

    Examples
    --------
    >>> ngrams("to be or to be", 2)
    {'to': 2.0, 'be': 2.0, 'or': 1.0, 'to be': 2.0, 'be or': 1.0, 'or to': 1.0}
    """
    words = re.findall(r"[^ \t-\r]+", text)  # as the native parser splits
    counts: dict[str, float] = {}
    for length in range(1, largest + 1):
        for start in range(len(words) - length + 1):
            gram = " ".join(words[start : start + length])
            counts[gram] = counts.get(gram, 0.0) + 1.0
    return counts


def check_header(options: Options, columns: list[str], file: str, first: bool) -> str | None:
    """Check the columns of a file, and return that of the label; None if none is needed.

    Columns that options name must be in the ``first`` file, and those of each row in all files.
    """
    check_names(columns, file)
    check_known(options, columns, file)
    label = label_column(options, columns, file)
    named = [options.weight, options.offset, options.tag, *ngram_columns(options.ngrams)]
    if first:
        named += [*options.ignore, *options.text, *options.amounts]
    check_columns(named, columns, file)
    return label


def check_names(columns: list[str], file: str) -> None:
    """Raise an error about names of columns that are repeated or cannot be decoded."""
    seen = set()
    for name in columns:
        if _REPLACED in name:
            raise DataFormatError(f"a column's name is {NOT_UTF8}", file=file, line=1)
        if name in seen:
            raise DataFormatError(f"there are two columns {name!r}; rename one", file=file, line=1)
        seen.add(name)


def check_columns(names: Iterable[str | None], columns: list[str], file: str) -> None:
    """Raise an error if an option names a column that is missing."""
    for name in names:
        if name is not None and name not in columns:
            from difflib import get_close_matches  # noqa: PLC0415 - only for the message

            similar = get_close_matches(name, columns, 1)
            meant = f"; did you mean {similar[0]!r}?" if similar else ""
            raise ParameterError(
                f"{file}: no column {name!r}{meant} (there are {_listed(columns)})"
            )


def not_a_date(column: str) -> str:
    """Return why a cell of a column of dates cannot be read."""
    return (
        f"column {column!r} holds dates: expected one such as 2024-05-17 or 2024-05-17T12:30:00; "
        f"to read the column as categories, use {as_option('text', column)}"
    )


def check_known(options: Options, columns: list[str], file: str) -> None:
    """Raise an error if a model that refuses missing values would miss a whole column."""
    missing = [name for name in options.columns if name not in columns]
    if options.frozen and options.missing == "refuse" and missing:
        raise DataFormatError(f"column {missing[0]!r} of the model is not in the data", file=file)


def _listed(columns: list[str]) -> str:
    return ", ".join(name or "''" for name in columns[:20]) + (", ..." if len(columns) > 20 else "")


def label_column(options: Options, columns: list[str], file: str) -> str | None:
    """Return the label column; None if there is none and none is needed."""
    label = options.label or "label"
    if label in columns:
        return label
    if options.unlabelled:
        return None
    alike = [name for name in columns if name.strip().lower() == label.strip().lower()]
    if not options.header and re.fullmatch(r"-?\d+", label):
        number = int(label)
        alike = columns[number - 1 : number] if number > 0 else columns[number:][:1]
    meant = f", such as {alike[0]!r}" if alike else ""
    data = any(re.fullmatch(r"\s*[+-]?\d+([.,]\d+)?\s*", name) for name in columns)
    hint = "; if the first row is data, use header=False (--no-header)" if data else ""
    if options.frozen:
        hint = "; the first row must have the names" if data else ""
    elif len(columns) == 1 and options.delimiter is None and options.format == "csv":
        hint = "; set the delimiter (--delimiter) if this is not the name of a single column"
    raise ParameterError(
        f"{file}: no column {label!r}; name the column of the label, label=NAME or --label NAME"
        f"{meant} (there are {_listed(columns)}){hint}"
    )
