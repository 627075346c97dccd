"""Class labels: the only place where words and values become classes, and classes numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, repeat
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sonline.errors import InvalidInputError, ModelFileError, shown

Label: TypeAlias = Hashable
Codes: TypeAlias = NDArray[np.int64]

NEW = -1  # the code of a label that the table does not have
ARRAY_TEXT = 1 << 20  # characters in an array; beyond, objects take less
LOOP_UP_TO = 16  # labels that are looked up faster one by one
_STORED = (bool, int, float, str)


def label_of(token: str) -> int | float | str:
    """Return the label for a word of a file: a number if possible.

    Examples
    --------
    >>> label_of("+1"), label_of("2.5"), label_of("spam")
    (1, 2.5, 'spam')
    """
    try:
        # Python's own spellings are words: 1_000, and digits of other scripts.
        number = float(token) if token.isascii() and "_" not in token else None
    except ValueError:
        return token
    if number is None:
        return token
    if not math.isfinite(number):
        raise InvalidInputError("a label must be a finite number or a word")
    if not number.is_integer():
        return number
    try:
        whole = int(token)  # exact beyond 2^53 as well, so that long identifiers stay apart
    except ValueError:  # 1.0, 1e3
        whole = int(number)
    return whole if -(2**63) <= whole < 2**64 else number


def label_or_none(word: str) -> int | float | str | None:
    """Return the label for a word of a file; None for nan and the like."""
    try:
        return label_of(word)
    except InvalidInputError:
        return None


def token_of(value: object) -> str:
    """Return the word for a value of any type; 1.0 and 1 are the same one.

    Examples
    --------
    >>> token_of(1.0), token_of(True), token_of("spam")
    ('1', '1', 'spam')
    """
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def plain(label: Any) -> Any:
    """Return a NumPy scalar as a value of Python."""
    return label.item() if isinstance(label, np.generic) else label


def refuse_masked(name: str, values: Any) -> None:
    """Raise an error about a masked array, whose mask NumPy drops when it converts."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidInputError(f"{name} has masked values; fill them, or drop their rows")


def label_array(y: Any) -> NDArray[Any]:
    """Return labels of any type as a vector."""
    refuse_masked("y", y)
    labels = np.atleast_1d(np.asarray(y))
    if labels.ndim != 1:
        raise InvalidInputError(f"y must have one dimension, got shape {labels.shape}")
    return labels


