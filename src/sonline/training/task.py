"""The task, detected from the first rows of a stream, and how a model reads streams."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.errors import ParameterError
from sonline.labels import NEW, SIGNS, ClassTable, Codes, label_of, token_of
from sonline.model import Model, Reading
from sonline.parameters import Parameters
from sonline.streams import Batch, Options
from sonline.streams.batch import NO_LABEL

DECIDING_ROWS = 1000  # rows whose labels decide the task
BLOCK = 10  # rows of each label, all in one block: that is no accident
RARE = 100  # labels of fewer than one row in this many may be mistakes
_COMMAS = re.compile(r"[+-]?\d+(,\d+)+(\.\d+)?")
MANY_CLASSES = 200  # more different numbers than this among the first labels are not classes


def table_for(
    parameters: Parameters,
    labels: Sequence[Any],
    classes: str | Sequence[Any],
    loss_given: bool,
    *,
    skip: bool = False,
    location_of: Callable[[Any], str] = lambda label: "",
) -> ClassTable | None:
    """Return the classes for the first labels of a stream; None for regression.

    A few other labels among many that are -1 and 1, or 0 and 1, are a mistake in the data or a rare
    class: only the user knows. If bad rows are skipped, these are skipped, too. ``location_of``
    returns the file and line of a label, for the error.
    """
    if not parameters.binary:
        if classes not in ("auto", "binary"):
            raise ParameterError(
                f"the loss {parameters.loss} is for numbers, and classes (--classes) are given: "
                "use the loss logistic, or leave the classes out"
            )
        return None
    if classes not in ("auto", "binary", "multi"):
        words = classes.split(",") if isinstance(classes, str) else list(classes)
        declared = [label_of(word.strip()) if isinstance(word, str) else word for word in words]
        if len(set(declared)) < max(2, len(declared)):
            raise ParameterError(
                "classes must be 'auto', 'binary', 'multi' or two or more different labels, got "
                f"{classes!r}"
            )
        return ClassTable(tuple(declared))
    counts = Counter(label for label in labels if label is not None)
    others = {label: count for label, count in counts.items() if label not in (-1, 0, 1)}
    if classes == "binary" or (classes == "auto" and not others):
        return SIGNS
    few = sum(others.values()) * RARE <= len(labels)
    if classes == "auto" and few and counts[1] and (counts[-1] or counts[0]):
        if skip:
            return SIGNS
        shown = ", ".join(str(label) for label in list(others)[:4])
        raise ParameterError(
            f"{location_of(next(iter(others)))}nearly all of the first labels are "
            f"{-1 if counts[-1] else 0} and 1, but there are others ({shown}): use classes multi "
            "(--classes multi) if they are classes; otherwise correct these rows, or skip them "
            "(--on-error skip)"
        )
    labels = list(counts)
    commas = [label for label in labels if isinstance(label, str) and _COMMAS.fullmatch(label)]
    if classes == "auto" and 2 * len(commas) > len(labels):
        raise ParameterError(
            f"labels such as {commas[0]} are numbers with commas, which are not read: write 1.5 "
            "and 1500; if each is a class, use classes multi (--classes multi)"
        )
    if classes == "auto" and not loss_given:
        fractions = any(isinstance(label, float) for label in labels)
        if fractions or (len(labels) > MANY_CLASSES and not isinstance(labels[0], str)):
            shown = ", ".join(str(label) for label in labels[:4])
            raise ParameterError(
                f"labels such as {shown} look like a regression target: use the loss squared or "
                "quantile (--loss squared); if each is a class, classes multi (--classes multi)"
            )
    return ClassTable(growing=True)


def in_blocks(labels: Sequence[Any]) -> bool:
    """Return whether the rows of each label follow each other, as in a sorted file.

    Examples
    --------
    >>> in_blocks([0] * 30 + [1] * 20), in_blocks([0, 1] * 25), in_blocks([0] * 30 + [1])
    (True, False, False)
    """
    counts = Counter(labels)
    changes = sum(before != label for before, label in itertools.pairwise(labels))
    return changes == len(counts) - 1 > 0 and min(counts.values()) >= BLOCK


def fitting(model: Model, labels: Sequence[Any], classes: str | Sequence[Any] = "auto") -> Model:
    """Return an untrained model with the classes that the labels of a stream need."""
    table = table_for(model.parameters, labels, classes, loss_given=False)
    return model if table is SIGNS else Model(model.parameters, table)


class LabelCheck:
    """Finds rows whose labels a model with these classes cannot learn, before they are learned."""

    def __init__(self, table: ClassTable, more_classes: str) -> None:
        self._more_classes = more_classes
        self._known = table.labels
        self._growing, self._signs = table.growing, table.signs
        self._aliases = table.aliases
        self._undecided = table.undecided
        self._continued = table.signs and not table.undecided  # a model that has learned
        self._reasons: dict[int, str] = {}  # by code of the label
        self._checked = 0

    def reasons(self, batch: Batch) -> dict[int, str]:
        """Return, by row, why rows of the next batch cannot be learned."""
        codes = batch.codes
        if codes is None:
            return {}
        if self._signs and self._undecided and codes.size:
            self._decide(batch, codes)
        if not self._undecided or not self._signs:
            for code in range(self._checked, batch.label_count):
                why = self._why(batch.names.label(code))
                if why:
                    self._reasons[code] = why
            self._checked = batch.label_count
        if not self._reasons:
            return {}
        bad = np.flatnonzero(np.isin(codes, list(self._reasons)))
        return {int(row): self._reasons[int(codes[row])] for row in bad}

    def _decide(self, batch: Batch, codes: Codes) -> None:
        """Decide by the first -1 or 0 which of the two is the negative label."""
        labels = batch.stream_labels()
        negative = np.flatnonzero(
            np.isin(codes, [code for code, label in enumerate(labels) if label in (-1, 0)])
        )
        if negative.size:
            self._known = (labels[int(codes[negative[0]])], 1)
            self._undecided = False
        else:
            self._known = (-1, 0, 1)
            self._checked = 0
            self._reasons = {}
            for code, label in enumerate(labels):
                if why := self._why(label):
                    self._reasons[code] = why

    def _why(self, label: Any) -> str | None:
        """Return why a label cannot be learned; None if it can."""
        if label is None:
            return NO_LABEL
        if label in self._known or label in self._aliases:
            return None
        if self._continued and label in (-1, 0):
            return (
                f"the model has the labels {self._known[0]} and {self._known[1]}; write this one so"
            )
        if self._signs:
            return (
                "labels must be -1 and 1, or 0 and 1 (but not all three); for other classes "
                + self._more_classes
            )
        if not self._growing:
            shown = ", ".join(str(other) for other in self._known[:10])
            return f"not one of the classes {shown}; {self._more_classes}"
        if self._known and isinstance(label, str) != isinstance(self._known[0], str):
            return f"other labels are like {self._known[0]!r}: do not mix words and numbers"
        self._known = self._known or (label,)
        return None


def options_of(parameters: Parameters) -> dict[str, Any]:
    """Return the options of a stream for a model with these parameters."""
    return {
        "hash_bits": parameters.hash_bits,
        "hash_seed": parameters.seed,
        "dtype": parameters.dtype,
        "missing": parameters.missing,
        "tokens": parameters.binary,
    }


def stream_options(model: Model, **more: Any) -> dict[str, Any]:
    """Return the options to open a stream with for a model."""
    table, reading = model.table, model.reading
    features = reading.features or ("name" if model.core.name_count() else "index")
    return {
        **options_of(model.parameters),
        "features": "hash" if model.parameters.hash_bits is not None else features,
        "tokens": table is not None,
        "names": model.core if features == "name" else [],
        "label_names": [] if table is None else [token_of(label) for label in table.labels],
        "columns": reading.columns,
        **reading.table,
        **more,
    }


def targets_of(model: Model, batch: Batch) -> NDArray[Any]:
    """Return the targets of a batch; NaN or `NEW` for rows without one."""
    if batch.codes is None or model.table is None:
        assert batch.labels is not None  # noqa: S101 - a batch has codes or labels
        return batch.labels
    labels = batch.stream_labels()
    codes = model.table.codes(labels)
    if model.table.undecided and 0 in labels:  # until a -1 occurs, 0 may be the negative label
        codes[labels.index(0)] = 0
    return np.append(codes, NEW)[batch.codes]


def have_targets(model: Model, targets: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows have a target; ``targets`` are those of `targets_of`."""
    return np.asarray(~np.isnan(targets) if model.table is None else targets != NEW)


def reading_of(options: Options) -> Reading:
    """Return how a stream is read, to be stored with a model."""
    table = {
        "label": options.label,
        "weight": options.weight,
        "tag": options.tag,
        "text": list(options.text),
        "ignore": list(options.ignore),
        "delimiter": options.delimiter,
        "na_values": list(options.na_values),
        "amounts": list(options.amounts),
        "interactions": list(options.interactions),
        "ngrams": list(options.ngrams),
    }
    options_set = {name: value for name, value in table.items() if value}
    return Reading(
        options.features, {}, options_set | ({} if options.header else {"header": False})
    )


def shown_classes(labels: Sequence[Any], growing: bool) -> str:
    """Return a sentence about the classes."""
    shown = ", ".join(str(label) for label in labels[:10])
    more = ", ..." if len(labels) > 10 else ""
    return f"classes: {shown}{more}{' (new ones may appear)' if growing else ''}"
