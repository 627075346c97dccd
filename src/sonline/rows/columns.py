"""Columns of frames (pandas, polars, Arrow): their names, types and values."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from sonline.errors import InvalidInputError, as_option, shown
from sonline.labels import token_of
from sonline.rows.amounts import Looks
from sonline.rows.checks import Reason, Reasons, is_missing
from sonline.rows.dates import (
    are_dates,
    as_text,
    days_of_stamps,
    days_of_texts,
    is_date,
    part_names,
    parts_of,
)
from sonline.rows.types import UNKNOWN, Floats, Indices, Keys

MISSING_WORD = "(missing)"  # marks a missing value as text in its column
_WARNING_ROWS = 30  # rows that are needed to warn about missing values
_WARNING_SHARE = 0.01  # of missing values in a column
_OUTLIER = 2  # standard deviations from 0, where a 0 would be an outlier
_UNIQUE_ROWS, _UNIQUE_SHARE = 100, 0.9  # from so many rows, this share of texts is odd
_SAMPLED_DATES = 100  # texts that decide whether a column holds dates
_SAMPLED_AMOUNTS = 5000  # rows whose texts decide whether a column holds amounts
_SAMPLED_VALUES = 8  # values of a column of numbers that may be words of the model
PLURALS = {"text": "text", "number": "numbers", "date": "dates"}

KnownKeys: TypeAlias = Callable[[list[str]], Keys] | None
"""Returns the keys of names that a model has, and `UNKNOWN` for others; None if it has no names."""


@dataclass
class Column:
    """A column of a frame: numbers (NaN where missing), or codes of words (-1 where missing).

    Numbers may be days, of ``dates``, which have more features; in a column that is one of these,
    a ``part``, missing values are not marked again. Words of ``categories`` are categories, also if
    they could be dates.
    """

    name: str
    numbers: Floats | None = None
    codes: Indices | None = None
    words: Sequence[str] = ()
    dates: bool = False
    categories: bool = False
    part: bool = False

    @property
    def kind(self) -> str:
        """The type of the column, as models store it."""
        if self.dates:
            return "date"
        return "text" if self.numbers is None else "number"

    def __len__(self) -> int:
        values = self.codes if self.numbers is None else self.numbers
        return 0 if values is None else len(values)


def is_frame(X: Any) -> bool:
    """Return whether X is a frame of pandas, polars or Arrow."""
    kind = type(X)
    package = kind.__module__.partition(".")[0]
    if package == "polars" and kind.__name__ == "LazyFrame":
        raise InvalidInputError("X is a LazyFrame; collect() it first")
    names = {
        "pandas": ("DataFrame",),
        "polars": ("DataFrame",),
        "pyarrow": ("Table", "RecordBatch"),
    }
    return any(base.__name__ in names.get(package, ()) for base in kind.__mro__)


def len_of(frame: Any) -> int:
    """Return the number of rows of a frame."""
    return int(frame.shape[0] if hasattr(frame, "shape") else frame.num_rows)


def names_of(frame: Any) -> list[Any]:
    """Return the names of a frame's columns."""
    if hasattr(frame, "schema") and hasattr(frame, "num_rows"):
        return list(frame.schema.names)
    return list(frame.columns)


def has_names(frame: Any) -> bool:
    """Return whether the columns of a frame have names; False if they have numbers, as in arrays.

    Raises
    ------
    InvalidInputError
        If two columns have the same name, or a name is no text.
    """
    names = names_of(frame)
    if names and all(isinstance(name, (int, np.integer)) for name in names):
        if min(names) < 0 or max(names) >= 1 << 63 or len(set(names)) < len(names):
            raise InvalidInputError(
                "X: numbers of columns must be different and between 0 and 2^63 - 1, got "
                f"{names[:10]}"
            )
        return False
    for number, name in enumerate(names):
        if not isinstance(name, str):
            raise InvalidInputError(f"X: the name of a column must be text, got {name!r}")
        if name in names[:number]:
            raise InvalidInputError(f"X has two columns {name!r}; rename one")
    return True


def columns_of(frame: Any) -> list[Column] | None:
    """Return the columns of a frame by name; None if it has numbers for names, as arrays have."""
    if not has_names(frame):
        return None
    package = type(frame).__module__.partition(".")[0]
    read = {"pandas": _pandas_column, "polars": _polars_column}.get(package, _arrow_column)
    return [
        read(name, frame.iloc[:, number] if package == "pandas" else frame[name])
        for number, name in enumerate(names_of(frame))
    ]


