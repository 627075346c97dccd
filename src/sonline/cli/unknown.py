"""What a model and the rows that it predicts do not have in common."""

from __future__ import annotations

import numpy as np

from sonline.model import Model
from sonline.streams import Batch, Stream

_LARGEST = 1 << 24  # known indices below are marked in an array, larger ones are searched


class Unknown:
    """Counts values of features that a model does not know, over the batches of a stream."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._values = self._used = 0
        self._indices, self._marks = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        if model.reading.features == "index":
            known = [feature for feature in model.features() if isinstance(feature, int)]
            self._indices = np.array(known, np.int64)
            largest = int(self._indices.max(initial=0))
            if largest < _LARGEST:
                self._marks = np.zeros(largest + 2, np.bool_)  # the last is for all above
                self._marks[self._indices] = True

    def add(self, batch: Batch) -> None:
        """Count the features of a batch."""
        unknown = batch.unknown_features
        if self._model.reading.features == "index":
            if self._marks.size:
                known = self._marks[np.minimum(batch.indices, self._marks.size - 1)].sum()
            else:
                known = np.isin(batch.indices, self._indices).sum()
            unknown = batch.indices.size - int(known)
            self._used += int(known)
        else:
            self._used += batch.values.size
        self._values += unknown

    def lines(self, stream: Stream) -> list[str]:
        """Return what there is to say at the end of a stream."""
        lines = []
        if missing := stream.missing_columns:
            several = len(missing) > 1
            shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
            lines.append(
                f"warning: column{'s' * several} {shown} of the model "
                f"{'are' if several else 'is'} not in the data"
            )
        if self._values:
            where = _columns(self._model, list(stream.columns))
            lines.append(f"{self._values} values of features that the model does not know{where}")
            if not self._used:
                lines.append(
                    "warning: the model knows none of the features, so all predictions are the same"
                )
        return lines


def _columns(model: Model, columns: list[str]) -> str:
    """Return words about the columns of a table of which the model knows no feature."""
    known = {str(feature).partition("=")[0] for feature in model.features()}
    others = [column for column in columns if column.partition("=")[0] not in known]
    if not others:
        return ""
    shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
    text = f", in column{'s' * (len(others) > 1)} {shown}"
    if model.reading.table.label:
        return text
    which, name = ("it", others[0]) if len(others) == 1 else ("one of them", "NAME")
    return f"{text}; if {which} is the label, use --label {name}"
