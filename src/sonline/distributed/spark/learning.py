"""The work of an executor on a partition: train on its rows, return the model and figures."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pyarrow as pa
from pyspark import TaskContext

from sonline import errors
from sonline.distributed.checkpoints import Checkpoints
from sonline.distributed.partition import train_part
from sonline.distributed.rounds import name_of
from sonline.distributed.shards import Figures, Shard
from sonline.distributed.spark.rows import Layout, RowReader
from sonline.errors import SonlineError
from sonline.model import Model
from sonline.training import NumberCheck


@dataclass(frozen=True)
class Work:
    """The settings of one round, sent to every executor."""

    layout: Layout
    model: Model  # that each partition starts from
    checkpoints: Checkpoints | None  # in a folder that all executors can access
    round_number: int  # number of the round, from 0

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
        filled = (batch for batch in record_batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return Shard(None, [figures])
        name = f"{name_of(figures.partition)}-{_digest(first)}"
        if self.checkpoints is not None:
            stored = self.checkpoints.load(self.round_number, name)
            if stored is not None:
                next(reader.read([first]))  # sets the width
                return stored

        def learn(model: Model) -> Model:
            check, on_error = NumberCheck(model), self.layout.options.on_error
            for read in reader.read(itertools.chain([first], filled)):
                if read.bad and on_error == "stop":
                    raise read.bad[0].error()
                numbers = model.table is None
                batch = read.checked(check.reasons(read) if numbers else {}, on_error)
                figures.skipped += batch.skipped
                if len(batch):
                    targets: Any = batch.labels if numbers else batch.codes
                    learned = model.learn_targets(
                        model.rows(batch, add=True),
                        targets,
                        model.table,
                        batch.weights,
                        offsets=model.offsets(batch.offsets, len(batch)),
                    )
                    model.update_progress(learned, batch.weights)
                    figures.rows += len(batch)
            return model

        shard = train_part(self.model, figures, learn, before=self.model.progress)
        if self.checkpoints is not None:
            self.checkpoints.save(self.round_number, name, shard)
        return shard

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
    return json.dumps([type(error).__name__, str(error.args[0]), vars(error)], default=str)


def raise_again(text: str) -> NoReturn:
    """Raise the error that `error_as_json` described."""
    name, message, attributes = json.loads(text)
    error = getattr(errors, name)(message)
    vars(error).update(attributes)
    raise error