def each_row(X: Any) -> Iterator[Any]:
    """Yield the rows of a frame as mappings, of a sparse matrix as matrices, others as they are."""
    if is_frame(X):
        names, columns = names_of(X), range(len(names_of(X)))
        values = [X.iloc[:, n] if hasattr(X, "iloc") else X[names[n]] for n in columns]
        for cells in zip(*(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
                           for column in values), strict=True):  # fmt: skip
            yield dict(zip(names, cells, strict=True))
    elif isinstance(X, (str, Mapping)):
        raise InvalidInputError(f"X must have several rows, got {shown(X)}")
    elif hasattr(X, "tocsr"):
        rows = X.tocsr()
        for number in range(rows.shape[0]):
            yield rows[[number]]
    else:
        yield from X


def one_row(x: Any) -> Any:
    """Return a frame of one row as a mapping from column to value; anything else as it is."""
    if not is_frame(x):
        return x
    if len_of(x) != 1:
        raise InvalidInputError(f"one row is expected, and the frame has {len_of(x)}")
    names = names_of(x)
    if hasattr(x, "iloc"):
        values = [x.iloc[0, number] for number in range(len(names))]
    else:
        values = [x[name][0] for name in names]
    values = [value.as_py() if hasattr(value, "as_py") else value for value in values]
    return dict(zip(names, values, strict=True))


def _pandas_column(name: str, series: Any) -> Column:
    kind = series.dtype
    if hasattr(kind, "categories"):
        codes = series.cat.codes.to_numpy().astype(np.int64)
        words = [token_of(v) for v in kind.categories]
        return Column(name, codes=codes, words=words, categories=True)
    if getattr(kind, "kind", "O") in "biuf":
        return Column(name, series.to_numpy(dtype=np.float64, na_value=np.nan))
    if getattr(kind, "kind", "O") == "M":
        utc = series.dt.tz_convert("UTC").dt.tz_localize(None) if hasattr(kind, "tz") else series
        stamps = utc.to_numpy().astype("datetime64[us]")
        return _dates(name, stamps.astype(np.int64), np.isnat(stamps))
    if getattr(kind, "kind", "O") in "OTU" or str(kind).startswith("str"):
        return _column_of_objects(name, series.to_list())
    raise _no_feature(name, kind)


def _polars_column(name: str, series: Any) -> Column:
    kind = series.dtype
    if kind.is_numeric() or str(kind) == "Boolean":
        numbers = series.cast(sys.modules["polars"].Float64).to_numpy()
        return Column(name, np.asarray(numbers, np.float64))
    if str(kind).startswith("Date"):  # Date, Datetime(...), whose zone only says how it is shown
        moments = series.cast(sys.modules["polars"].Datetime("us"))
        stamps = moments.to_physical().fill_null(0).to_numpy()
        return _dates(name, stamps, moments.is_null().to_numpy())
    if str(kind).startswith(("String", "Utf8", "Categorical", "Enum", "Null")):
        column = _column_of_objects(name, series.to_list())
        return replace(column, categories=str(kind).startswith(("Categorical", "Enum")))
    raise _no_feature(name, kind)


def _arrow_column(name: str, column: Any) -> Column:
    read = arrow_column(name, column)
    if read is None:
        raise _no_feature(name, column.type)
    return read


def arrow_column(name: str, column: Any, as_text: bool = False) -> Column | None:
    """Return a column of Arrow; None if it has neither numbers nor text.

    Numbers and dates are words if ``as_text``, and in a dictionary: a column of categories.
    """
    arrow = sys.modules["pyarrow"]
    types, kind = arrow.types, column.type
    if types.is_dictionary(kind):
        as_text = True
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.value_type
        column = _decoded(column, kind)
    if types.is_date(kind) or types.is_timestamp(kind):
        moments = column.cast(arrow.timestamp("us"), safe=False)
        if as_text:
            return arrow_column(name, column.cast(arrow.string()), as_text)
        stamps = moments.cast("int64").fill_null(0).to_numpy(zero_copy_only=False)
        return _dates(name, stamps, moments.is_null().to_numpy(zero_copy_only=False))
    if str(kind) == "string_view":  # pyarrow 15 has no test for it
        kind = arrow.large_string()
        column = column.cast(kind)
    number = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    if number and not as_text:
        numbers = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        return Column(name, np.asarray(numbers, np.float64))
    if types.is_decimal(kind) and not as_text:  # the cast of Arrow rounds some of them wrongly
        return _column_of_objects(name, column.to_pylist())
    if types.is_null(kind):
        return Column(name, codes=np.full(len(column), -1))
    text = types.is_string(kind) or types.is_large_string(kind)
    if not (text or number or types.is_decimal(kind)):
        return None
    chunk = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    encoded = chunk.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    words = [token_of(v) for v in encoded.dictionary.to_pylist()]
    return Column(name, codes=codes, words=words, categories=as_text)


