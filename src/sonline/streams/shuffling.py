"""Rows in random order, within blocks that fit into memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.streams.batch import ROW_COLUMNS, Batch, joined_column


def shuffled(
    batches: Iterable[Batch], rows: int, seed: int, stopped: Callable[[], bool]
) -> Iterator[Batch]:
    """Yield blocks of ``rows`` rows in random order; the last block of a pass may be smaller.

    Rows stay within their block. The order depends on the seed and the position of
    the block: each pass has another order, and a run that resumes at the end of a block has the
    same blocks. If the stream was ``stopped`` before its end, a block that is not full is dropped.
    """
    waiting: list[Batch] = []
    count = 0
    for batch in batches:
        rest = batch
        if waiting and waiting[0].start.turn != batch.start.turn:
            yield _block(waiting, seed)
            waiting, count = [], 0
        while count + len(rest) >= rows:
            first, rest = _split(rest, rows - count)
            yield _block([*waiting, first], seed)
            waiting, count = [], 0
        if len(rest) or rest.bad:
            waiting.append(rest)
            count += len(rest)
    if waiting and not stopped():
        yield _block(waiting, seed)


def _split(batch: Batch, count: int) -> tuple[Batch, Batch]:
    """Return the first rows of a batch, and the others."""
    first = batch.head(count)
    if first is batch:
        nothing = batch.head(0)
        return batch, replace(nothing, start=batch.end, end=batch.end, bad=[])
    names, labels = len(first.new_names), len(first.new_labels)
    rest = batch.rows(np.arange(count, len(batch)))
    return first, replace(
        rest,
        start=first.end,
        new_names=batch.new_names[names:],
        new_labels=batch.new_labels[labels:],
        first_name=batch.first_name + names,
        first_label=batch.first_label + labels,
        bad=batch.bad[len(first.bad) :],
        unknown_features=0,
    )


def _block(batches: list[Batch], seed: int) -> Batch:
    """Return the rows of several batches as one, in random order."""
    position = batches[0].start
    rng = np.random.default_rng(
        [seed, position.turn, position.file, position.offset, position.rows]
    )
    combined = joined(batches)
    return combined.rows(rng.permutation(len(combined)))


def joined(batches: list[Batch]) -> Batch:
    """Return the rows of several batches, which follow each other, as one."""
    first, last = batches[0], batches[-1]
    sizes = [batch.indptr[-1] for batch in batches]
    starts = np.cumsum([0, *sizes[:-1]])
    indptr = [batch.indptr[:-1] + start for batch, start in zip(batches, starts, strict=True)]
    rows = [len(batch) for batch in batches]
    tags = [batch.tags or [""] * len(batch) for batch in batches]
    columns: dict[str, Any] = {
        name: None if getattr(first, name) is None else _column(batches, name)
        for name in ("indices", "values", *ROW_COLUMNS)
        if name not in ("weights", "offsets")
    }
    return replace(
        first,
        **columns
        | {
            "indptr": np.concatenate([*indptr, [sum(sizes)]]).astype(np.int64),
            "weights": joined_column([batch.weights for batch in batches], rows, 1.0),
            "offsets": joined_column([batch.offsets for batch in batches], rows, 0.0),
            "tags": [*itertools.chain(*tags)] if any(batch.tags for batch in batches) else None,
            "new_names": [name for batch in batches for name in batch.new_names],
            "new_labels": [label for batch in batches for label in batch.new_labels],
            "bad": [row for batch in batches for row in batch.bad],
            "unknown_features": sum(batch.unknown_features for batch in batches),
            "end": last.end,
            "keeper": [batch.keeper for batch in batches],
        },
    )


def _column(batches: list[Batch], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(batch, name) for batch in batches])
