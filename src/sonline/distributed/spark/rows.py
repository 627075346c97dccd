"""Rows of a Spark partition, Arrow batch by Arrow batch, as batches that a learner takes.

A data frame has its features in one of four layouts: a column of vectors (`pyspark.ml.linalg`,
dense and sparse mixed), a column of arrays, several columns of numbers or text, or a column of
lines in svmlight or Vowpal Wabbit format. All are read through Arrow, and none row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sonline.distributed.spark.lines import Lines, of_classes
from sonline.errors import InvalidInputError
from sonline.labels import NEW, ClassTable
from sonline.model import Model
from sonline.model.features import refuse_other_features
from sonline.rows import Floats
from sonline.rows import Indices as Integers
from sonline.rows.cells import SparseRows
from sonline.rows.checks import (
    Reason,
    Reasons,
    offset_reasons,
    sparse_reasons,
    weight_reasons,
)
from sonline.streams import BadRow, Batch, Options, Position
from sonline.streams.rows import RowBuilder
from sonline.streams.sources import Source
from sonline.streams.tables import TableReader
from sonline.streams.text import TextReader

VECTOR, ARRAY, COLUMNS, TEXT = "vector", "array", "columns", "lines"


@dataclass(frozen=True)
class Layout:
    """The layout of a data frame, sent to the executors.

    Parameters
    ----------
    kind : {"vector", "array", "columns", "lines"}
        How the features are held.
    features : tuple of str
        The columns of the features; one, except for "columns".
    label, weight : str, optional
        The columns of label and weight; lines have both inside. Without a label, rows are for
        prediction.
    table : ClassTable, optional
        The classes, all numbers or all text; None for regression.
    options : Options
        How lines and columns are read.
    offset : str, optional
        The column of what is added to raw predictions.
    """

    kind: str
    features: tuple[str, ...]
    label: str | None
    weight: str | None
    table: ClassTable | None
    options: Options
    offset: str | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that are needed, in order."""
        others = (self.label, self.weight, self.offset)
        return [*self.features, *(name for name in others if name)]

    @property
    def is_struct(self) -> bool:
        """Whether rows to predict are structs of columns, not one column."""
        return self.kind == COLUMNS or self.offset is not None

    def unlabelled(self) -> Layout:
        """Return the same layout for rows without labels, to predict."""
        options = replace(self.options, unlabelled=True, frozen=True, on_error="skip", weight=None)
        return replace(self, label=None, weight=None, options=options)


