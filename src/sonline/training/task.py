"""The task, detected from the first rows of a stream, and how a model reads streams."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.errors import ParameterError
from sonline.labels import NEW, SIGNS, ClassTable, Codes, label_of, token_of
from sonline.model import Model, Reading
from sonline.parameters import Parameters
from sonline.read_options import ReadOptions
from sonline.rows.checks import offset_reasons
from sonline.streams import Batch, Options
from sonline.streams.batch import NO_LABEL

DECIDING_ROWS = 1000  # rows whose labels decide the task
BLOCK = 10  # rows of each label, all in one block: that is no accident
RARE_LABELS = 100  # labels of fewer than one row in this many may be mistakes
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
    few = sum(others.values()) * RARE_LABELS <= len(labels)
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
        self._advice = f"for other classes {more_classes}" if table.signs else more_classes
        self._table = table
        self._reasons: dict[int, str] = {}  # by code of the label
        self._checked = 0

    def reasons(self, batch: Batch) -> dict[int, str]:
        """Return, by row, why rows of the next batch cannot be learned."""
        codes = batch.codes
        if codes is None:
            return {}
        if self._table.undecided:
            self._decide(batch.stream_labels(), codes)
        for code in range(self._checked, batch.label_count):
            label = batch.names.label(code)
            if label is None:
                self._reasons[code] = NO_LABEL
            elif why := self._table.reason(label, self._advice):
                self._reasons[code] = why
            elif not self._table.labels:  # the first label decides: text or numbers
                self._table = self._table.added([label])
        self._checked = batch.label_count
        if not self._reasons:
            return {}
        bad = np.flatnonzero(np.isin(codes, list(self._reasons)))
        return {int(row): self._reasons[int(codes[row])] for row in bad}

    def _decide(self, labels: Sequence[Any], codes: Codes) -> None:
        """Decide by the first -1 or 0 which of the two is the negative label."""
        negatives = [code for code, label in enumerate(labels) if label in (-1, 0)]
        rows = np.flatnonzero(np.isin(codes, negatives))
        if rows.size:
            negative = labels[int(codes[rows[0]])]
            self._table = replace(self._table, labels=(negative, 1), undecided=False)
            self._checked, self._reasons = 0, {}


class NumberCheck:
    """Finds rows with numbers that a model cannot learn, before they are learned."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def reasons(self, batch: Batch) -> dict[int, str]:
        """Return, by row, why rows of the next batch cannot be learned."""
        assert batch.labels is not None  # noqa: S101 - labels are numbers
        reasons = self._model.label_reasons("label", batch.labels)
        if batch.offsets is not None:
            log_link = self._model.parameters.log_link
            reasons.join(offset_reasons("offset", batch.offsets, log_link))
        return {row: str(reason) for row, reason in reasons.items()}


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
        **reading.table.of_rows(),
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
    return Reading(options.features, {}, ReadOptions.from_rows(options))


def shown_classes(labels: Sequence[Any], growing: bool) -> str:
    """Return a sentence about the classes."""
    shown = ", ".join(str(label) for label in labels[:10])
    more = ", ..." if len(labels) > 10 else ""
    return f"classes: {shown}{more}{' (new ones may appear)' if growing else ''}"


def location_of(label: Any, batches: list[Batch]) -> str:
    """Return the file and line of the first row with a label, for an error."""
    for batch in batches:
        for row, code in enumerate([] if batch.codes is None else batch.codes.tolist()):
            if code >= 0 and batch.names.label(code) == label:
                line = "" if batch.lines is None else f":{int(batch.lines[row])}"
                return f"{batch.file}{line}: "
    return ""
