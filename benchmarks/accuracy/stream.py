"""What a stream is: rows in an order, a kind, a group and one of two halves."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from benchmarks.accuracy.sources import Sources

Rows = tuple[sp.csr_matrix, np.ndarray]
MOST_ROWS = 30_000  # of one stream: the first ones
GROUPS = (
    "tables", "ordered", "text", "ids", "many", "regression", "rare", "small", "synthetic",
)  # fmt: skip


@dataclass(frozen=True)
class Stream:
    """Rows in an order, and how to evaluate predictions.

    ``kind`` is "binary" (labels -1 and +1), "multiclass" (labels 0 .. k-1) or "regression".
    ``group`` is one of `GROUPS`: shuffled tables, rows in time or file order, words, one-hot ids,
    20 classes and more, numbers, rare classes, fewer than 1,000 rows, generated rows.
    ``source`` names the archives that `load` reads, see `benchmarks.accuracy.sources`.
    """

    name: str
    kind: str
    group: str
    load: Callable[[], Rows] = field(repr=False)
    source: str = ""

    @property
    def half(self) -> str:
        """Whether constants may be chosen on it."""
        return "development" if zlib.crc32(self.name.encode()) & 1 else "report"


Loader = tuple[str, str, str, str, Callable[[Sources], Rows]]  # name, kind, group, source, load


def loaded(sources: Sources, loaders: Iterable[Loader]) -> Iterator[Stream]:
    """Yield the streams of loaders."""
    for name, kind, group, source, load in loaders:
        yield Stream(name, kind, group, functools.partial(load, sources), source)
