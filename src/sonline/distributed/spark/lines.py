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
from sonline.streams import BadRow, Batch
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

    def __init__(self, classes: Sequence[Label], name: str) -> None:
        self._places = {label: place for place, label in enumerate(classes)}
        self._text = any(isinstance(label, str) for label in classes)  # then 1 is a word, too
        self._name = name
        self._codes: list[int] = []  # of each word met, in the order of the parser's codes
        self._words: list[str] = []

    def codes(self, batch: Batch) -> Batch:
        """Return the batch with places for codes and without rows of other classes."""
        for word in batch.new_labels:
            label = word if self._text else word_label(word)
            self._codes.append(UNKNOWN if label is None else self._places.get(label, UNKNOWN))
            self._words.append(word)
        words, lines = batch.codes, batch.lines
        assert words is not None and lines is not None  # noqa: S101, PT018 - of text
        codes = np.array([*self._codes, UNKNOWN], np.int64)[words]
        unknown = codes == UNKNOWN
        if not unknown.any():
            return replace(batch, codes=codes)
        why = "the label is none of the classes"
        bad = [
            BadRow(self._name, int(lines[row]), None, 0, why, self._words[words[row]], b"")
            for row in np.flatnonzero(unknown).tolist()
        ]
        keep = ~unknown
        counts = np.diff(batch.indptr)
        stored = np.repeat(keep, counts)
        return replace(
            batch,
            indptr=np.concatenate([[0], np.cumsum(counts[keep])]),
            indices=batch.indices[stored],
            values=batch.values[stored],
            codes=codes[keep],
            weights=None if batch.weights is None else batch.weights[keep],
            lines=lines[keep],
            ends=None,
            bad=sorted([*batch.bad, *bad], key=lambda row: row.line or 0),
        )


def word_label(word: str) -> Label | None:
    """Return the label that a word means; None for nan and the like, which are none."""
    try:
        return label_of(word)
    except InvalidInputError:
        return None