@dataclass(frozen=True)
class ClassTable:
    """The classes of a model; the number of a class is its position in ``labels``.

    Parameters
    ----------
    labels : tuple
        The labels, distinct.
    growing : bool
        Whether labels that are not in the table become new classes.
    signs : bool
        Labels are -1 and 1, or 0 and 1.
    undecided : bool
        Neither -1 nor 0 was seen yet: the first label may turn out to be 0.
    dtype : str, optional
        The type of array that the labels came in.

    Examples
    --------
    >>> table = ClassTable(("no", "yes"))
    >>> table.codes(["yes", "no", "maybe"]).tolist()
    [1, 0, -1]
    """

    labels: tuple[Any, ...] = ()
    growing: bool = False
    signs: bool = False
    undecided: bool = False
    dtype: str | None = None

    def __post_init__(self) -> None:
        if len(self.numbers) != len(self.labels):
            raise InvalidInputError(f"classes must be different, got {list(self.labels)}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def text(self) -> bool:
        """Whether the labels are text."""
        return bool(self.labels) and isinstance(self.labels[0], str)

    @cached_property
    def numbers(self) -> dict[Any, int]:
        """The number of each label."""
        return {label: number for number, label in enumerate(self.labels)}

    @cached_property
    def aliases(self) -> dict[Any, int]:
        """The numbers of booleans if the labels are True and False as words, or of these words.

        CSV has words for booleans, Parquet and JSON have 0 and 1.

        Examples
        --------
        >>> ClassTable(("True", "False")).codes([True, False, "True"]).tolist()
        [0, 1, 0]
        """
        if self.text and {label.lower() for label in self.labels} == {"true", "false"}:
            return {label.lower() == "true": number for label, number in self.numbers.items()}
        if len(self.labels) == 2 and {*self.labels} == {0, 1}:
            words = {0: ("False", "false", "FALSE"), 1: ("True", "true", "TRUE")}
            return {word: self.numbers[label] for label in words for word in words[label]}
        return {}

    @cached_property
    def _found(self) -> dict[Any, int]:
        """The number of each label and alias."""
        return self.aliases | self.numbers

    @cached_property
    def array(self) -> NDArray[Any]:
        """The labels as an array, in the order of their numbers."""
        if self.dtype is None:
            values = np.array(self.labels)
            if values.tolist() == [*self.labels]:  # NumPy rounds some mixtures of long integers
                return values
        if self.dtype in (None, "object"):
            values = np.empty(len(self.labels), dtype=object)
            values[:] = self.labels
            return values
        return np.array(self.labels, dtype=np.dtype(self.dtype))

    @cached_property
    def sorted_numbers(self) -> list[int]:
        """The numbers of the classes in the order of their labels."""
        return self._sorted_numbers(len(self))

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """`sorted_numbers` as an array."""
        return np.array(self.sorted_numbers, np.intp)

    def _sorted_numbers(self, count: int) -> list[int]:
        """Return the numbers of the first classes, sorted by label if labels can be compared."""
        try:
            return sorted(range(count), key=self.labels.__getitem__)
        except TypeError:  # labels of River can be anything
            return list(range(count))

    def in_order(self, lines: NDArray[Any], classes: int | None = None) -> NDArray[Any]:
        """Bring raw predictions, a line per output, into the order of the sorted labels.

        With two classes the only line is then that of the second label, whichever came first.
        ``classes`` is the number of classes that the predictions are for, if not all.
        """
        order = self.order if classes is None else np.array(self._sorted_numbers(classes), np.intp)
        if order.size == 2:
            return lines if order[1] == 1 else -lines
        return lines[order] if order.size > 2 else lines

    def sorted_labels(self, classes: int | None = None) -> list[Any]:
        """Return the labels, or those of the first ``classes`` classes, sorted."""
        count = len(self) if classes is None else classes
        return [self.labels[number] for number in self._sorted_numbers(count)]

    @cached_property
    def _sorted(self) -> NDArray[Any]:
        return self.array[self.order]

    def codes(self, labels: Any) -> Codes:
        """Return the number of each label; `NEW` for those that are not in the table."""
        if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "biufUM":
            numbers = self._found
            listed = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
            codes = np.fromiter(map(numbers.get, listed, repeat(NEW)), np.int64, len(listed))
            if codes.size and codes.min() == NEW:  # dates of NumPy are found by their plain values
                new = dict.fromkeys(compress(listed, codes == NEW))
                if any(isinstance(v, np.generic) and plain(v) in numbers for v in new):
                    codes = np.array([numbers.get(plain(v), NEW) for v in listed], np.int64)
            return codes
        if labels.size <= LOOP_UP_TO and labels.dtype.kind != "M":
            numbers = self._found
            return np.array([numbers.get(label, NEW) for label in labels.tolist()], np.int64)
        if not self.labels or _is_text(labels) != _is_text(self.array):
            if not self.aliases:
                return np.full(labels.size, NEW, np.int64)
            values, inverse = np.unique(labels, return_inverse=True)
            return np.array([self.aliases.get(v, NEW) for v in values.tolist()], np.int64)[inverse]
        if len(self.labels) == 2 and labels.dtype.kind != "U":  # most often, and fast
            first, second = self.array
            return np.where(labels == second, 1, np.where(labels == first, 0, NEW))
        positions = np.minimum(self._sorted.searchsorted(labels), len(self.labels) - 1)
        return np.where(self._sorted[positions] == labels, self.order[positions], NEW)

    def encode(self, labels: Sequence[Any] | NDArray[Any]) -> tuple[ClassTable, Codes]:
        """Return the table with the new labels added in their order, and the number of each label.

        Raises
        ------
        InvalidInputError
            If labels are new and the table does not grow; with the row.
        """
        codes = self.codes(labels)
        if codes.size == 0 or codes.min() != NEW:
            return self, codes
        table = self._signed(labels, codes) if self.signs else self._grown(labels, codes)
        return table, table.codes(labels)

    def _grown(self, labels: Any, codes: Codes) -> ClassTable:
        if not self.growing:
            self.refuse(labels, codes)
        kind = str(labels.dtype) if isinstance(labels, np.ndarray) else None
        return self.added(_distinct(labels, codes == NEW), kind)

    def added(self, labels: Iterable[Any], dtype: str | None = None) -> ClassTable:
        """Return the table with these labels at its end."""
        new = tuple(labels)
        table = self
        for label in new:
            if reason := table.reason(label):
                raise InvalidInputError(reason, argument="y")
            table = table if table.labels else replace(table, labels=(label,))
        return replace(self, labels=(*self.labels, *new), dtype=self._widened(dtype))

    def _widened(self, dtype: str | None) -> str | None:
        """Return a type of array for the labels so far and those of another type."""
        current = self.dtype
        if current is None or dtype is None or current == dtype:
            return current if self.labels else dtype
        if "object" in (current, dtype):
            return "object"
        return str(np.result_type(np.dtype(current), np.dtype(dtype)))

    def _signed(self, labels: Any, codes: Codes) -> ClassTable:
        """Return the table of 0 and 1, if the labels are these."""
        new = _distinct(labels, codes == NEW)
        if self.undecided and new == [0] and not (codes == 0).any():
            return replace(self, labels=(0, 1), undecided=False)
        return self.refuse(labels, codes)

    def reason(self, label: Any, advice: str = "") -> str | None:
        """Return why a model with these classes cannot learn a label; None if it can.

        ``advice`` says how to have other classes.

        Examples
        --------
        >>> ClassTable(("no", "yes")).reason("maybe", "add it")
        "label 'maybe' is not among the classes ['no', 'yes']; add it"
        """
        if label is None or label != label or label in (math.inf, -math.inf):  # noqa: PLR0124 - NaN
            return f"{label!r} is not a label; leave rows without a label out"
        if label in self._found or (self.undecided and label == 0):
            return None
        if self.signs and label in (-1, 0):
            return (
                f"label {label}: the model has the labels {self.labels[0]} and {self.labels[1]}; "
                "write this label as one of them"
            )
        if self.signs:
            return (
                f"label {shown(label)}: labels must be -1 and 1, or 0 and 1; "
                f"{advice or 'other labels need a classifier'}"
            )
        if not self.growing:
            known = ", ".join(shown(plain(each)) for each in self.labels[:20])
            more = ", ..." if len(self.labels) > 20 else ""
            return (
                f"label {shown(label)} is not among the classes [{known}{more}]; "
                f"{advice or self.advice}"
            )
        if self.labels and isinstance(label, str) != self.text:
            return (
                f"label {shown(label)} is of another type than the classes, such as "
                f"{shown(self.labels[0])}; use text or numbers throughout"
            )
        return None

    def refuse(self, labels: Any, codes: Codes) -> NoReturn:
        """Raise an error about the first label that is new."""
        row = int(np.argmax(codes == NEW))
        label = plain(labels[row])
        if isinstance(label, float) and label.is_integer() and abs(label) < 1e15:
            label = int(label)
        decided = replace(self, undecided=False, growing=False)
        raise InvalidInputError(decided.reason(label) or "", argument="y", row=row)

    @property
    def advice(self) -> str:
        """What to do about more classes than a table has."""
        if {*map(type, self.labels)} == {bool}:
            return "after True or False there are only these two; use text or numbers for more"
        return "name all classes at the start, or let them be discovered (discover_classes=True)"

    def decided_by(self, codes: Codes) -> ClassTable:
        """Return the table after rows with these classes: after a -1, 0 is no label any more."""
        if self.undecided and (codes == 0).any():
            return replace(self, undecided=False)
        return self

    def union(self, others: Iterable[ClassTable]) -> ClassTable:
        """Return one table for models to be merged."""
        table = self
        for other in others:
            new = [label for label in other.labels if label not in table.numbers]
            if table.undecided:
                table = other if other.signs else table
            elif table.signs and other.signs:
                if not other.undecided and new:
                    raise InvalidInputError(
                        "some of the models to be merged have the labels 0 and 1, others -1 and "
                        "1; use the same labels everywhere"
                    )
            elif new:
                if not table.growing:
                    raise InvalidInputError(
                        f"the models to be merged have different classes, such as "
                        f"{list(table.labels)} and {list(other.labels)}; name all classes at the "
                        "start, or let them be discovered (discover_classes=True)"
                    )
                table = table.added(new, other.dtype)
        return table

    @property
    def storable(self) -> bool:
        """Whether a model file can hold the labels; a pickle can hold all of them."""
        return all(isinstance(label, _STORED) for label in self.labels)

    def as_dict(self) -> dict[str, Any]:
        """Return the table as values that JSON can hold."""
        for label in self.labels:
            if not isinstance(label, _STORED):
                raise InvalidInputError(
                    f"labels of type {self.dtype or type(label).__name__} cannot be written to a "
                    f"model file (such as {shown(label)}): only text, numbers and booleans can; "
                    "use pickle"
                )
        return {
            "labels": list(self.labels),
            "growing": self.growing,
            "signs": self.signs,
            "undecided": self.undecided,
            "dtype": self.dtype,
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> ClassTable:
        """Make a table from the result of `as_dict`."""
        labels = tuple(document["labels"])
        if any(not isinstance(label, _STORED) for label in labels):
            raise ModelFileError(f"labels must be text, numbers or booleans, got {labels}")
        growing, signs, undecided = (
            bool(document[name]) for name in ("growing", "signs", "undecided")
        )
        if signs and labels not in ((-1, 1), (0, 1)):
            raise ModelFileError(f"labels must be -1 and 1, or 0 and 1, got {list(labels)}")
        table = cls(labels, growing, signs, undecided, _stored_dtype(document["dtype"], labels))
        try:
            table.array, table.order, table.numbers  # noqa: B018 - made now, where a file is refused
        except (ValueError, TypeError, OverflowError) as error:
            raise ModelFileError(f"labels {list(labels)[:5]} do not fit their type") from error
        return table


def _stored_dtype(name: Any, labels: tuple[Any, ...]) -> str | None:
    """Return the dtype of labels from a file, if it is valid for them."""
    if name is None or name == "object":
        return None if name is None else "object"
    dtype = np.dtype(name)
    if dtype.kind not in "biufU":
        raise ModelFileError(f"labels cannot be of type {dtype}")
    if dtype.kind == "U":  # do not trust the length that the file claims
        longest = max((len(label) for label in labels), default=0)
        if longest * len(labels) > ARRAY_TEXT:
            return "object"
        if dtype.itemsize > 4 * max(longest, 1) * LOOP_UP_TO:
            return None
    return str(dtype)


SIGNS = ClassTable((-1, 1), signs=True, undecided=True)


def _distinct(labels: Any, chosen: NDArray[np.bool_]) -> list[Any]:
    """Return the labels of some rows, each once, in the order of their appearance."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "O":
        values, first = np.unique(labels[chosen], return_index=True)
        return list(values[np.argsort(first)].tolist())
    listed = labels.tolist() if isinstance(labels, np.ndarray) else labels
    return list(dict.fromkeys(map(plain, dict.fromkeys(compress(listed, chosen)))))


def _is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "US" or (
        labels.dtype.kind == "O" and labels.size > 0 and isinstance(labels.flat[0], str)
    )
