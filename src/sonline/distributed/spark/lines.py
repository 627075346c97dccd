"""Lines of text from Spark, for the parser of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sonline.labels import NEW, ClassTable
from sonline.model.batches import known_codes
from sonline.streams import Batch

Label: TypeAlias = float | str


class Lines:
    """Lines from Spark as a file."""

    seekable = False

    def __init__(self, name: str, batches: Iterator[pa.RecordBatch]) -> None:
        self.name = name
        self._batches = batches

    def read(self, size: int) -> bytes:
        """Return all lines of the next batch, whatever ``size`` is; b"" at the end."""
        for batch in self._batches:
            if batch.num_rows:
                lines = batch.column(0).fill_null("").cast(pa.string())
                lines = pc.replace_substring(lines, "\n", " ")  # one row is one line
                whole = pa.ListArray.from_arrays([0, len(lines)], lines)
                return cast(bytes, pc.binary_join(whole, "\n")[0].as_py().encode()) + b"\n"
        return b""


def of_classes(batch: Batch, table: ClassTable) -> Batch:
    """Return a batch with numbers of classes as codes, without rows of other classes."""
    codes = known_codes(table, batch, words=table.text)  # where labels are text, 1 is text, too
    unknown = np.flatnonzero(codes == NEW).tolist()
    if unknown:
        batch = batch.without(dict.fromkeys(unknown, "the label is none of the classes"))
    return replace(batch, codes=codes[codes != NEW])