def _decoded(column: Any, kind: Any) -> Any:
    """Return a column of a dictionary, or run-end encoded, with the values themselves."""
    if sys.modules["pyarrow"].types.is_dictionary(column.type):
        return column.cast(kind)
    from pyarrow import compute  # noqa: PLC0415 - rarely needed

    return compute.run_end_decode(column)


def _column_of_objects(name: str, values: list[Any]) -> Column:
    """Return a column of texts, or of numbers, with None, NaN and NA for missing values."""
    present = [v for v in values if not is_missing(v)]
    if present and all(map(is_date, present)):
        texts = [None if is_missing(v) else as_text(v) for v in values]
        days, _ = days_of(_column_of_objects(name, texts))
        return days
    if present and not any(isinstance(v, str) for v in present):
        for value in present:
            if not isinstance(value, (bool, int, float, Decimal, np.number, np.bool_)):
                raise _no_feature(name, type(value).__name__)
        return Column(
            name, np.array([math.nan if is_missing(v) else float(v) for v in values], np.float64)
        )
    numbers: dict[str, int] = {}
    codes = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        if is_missing(value):
            codes[row] = -1
            continue
        if not isinstance(value, str):
            raise InvalidInputError(
                f"column {name!r} mixes text and {type(value).__name__}, such as {value!r}; "
                "convert it to one of them",
                argument="X",
                row=row,
                field=name,
            )
        codes[row] = numbers.setdefault(value, len(numbers))
    return Column(name, codes=codes, words=list(numbers))


def _dates(name: str, stamps: Any, missing: Any) -> Column:
    """Return a column of microseconds since 1970 as one of days."""
    return Column(name, days_of_stamps(stamps, missing), dates=True)


def days_of(column: Column) -> tuple[Column, Reasons]:
    """Return a column of text as one of dates, and why rows have none."""
    reasons = Reasons()
    codes = column.codes
    if codes is None:
        return column, reasons
    days = np.append(days_of_texts(column.words), np.nan)[codes]
    reasons.add(
        np.isnan(days) & (codes >= 0),
        lambda row: Reason(
            f"column {column.name!r} holds dates, and {column.words[codes[row]]!r} is none; "
            "to read the column as categories, convert it to that type (categorical, dictionary)",
            column.name,
        ),
    )
    return Column(column.name, days, dates=True), reasons


def with_dates(columns: Sequence[Column], types: Mapping[str, str]) -> tuple[list[Column], Reasons]:
    """Return columns whose texts are dates as columns of dates, and why rows have none.

    ``types`` are those that the model was trained on; other columns are decided by their texts.
    """
    read, reasons = [], Reasons()
    for column in columns:
        known = types.get(column.name, "date" if holds_dates(column) else "text")
        if known == "date" and column.numbers is None and column.words:
            dates, others = days_of(column)
            read.append(dates)
            reasons.join(others)
        else:
            read.append(column)
    return read, reasons


def holds_dates(column: Column) -> bool:
    """Return whether the first texts of a column are dates, and it is none of categories."""
    if column.codes is None or column.categories:
        return False
    first = np.unique(column.codes[column.codes >= 0][:_SAMPLED_DATES])
    return are_dates([column.words[code] for code in first.tolist()])


def date_parts(columns: Sequence[Column]) -> list[Column]:
    """Return columns with the parts of dates, which are features, in place of the dates."""
    out: list[Column] = []
    for column in columns:
        if column.dates and column.numbers is not None:
            parts = parts_of(column.name, column.numbers)
            out += [Column(n, values, part=n != column.name) for n, values in parts.items()]
        else:
            out.append(column)
    return out


def warn_about_gaps(columns: Sequence[Column], where: str = "X", stacklevel: int = 5) -> None:
    """Warn if missing values count as 0 in columns whose other values are far from it."""
    names = []
    for column in columns:
        if column.numbers is None or len(column) < _WARNING_ROWS:
            continue
        present = column.numbers[~np.isnan(column.numbers)]
        few_gaps = present.size > (1 - _WARNING_SHARE) * len(column)
        if few_gaps or not present.size or not np.isfinite(present).all():
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            if abs(present.mean()) > _OUTLIER * present.std() > 0:
                names.append(column.name)
    if names:
        shown_names = ", ".join(shown(name) for name in names[:3]) + ", ..." * (len(names) > 3)
        warnings.warn(
            f"{where}: missing values count as 0, which is far from the others in {shown_names}; "
            "use missing='mark' (--missing mark), or fill them",
            stacklevel=stacklevel,
        )


