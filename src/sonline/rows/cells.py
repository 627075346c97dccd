"""Columns as sparse rows: the builder for frames, Arrow, Parquet, Dask, Spark and the service.

A number is a feature with the name of its column, a text is the feature ``column=text`` with the
value 1, and a missing cell is absent, or marked by the feature ``column=(missing)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sonline.rows.checks import Reasons, missing_reasons, table_reasons
from sonline.rows.columns import Column, marked
from sonline.rows.types import UNKNOWN, Floats, Indices, Mask

KeysOf: TypeAlias = Callable[[list[str]], NDArray[Any]]


@dataclass
class SparseRows:
    """Rows in CSR form: the ends of the rows, keys of features, and values."""

    indptr: Indices
    keys: NDArray[Any]
    values: Floats

    @classmethod
    def of_counts(cls, counts: Indices, keys: NDArray[Any], values: Floats) -> SparseRows:
        """Return rows with these numbers of features."""
        return cls(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), keys, values)

    @property
    def counts(self) -> Indices:
        """How many features each row has."""
        return np.diff(self.indptr)

    def where(self, chosen: Mask) -> SparseRows:
        """Return the rows with only some of their features."""
        if chosen.all():
            return self
        before = np.zeros(chosen.size + 1, np.int64)
        np.cumsum(chosen, out=before[1:])
        return SparseRows(before[self.indptr], self.keys[chosen], self.values[chosen])

    def known(self) -> SparseRows:
        """Return the rows without features that have the key `UNKNOWN`."""
        return self.where(self.keys.view(np.uint64) != UNKNOWN)

    def rows(self, numbers: NDArray[Any]) -> SparseRows:
        """Return the rows with these numbers, in this order."""
        indptr, stored = stored_rows(self.indptr, numbers)
        return SparseRows(indptr, self.keys[stored], self.values[stored])

    def named(self, names: Sequence[str], keys_of: KeysOf) -> SparseRows:
        """Return the rows with the keys of names; so far the keys are numbers of names.

        Names get their keys in the order of the rows, so that it does not matter how rows are cut.
        """
        first = np.full(len(names), self.keys.size)
        first[self.keys[::-1]] = np.arange(self.keys.size - 1, -1, -1)  # the last assignment wins
        order = np.argsort(first, kind="stable")[: np.count_nonzero(first < self.keys.size)]
        keys = keys_of([names[number] for number in order.tolist()])
        table = np.empty(len(names), keys.dtype)
        table[order] = keys
        return SparseRows(self.indptr, table[self.keys], self.values)


def stored_rows(indptr: NDArray[Any], rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return indptr of some rows of a sparse matrix, and the positions of their values."""
    lengths = np.diff(indptr)[rows]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(indptr.dtype)
    return ends, np.repeat(indptr[rows] - ends[:-1], lengths) + np.arange(ends[-1])


@dataclass
class Table:
    """The cells of columns: the number of the feature's name, the value, and what is missing."""

    columns: list[str]
    names: list[str]
    features: Indices
    values: Floats
    absent: Mask

    @classmethod
    def of(cls, columns: Sequence[Column], count: int, mark: bool) -> Table:
        """Return the cells of columns with ``count`` rows; missing ones are marked if ``mark``."""
        shape = (count, len(columns))
        names: list[str] = []
        features, values = np.zeros(shape, np.int64), np.zeros(shape)
        absent = np.zeros(shape, np.bool_)
        for number, column in enumerate(columns):
            if column.numbers is not None:
                features[:, number] = len(names)
                names.append(column.name)
                missing = np.isnan(column.numbers)
                values[:, number] = column.numbers
            elif column.codes is not None:
                features[:, number] = column.codes + len(names)
                names += [f"{column.name}={word}" for word in column.words]
                missing = column.codes < 0
                values[:, number] = 1.0
            else:
                continue
            marks = mark and not column.part
            if missing.any():
                absent[:, number] = missing
                values[missing, number] = marks
            if marks and missing.any():
                features[missing, number] = len(names)
                names.append(marked(column.name))
        return cls([column.name for column in columns], names, features, values, absent)

    def multiply(self, pairs: Sequence[tuple[int, int]], names: Sequence[str]) -> None:
        """Add the products of pairs of columns, as columns with these names."""
        for (first, second), name in zip(pairs, names, strict=True):
            values = self.values[:, first] * self.values[:, second]
            features = self._product(self.features[:, first], self.features[:, second], values)
            self.columns.append(name)
            self.features = np.column_stack([self.features, features])
            self.values = np.column_stack([self.values, values])

    def _product(self, first: Indices, second: Indices, values: Floats) -> Indices:
        """Return the numbers of the names of products, which are added."""
        features = np.zeros(values.size, np.int64)
        present = np.flatnonzero(values)
        size = len(self.names)
        pairs, numbers = np.unique(first[present] * size + second[present], return_inverse=True)
        features[present] = numbers + size
        self.names += [
            f"{self.names[pair // size]}*{self.names[pair % size]}" for pair in pairs.tolist()
        ]
        return features

    def reasons(
        self, dtype: str, missing: str, identifier_of: Callable[[str], str] = lambda column: ""
    ) -> Reasons:
        """Return why rows cannot be learned: missing values that are refused, and large ones."""
        reasons = Reasons()
        if missing == "refuse" and self.absent.any():
            reasons = missing_reasons(self.absent, self.columns)
        reasons.join(table_reasons(self.values, self.columns, dtype, identifier_of))
        return reasons

    def rows(self, keep: Mask | None = None) -> SparseRows:
        """Return the cells that are not 0, of all rows or of those to keep; keys number names."""
        features, values = self.features, self.values
        if keep is not None and not keep.all():
            features, values = features[keep], values[keep]
        used = values != 0
        return SparseRows.of_counts(used.sum(axis=1), features[used], values[used])
