"""Prediction of rows on an executor."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from sonline.distributed.spark.lines import Label
from sonline.distributed.spark.rows import TEXT, Layout, RowReader
from sonline.errors import InvalidInputError
from sonline.model import Model, probabilities
from sonline.rows import Floats
from sonline.streams import Batch

VECTOR_TYPE = pa.struct(
    [
        pa.field("type", pa.int8(), nullable=False),
        pa.field("size", pa.int32()),
        pa.field("indices", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("values", pa.list_(pa.field("element", pa.float64(), nullable=False))),
    ]
)


def predicted(model: Model, rows: Any) -> Floats:
    """Return numbers in the unit of the labels, or the raw predictions of classes, sorted."""
    raw = model.predict(rows)
    return model.means(raw[0])[np.newaxis] if model.table is None else model.in_order(raw)


def class_scores(raw: Floats) -> Floats:
    """Return raw predictions, a line per output, with a column per class: two for one output."""
    return np.column_stack([-raw[0], raw[0]]) if raw.shape[0] == 1 else raw.T


def class_probabilities(raw: Floats) -> Floats:
    """Return the probabilities of the classes, a column for each."""
    return probabilities(raw, 2 if raw.shape[0] == 1 else raw.shape[0]).T


@dataclass(frozen=True)
class Outputs:
    """The columns to be made (those with a name), the classes, and Spark's thresholds."""

    prediction: str
    raw: str
    probability: str
    classes: tuple[Label, ...] | None
    thresholds: tuple[float, ...]

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [name for name in (self.prediction, self.raw, self.probability) if name]

    def labels(self, raw: Floats) -> list[Any]:
        """Return the label of each row."""
        if self.classes is None:
            return list(raw[0])
        codes = raw[0] > 0 if raw.shape[0] == 1 else raw.argmax(axis=0)
        if self.thresholds:
            if len(self.thresholds) != len(self.classes):
                raise InvalidInputError(
                    f"thresholds has {len(self.thresholds)} numbers for {len(self.classes)} classes"
                )
            with np.errstate(divide="ignore", invalid="ignore"):
                scaled = np.nan_to_num(
                    class_probabilities(raw) / np.array(self.thresholds), posinf=np.inf
                )
            codes = scaled.argmax(axis=1)
        return [self.classes[int(number)] for number in codes.tolist()]

    def columns(self, raw: Floats, good_rows: NDArray[np.intp], rows: int) -> pa.StructArray:
        """Return the columns for ``rows`` rows; null if a row was not predicted."""
        absent = np.ones(rows, bool)
        absent[good_rows] = False
        columns = {}
        if self.prediction:
            words = self.classes is not None and isinstance(self.classes[0], str)
            labels = np.zeros(rows, object)
            labels[good_rows] = self.labels(raw)
            kind = pa.string() if words else pa.float64()
            columns[self.prediction] = pa.array(labels, kind, mask=absent)
        if self.raw:
            columns[self.raw] = _vectors(class_scores(raw), good_rows, absent)
        if self.probability:
            columns[self.probability] = _vectors(class_probabilities(raw), good_rows, absent)
        return pa.StructArray.from_arrays(list(columns.values()), list(columns))


@dataclass(frozen=True)
class Prediction:
    """The settings of a prediction, sent to every executor."""

    model: bytes
    layout: Layout  # of rows without labels
    outputs: Outputs
    width: int  # of the vectors learned; -1 if it is not known
    skips: bool  # bad rows get null

    def function(self, schema: StructType) -> Callable[..., Any]:
        """Return it as a function of a column: the features, or a struct of several."""
        # Its type hints say that it goes through iterators; Spark's own types do not know that.
        make: Any = arrow_udf
        return cast(Callable[..., Any], make(self._iterate, schema))

    def _iterate(self, columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
        context = TaskContext.get()
        name = f"partition {context.partitionId() if context else 0}"
        model = _model(self.model)
        layout = self.layout
        if layout.options.features == "name":
            layout = replace(layout, options=replace(layout.options, names=model.core))
        waiting: deque[int] = deque()

        def tables() -> Iterator[pa.RecordBatch]:
            for column in columns:
                waiting.append(len(column))
                if len(column):
                    arrays = column.flatten() if layout.is_struct else [column]
                    yield pa.RecordBatch.from_arrays(arrays, names=layout.columns)

        reader = RowReader(layout, name, self.width)
        for batch in reader.read(tables()):
            if batch.bad and not self.skips:
                raise batch.bad[0].error()
            while True:
                rows = waiting.popleft()
                yield self._predicted(model, batch if rows else None, rows)
                if rows:
                    break
        for rows in waiting:
            yield self._predicted(model, None, rows)

    def _predicted(self, model: Model, batch: Batch | None, rows: int) -> pa.StructArray:
        if batch is None:
            return self.outputs.columns(np.empty((model.outputs, 0)), np.empty(0, np.intp), rows)
        if self.layout.kind == TEXT:
            assert batch.lines is not None  # noqa: S101 - of text
            good_rows = batch.lines - batch.start.line
        else:
            assert batch.row_ends is not None  # noqa: S101 - of tables
            good_rows = batch.row_ends - 1 - batch.start.rows
        raw = predicted(model, batch)
        return self.outputs.columns(raw, good_rows.astype(np.intp), rows)


@functools.lru_cache(maxsize=4)
def _model(data: bytes) -> Model:
    """Return the model, cached: a worker process uses the same one in many tasks."""
    return Model.from_bytes(data)


def _vectors(
    table: Floats, good_rows: NDArray[np.intp], absent: NDArray[np.bool_]
) -> pa.StructArray:
    """Return the rows of a table as dense vectors, in the Arrow type of Spark's vectors."""
    rows, width = absent.size, table.shape[1]
    dense = np.zeros((rows, width))
    dense[good_rows] = table
    ends = pa.array(np.arange(rows + 1) * width, pa.int32())
    indices, values = (VECTOR_TYPE.field(name).type for name in ("indices", "values"))
    columns = [
        pa.array(np.ones(rows, np.int8)),
        pa.nulls(rows, pa.int32()),
        pa.nulls(rows, indices),
        pa.ListArray.from_arrays(ends, dense.reshape(-1), type=values),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(VECTOR_TYPE), mask=pa.array(absent))
