"""Class labels: what came, which class each is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sonline.errors import InvalidInputError, ModelFileError

Floats: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[Any]
Codes: TypeAlias = NDArray[np.int64]

MOST_TEXT = 1 << 20  # characters in an array; where one label is much longer, objects take less


def as_labels(name: str, values: Any) -> Labels:
    """Return labels as a vector of one kind: numbers, booleans or text."""
    if isinstance(values, (list, tuple)):
        _refuse_mixture(name, values)
    if type(values) is not np.ndarray or values.ndim != 1:
        values = column_or_1d(values, warn=True)
    kind = values.dtype.kind
    if kind in "biuU":
        return values  # type: ignore[no-any-return]
    if kind == "f":
        finite = np.isfinite(values)
        if not finite.all():
            row = int(np.argmin(finite))
            raise InvalidInputError(f"{name}: {values[row]} in row {row}; not a label")
        if (np.trunc(values) == values).all():
            return values  # type: ignore[no-any-return]
    if kind == "O":
        _refuse_mixture(name, values.tolist())
    # Slow, and only for what may be no label at all: objects, and numbers that are not whole.
    check_classification_targets(values)
    return values  # type: ignore[no-any-return]


def _refuse_mixture(name: str, values: Any) -> None:
    """Raise an error if labels are missing, or some are text and others numbers."""
    examples: dict[str, Any] = {}
    for row, value in enumerate(values):
        if isinstance(value, str):
            examples.setdefault("text", value)
        elif value is None or type(value).__name__ in ("NAType", "NaTType"):  # those of pandas
            raise InvalidInputError(f"{name}: {value} in row {row}; not a label")
        elif isinstance(value, float) and math.isnan(value):
            raise InvalidInputError(f"{name}: nan in row {row}; not a label")
        else:
            examples.setdefault("numbers", value)
    if len(examples) > 1:
        raise InvalidInputError(
            f"{name} mixes labels of different types, such as {examples['text']!r} and "
            f"{examples['numbers']!r}; use text or numbers throughout"
        )


@dataclass(frozen=True)
class ClassTable:
    """The classes of a classifier in the order of their labels.

    `numbers` says which class of the learner each is: classes that are found on the way get the
    next number, wherever their label belongs.
    """

    labels: Labels
    numbers: NDArray[np.intp]

    @classmethod
    def of(cls, name: str, labels: Labels) -> ClassTable:
        """Make a table of the distinct labels."""
        distinct = _distinct(name, labels)
        return cls(distinct, np.arange(distinct.size))

    def codes(self, labels: Labels) -> tuple[Codes, NDArray[np.bool_]]:
        """Return the place of each label, and which labels are new (their place means nothing)."""
        if not self.labels.size or _family(labels) != _family(self.labels):
            return np.zeros(labels.size, dtype=np.int64), np.ones(labels.size, dtype=np.bool_)
        places: Codes = self.labels.searchsorted(labels)
        return places, self.labels.take(places, mode="clip") != labels

    def grown(self, labels: Labels) -> ClassTable:
        """Return the table with new labels taken in."""
        if _family(labels) != _family(self.labels):
            raise InvalidInputError(
                f"y: label {labels.tolist()[0]!r} is of another type than the classes "
                f"{self.labels.tolist()}; use text or numbers throughout"
            )
        together = np.concatenate([self.labels, _distinct("y", labels)])
        order = np.argsort(together, kind="stable")
        numbers = np.append(self.numbers, range(self.numbers.size, order.size))
        return ClassTable(together[order], numbers[order])

    def places_of(self, union: ClassTable) -> list[int]:
        """Return for each class of the learner of a larger table which class it is of the one here.

        Classes that are not known here come last, as new ones would.
        """
        codes, new = self.codes(union.labels)
        numbers = np.empty(union.labels.size, dtype=np.intp)
        numbers[union.numbers[~new]] = self.numbers[codes[~new]]
        numbers[union.numbers[new]] = range(self.labels.size, union.labels.size)
        return [int(number) for number in numbers]

    def refuse(self, labels: Labels, new: NDArray[np.bool_]) -> NoReturn:
        """Raise an error about the first label that is new."""
        row = int(np.argmax(new))
        raise InvalidInputError(
            f"y: label {labels[row : row + 1].tolist()[0]!r} in row {row} is not among the classes "
            f"{self.labels.tolist()}; name all classes in the first call of partial_fit, or make "
            "the estimator with discover_classes=True"
        )

    def refuse_single(self) -> None:
        """Raise an error if there is nothing to tell apart."""
        if self.labels.size < 2:
            raise InvalidInputError(
                f"at least two classes are needed, got {self.labels.size} class: "
                f"{self.labels.tolist()}"
            )

    def in_order(self, lines: Floats) -> Floats:
        """Bring lines, one per output of the learner, into the order of the labels.

        Two classes have one line: what speaks for the second of them.
        """
        if self.labels.size == 2:
            return lines if self.numbers[1] == 1 else -lines
        return lines[self.numbers]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold."""
        if self.labels.dtype.kind not in "biufUO":
            raise InvalidInputError(
                f"labels of type {self.labels.dtype} cannot be written to a model file: only "
                "text, numbers and booleans can; use pickle"
            )
        kind = "object" if self.labels.dtype.kind == "O" else self.labels.dtype.str
        return {"labels": self.labels.tolist(), "dtype": kind, "numbers": self.numbers.tolist()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> ClassTable:
        """Make a table from what `as_dict` returned."""
        dtype = np.dtype(plain["dtype"])
        if dtype.kind not in "biufUO":
            raise ModelFileError(f"labels cannot be of type {dtype}")
        if dtype.kind == "U":  # its length is a claim of the file; what is there is the truth
            longest = max(map(len, plain["labels"]), default=0)
            dtype = np.dtype("U" if longest * len(plain["labels"]) <= MOST_TEXT else object)
        labels = np.array(plain["labels"], dtype=dtype)
        numbers = np.array(plain["numbers"], dtype=np.intp)
        if labels.ndim != 1 or sorted(numbers.tolist()) != list(range(labels.size)):
            raise ModelFileError("the numbers of the classes do not fit their labels")
        if not np.array_equal(np.unique(labels), labels):
            raise ModelFileError("the labels of the classes are not distinct and in order")
        return cls(labels, numbers)


def _distinct(name: str, labels: Labels) -> Labels:
    try:
        return np.unique(labels)
    except TypeError as error:
        raise InvalidInputError(f"{name} holds labels that cannot be ordered: {error}") from error


def _family(labels: Labels) -> str:
    """Return "text" or "numbers": only labels of one family can be compared."""
    kind = labels.dtype.kind
    if kind == "O":
        return "text" if labels.size and isinstance(labels.flat[0], str) else "numbers"
    return "text" if kind in "US" else "numbers"
