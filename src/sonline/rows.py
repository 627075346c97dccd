"""Rows and weights as the core takes them, checked: arrays, sparse matrices, frames, mappings.

Arrays and sparse matrices have features by index, their columns. Frames (pandas, polars, Arrow) and
mappings have them by name: a column of numbers is a feature, a text in a column is the feature
``column=text`` with the number 1, and what is missing is absent, or an error (``missing``).
"""

from __future__ import annotations

import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sonline.errors import InvalidInputError, ParameterError, shown
from sonline.labels import refuse_masked, token_of

Rows: TypeAlias = Any
"""A 2-D array, a sparse matrix, a frame, or a sequence of mappings from feature to number."""

Floats: TypeAlias = NDArray[np.float64]
Keys: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int64]
KeysOf: TypeAlias = Callable[[list[str]], Keys]

PIECE = 1 << 20  # stored numbers learned between two checks for Ctrl-C
UNIT = 1.0  # the weight of a row unless you give another; this object needs no check
LARGEST = 1e150  # size of a label or weight; their squares must stay finite
LARGEST_VALUES = {"float32": 1e18, "float64": 1e150}
"""The size of a value that a learner takes, by its dtype; see kLargestValue in batch.hpp."""
NAMED = np.uint64(1 << 63)  # marks the id of a name among the keys of the core
UNKNOWN = np.uint64(2**64 - 1)  # the key of a name that a model does not have


# -- numbers ---------------------------------------------------------------------------------------


