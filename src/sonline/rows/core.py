"""Rows of any kind as the core takes them, checked.

Arrays and sparse matrices have features by index, their columns. Frames (pandas, polars, Arrow) and
mappings have them by name: a column of numbers is a feature, a text in a column is the feature
``column=text`` with the number 1, and what is missing is absent, or an error (``missing``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sonline.errors import InvalidInputError
from sonline.rows.arrays import contiguous, csr_arrays, dense_array, is_sparse
from sonline.rows.cells import KeysOf, SparseRows, Table, stored_rows
from sonline.rows.checks import (
    Reasons,
    sparse_reasons,
    table_reasons,
)
from sonline.rows.columns import (
    Column,
    KnownKeys,
    check_types,
    columns_of,
    date_parts,
    is_frame,
    len_of,
    names_of,
    refuse_same_features,
    warn_about_gaps,
    warn_about_texts,
    with_dates,
)

Rows: TypeAlias = Any
"""A 2-D array, a sparse matrix, a frame, or a sequence of mappings from feature to number."""

PIECE = 1 << 20  # stored numbers learned between two checks for Ctrl-C
UNIT = 1.0  # the weight of a row unless you give another; this object needs no check


@dataclass(frozen=True)
class CoreRows:
    """Rows in a form that the core has methods for: "dense", "csr" or "rows" (mappings)."""

    kind: str
    arguments: tuple[Any, ...]
    count: int
    columns: int = 0  # that indices must stay below; 0 is no limit
    dtype: str = "float64"  # of the learner, which limits values
    types: dict[str, str] = field(default_factory=dict)  # of columns new to the model
    table: bool = False  # sparse rows: whether they are those of a table

    @classmethod
    def of_sparse(cls, rows: SparseRows, **more: Any) -> CoreRows:
        """Return sparse rows; ``more`` are other attributes."""
        return cls("csr", (rows.values, rows.keys, rows.indptr), rows.indptr.size - 1, **more)

    def part(self, rows: Any) -> CoreRows:
        """Return some rows: a slice with both ends, or an array of their numbers."""
        if self.kind == "dense":
            chosen = self.arguments[0][rows]
            return replace(self, arguments=(chosen,), count=chosen.shape[0])
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

    def reasons(self) -> Reasons:
        """Return why rows of arrays cannot be learned."""
        if self.kind == "dense":
            return table_reasons(self.arguments[0], (), self.dtype)
        try:
            self.check_starts()
        except InvalidInputError:  # the error of the core says which number is wrong
            return Reasons()
        values, indices, indptr = self.arguments
        return sparse_reasons(indptr, indices, values, self.dtype, self.columns)

    def call(self, core: Any, method: str, *rest: Any) -> None:
        """Call a method of a core model with these rows.

        The core refuses rows that cannot be learned before it changes anything; the error about
        them is that of `reasons`, with the row and the feature.
        """
        if self.kind == "rows":
            getattr(core, f"{method}_rows")(self.arguments[0], *rest)
            return
        arrays = self.arguments
        if self.kind == "csr":
            arrays = (*arrays, self.columns, self.table)
        try:
            getattr(core, f"{method}_arrays")(arrays, *rest)
        except InvalidInputError:
            self.reasons().raise_first()
            raise


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
    known_keys_of: KnownKeys = None,
    types: Mapping[str, str] = MappingProxyType({}),
    dtype: str = "float64",
    missing: str = "absent",
    training: bool = False,
) -> CoreRows:
    """Return rows of any kind as the core takes them.

    Parameters
    ----------
    X : array, sparse matrix, frame or sequence of mappings
        The rows.
    keys_of : callable
        Returns the keys of names; `UNKNOWN` for those that the model does not have.
    known_keys_of : callable, optional
        The same, without adding names, to check the types of columns; None if names are hashed.
    types : mapping
        The types of columns that the model was trained on, "number" or "text".
    dtype : {"float32", "float64"}
        The type of the learner's numbers, which limits the size of values.
    missing : {"absent", "mark", "refuse"}
        What missing values of frames are; the core knows it for mappings.
    training : bool, default=False
        Whether to warn about values that count as 0 and should not.
    """
    if isinstance(X, (np.ndarray, memoryview)):
        return _dense(X, dtype)
    if is_sparse(X):  # one of the kinds is a dict
        return _sparse(X, dtype)
    if isinstance(X, Mapping):
        raise InvalidInputError("X is a single mapping; use learn_one or predict_one")
    if isinstance(X, Sequence) and (not len(X) or isinstance(X[0], Mapping)):
        return CoreRows("rows", (X,), len(X), dtype=dtype)
    columns = X if isinstance(X, Sequence) and isinstance(X[0], Column) else None
    if hasattr(X, "read_next_batch") or isinstance(X, Iterator):
        advice = "X.read_all(), or one batch of it at a time"
        if not hasattr(X, "read_next_batch"):
            advice = "list(X), or one row at a time to learn_one"
        raise InvalidInputError(
            f"X is a {type(X).__name__}, which can be read once only: pass {advice}"
        )
    if columns is None and is_frame(X):
        columns = columns_of(X)
        if columns is None:
            return _numbered(X, dtype)
    if columns is None:
        return _dense(X, dtype)
    count = len(columns[0]) if columns is X else len_of(X)
    columns, no_dates = with_dates(columns, types)
    no_dates.raise_first()
    new = check_types(columns, known_keys_of, types)
    if training:
        warn_about_texts([column for column in columns if column.name in new])
    columns = date_parts(columns)
    if training and missing == "absent":
        warn_about_gaps(columns)
    refuse_same_features(columns)
    table = Table.of(columns, count, missing == "mark")
    table.reasons(dtype, missing).raise_first()
    rows = table.rows().named(table.names, keys_of)
    return CoreRows.of_sparse(rows, dtype=dtype, types=new, table=True)


def value_reasons(X: Any, dtype: str, missing: str, types: Mapping[str, str]) -> Reasons:
    """Return why rows of an array, sparse matrix or frame cannot be learned.

    ``types`` are those of the columns that the model was trained on.
    """
    columns = columns_of(X) if is_frame(X) else None
    if columns is not None:
        columns, reasons = with_dates(columns, types)
        reasons.join(Table.of(columns, len_of(X), mark=False).reasons(dtype, missing))
        return reasons
    return (_sparse if is_sparse(X) else _dense)(X, dtype).reasons()


def _sparse(X: Any, dtype: str) -> CoreRows:
    values, indices, indptr = csr_arrays(X)
    rows = CoreRows("csr", (values, indices, indptr), indptr.size - 1, X.shape[1], dtype)
    if not X.shape[1] and values.size:
        raise InvalidInputError("X has no columns, and values in them")
    return rows


def _numbered(frame: Any, dtype: str) -> CoreRows:
    """Return a frame whose columns have numbers for names: these are the indices of the features.

    A frame with the columns 0, 1, 2, ... is the same as an array.
    """
    rows = _dense(frame, dtype)
    names = np.array(names_of(frame), np.int64)
    if np.array_equal(names, np.arange(names.size)):
        return rows
    numbers = contiguous(rows.arguments[0])
    used = numbers != 0
    indices = np.broadcast_to(names, used.shape)[used]
    sparse = SparseRows.of_counts(used.sum(axis=1), indices, numbers[used])
    return CoreRows.of_sparse(sparse, dtype=dtype, table=True)


def _dense(X: Any, dtype: str) -> CoreRows:
    rows = dense_array(X)
    return CoreRows("dense", (rows,), rows.shape[0], rows.shape[1], dtype)
