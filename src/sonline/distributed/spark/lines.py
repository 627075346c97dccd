"""Lines of text that Spark hands over, for the parser of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sonline.errors import InvalidInputError
from sonline.labels import label_of
from sonline.streams import Batch
from sonline.streams.rows import UNKNOWN

Label: TypeAlias = float | str


class Lines:
    """Lines that Spark hands over, as a file to be read."""

    seekable = False

    def __init__(self, name: str, batches: Iterator[pa.RecordBatch]) -> None:
        self.name = name
        self._batches = batches

    def read(self, size: int) -> bytes:
        """Return the lines of the next batch, however many they are; none at the end."""
        for batch in self._batches:
            if batch.num_rows:
                lines = batch.column(0).fill_null("").cast(pa.string())
                lines = pc.replace_substring(lines, "\n", " ")  # one row is one line
                whole = pa.ListArray.from_arrays([0, len(lines)], lines)
                return cast(bytes, pc.binary_join(whole, "\n")[0].as_py().encode()) + b"\n"
        return b""


class KnownClasses:
    """Turns the words that lines have as labels into places of classes; other rows are bad ones."""

    def __init__(self, classes: Sequence[Label]) -> None:
        self._places = {label: place for place, label in enumerate(classes)}
        self._text = any(isinstance(label, str) for label in classes)  # then 1 is a word, too
        self._codes: list[int] = []  # of each word met, in the order of the parser's codes

    def codes(self, batch: Batch) -> Batch:
        """Return the batch with places for codes and without rows of other classes."""
        for word in batch.new_labels:
            label = word if self._text else word_label(word)
            self._codes.append(UNKNOWN if label is None else self._places.get(label, UNKNOWN))
        assert batch.codes is not None  # noqa: S101 - of text
        codes = np.array([*self._codes, UNKNOWN], np.int64)[batch.codes]
        unknown = np.flatnonzero(codes == UNKNOWN).tolist()
        if unknown:
            batch = batch.without(dict.fromkeys(unknown, "the label is none of the classes"))
        return replace(batch, codes=codes[codes != UNKNOWN])


def word_label(word: str) -> Label | None:
    """Return the label that a word means; None for nan and the like, which are none."""
    try:
        return label_of(word)
    except InvalidInputError:
        return None
