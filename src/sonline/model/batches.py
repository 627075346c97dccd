"""Batches of a stream as a model learns them: its keys for their names."""

from __future__ import annotations

from typing import Any

import numpy as np

from sonline import _core
from sonline.errors import InvalidInputError
from sonline.labels import NEW, ClassTable, Codes
from sonline.rows import NAMED, CoreRows, Keys
from sonline.rows.cells import SparseRows


class StreamKeys:
    """The keys of a model for the names of a stream that it learns from, or that it predicts.

    A stream numbers names in the order of their appearance, and each batch brings those that are
    new. As long as the model has the same numbers for them, no table is needed.
    """

    def __init__(self) -> None:
        self._names: object = None  # of which stream
        self._keys: Keys | None = None  # by number; None while the numbers are the model's

    def rows(self, core: _core.Model, batch: Any, add: bool) -> CoreRows:
        """Return the rows of a batch; new names are added to the model if ``add``."""
        keys = batch.indices
        if batch.named:
            self._update(core, batch, add)
            keys = keys.view(np.uint64) | NAMED if self._keys is None else self._keys[keys]
        rows = SparseRows(batch.indptr, keys, batch.values)
        return CoreRows.of_sparse(rows, table=batch.table)

    def _update(self, core: _core.Model, batch: Any, add: bool) -> None:
        """Take in the new names of a batch."""
        keys = self._keys
        if self._names is not batch.names:
            if batch.first_name != batch.names.initial:
                raise InvalidInputError(
                    "the batches of a stream must be used from the first one on: names come with "
                    "the batch that has them first"
                )
            if batch.names.initial not in (0, core.name_count()):
                raise InvalidInputError("the stream was opened for another model")
            keys = None
        if batch.new_names:
            new = core.name_keys(batch.new_names, add)
            numbers = np.arange(batch.first_name + new.size, dtype=np.uint64) | NAMED
            if keys is not None:
                keys = np.concatenate([keys, new])
            elif not np.array_equal(new, numbers[batch.first_name :]):
                keys = np.concatenate([numbers[: batch.first_name], new])
        self._names, self._keys = batch.names, keys


def known_codes(table: ClassTable, batch: Any, words: bool = False) -> Codes:
    """Return the class of each row of a batch; `NEW` if it is not in the table.

    If ``words``, labels are the words of the stream, also those that are numbers.
    """
    # The stream has codes for its labels, so each label is looked up once.
    labels = batch.names.words[: batch.label_count] if words else batch.stream_labels()
    codes: Codes = np.append(table.codes(labels), NEW)[batch.codes]
    return codes


def batch_codes(table: ClassTable, batch: Any) -> tuple[Codes, ClassTable]:
    """Return the class of each row of a batch, and the table with the labels that are new."""
    codes = known_codes(table, batch)
    if codes.size and codes.min() == NEW:
        try:
            table, codes = table.encode(batch.label_values())
        except InvalidInputError as error:
            row = int(np.argmax(codes == NEW))
            raise batch.error(row, error.message) from None
    return codes, table.decided_by(codes)
