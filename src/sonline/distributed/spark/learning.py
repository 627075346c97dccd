"""The work of an executor on a partition: train on its rows, return the model and figures."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pyarrow as pa
from pyspark import TaskContext

from sonline import errors
from sonline.distributed.checkpoints import Checkpoints
from sonline.distributed.rounds import name_of
from sonline.distributed.shards import Figures, Shard, moved_bytes
from sonline.distributed.spark.rows import Layout, RowReader
from sonline.errors import DataFormatError, DivergenceError, SonlineError
from sonline.model import Model
from sonline.streams import Batch


@dataclass(frozen=True)
class Work:
    """The settings of one round, sent to every executor."""

    layout: Layout
    model: Model  # that each partition starts from
    checkpoints: Checkpoints | None  # in a folder that all executors can access
    turn: int  # number of the round, from 0

    def learn(self, record_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Train on a partition; yield one row of `RESULT`, with figures and errors as JSON.

        An error about the data is returned, not raised: Spark would try again three times and then
        show a Java stack trace.
        """
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        reader = RowReader(self._named_layout(), f"partition {number}")
        figures = Figures(number, reader.name, f"{socket.gethostname()}:{os.getpid()}")
        shard, error = Shard(None, [figures]), ""
        try:
            shard = self._learn(reader, figures, record_batches)
        except SonlineError as raised:
            error = error_as_json(raised)
        row = {
            "partition": number,
            "figures": json.dumps(shard.figures[0].as_dict()),
            "width": reader.width,
            "error": error,
            "model": None if shard.model is None else shard.model.to_bytes(),
        }
        yield pa.RecordBatch.from_pylist([row], schema=RESULT)

    def _learn(
        self, reader: RowReader, figures: Figures, record_batches: Iterator[pa.RecordBatch]
    ) -> Shard:
        started = time.perf_counter()
        filled = (batch for batch in record_batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return Shard(None, [figures])
        name = f"{name_of(figures.partition)}-{_digest(first)}"
        if self.checkpoints is not None:
            stored = self.checkpoints.load(self.turn, name)
            if stored is not None:
                next(reader.read([first]))  # sets the width
                return stored
        model = copy.deepcopy(self.model)
        for batch in reader.read(itertools.chain([first], filled)):
            if batch.bad and self.layout.options.on_error == "stop":
                raise batch.bad[0].error()
            figures.skipped += batch.skipped
            if len(batch):
                self._learn_batch(model, batch, figures)
        if figures.rows:
            figures.take(model.progress, self.model.progress, model.table is not None)
            figures.bytes = moved_bytes(model)
        figures.seconds = time.perf_counter() - started
        shard = Shard(model if figures.rows else None, [figures])
        if self.checkpoints is not None:
            self.checkpoints.save(self.turn, name, shard)
        return shard

    def _learn_batch(self, model: Model, batch: Batch, figures: Figures) -> None:
        """Learn a batch, and add its predictions to the model's progress."""
        targets: Any = batch.labels if model.table is None else batch.codes
        try:
            learned = model.learn_targets(
                model.rows(batch, add=True), targets, model.table, batch.weights
            )
        except DivergenceError as error:
            raise DivergenceError(f"{figures.name}, after {figures.rows} rows: {error}") from error
        model.update_progress(learned, batch.weights)
        figures.rows += len(batch)

    def _named_layout(self) -> Layout:
        """Return the layout with the names that the model knows, in the order of their ids."""
        options = self.layout.options
        if options.features != "name":
            return self.layout
        return replace(self.layout, options=replace(options, names=self.model.names()))


RESULT = pa.schema(
    [
        ("partition", pa.int32()),
        ("figures", pa.string()),
        ("width", pa.int32()),
        ("error", pa.string()),
        ("model", pa.binary()),
    ]
)


def _digest(first: pa.RecordBatch) -> str:
    """Return a digest that recognises a partition by its first rows."""
    return hashlib.blake2b(first.serialize(), digest_size=8).hexdigest()


def error_as_json(error: SonlineError) -> str:
    """Return an error in a form that another machine can raise again."""
    if isinstance(error, DataFormatError):
        location = {"file": error.file, "line": error.line, "column": error.column}
        return json.dumps(["DataFormatError", error.message, location | {"text": error.text}])
    return json.dumps([type(error).__name__, str(error), {}])


def raise_again(text: str) -> NoReturn:
    """Raise the error that `error_as_json` described."""
    name, message, location = json.loads(text)
    kind = getattr(errors, name)
    raise kind(message, **location)
