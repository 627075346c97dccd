"""Learners that take rows as streams give them: those of the command line and of Spark."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sonline.classes import ClassLearner
from sonline.errors import InvalidInputError
from sonline.learner import OnlineLearner
from sonline.streams.batch import Batch

NAMED = np.uint64(1 << 63)  # marks the id of a name among the keys of the core

Floats: TypeAlias = NDArray[np.float64]


@dataclass
class StreamRows:
    """Some rows of a batch as the core takes them."""

    values: NDArray[Any]
    keys: NDArray[Any]
    indptr: NDArray[np.int64]

    @classmethod
    def of(cls, batch: Batch) -> Self:
        """Return all rows of a batch."""
        keys = batch.indices.view(np.uint64) | NAMED if batch.named else batch.indices
        return cls(batch.values, keys, batch.indptr)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.indptr.size) - 1

    def part(self, first: int, last: int) -> StreamRows:
        """Return the rows from the first up to the last, which is left out."""
        if first == 0 and last == self.count:
            return self
        start, stop = int(self.indptr[first]), int(self.indptr[last])
        return StreamRows(
            self.values[start:stop], self.keys[start:stop], self.indptr[first : last + 1] - start
        )


class OneOutput(OnlineLearner):
    """A learner with one output that takes batches of streams."""

    outputs = 1

    def add_names(self, names: list[str], first: int) -> None:
        """Enter new names of features, the first of them with this number."""
        _check_names(self._model.name_keys(names), first)

    def learn_rows(self, rows: StreamRows, targets: NDArray[Any], weights: Floats | None) -> Floats:
        """Learn; the raw predictions made before each update, a line per output."""
        out = np.empty(rows.count)
        self._model.learn_csr(rows.values, rows.keys, rows.indptr, targets, weights, out)
        return out[np.newaxis]

    def predict_rows(self, rows: StreamRows) -> Floats:
        """Return the raw predictions, a line per output."""
        out = np.empty(rows.count)
        self._model.predict_csr(rows.values, rows.keys, rows.indptr, out)
        return out[np.newaxis]


class ManyOutputs(ClassLearner):
    """Learners for classes that take batches of streams."""

    threads = min(os.cpu_count() or 1, 8)

    def add_names(self, names: list[str], first: int) -> None:
        """Enter new names of features, the first of them with this number."""
        _check_names(self._models[0].name_keys(names), first)

    def learn_rows(self, rows: StreamRows, targets: NDArray[Any], weights: Floats | None) -> Floats:
        """Learn; the raw predictions made before each update, a line per output."""
        out = np.empty((len(self._models), rows.count))
        self._group.learn_csr(
            rows.values, rows.keys, rows.indptr, 0, targets, weights, out, self.threads
        )
        return out[: max(self.outputs, 1)]

    def predict_rows(self, rows: StreamRows) -> Floats:
        """Return the raw predictions, a line per output."""
        out = np.empty((max(self.outputs, 1), rows.count))
        self._speakers.predict_csr(rows.values, rows.keys, rows.indptr, 0, out, self.threads)
        return out


def names_of(learner: OneOutput | ManyOutputs) -> list[str]:
    """Return the features' names in the order of their ids."""
    tensors = learner.__getstate__()[1]
    blob = tensors["names.bytes"].tobytes()
    ends = tensors["names.offsets"].tolist()
    return [blob[a:b].decode() for a, b in itertools.pairwise(ends)]


def _check_names(keys: NDArray[np.uint64], first: int) -> None:
    if keys.size and int(keys[0]) != (first | 1 << 63):
        raise InvalidInputError("the names of the stream are not those of the model")