class RowReader:
    """Reads the rows of a partition; its name is for errors.

    All vectors must have the size ``width``; with -1, the size of the first one.
    """

    def __init__(self, layout: Layout, name: str, width: int = -1) -> None:
        self.name = name
        self._layout = layout
        self._vectors = _VectorReader(layout, name, width)

    @property
    def width(self) -> int:
        """The size of the vectors; -1 if it is not known, or if there are none."""
        return self._vectors.width

    def read(self, record_batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        """Yield batches; their ``bad`` has the bad rows.

        The codes of class labels are their numbers in ``layout.table``.
        """
        layout = self._layout
        tables = (_renamed(table, layout) for table in record_batches)
        if layout.kind == TEXT:
            yield from self._lines(tables)
            return
        coded = (_with_codes(table, layout) for table in tables)
        batches: Iterator[Batch]
        if layout.kind == COLUMNS:
            named = cast(Source, _Named(self.name))
            batches = _ColumnReader(layout, coded).read(named, Position())
        else:
            batches = self._vectors.read(coded)
        for batch in batches:
            if layout.table is not None and batch.labels is not None and layout.label:
                batch.codes, batch.labels = batch.labels.astype(np.int64), None
            yield batch

    def _lines(self, tables: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        options = self._layout.options
        table = None if options.unlabelled else self._layout.table
        source = cast(Source, Lines(self.name, tables))
        for batch in TextReader(options, {}).read(source, Position()):
            yield batch if table is None else of_classes(batch, table)


def words_of(layout: Layout, record_batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Return the labels of lines of text, each once."""
    lines = Lines("", (_renamed(table, layout) for table in record_batches))
    batches = TextReader(layout.options, {}).read(cast(Source, lines), Position())
    return [word for batch in batches for word in batch.new_labels]


def _renamed(table: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    """Return a table with the column names of the layout, in place of Spark's."""
    return pa.RecordBatch.from_arrays(table.columns, names=layout.columns)


def check_features(model: Model, by_name: bool) -> None:
    """Raise an error if a model and the rows do not both have features by name, or by index."""
    refuse_other_features(
        model,
        by_name,
        "and the rows have them by name: pass vectors or arrays",
        "and the rows have them by index: name their columns in featureCols",
    )


def check_width(first: int, second: int, what: str) -> None:
    """Raise an error about two sizes of vectors that are known (not -1) and differ."""
    if first >= 0 and second >= 0 and first != second:
        raise InvalidInputError(f"{what} in the size of their vectors: {first} and {second}")


# -- labels ---------------------------------------------------------------------------------------


def _with_codes(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    """Replace labels by the numbers of their classes, or by numbers; null if there is none."""
    if layout.label is None:
        return batch
    column = batch.schema.names.index(layout.label)
    labels = batch.column(column)
    if layout.table is None or not layout.table.text:
        labels = labels.cast(pa.float64())
    if layout.table is not None:
        encoded = labels.dictionary_encode()
        numbers = layout.table.codes(encoded.dictionary.to_pylist()).astype(np.float64)
        codes = pa.array(numbers, mask=numbers == NEW)
        labels = codes.take(encoded.indices)
    return batch.set_column(column, layout.label, labels)


# -- columns and lines, through the readers of files ----------------------------------------------


@dataclass
class _Named:
    """The part of a `Source` that the reader of tables uses."""

    name: str


class _ColumnReader(TableReader):
    """Reads the Arrow tables of Spark instead of those of a file."""

    def __init__(self, layout: Layout, tables: Iterator[pa.RecordBatch]) -> None:
        super().__init__(layout.options, dict(layout.options.columns))
        self._arrow_tables = tables

    def _tables(self, source: Source) -> Iterator[Any]:
        return self._arrow_tables


# -- vectors and arrays ---------------------------------------------------------------------------


class _VectorReader:
    """Reads a column of vectors or arrays, which must all have the same size."""

    def __init__(self, layout: Layout, name: str, width: int) -> None:
        self._layout = layout
        self._name = name
        self._builder = RowBuilder(layout.options)
        self._cells = vector_cells if layout.kind == VECTOR else array_cells
        self.width = width

    def read(self, record_batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        position = Position()
        for table in record_batches:
            batch = self._batch(table, position)
            position = batch.end
            yield batch

    def _batch(self, table: pa.RecordBatch, start: Position) -> Batch:
        rows = table.num_rows
        cells, reasons, sizes = self._cells(table.column(0))
        self._check_sizes(sizes, reasons)
        dtype = self._layout.options.dtype
        reasons.join(sparse_reasons(cells.indptr, cells.keys, cells.values, dtype))
        labels = self._labels(table, reasons)
        weights = self._numbers(table, self._layout.weight)
        if weights is not None:
            reasons.join(weight_reasons(str(self._layout.weight), weights))
        offsets = self._numbers(table, self._layout.offset)
        if offsets is not None:
            reasons.join(offset_reasons(str(self._layout.offset), offsets, log_link=False))
        keep = np.ones(rows, bool)
        keep[list(reasons)] = False
        return self._builder.batch(
            rows=cells.where(cells.values != 0).rows(np.flatnonzero(keep)),
            labels=labels[keep],
            weights=None if weights is None else weights[keep],
            offsets=None if offsets is None else offsets[keep],
            bad=[
                BadRow.of_table(self._name, start.rows + row, str(why))
                for row, why in sorted(reasons.items())
            ],
            start=start,
            end=replace(start, rows=start.rows + rows),
            row_ends=(start.rows + np.flatnonzero(keep) + 1).astype(np.int64),
        )

    def _check_sizes(self, sizes: Integers, reasons: Reasons) -> None:
        if self.width < 0:
            good = np.flatnonzero(sizes >= 0)
            if not good.size:
                return
            self.width = int(sizes[good[0]])
        for row in np.flatnonzero((sizes >= 0) & (sizes != self.width)).tolist():
            what = f"a vector of size {sizes[row]}, the others have {self.width}"
            reasons.setdefault(row, Reason(what, self._layout.features[0]))

    def _labels(self, table: pa.RecordBatch, reasons: Reasons) -> Floats:
        label = self._layout.label
        if label is None:
            return np.full(table.num_rows, np.nan)
        labels = _numbers(table.column(1))
        what = "number" if self._layout.table is None else "class"
        reasons.add(
            ~np.isfinite(labels),
            lambda row: Reason(f"no {what} in the label column {label!r}", label),
        )
        return labels

    def _numbers(self, table: pa.RecordBatch, name: str | None) -> Floats | None:
        if name is None:
            return None
        return _numbers(table.column(self._layout.columns.index(name)))


def vector_cells(column: pa.StructArray) -> tuple[SparseRows, Reasons, Integers]:
    """Return the features of vectors, why some are bad, and the size of each; -1 for null.

    A vector of Spark is a struct: type (0 is sparse, 1 is dense), size, indices, values.
    """
    kinds, sizes, indices, values = column.flatten()
    absent = _flags(column.is_null()) | _flags(values.is_null())
    counts = _lengths(values)
    sparse = (kinds.fill_null(1).to_numpy(zero_copy_only=False) == 0) & ~absent
    pairs = _lengths(indices)
    keys, flat = _positions(counts), _numbers(values.flatten())
    broken = sparse & (pairs != counts)
    if broken.any():
        # The ends of its indices and values are unknown, so all of them are left out.
        keep = np.repeat(~broken, counts)
        keys, flat = keys[keep], flat[keep]
        counts = np.where(broken, 0, counts)
    sparse_keys = indices.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    used = np.repeat(sparse & ~broken, pairs)
    keys[np.repeat(sparse, counts)] = sparse_keys[used]
    width = np.where(sparse, sizes.fill_null(-1).to_numpy(zero_copy_only=False), counts)
    width = np.where(absent | broken, -1, width).astype(np.int64)
    rows = SparseRows.of_counts(counts, keys, flat)
    outside = (keys < 0) | (keys >= np.repeat(width, counts))
    beyond = np.diff(np.concatenate([[0], np.cumsum(outside)])[rows.indptr]) > 0
    reasons = Reasons()
    for bad, text in (
        (absent, "no vector (null)"),
        (broken, "a broken sparse vector"),
        (beyond, "a sparse vector with an index beyond its size"),
    ):
        reasons.add(bad, lambda row, text=text: Reason(text, "features"))  # type: ignore[misc]
    return rows, reasons, width


def array_cells(column: pa.ListArray) -> tuple[SparseRows, Reasons, Integers]:
    """Return the features of arrays, why some are bad, and the size of each; -1 for null."""
    absent = _flags(column.is_null())
    counts = _lengths(column)
    reasons = Reasons()
    reasons.add(absent, lambda row: Reason("no array (null)", "features"))
    rows = SparseRows.of_counts(counts, _positions(counts), _numbers(column.flatten()))
    return rows, reasons, np.where(absent, -1, counts)


def _lengths(lists: pa.Array) -> Integers:
    lengths = pc.list_value_length(lists).fill_null(0)
    return cast(Integers, lengths.to_numpy(zero_copy_only=False).astype(np.int64))


def _positions(counts: Integers) -> Integers:
    """Return 0, 1, 2, ... for each row."""
    starts = np.cumsum(counts) - counts
    return cast(Integers, np.arange(counts.sum()) - np.repeat(starts, counts))


def _flags(values: pa.Array) -> NDArray[np.bool_]:
    return cast(NDArray[np.bool_], values.to_numpy(zero_copy_only=False).astype(bool))


def _numbers(column: pa.Array) -> Floats:
    """Return numbers as float64; NaN for missing values."""
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return cast(Floats, np.asarray(numbers, dtype=np.float64))
