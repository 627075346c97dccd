"""Lines of text from Spark, for the parser of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sonline.labels import label_or_none
from sonline.streams import Batch
from sonline.streams.rows import UNKNOWN

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


class KnownClasses:
    """Turns labels that are words into numbers of classes; rows of other classes are bad rows."""

    def __init__(self, classes: Sequence[Label]) -> None:
        self._numbers = {label: number for number, label in enumerate(classes)}
        self._text = any(isinstance(label, str) for label in classes)  # then 1 is text, too
        self._codes: list[int] = []  # of each word so far, in the order of the parser's codes

    def codes(self, batch: Batch) -> Batch:
        """Return the batch with numbers of classes as codes, without rows of other classes."""
        for word in batch.new_labels:
            label = word if self._text else label_or_none(word)
            self._codes.append(UNKNOWN if label is None else self._numbers.get(label, UNKNOWN))
        assert batch.codes is not None  # noqa: S101 - of text
        codes = np.array([*self._codes, UNKNOWN], np.int64)[batch.codes]
        unknown = np.flatnonzero(codes == UNKNOWN).tolist()
        if unknown:
            batch = batch.without(dict.fromkeys(unknown, "the label is none of the classes"))
        return replace(batch, codes=codes[codes != UNKNOWN])