def contiguous(values: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """Return an array that the core can read without a copy: contiguous and aligned.

    Arrays that Dask deserialises may be unaligned.
    """
    array = np.ascontiguousarray(values, dtype=dtype)
    return array if array.flags.aligned else array.copy()


def refuse_unusable(name: str, values: Any) -> None:
    """Raise an error about values that a conversion to numbers would silently change or use up."""
    if isinstance(values, Iterator):
        raise InvalidInputError(
            f"{name} is a {type(values).__name__}, which can be read once only: pass list({name})"
        )
    refuse_masked(name, values)
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind == "c":
        raise InvalidInputError(f"{name}: Complex data not supported; complex numbers are refused")
    if kind in ("M", "m"):
        raise InvalidInputError(
            f"{name}: dates and times cannot be learned from; convert them to numbers, such as "
            "seconds since the first one"
        )


def one_number(name: str, value: Any, hint: str) -> float:
    """Return a single number of any type."""
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInputError(f"{name} must be a number, got {shown(value)}; {hint}")


def vector(name: str, values: ArrayLike) -> Floats:
    """Return numbers as a vector."""
    hint = "; labels of text and other classes are for SONClassifier" if name == "y" else ""
    refuse_unusable(name, values)
    try:
        array = np.asarray(values)
        refuse_unusable(name, array)
        numbers = contiguous(array, np.float64)
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        reason = f"{error!s:.200}{hint}"
        raise InvalidInputError(f"{name} must be a sequence of numbers: {reason}") from error
    if array.dtype.kind in "SU" and array.size:  # digits: learn_one does not take them either
        text = shown(array.flat[0].item())
        raise InvalidInputError(
            f"{name} must be a sequence of numbers, got text, such as {text}{hint}"
        )
    if numbers.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension, got shape {numbers.shape}")
    return numbers


def check_finite(name: str, values: Floats) -> None:
    """Raise an error about the first number that is not finite, or too large."""
    bad = ~(np.abs(values) <= LARGEST)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InvalidInputError(
            f"{name}: {values[row]:g} in row {row}; it must be finite and 1e150 in size at most"
        )


def row_weights(weights: Any, count: int, name: str = "sample_weight") -> Floats | None:
    """Return the weights of ``count`` rows, checked; a single number is for all rows."""
    if weights is None:
        return None
    if np.asarray(weights).ndim == 0:
        weights = np.full(count, one_number(name, weights, "it is the importance of the rows"))
    numbers = vector(name, weights)
    if numbers.size != count:
        raise InvalidInputError(
            f"{name} must be one number for each of the {count} rows, got {numbers.size}"
        )
    check_finite(name, numbers)
    if numbers.size and numbers.min() < 0:
        row = int(np.argmax(numbers < 0))
        raise InvalidInputError(f"{name}: {numbers[row]:g} in row {row}; weights must be 0 or more")
    return numbers


def check_class_weights(weights: Mapping[Any, Any]) -> None:
    """Raise an error about the weight of a class that cannot be used."""
    if not isinstance(weights, Mapping):
        raise ParameterError(
            f"class_weight must be a mapping from label to weight, got {shown(weights)}; "
            "'balanced' needs all labels at once, as fit of SONClassifier has them"
        )
    for label, weight in weights.items():
        if not (isinstance(weight, Real) and 0 <= float(weight) <= LARGEST):
            raise ParameterError(
                f"class_weight: the weight of class {label!r} is {weight!r}; it must be a number "
                f"from 0 to {LARGEST:g}"
            )


# -- rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CoreRows:
    """Rows in a form that the core has methods for: "dense", "csr" or "rows" (mappings)."""

    kind: str
    arguments: tuple[Any, ...]
    count: int
    columns: int = 0  # that indices must stay below; 0 is no limit
    missing: str = "absent"  # or "mark" or "refuse": what None and NaN in mappings are
    types: dict[str, str] = field(default_factory=dict)  # of columns new to the model

    def part(self, rows: Any) -> CoreRows:
        """Return some rows: a slice with both ends, or an array of their numbers."""
        if self.kind == "dense":
            chosen = self.arguments[0][rows]
            return CoreRows("dense", (chosen,), chosen.shape[0], self.columns)
        if self.kind == "rows":
            chosen = self.arguments[0][rows]
            return replace(self, arguments=(chosen,), count=len(chosen))
        values, indices, indptr = self.arguments
        if isinstance(rows, slice):
            ends = indptr[rows.start : rows.stop + 1]
            stored: Any = slice(ends[0], ends[-1])
            ends = ends - ends[0]
        else:
            ends, stored = stored_rows(indptr, rows)
        arguments = (values[stored], indices[stored], ends)
        return replace(self, arguments=arguments, count=ends.size - 1)

    def check_starts(self) -> None:
        """Raise an error if the starts of sparse rows do not fit the stored values."""
        if self.kind != "csr":
            return
        values, indices, indptr = self.arguments
        if values.size != indices.size or indptr[0] != 0 or indptr[-1] > values.size:
            raise InvalidInputError("X: data, indices and indptr do not fit together")
        if (indptr[1:] < indptr[:-1]).any():
            row = int(np.argmax(indptr[1:] < indptr[:-1]))
            raise InvalidInputError(f"X: indptr decreases at row {row}")

    def call(self, core: Any, method: str, *rest: Any) -> None:
        """Call a method of a core model with these rows."""
        if self.kind != "rows":
            arrays = (*self.arguments, self.columns) if self.kind == "csr" else self.arguments
            getattr(core, f"{method}_arrays")(arrays, *rest)
            return
        function = getattr(core, f"{method}_rows")
        try:
            function(*self.arguments, *rest)
        except InvalidInputError as error:
            function(self._cleaned(error), *rest)

    def _cleaned(self, error: InvalidInputError) -> list[Any]:
        """Return mappings as `cleaned` does; raise the error if that changes none of them."""
        rows = []
        for number, row in enumerate(self.arguments[0]):
            try:
                rows.append(cleaned(row, self.missing, error))
            except InvalidInputError as problem:
                if problem is not error:
                    raise InvalidInputError(f"X, row {number}: {problem}") from None
                rows.append(row)
        if all(map(operator.is_, rows, self.arguments[0])):
            raise error
        return rows


def stored_rows(indptr: NDArray[Any], rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return indptr of some rows of a sparse matrix, and the positions of their values."""
    lengths = np.diff(indptr)[rows]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(indptr.dtype)
    return ends, np.repeat(indptr[rows] - ends[:-1], lengths) + np.arange(ends[-1])


def pieces(rows: CoreRows, order: NDArray[np.intp] | None = None) -> Iterator[tuple[Any, CoreRows]]:
    """Yield parts of the rows in an order: the selection, and the rows."""
    stored = rows.arguments[0].size if rows.kind != "rows" else rows.count
    length = max(1, PIECE * rows.count // max(stored, 1))
    if order is not None or length < rows.count:
        rows.check_starts()
    for start in range(0, rows.count, length):
        if order is not None:
            chosen = order[start : start + length]
            yield chosen, rows.part(chosen)
        elif length >= rows.count:
            yield slice(None), rows
        else:
            part = slice(start, min(start + length, rows.count))
            yield part, rows.part(part)


def rows_of(
    X: Rows,
    keys_of: KeysOf,
    *,
    known_keys_of: KeysOf | None = None,
    types: Mapping[str, str] = MappingProxyType({}),
    largest: float = LARGEST_VALUES["float64"],
    missing: str = "absent",
    bounded: bool = False,
    training: bool = False,
) -> CoreRows:
    """Return rows of any kind as the core takes them.

    Parameters
    ----------
    X : array, sparse matrix, frame or sequence of mappings
        The rows.
    keys_of : callable
        Returns the keys of names; `UNKNOWN` for those that are to be left out.
    known_keys_of : callable, optional
        The same, without adding names, to check the types of columns; None if names are hashed.
    types : mapping
        The types of columns that the model was trained on, "number" or "text".
    largest : float
        The size of a value that is allowed, of frames; the core checks all else.
    missing : {"absent", "mark", "refuse"}
        What missing values of frames and mappings are.
    bounded : bool, default=False
        Whether the indices of a sparse matrix must stay below its number of columns.
    training : bool, default=False
        Whether to warn about missing values of frames that count as 0 and should not.
    """
    if isinstance(X, (np.ndarray, memoryview)):
        return _dense(X)
    if is_sparse(X):  # one of the kinds is a dict
        values, indices, indptr = csr_arrays(X)
        return CoreRows("csr", (values, indices, indptr), indptr.size - 1, X.shape[1] * bounded)
    if isinstance(X, Mapping):
        raise InvalidInputError("X is a single mapping; use learn_one or predict_one")
    if isinstance(X, Sequence) and (not len(X) or isinstance(X[0], Mapping)):
        return CoreRows("rows", (X,), len(X), missing=missing)
    if isinstance(X, Sequence) and isinstance(X[0], Column):
        new = check_types(X, known_keys_of, types)
        return _named(X, len(X[0]), keys_of, largest, new, mark=missing == "mark")
    if hasattr(X, "read_next_batch"):
        raise InvalidInputError(
            f"X is a {type(X).__name__}, which can be read once only: pass X.read_all(), or one "
            "batch of it at a time"
        )
    if isinstance(X, Iterator):
        raise InvalidInputError(
            f"X is a {type(X).__name__}, which can be read once only: pass list(X), or one row at "
            "a time to learn_one"
        )
    if is_frame(X):
        columns = columns_of(X, missing)
        if columns is not None:
            if training and missing == "absent":
                warn_about_gaps(columns)
            new = check_types(columns, known_keys_of, types)
            return _named(columns, len_of(X), keys_of, largest, new, mark=missing == "mark")
        return _numbered(X)
    return _dense(X)


def _named(
    columns: Sequence[Column],
    count: int,
    keys_of: KeysOf,
    largest: float,
    types: dict[str, str],
    *,
    mark: bool,
) -> CoreRows:
    refuse_same_features(columns)
    indptr, keys, values = cells(columns, count, keys_of, largest, mark=mark)
    return CoreRows("csr", (values, keys, indptr), count, types=types)


def _numbered(frame: Any) -> CoreRows:
    """Return a frame whose columns have numbers for names: these are the indices of the features.

    A frame with the columns 0, 1, 2, ... is the same as an array.
    """
    rows = _dense(frame)
    names = np.array(names_of(frame), np.int64)
    if np.array_equal(names, np.arange(names.size)):
        return rows
    numbers = contiguous(rows.arguments[0])
    used = numbers != 0
    ends = np.zeros(rows.count + 1, np.int64)
    np.cumsum(used.sum(axis=1), out=ends[1:])
    indices = np.broadcast_to(names, used.shape)[used]
    return CoreRows("csr", (numbers[used], indices, ends), rows.count)


def _dense(X: Any) -> CoreRows:
    rows = dense_array(X)
    return CoreRows("dense", (rows,), rows.shape[0], rows.shape[1])


def is_sparse(X: Rows) -> bool:
    """Return whether X is a sparse matrix of SciPy.

    A sparse matrix exists only after SciPy was imported, so SciPy is not imported here.
    """
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(X))


def csr_arrays(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return values, indices and starts of the rows of a sparse matrix."""
    if X.ndim != 2:
        raise InvalidInputError(f"X must have two dimensions, got shape {X.shape}")
    rows = X.tocsr()
    values = floats(rows.data)
    indices, indptr = rows.indices, rows.indptr
    if indices.dtype.kind not in "iu":
        raise InvalidInputError(
            f"X: indices of a sparse matrix must be integers, got {indices.dtype}"
        )
    if indices.dtype != indptr.dtype or indices.dtype not in (np.int32, np.int64):
        indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
    return contiguous(values), contiguous(indices), contiguous(indptr)


TEXT_ADVICE = (
    "pass a table as pandas.DataFrame(X, columns=[...]), with a name for each column, and "
    "documents through TfidfVectorizer or HashingVectorizer"
)


def dense_array(X: Any) -> NDArray[Any]:
    """Return a table of numbers as an array, without a copy where that is possible."""
    refuse_unusable("X", X)
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(f"X must be a table of numbers: {error}") from error
    if rows.ndim == 1 and rows.size and isinstance(rows[0], str):
        raise InvalidInputError(f"X has text ({rows[0]!r:.40}); {TEXT_ADVICE}")
    if rows.ndim != 2:
        raise InvalidInputError(
            f"X must have two dimensions, got shape {rows.shape}; a single row is X.reshape(1, -1)"
        )
    rows = floats(rows)
    aligned = all(stride % rows.itemsize == 0 for stride in rows.strides)
    return rows if aligned and rows.flags.aligned else contiguous(rows)


def floats(values: NDArray[Any]) -> NDArray[Any]:
    """Return float32 and float64 in native order as they are, other numbers as float64."""
    if values.dtype in (np.float32, np.float64) and values.dtype.isnative:
        return values
    refuse_unusable("X", values)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        if "could not convert string to float" in str(error):
            raise InvalidInputError(f"X has text ({error!s:.200}); {TEXT_ADVICE}") from error
        raise InvalidInputError(f"X must hold numbers: {error!s:.200}") from error


# -- frames ----------------------------------------------------------------------------------------


MISSING_WORD = "(missing)"  # marks a missing value as text in its column
_ENOUGH_ROWS, _MANY_GAPS = 30, 0.01  # to warn about missing values
_FAR = 2  # standard deviations from 0, where a 0 would be an outlier
_LOOKED_UP = 8  # values of a column of numbers that may be words of the model


@dataclass
class Column:
    """A column of a frame: numbers (NaN where missing), or codes of words (-1 where missing)."""

    name: str
    numbers: Floats | None = None
    codes: Indices | None = None
    words: Sequence[str] = ()

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


def columns_of(frame: Any, missing: str = "absent") -> list[Column] | None:
    """Return the columns of a frame by name; None if it has numbers for names, as arrays have."""
    if not has_names(frame):
        return None
    names = names_of(frame)
    package = type(frame).__module__.partition(".")[0]
    read = {"pandas": _pandas_column, "polars": _polars_column}.get(package, _arrow_column)
    columns = [
        read(name, frame.iloc[:, number] if package == "pandas" else frame[name])
        for number, name in enumerate(names)
    ]
    if missing == "refuse":
        for column in columns:
            absent = np.isnan(column.numbers) if column.numbers is not None else column.codes == -1
            if np.any(absent):
                row = int(np.argmax(absent))
                raise InvalidInputError(f"X, row {row}: {no_value(column.name)}")
    return columns


def _pandas_column(name: str, series: Any) -> Column:
    kind = series.dtype
    if hasattr(kind, "categories"):
        codes = series.cat.codes.to_numpy().astype(np.int64)
        return Column(name, codes=codes, words=[token_of(v) for v in kind.categories])
    if getattr(kind, "kind", "O") in "biuf":
        return Column(name, series.to_numpy(dtype=np.float64, na_value=np.nan))
    if getattr(kind, "kind", "O") in "OTU" or str(kind).startswith("str"):
        return _column_of_objects(name, series.to_list())
    raise _no_feature(name, kind)


def _polars_column(name: str, series: Any) -> Column:
    kind = series.dtype
    if kind.is_numeric() or str(kind) == "Boolean":
        numbers = series.cast(sys.modules["polars"].Float64).to_numpy()
        return Column(name, np.asarray(numbers, np.float64))
    if str(kind).startswith(("String", "Utf8", "Categorical", "Enum", "Null")):
        return _column_of_objects(name, series.to_list())
    raise _no_feature(name, kind)


def _arrow_column(name: str, column: Any) -> Column:
    read = arrow_column(name, column)
    if read is None:
        raise _no_feature(name, column.type)
    return read


def arrow_column(name: str, column: Any, as_text: bool = False) -> Column | None:
    """Return a column of Arrow; None if it has neither numbers nor text.

    Numbers are words if ``as_text``, and in a dictionary, which is a column of categories.
    """
    types = sys.modules["pyarrow"].types
    kind = column.type
    if types.is_dictionary(kind):
        as_text = True
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.value_type
        column = _decoded(column, kind)
    if str(kind) == "string_view":  # pyarrow 15 has no test for it
        kind = sys.modules["pyarrow"].large_string()
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
    return Column(name, codes=codes, words=[token_of(v) for v in encoded.dictionary.to_pylist()])


def _decoded(column: Any, kind: Any) -> Any:
    """Return a column of a dictionary, or run-end encoded, with the values themselves."""
    if sys.modules["pyarrow"].types.is_dictionary(column.type):
        return column.cast(kind)
    from pyarrow import compute  # noqa: PLC0415 - rarely needed

    return compute.run_end_decode(column)


def _column_of_objects(name: str, values: list[Any]) -> Column:
    """Return a column of texts, or of numbers, with None, NaN and NA for missing values."""
    present = [v for v in values if not is_missing(v)]
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
                f"X: column {name!r} mixes text and {type(value).__name__}, such as {value!r} in "
                f"row {row}; convert it to one of them"
            )
        codes[row] = numbers.setdefault(value, len(numbers))
    return Column(name, codes=codes, words=list(numbers))


def warn_about_gaps(columns: Sequence[Column], where: str = "X", stacklevel: int = 5) -> None:
    """Warn if missing values count as 0 in columns whose other values are far from it."""
    names = []
    for column in columns:
        if column.numbers is None or len(column) < _ENOUGH_ROWS:
            continue
        present = column.numbers[~np.isnan(column.numbers)]
        few = present.size > (1 - _MANY_GAPS) * len(column)
        if few or not present.size or not np.isfinite(present).all():
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            if abs(present.mean()) > _FAR * present.std() > 0:
                names.append(column.name)
    if names:
        shown_names = ", ".join(shown(name) for name in names[:3]) + ", ..." * (len(names) > 3)
        warnings.warn(
            f"{where}: missing values count as 0, which is far from the others in {shown_names}; "
            "use missing='mark' (--missing mark), or fill them",
            stacklevel=stacklevel,
        )


def marked(name: str) -> str:
    """Return the feature that marks a missing value of a column."""
    return f"{name}={MISSING_WORD}"


def no_value(name: object, kind: str = "column") -> str:
    """Return a message about a value that is missing and refused."""
    return f"{kind} {shown(name)} has no value; fill it, or use missing='absent' (--missing absent)"


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN or NA of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def cleaned(x: Any, missing: str, error: InvalidInputError) -> dict[Any, Any]:
    """Return a row that the core refuses with an error, in a form that it may take.

    Missing values (None, NaN) are left out, or marked, or an error, as ``missing`` says. Names that
    are tuples, as of River's n-grams, become text. A row without any of these raises the error.
    """
    try:
        row = dict(x.items())
        absent = [name for name, value in row.items() if is_missing(value)]
    except (AttributeError, TypeError, ValueError):  # no mapping
        raise error from None
    if not absent and not any(isinstance(name, tuple) for name in row):
        raise error
    for name in absent:
        if missing == "refuse":
            raise InvalidInputError(no_value(name, "feature"))
        if missing == "mark":
            row[name] = MISSING_WORD
        else:
            del row[name]
    return {str(name) if isinstance(name, tuple) else name: value for name, value in row.items()}


def _no_feature(name: str, kind: object) -> InvalidInputError:
    return InvalidInputError(
        f"X: column {name!r} has the type {kind}, which cannot be a feature; drop it, or "
        "convert it to numbers or text"
    )


def check_types(
    columns: Sequence[Column], known_keys_of: KeysOf | None, types: Mapping[str, str]
) -> dict[str, str]:
    """Return the types of the columns that are not among ``types``.

    A column without any value has no type yet.

    Raises
    ------
    InvalidInputError
        If a column has text but the model knows it as numbers, or the other way. Its features would
        be new ones, and predictions would ignore the column without a word.
    """
    new: dict[str, str] = {}
    for column in columns:
        kind = "text" if column.numbers is None else "number"
        if types.get(column.name) == kind:
            continue
        if column.numbers is None:
            some = [str(word) for word in column.words[:1]]
        else:
            present = column.numbers[~np.isnan(column.numbers)]
            some = [f"{value:g}" for value in present[:_LOOKED_UP].tolist()]
        if not some:
            continue
        trained = types.get(column.name) or _type_by_features(column, some, known_keys_of)
        if trained == "number" and kind == "text":
            raise InvalidInputError(
                f"X: column {column.name!r} has text ({some[0]!r}), but the model was trained "
                "with numbers in it; convert it to numbers"
            )
        if trained == "text" and kind == "number":
            raise InvalidInputError(
                f"X: column {column.name!r} has numbers, but the model was trained with text "
                "in it; convert it to text"
            )
        new[column.name] = kind
    return new


def _type_by_features(column: Column, some: list[str], known_keys_of: KeysOf | None) -> str | None:
    """Return the type of a column by the features of the model, which knows no types of columns.

    Only some values of a column of numbers are looked up.
    """
    if known_keys_of is None:
        return None
    if known_keys_of([column.name])[0] != UNKNOWN:
        return "number"
    if column.numbers is None:
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


def cells(
    columns: Sequence[Column], count: int, keys_of: KeysOf, largest: float, mark: bool = False
) -> tuple[Indices, Keys, Floats]:
    """Return the cells that are not 0 or missing in CSR form: ends of the rows, keys and values.

    Missing cells have the value 1 of another feature if ``mark``. Names get their keys in the order
    of the rows, so that it does not matter how rows are cut.
    """
    names: list[str] = []
    name_numbers = np.empty((count, len(columns)), np.int64)  # which name a cell has
    values = np.zeros((count, len(columns)))
    for column_number, column in enumerate(columns):
        if column.numbers is not None:
            name_numbers[:, column_number] = len(names)
            names.append(column.name)
            absent = np.isnan(column.numbers)
            values[:, column_number] = np.where(absent, 0.0, column.numbers)
        elif column.codes is not None:
            name_numbers[:, column_number] = column.codes + len(names)
            names += [f"{column.name}={word}" for word in column.words]
            absent = column.codes < 0
            values[:, column_number] = ~absent
        else:
            continue
        if mark and absent.any():
            name_numbers[absent, column_number] = len(names)
            values[absent, column_number] = 1.0
            names.append(marked(column.name))
    bad = ~(np.abs(values) <= largest)
    if bad.any():
        row, column_number = (int(where) for where in np.argwhere(bad)[0])
        raise InvalidInputError(
            f"X: {values[row, column_number]:g} in row {row}, column "
            f"{columns[column_number].name!r}; it must be finite and {largest:g} in size at most"
        )
    used = values != 0
    chosen = name_numbers[used]
    distinct, first = np.unique(chosen, return_index=True)
    order = np.argsort(first)
    keys = np.full(len(names), UNKNOWN, np.uint64)
    if distinct.size:
        keys[distinct[order]] = keys_of([names[number] for number in distinct[order].tolist()])
    cell_keys = keys[chosen]
    has_key = cell_keys != UNKNOWN
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(used.sum(axis=1), out=ends[1:])
    if not has_key.all():
        known_before = np.concatenate([[0], np.cumsum(has_key)])
        return known_before[ends], cell_keys[has_key], values[used][has_key]
    return ends, cell_keys, values[used]
