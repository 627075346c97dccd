"""`Trained`: what a model file of the command line holds, learning from batches of a stream."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from sonline import persistence
from sonline.classes import probabilities
from sonline.errors import DataFormatError, InvalidInputError
from sonline.parameters import Parameters
from sonline.streams import Batch, Options
from sonline.streams.learners import ManyOutputs, OneOutput, StreamRows, names_of

KIND = "model"

Label: TypeAlias = int | float | str
Floats: TypeAlias = NDArray[np.float64]


@dataclass
class Learnt:
    """What became of rows: raw predictions (a line per output) made before, and the targets.

    Targets are -1 and +1, numbers, or codes of classes; ``first`` is the row of the batch.
    """

    first: int
    raw: Floats
    targets: NDArray[Any]
    weights: Floats | None


@dataclass
class Trained:
    """A model with all that is needed to read more data for it.

    Parameters
    ----------
    parameters : Parameters
        Of the learner.
    task : {"regression", "binary", "classes"}
        What the labels are.
    features : str
        How features are read: "index", "name" or "hash".
    labels : list
        The classes: the negative and the positive one, or all in the order of their codes.
    growing : bool
        Whether new classes may come.
    tokens : list of str
        The words met as labels, in the order of the stream's codes.
    columns, table : dict
        Of tables: types of columns, and the special columns (label, weight, tag, text, ignore).
    run : dict
        Position and counters of the training run, for ``--resume``.
    row_weight : float
        Every row is learnt with its own weight times this.
    """

    parameters: Parameters
    task: str
    features: str
    labels: list[Label] = field(default_factory=list)
    growing: bool = False
    tokens: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    table: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    row_weight: float = 1.0

    def __post_init__(self) -> None:
        self.row_weight = float(self.row_weight)
        self.learner: OneOutput | ManyOutputs
        if self.task == "classes":
            self.learner = ManyOutputs(self.parameters, len(self.labels), self.growing)
        else:
            self.learner = OneOutput(**self.parameters.as_dict())
        self._targets: list[int] = []  # of each token: -1 or +1, or the code of the class
        self._unknown: list[str] = []  # tokens of labels that this model does not know

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the options of a stream that this model can read."""
        return {
            "features": self.features,
            "hash_bits": self.parameters.hash_bits,
            "hash_seed": self.parameters.seed,
            "dtype": self.parameters.dtype,
            "tokens": self.task != "regression",
            "names": names_of(self.learner) if self.features == "name" else [],
            "columns": self.columns,
            **self.table,
            **more,
        }

    def learn(self, batch: Batch, weights: Floats | None, file: str) -> list[Learnt]:
        """Learn a batch; new classes start at the row where they appear, however rows are cut."""
        if self.row_weight != 1:
            own = np.ones(len(batch)) if weights is None else weights
            weights = own * self.row_weight
        if batch.new_names:
            self.learner.add_names(batch.new_names, batch.first_name)
        rows = StreamRows.of(batch)
        if batch.codes is None:
            targets = batch.labels
            assert targets is not None  # noqa: S101 - one of both is there
            return [Learnt(0, self.learner.learn_rows(rows, targets, weights), targets, weights)]
        done: list[Learnt] = []
        first = 0
        for row, token in self._news(batch):
            grows = self.task == "classes" and self.growing and label_of(token) not in self.labels
            if grows and row > first:
                done.append(self._learn_part(rows, batch, weights, first, row))
                first = row
            self._meet(token, batch, row, file)
        done.append(self._learn_part(rows, batch, weights, first, rows.count))
        return done

    def _news(self, batch: Batch) -> list[tuple[int, str]]:
        """Return the labels that a batch is the first to use, each with its row."""
        codes = batch.codes
        assert codes is not None  # noqa: S101 - checked by the caller
        known = batch.first_label
        firsts = [int(np.argmax(codes == known + i)) for i in range(len(batch.new_labels))]
        return list(zip(firsts, batch.new_labels, strict=True))

    def _learn_part(
        self, rows: StreamRows, batch: Batch, weights: Floats | None, first: int, last: int
    ) -> Learnt:
        assert batch.codes is not None  # noqa: S101 - checked by the caller
        kind: type[Any] = np.int64 if self.task == "classes" else np.float64
        targets = np.array([*self._targets, 0], dtype=kind)[batch.codes[first:last]]
        own = None if weights is None else weights[first:last]
        raw = self.learner.learn_rows(rows.part(first, last), targets, own)
        return Learnt(first, raw, targets, own)

    def _meet(self, token: str, batch: Batch, row: int, file: str) -> None:
        """Take in a label that has not come before."""
        try:
            target = self._target(label_of(token))
        except InvalidInputError as error:
            line = None if batch.lines is None else int(batch.lines[row])
            raise DataFormatError(str(error), file=file, line=line, text=token[:40]) from None
        self.tokens.append(token)
        self._targets.append(target)

    def _target(self, label: Label) -> int:
        if self.task == "binary":
            if label == 1:
                return 1
            if label in (0, -1):
                if not self.labels:
                    self.labels = [label, 1]
                if self.labels[0] == label:
                    return -1
                raise InvalidInputError("labels are -1 and 1, or 0 and 1, but not all three")
            raise InvalidInputError(
                "the first rows had the labels -1 and 1 (or 0 and 1) only, this is another one; "
                "start again with --classes multi, or --loss squared for numbers"
            )
        if label not in self.labels:
            if not self.growing:
                shown = ", ".join(str(known) for known in self.labels[:20])
                raise InvalidInputError(f"this is none of the classes {shown}")
            assert isinstance(self.learner, ManyOutputs)  # noqa: S101 - by the task
            self.learner = self.learner.grown()
            self.labels.append(label)
        return self.labels.index(label)

    def merge(self, others: Sequence[Trained], start: Trained | None = None) -> Trained:
        """Return one model out of several that began alike and learnt from different rows.

        See `OnlineLearner.merge`; classes are matched by label.
        """
        every = [self, *others]
        common = [] if start is None else [start]
        labels, tokens = list(self.labels), list(self.tokens)
        columns = dict(self.columns)
        for one in [*every[1:], *common]:
            labels += [label for label in one.labels if label not in labels]
            tokens += [token for token in one.tokens if token not in tokens]
            for name, kind in one.columns.items():
                if columns.setdefault(name, kind) != kind:
                    raise InvalidInputError(
                        f"column {name!r} holds numbers in some partitions and words in others; "
                        f"name it with --text {name}"
                    )
        if self.task == "binary" and len(labels) > 2:
            raise InvalidInputError(
                "some partitions have the labels 0 and 1, others -1 and 1; use the same in all"
            )
        merged = Trained(
            self.parameters,
            self.task,
            self.features,
            labels=labels,
            growing=self.growing,
            tokens=tokens,
            columns=columns,
            table=self.table,
            row_weight=self.row_weight,
        )
        learners = [one.learner_for(labels) for one in every]
        begun = None if start is None else start.learner_for(labels)
        merged.learner = learners[0].merge(learners[1:], begun)
        merged._targets = [merged._target(label_of(token)) for token in tokens]
        return merged

    def learner_for(self, labels: list[Label]) -> Any:
        """Return the learner with its classes in the order of these labels."""
        if not isinstance(self.learner, ManyOutputs) or self.labels == labels:
            return self.learner
        new = itertools.count(len(self.labels))
        known = self.labels
        return self.learner.arranged(
            [known.index(label) if label in known else next(new) for label in labels]
        )

    def predict(self, batch: Batch) -> Floats:
        """Return raw predictions, a line per output."""
        return self.learner.predict_rows(StreamRows.of(batch))

    def targets(self, batch: Batch) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the targets of a batch to be judged, and which rows have one."""
        if batch.codes is None:
            assert batch.labels is not None  # noqa: S101 - one of both is there
            return batch.labels, ~np.isnan(batch.labels)
        for token in batch.new_labels:
            label = label_of(token)
            known = self.classes()
            self._unknown.append(token)
            code = known.index(label) if label in known else -1
            if self.task == "binary":
                code = 2 * code - 1 if code >= 0 else 0
            self._targets.append(code)
        absent = -1 if self.task == "classes" else 0
        found = np.array([*self._targets, absent], np.int64)[batch.codes]
        return found, found != absent

    def classes(self) -> list[Label]:
        """Return the labels that can be predicted; none for regression."""
        if self.task == "binary":
            return self.labels or [-1, 1]
        return self.labels

    def chosen(self, raw: Floats) -> NDArray[np.int64]:
        """Return the number of the predicted class for each row."""
        if self.task == "binary" or len(self.labels) == 2:
            return np.asarray(raw[0] > 0, dtype=np.int64)
        return np.asarray(raw.argmax(axis=0), dtype=np.int64)

    def probabilities(self, raw: Floats) -> Floats:
        """Return the probability of each class, a line per class."""
        return probabilities(raw, 2 if self.task == "binary" else len(self.labels))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model so that at any moment the old or the new file is there."""
        state, tensors = self.learner.__getstate__()
        document = {
            "learner": state,
            "task": self.task,
            "features": self.features,
            "labels": self.labels,
            "growing": self.growing,
            "tokens": self.tokens,
            "columns": self.columns,
            "table": self.table,
            "run": self.run,
            "row_weight": self.row_weight,
        }
        try:
            persistence.write(path, KIND, document, tensors)
        except SafetensorError as error:  # how the writer reports a full disk
            raise OSError(f"cannot write {os.fspath(path)}: {error}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote."""
        document, tensors = persistence.read(path, KIND)
        with persistence.reading(path):
            state = document.pop("learner")
            parameters = Parameters(**state["parameters"])
            model = cls(parameters, **document)
            model.learner.__setstate__((state, tensors))
            model._targets = [model._target(label_of(token)) for token in model.tokens]
        return model


def label_of(token: str) -> Label:
    """Return the label that a word says: a number where it is one.

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
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def read_options(options: Options) -> dict[str, Any]:
    """Return the special columns of a stream, to be kept with the model."""
    table = {
        "label": options.label,
        "weight": options.weight,
        "tag": options.tag,
        "text": list(options.text),
        "ignore": list(options.ignore),
        "interactions": list(options.interactions),
    }
    return {name: value for name, value in table.items() if value}
