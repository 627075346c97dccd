"""What an executor does with a partition: learn its rows, and hand back a model with figures."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from sonline import errors, persistence
from sonline.distributed.checkpoints import Checkpoints
from sonline.distributed.rounds import name_of
from sonline.distributed.shards import Figures, Shard, moved_bytes
from sonline.distributed.spark.rows import Layout, RowReader
from sonline.errors import DataFormatError, DivergenceError, SonlineError
from sonline.evaluate import losses
from sonline.parameters import Parameters
from sonline.streams import Batch
from sonline.streams.learners import ManyOutputs, OneOutput, StreamRows, names_of

Floats: TypeAlias = NDArray[np.float64]
KIND = "spark-model"
CLASSES = "class-learner"


class Classes(ManyOutputs):
    """Learners for classes that save themselves."""

    threads = 1  # Spark counts on one for each task

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them to a file."""
        document, tensors = self.__getstate__()
        persistence.write(path, CLASSES, document, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        learner = cls.__new__(cls)
        state = persistence.read(path, CLASSES)
        with persistence.reading(path):
            learner.__setstate__(state)
        return learner


Learner: TypeAlias = OneOutput | Classes


def fresh(parameters: Parameters, classes: Sequence[Any] | None) -> Learner:
    """Return a learner that has not seen anything."""
    if classes is None:
        return OneOutput(**parameters.as_dict())
    return Classes(parameters, len(classes), growing=False)


def packed(learner: Learner, more: dict[str, Any] | None = None) -> bytes:
    """Return a learner as the bytes of a model file."""
    document, tensors = learner.__getstate__()
    with tempfile.TemporaryDirectory(prefix="sonline-") as folder:
        path = Path(folder, "model")
        persistence.write(path, KIND, {"learner": document, "more": more or {}}, tensors)
        return path.read_bytes()


def unpacked(data: bytes) -> tuple[Learner, dict[str, Any]]:
    """Return what `packed` put in."""
    with tempfile.TemporaryDirectory(prefix="sonline-") as folder:
        path = Path(folder, "model")
        path.write_bytes(data)
        document, tensors = persistence.read(path, KIND)
    with persistence.reading("the model"):
        state = document["learner"]
        kind: type[Learner] = Classes if "signs" in state else OneOutput
        learner = kind.__new__(kind)
        learner.__setstate__((state, tensors))
        more: dict[str, Any] = document["more"]
    return learner, more


@dataclass(frozen=True)
class Work:
    """What every executor is told for one round.

    Parameters
    ----------
    layout : Layout
        Which columns hold what.
    parameters : Parameters
        Of the learner.
    model : Learner
        What each partition begins with.
    checkpoints : Checkpoints, optional
        Where finished partitions are kept, in a folder that all executors see.
    turn : int
        Which round it is, from 0.
    """

    layout: Layout
    parameters: Parameters
    model: Learner
    checkpoints: Checkpoints | None
    turn: int

    def learn(self, record_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Learn a partition; one row as `RESULT` has it, with figures and errors as JSON.

        An error of the data is handed back, not raised: Spark would try it four times and then show
        a page of Java.
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
            "model": None if shard.model is None else packed(shard.model),
        }
        yield pa.RecordBatch.from_pylist([row], schema=RESULT)

    def _learn(
        self, reader: RowReader, figures: Figures, record_batches: Iterator[pa.RecordBatch]
    ) -> Shard:
        begun = time.perf_counter()
        given = (batch for batch in record_batches if batch.num_rows)
        first = next(given, None)
        if first is None:
            return Shard(None, [figures])
        name = f"{name_of(figures.partition)}-{_digest(first)}"
        if self.checkpoints is not None:
            found = self.checkpoints.load(self.turn, name)
            if found is not None:
                next(reader.read([first]))  # what it says about the width
                return found
        learner = copy.deepcopy(self.model)
        for batch in reader.read(itertools.chain([first], given)):
            if batch.bad and self.layout.options.on_error == "stop":
                raise batch.bad[0].error()
            figures.skipped += batch.skipped
            if len(batch):
                self._learn_batch(learner, batch, figures)
        if figures.rows:
            figures.bytes = moved_bytes(learner)
        figures.seconds = time.perf_counter() - begun
        shard = Shard(learner if figures.rows else None, [figures])
        if self.checkpoints is not None:
            self.checkpoints.save(self.turn, name, shard)
        return shard

    def _learn_batch(self, learner: Learner, batch: Batch, figures: Figures) -> None:
        """Learn a batch, and take the predictions made before into the figures."""
        try:
            if batch.new_names:
                learner.add_names(batch.new_names, batch.first_name)
            targets = batch.labels if batch.codes is None else batch.codes
            assert targets is not None  # noqa: S101 - one of both is there
            raw = learner.learn_rows(StreamRows.of(batch), targets, batch.weights)
        except DivergenceError as error:
            raise DivergenceError(f"{figures.name}, after {figures.rows} rows: {error}") from error
        loss, wrong = _measured(self.parameters, batch, raw)
        weights = np.ones(len(batch)) if batch.weights is None else batch.weights
        figures.wrong = 0.0 if not figures.rows else figures.wrong
        figures.rows += len(batch)
        figures.weight += float(weights.sum())
        figures.loss += float((loss * weights).sum())
        figures.wrong += float((wrong * weights).sum())

    def _named_layout(self) -> Layout:
        """Return the layout with the names that the model knows, in the order of their ids."""
        options = self.layout.options
        if options.features != "name":
            return self.layout
        return replace(self.layout, options=replace(options, names=names_of(self.model)))


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
    """Return what tells this partition from others: a partition of other rows is another one."""
    return hashlib.blake2b(first.serialize(), digest_size=8).hexdigest()


def error_as_json(error: SonlineError) -> str:
    """Return an error in a form that another machine can raise again."""
    if isinstance(error, DataFormatError):
        place = {"file": error.file, "line": error.line, "column": error.column}
        return json.dumps(["DataFormatError", error.message, place | {"text": error.text}])
    return json.dumps([type(error).__name__, str(error), {}])


def raise_again(text: str) -> NoReturn:
    """Raise the error that `error_as_json` described."""
    name, message, place = json.loads(text)
    kind = getattr(errors, name)
    raise kind(message, **place)


def _measured(parameters: Parameters, batch: Batch, raw: Floats) -> tuple[Floats, Floats]:
    """Return the loss of each prediction, and whether it was the wrong class."""
    if batch.codes is None:
        assert batch.labels is not None  # noqa: S101 - one of both is there
        loss = losses(parameters.loss, batch.labels, raw[0], parameters.quantile)
        return loss, np.full(len(batch), np.nan)
    codes = batch.codes
    lines = range(raw.shape[0]) if raw.shape[0] > 1 else [1]
    total = np.zeros(len(batch))
    for line, code in zip(raw, lines, strict=True):
        total += losses(parameters.loss, np.where(codes == code, 1.0, -1.0), line)
    return total, np.asarray(chosen(raw) != codes, dtype=np.float64)


def chosen(raw: Floats) -> NDArray[np.int64]:
    """Return the place of the predicted class of each row."""
    places = raw[0] > 0 if raw.shape[0] == 1 else raw.argmax(axis=0)
    return np.asarray(places, dtype=np.int64)