def amount_of(column: Column) -> str | None:
    """Return a text of a column of amounts, such as 12 %; None if it holds other texts."""
    if column.codes is None or column.categories:
        return None
    codes = np.unique(column.codes[:_SAMPLED_AMOUNTS]).tolist()
    return Looks.of({column.words[code].strip() for code in codes if code >= 0}).amount


def warn_about_texts(columns: Sequence[Column]) -> None:
    """Warn about columns of a frame with amounts, or with another text in nearly every row."""
    for column in columns:
        if column.codes is None or column.categories:
            continue
        amount = amount_of(column)
        if amount is not None:
            warnings.warn(
                f"X: column {column.name!r} has numbers with separators or signs ({amount!r}), "
                "each of which becomes a category: convert them to numbers, or the column to "
                "categories (categorical, dictionary)",
                stacklevel=6,
            )
        else:
            warn_if_unique(column.name, len(column.words), len(column), "X", stacklevel=7)


def warn_if_unique(name: str, values: int, rows: int, where: str, stacklevel: int = 2) -> None:
    """Warn about a column with another text in nearly every row, which are no categories."""
    if rows < _UNIQUE_ROWS or values < _UNIQUE_SHARE * rows:
        return
    advice = (
        "leave it out, or split it into words (CountVectorizer)"
        if where == "X"
        else f"leave it out with {as_option('ignore', name)}, or split it into words with "
        f"{as_option('ngrams', f'{name}:1')}"
    )
    warnings.warn(
        f"{where}: column {name!r} has another text in nearly every row ({values:,} in {rows:,} "
        f"rows), which says nothing about other rows: {advice}",
        stacklevel=stacklevel,
    )


def marked(name: str) -> str:
    """Return the feature that marks a missing value of a column."""
    return f"{name}={MISSING_WORD}"


def _no_feature(name: str, kind: object) -> InvalidInputError:
    return InvalidInputError(
        f"X: column {name!r} has the type {kind}, which cannot be a feature; drop it, or "
        "convert it to numbers or text"
    )


def check_types(
    columns: Sequence[Column], known_keys_of: KnownKeys, types: Mapping[str, str]
) -> dict[str, str]:
    """Return the types of the columns that are not among ``types``.

    A column without any value has no type yet.

    Raises
    ------
    InvalidInputError
        If a column has another type than the model knows. Its features would be new ones, and
        predictions would ignore the column without a word.
    """
    new: dict[str, str] = {}
    for column in columns:
        kind = column.kind
        if types.get(column.name) == kind:
            continue
        if column.numbers is None:
            some = [str(word) for word in column.words[:1]]
        else:
            present = column.numbers[~np.isnan(column.numbers)]
            some = [f"{value:g}" for value in present[:_SAMPLED_VALUES].tolist()]
        if not some:
            continue
        trained = types.get(column.name) or _type_by_features(column, some, known_keys_of)
        if trained is not None and trained != kind:
            has = f"{PLURALS[kind]} ({some[0]!r})" if kind == "text" else PLURALS[kind]
            raise InvalidInputError(
                f"X: column {column.name!r} has {has}, but the model was trained with "
                f"{PLURALS[trained]} in it; convert it to {PLURALS[trained]}"
            )
        new[column.name] = kind
    return new


def _type_by_features(column: Column, some: list[str], known_keys_of: KnownKeys) -> str | None:
    """Return the type of a column by the features of the model, which knows no types of columns.

    Only some values of a column of numbers are looked up.
    """
    if known_keys_of is None:
        return None
    if (known_keys_of(part_names(column.name)) != UNKNOWN).any():
        return "date"
    if known_keys_of([column.name])[0] != UNKNOWN:
        return "number"
    if column.kind != "number":
        return None
    names = [f"{column.name}={value}" for value in some]
    return "text" if np.any(known_keys_of(names) != UNKNOWN) else None


def refuse_same_features(columns: Sequence[Column]) -> None:
    """Raise an error if two columns have a feature of the same name.

    A column ``c=x`` of numbers is the feature that the text x in a column c makes.
    """
    named = {column.name: column for column in columns}
    for column in columns:
        parts = column.name.split("=")
        for end in range(1, len(parts)):
            other, word = named.get("=".join(parts[:end])), "=".join(parts[end:])
            if other is None or other.numbers is not None:
                continue
            words = [word] if column.numbers is not None else [f"{word}={w}" for w in column.words]
            if same := set(words).intersection(other.words):
                raise InvalidInputError(
                    f"X: the text {min(same)!r} in column {other.name!r} and column "
                    f"{column.name!r} are the same feature; rename one of the columns"
                )
