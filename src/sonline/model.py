"""`Model`: what every face of sonline learns, predicts, merges and saves with.

A model is one learner of the core for numbers and for two classes, and one per class ("this class
or not") for more, with the labels of its classes, the names of its features, and what is needed to
read more rows for it. All faces share its file.

Classes may also emerge. Then one more learner takes every row as "not this class": the learner that
a class would have by now if it had been declared at the start. A new class starts as its copy, so
the result is the same, bit for bit, as if all classes had been known from the beginning.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sonline import _core, persistence
from sonline.errors import DivergenceError, InvalidInputError, ModelFileError
from sonline.evaluate import Progress, measures
from sonline.labels import NEW, SIGNS, ClassTable, Codes
from sonline.parameters import Parameters
from sonline.persistence import COUNT, NAMES
from sonline.rows import (
    LARGEST_VALUES,
    NAMED,
    UNKNOWN,
    Floats,
    Given,
    Keys,
    Rows,
    check_finite,
    is_frame,
    names_of,
    rows_of,
    vector,
)

CURVE = {"points": list, "rows": COUNT, "total": object, "weight": object, "last": list}
MEASURES = {"loss": CURVE, "error": CURVE, "r2": dict}
DOCUMENT: dict[str, Any] = {
    "parameters": dict,
    "classes": (None, dict),
    "signs": [float],
    "reading": {
        "features": {"", "index", "name", "hash"},
        "columns": {...: {"number", "text"}},
        "table": {
            "label?": str,
            "weight?": str,
            "tag?": str,
            "text?": [str],
            "ignore?": [str],
            "delimiter?": str,
            "missing?": [str],
            "interactions?": [str],
            "ngrams?": [str],
            "keep?": [str],
            "header?": bool,
        },
    },
    "row_weight": float,
    "only_predicts?": bool,
    "progress": MEASURES,
    "run": dict,
    "face": dict,
}
RUN: dict[str, Any] = {
    "files": [str],
    "contents": [(None, {"size": COUNT, "digest": str})],
    "format": str,
    "position": dict.fromkeys(("turn", "file", "offset", "line", "rows"), COUNT),
    "passes": COUNT,
    "holdout": COUNT,
    "shuffle?": COUNT,
    "validation?": (
        None,
        {
            "files": [str],
            "loss": (None, float),
            "worse": COUNT,
            "passes": COUNT,
            "best_pass": COUNT,
        },
    ),
    "class_weights": [{"label": object, "weight": float}],
    "rows": COUNT,
    "turn_rows": COUNT,
    "skipped": COUNT,
    "held": MEASURES,
    "past": [{...: float}],
    "lengths": {...: COUNT},
}

NEVER = -1  # the target of the learner that takes every row as "not this class"
PROBABILISTIC = "logistic"  # the loss whose predictions are logarithms of odds


@dataclass
class LearnResult:
    """Raw predictions made before rows were learned, a line per output, and what the rows were.

    ``targets`` are numbers, or numbers of classes. ``known`` says from which row on how many
    classes were known.
    """

    raw: Floats
    targets: NDArray[Any]
    known: Sequence[tuple[int, int]]

    def __len__(self) -> int:
        return int(self.targets.size)

    def parts(self) -> Iterator[tuple[slice, Floats, int]]:
        """Yield rows, their raw predictions and how many classes were known with them."""
        ends = [first for first, _ in self.known[1:]] + [len(self)]
        for (first, classes), end in zip(self.known, ends, strict=True):
            rows = slice(first, end)
            if end > first:
                yield rows, self._outputs(classes)[:, rows], classes

    def _outputs(self, classes: int) -> Floats:
        """Return the lines of a model that knows the first so many classes only."""
        last = self.known[-1][1]
        if classes == 1 and last == 2:
            return -self.raw  # it speaks for the second class, a single one for itself
        if classes == 2 and last > 2:
            return self.raw[1:2]
        return self.raw[: max(classes, 1)]


@dataclass
class Reading:
    """How a stream of rows for a model is read."""

    features: str = ""  # "index", "name" or "hash"; "" as long as no stream was read
    columns: dict[str, str] = field(default_factory=dict)  # of tables: "number" or "text"
    table: dict[str, Any] = field(default_factory=dict)  # special columns: label, weight, ...


class Model:
    """One or several learners of the core with labels, names and files.

    Parameters
    ----------
    parameters : Parameters
        Of each learner.
    table : ClassTable, optional
        The classes; without, numbers are predicted.

    Attributes
    ----------
    reading : Reading
        How streams are read for it.
    progress : Progress
        Measures of the predictions made before rows were learned, where a face keeps them.
    run : dict
        Position and counters of a training run, so that it can be resumed.
    face : dict
        Which face saved the model, and what only that face knows; for the face that opens it.
    row_weight : float
        Rows of streams are learned with their weight times this.
    only_predicts : bool
        Whether this is what `compact` returned.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.labels import ClassTable
    >>> from sonline.model import Model
    >>> from sonline.parameters import Parameters
    >>> model = Model(Parameters(), ClassTable(("a", "b", "c")))
    >>> for _ in range(5):
    ...     learned = model.learn(np.eye(3), ["a", "b", "c"])
    >>> model.labels(model.predict(np.eye(3)))
    ['a', 'b', 'c']
    """

    def __init__(self, parameters: Parameters, table: ClassTable | None = None) -> None:
        self.parameters = parameters
        self.table = table
        self.reading = Reading()
        self.progress = Progress()
        self.run: dict[str, Any] = {}
        self.face: dict[str, Any] = {}
        self.row_weight = 1.0
        self.only_predicts = False
        self._stream: tuple[object, bool, Keys | None] = (None, False, None)
        first = _core.Model(parameters.for_core(), parameters.dtype == "float32")
        classes = 0 if table is None else len(table)
        growing = table is not None and table.growing
        others = 0 if classes <= 1 else (1 if classes == 2 else classes) + growing - 1
        self._arrange([first, *(first.copy() for _ in range(others))])

    @classmethod
    def for_labels(cls, parameters: Parameters) -> Self:
        """Make the model of an `OnlineLearner`: for numbers, or for -1 and 1."""
        return cls(parameters, SIGNS if parameters.binary else None)

    def _arrange(self, models: list[_core.Model], signs: Sequence[float] | None = None) -> None:
        """Take these learners; a sign of -1 is one that learns the opposite of its class."""
        self._models = models
        classes = self.classes
        if self.table is None:
            self._targets, self._signs = [0], [1.0]
        elif classes <= 1:
            # Only the learner of what has not come yet: turned round, it speaks for class 0.
            self._targets, self._signs = [0], [-1.0]
        else:
            self._targets = [1] if classes == 2 else list(range(classes))
            self._targets += [NEVER] * self.table.growing
            self._signs = list(signs) if signs is not None else [1.0] * len(models)
        self.group = _core.Classes(models, self._targets, self._signs)
        speaking = slice(0, max(self.outputs, 1))
        self.speakers = _core.Classes(
            models[speaking], self._targets[speaking], self._signs[speaking]
        )
        # For one mapping: learn_one(x, number of the class, weight) of all learners,
        # predict_one(x), a list of raw predictions, and choose_one(x), a number of a class.
        # Attributes, because every call of a function in between shows.
        self.learn_one = self.group.learn_one
        self.predict_one = self.speakers.predict_one
        self.choose_one = self.speakers.choose_one
        if self.only_predicts:
            self.learn_one = lambda *_: self._refuse_if_compact()
        self._know(self.table)

    def _know(self, table: ClassTable | None) -> None:
        """Have labels and their numbers at hand for single rows."""
        self.numbers: dict[Any, int] = {} if table is None else table.numbers
        self.known_labels: tuple[Any, ...] = () if table is None else table.labels

    # -- what it is ------------------------------------------------------------------------------

    @property
    def core(self) -> _core.Model:
        """The first learner: the only one for numbers and for two classes that cannot grow."""
        return self._models[0]

    @property
    def classes(self) -> int:
        """How many classes there are so far; 0 for numbers."""
        return 0 if self.table is None else len(self.table)

    @property
    def growing(self) -> bool:
        """Whether new classes may come."""
        return self.table is not None and self.table.growing

    @property
    def outputs(self) -> int:
        """How many raw predictions a row has: one for numbers and two classes, else one each."""
        return 1 if self.table is None or self.classes == 2 else self.classes

    @property
    def task(self) -> str:
        """What is predicted: "regression", "binary" or "classes"."""
        if self.table is None:
            return "regression"
        return "binary" if self.classes == 2 and not self.growing else "classes"

    @property
    def probabilistic(self) -> bool:
        """Whether predictions can be turned into probabilities."""
        return self.table is not None and self.parameters.loss == PROBABILISTIC

    # -- rows, labels and names ------------------------------------------------------------------

    def rows(self, X: Rows, add: bool, missing: str = "absent", bounded: bool = False) -> Given:
        """Return rows as the core takes them; new names are entered if ``add``.

        If ``bounded``, the indices of a sparse matrix must stay below its number of columns.
        """
        if isinstance(X, Given):
            return X
        if hasattr(X, "indptr") and hasattr(X, "new_names"):
            return self._stream_rows(X, add)
        self._refuse_other_features(X, add)
        largest = LARGEST_VALUES[self.parameters.dtype]
        return rows_of(
            X,
            lambda names: self.core.name_keys(names, add),
            largest=largest,
            missing=missing,
            bounded=bounded,
        )

    def _refuse_other_features(self, X: Rows, add: bool) -> None:
        """Raise an error if features have names here and indices there."""
        if add and type(X) is np.ndarray:
            return
        frame = is_frame(X)
        if self.parameters.hash_bits is not None or not (frame or hasattr(X, "shape")):
            return
        named = self.core.name_count() > 0
        by_index = not named and self.core.stats()["features"] > 1  # the first is the intercept
        if frame and by_index and any(isinstance(name, str) for name in names_of(X)):
            raise InvalidInputError(
                "this model knows its features by index, X has names; pass X.to_numpy() with the "
                "columns in the order of the training"
            )
        if (
            not (frame or add)
            and named
            and not any(isinstance(name, int) for name in self.features())
        ):
            raise InvalidInputError(
                "this model knows its features by name, X has none; pass a data frame or mappings"
            )

    def _stream_rows(self, batch: Any, add: bool) -> Given:
        if not batch.named:
            arrays = (batch.values, batch.indices, batch.indptr)
            return Given("csr", arrays, len(batch))
        translation = self._translation(batch, add)
        ids = batch.indices.view(np.uint64)
        if translation is None:
            return Given("csr", (batch.values, ids | NAMED, batch.indptr), len(batch))
        keys = translation[batch.indices]
        known = keys != UNKNOWN
        if known.all():
            return Given("csr", (batch.values, keys, batch.indptr), len(batch))
        kept = np.concatenate([[0], np.cumsum(known)])
        arrays = (batch.values[known], keys[known], kept[batch.indptr])
        return Given("csr", arrays, len(batch))

    def _translation(self, batch: Any, add: bool) -> Keys | None:
        """Return the keys here of the names of a stream; None if its ids are those of here."""
        whose, adding, keys = self._stream
        if whose is not batch.names or adding != add:
            if batch.first_name != batch.names.initial:
                raise InvalidInputError(
                    "the batches of a stream must be used from the first one on: names come with "
                    "the batch that has them first"
                )
            if batch.names.initial not in (0, self.core.name_count()):
                raise InvalidInputError("the stream was opened for another model")
            keys = None
        if batch.new_names:
            new = self.core.name_keys(batch.new_names, add)
            ids = np.arange(batch.first_name + new.size, dtype=np.uint64) | NAMED
            if keys is not None:
                keys = np.concatenate([keys, new])
            elif not np.array_equal(new, ids[batch.first_name :]):
                keys = np.concatenate([ids[: batch.first_name], new])
        self._stream = batch.names, add, keys
        return keys

    def targets(self, y: Any) -> tuple[NDArray[Any], ClassTable | None]:
        """Return labels as numbers, or numbers of classes, and the table with those that are new.

        Raises
        ------
        InvalidInputError
            About the first label that cannot be.
        """
        if self.table is None:
            numbers = vector("y", y)
            check_finite("y", numbers)
            return numbers, None
        table, codes = self.table.met(vector("y", y) if self.table.signs else y)
        return codes, table.settled(codes)

    def names(self) -> list[str]:
        """Return the names of features in the order of their ids."""
        return self.core.names()

    # -- learning and predicting -----------------------------------------------------------------

    def learn(
        self,
        X: Rows,
        y: Any,
        weights: Floats | None = None,
        *,
        threads: int = 1,
        missing: str = "absent",
    ) -> LearnResult:
        """Learn rows with labels, one after another.

        Parameters
        ----------
        X : rows of any kind
            As `sonline.rows.rows_of` takes them, or a batch of a stream.
        y : sequence of labels
            Numbers, or labels of the classes.
        weights : array of floats, optional
            Importance of each row, checked.
        threads : int, default=1
            How many threads may share the work of several outputs; the result does not depend on
            it.
        missing : {"absent", "refuse"}
            What missing cells of frames are.

        Raises
        ------
        InvalidInputError
            If anything cannot be used; then nothing has been learned.
        """
        targets, table = self.targets(y)
        return self.learn_targets(self.rows(X, True, missing), targets, table, weights, threads)

    def learn_targets(
        self,
        rows: Given,
        targets: NDArray[Any],
        table: ClassTable | None,
        weights: Floats | None = None,
        threads: int = 1,
    ) -> LearnResult:
        """Learn rows with targets as `targets` returned them, with the table."""
        self._refuse_if_compact()
        if rows.count != targets.size:
            raise InvalidInputError(f"X has {rows.count} rows, y has {targets.size} labels")
        if self.table is None or table is None:
            out = np.empty((1, rows.count))
            with _interrupts(out, 1):
                rows.call(self.core, "learn", targets, weights, out[0])
            return LearnResult(out, targets, [(0, 0)])
        grown = self
        for label in table.labels[self.classes :]:
            grown = grown.grown(label)
        out = np.empty((len(grown._models), rows.count))
        known = _first_rows(targets, self.classes, len(table))

        def take() -> None:
            self.table = table
            if grown is not self:
                self._arrange(grown._models, grown._signs)
            self._know(table)

        with _interrupts(out, grown.outputs, take):
            rows.call_group(grown.group, "learn", targets, weights, out, threads)
        take()
        return LearnResult(out[: self.outputs], targets, known)

    def learn_batch(
        self,
        batch: Any,
        weights: Floats | None = None,
        threads: int = 1,
        before: Callable[[Given], None] | None = None,
    ) -> LearnResult:
        """Learn a batch of a stream; labels that are words must be those of `stream_targets`.

        ``before`` is called with the rows before they are learned.
        """
        if self.row_weight != 1:
            own = np.ones(len(batch)) if weights is None else weights
            weights = own * self.row_weight
        targets, table = self.stream_targets(batch)
        rows = self.rows(batch, add=True)
        if before is not None:
            before(rows)
        return self.learn_targets(rows, targets, table, weights, threads)

    def stream_targets(self, batch: Any) -> tuple[NDArray[Any], ClassTable | None]:
        """Return the labels of a batch as `targets` does."""
        if batch.codes is None or self.table is None:
            if batch.labels is None:
                raise InvalidInputError(
                    "this model predicts numbers, and the stream has words for labels; open it "
                    "with tokens=False"
                )
            return self.targets(batch.labels)
        # Codes of the stream become numbers of classes; labels are looked at once each.
        numbers = self.table.codes([batch.names.label(code) for code in range(batch.label_count)])
        codes = np.append(numbers, NEW)[batch.codes]
        if not codes.size or codes.min() != NEW:
            return codes, self.table.settled(codes)
        return self._new_stream_targets(batch, codes)

    def _new_stream_targets(self, batch: Any, codes: Codes) -> tuple[Codes, ClassTable]:
        assert self.table is not None  # noqa: S101 - it has classes
        labels = batch.label_values()
        try:
            table, found = self.table.met(labels)
        except InvalidInputError as error:
            row = int(np.argmax(codes == NEW))
            raise batch.error(row, str(error).removeprefix("y: ")) from None
        return found, table.settled(found)

    def predict(self, X: Rows, *, threads: int = 1, missing: str = "absent") -> Floats:
        """Return the raw predictions, a line per output; changes nothing."""
        rows = self.rows(X, False, missing)
        out = np.empty((max(self.outputs, 1), rows.count))
        if self.table is None:
            rows.call(self.core, "predict", out[0])
        else:
            rows.call_group(self.speakers, "predict", out, threads)
        return out[: self.outputs] if self.outputs else out

    def measures(self, learned: LearnResult) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Return the loss of each prediction, and for classes whether it was wrong."""
        if len(learned.known) == 1 and len(learned):
            loss, mistakes = measures(
                self.parameters, learned.raw, learned.targets, learned.known[0][1]
            )
            return loss, None if self.table is None else mistakes
        loss = np.empty(len(learned))
        wrong = None if self.table is None else np.empty(len(learned), dtype=np.bool_)
        for rows, raw, classes in learned.parts():
            loss[rows], mistakes = measures(self.parameters, raw, learned.targets[rows], classes)
            if wrong is not None:
                wrong[rows] = mistakes
        return loss, wrong

    def watch(self, learned: LearnResult, weights: Floats | None = None) -> None:
        """Take predictions made before rows were learned into `progress`."""
        loss, wrong = self.measures(learned)
        self.progress.update(loss, wrong, weights)
        if self.table is None:
            self.progress.r2.update(learned.targets, learned.raw[0], weights)

    def choose(self, raw: Floats) -> Codes:
        """Return the number of the predicted class of each row."""
        if self.classes == 2:
            return np.asarray(raw[0] > 0, dtype=np.int64)
        return np.asarray(raw.argmax(axis=0), dtype=np.int64)

    def labels(self, raw: Floats) -> list[Any]:
        """Return the predicted label of each row."""
        if self.table is None:
            return list(raw[0].tolist())
        return [self.table.labels[number] for number in self.choose(raw).tolist()]

    def probabilities(self, raw: Floats) -> Floats:
        """Return the probability of each class, a line per class, for raw predictions.

        For two classes it is that of the logistic model. For more, those of "this class or not"
        are divided by their sum.
        """
        if not self.probabilistic:
            raise InvalidInputError(
                "probabilities need classes and loss='logistic', this model has "
                f"loss={self.parameters.loss!r}" + (" and numbers" if self.table is None else "")
            )
        return probabilities(raw, self.classes)

    # -- classes ---------------------------------------------------------------------------------

    def grown(self, label: Any) -> Self:
        """Return a model with one class more; this one is to be forgotten when it is used."""
        assert self.table is not None  # noqa: S101 - it has classes
        table, models = self.table.added([label]), self._models
        if self.classes == 0:
            return self._twin(table, models)
        if self.classes == 1:
            return self._twin(table, [models[0].copy(), models[0]])
        if self.classes == 2:
            pair, never = models
            signs = [-self._signs[0], self._signs[0], 1.0, 1.0]
            return self._twin(table, [pair.copy(), pair, never.copy(), never], signs)
        *known, never = models
        return self._twin(table, [*known, never.copy(), never], [*self._signs, 1.0])

    def arranged(self, table: ClassTable) -> Self:
        """Return a model with the classes of another table in its order, to be merged."""
        if self.table is None or self.table.labels == table.labels:
            return self
        if self.table.signs or table.signs:
            return self  # whichever of -1 and 0 it is, the numbers are the same
        model = self
        for label in table.labels:
            if label not in self.table.numbers:
                model = model.grown(label)
        assert model.table is not None  # noqa: S101 - it has classes
        numbers = [model.table.numbers[label] for label in table.labels]
        if numbers == list(range(len(numbers))):
            return model
        models, signs = model._models, model._signs
        if len(table) == 2:
            return self._twin(table, models, [-signs[0], *signs[1:]])
        order = [*numbers, *range(len(numbers), len(models))]
        return self._twin(table, [models[n] for n in order], [signs[n] for n in order])

    def _twin(
        self, table: ClassTable, models: list[_core.Model], signs: Sequence[float] | None = None
    ) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.table = table
        twin._arrange(models, signs)
        return twin

    def compact(self) -> Self:
        """Return a model that predicts like this one and holds nothing that only learning needs.

        Predictions are the same up to rounding.
        """
        if self.parameters.bound is not None and self.parameters.several:
            raise InvalidInputError(
                "with a bound, several weight vectors are bounded and then blended, which a "
                "compact model cannot do; train with a number for alpha, or without the bound"
            )
        outputs = self._models[: max(self.outputs, 1)]
        from sonline.merging import compacted  # noqa: PLC0415 - seldom wanted

        each = [compacted(self.parameters, model.knowledge()) for model in outputs]
        small = type(self)(each[0][0])
        small.table = None if self.table is None else replace(self.table, growing=False)
        small.reading, small.progress = self.reading, self.progress
        small.only_predicts = True
        small._adopt([state for _, state in each], self._signs[: len(each)])
        return small

    def _refuse_if_compact(self) -> None:
        if self.only_predicts:
            raise InvalidInputError(
                "this is a compact model, which only predicts; continue with the model that it was "
                "made from"
            )

    # -- merging ---------------------------------------------------------------------------------

    def merge(self, others: Sequence[Self], start: Self | None = None) -> Self:
        """Return one model that knows what this one and the others have learned.

        Classes are matched by label, features by name or index. See `OnlineLearner.merge`.
        """
        from sonline.merging import (  # noqa: PLC0415 - seldom wanted
            check_same_parameters,
            merge_learners,
        )

        every = [self, *others]
        common = [] if start is None else [start]
        for one in every + common:
            one._refuse_if_compact()
        check_same_parameters(self.parameters, [one.parameters for one in every[1:] + common])
        tables = [one.table for one in every + common]
        table = self.table
        if table is None or any(one is None for one in tables):
            if any(one is not None for one in tables):
                raise InvalidInputError("a model of classes cannot be merged with one of numbers")
        else:
            table = table.union(one for one in tables[1:] if one is not None)
        if len(every) == 1:
            return copy.deepcopy(self)
        ready = every if table is None else [one.arranged(table) for one in every]
        begun = start if start is None or table is None else start.arranged(table)
        # Two learners of "this or that" may face each other.
        signs = ready[0]._signs
        states = [one._states(signs) for one in ready]
        first = None if begun is None else begun._states(signs)
        merged = self._merged_shell(every, start, table)
        merged._adopt(merge_learners(self.parameters, states, first), signs)
        return merged

    def _merged_shell(
        self, every: Sequence[Self], start: Self | None, table: ClassTable | None
    ) -> Self:
        """Return a model with everything merged but what the learners know."""
        merged = type(self)(self.parameters, None)
        merged.table = table
        merged.row_weight = self.row_weight
        columns = dict(self.reading.columns)
        for one in every[1:]:
            for name, kind in one.reading.columns.items():
                if columns.setdefault(name, kind) != kind:
                    raise InvalidInputError(
                        f"column {name!r} holds numbers in some partitions and words in others; "
                        f"name it with --text {name}"
                    )
        merged.reading = Reading(self.reading.features, columns, self.reading.table)
        merged.face = dict(self.face)
        begun = None if start is None else start.progress
        from sonline.merging import merge_tree  # noqa: PLC0415 - seldom wanted

        # In the shape in which the learners are merged: sums round.
        merged.progress = merge_tree(
            [one.progress for one in every], lambda some: some[0].merge(some[1:], begun)
        )
        return merged

    def _states(self, signs: Sequence[float]) -> list[persistence.Tensors]:
        """Return what each learner knows, turned round where its sign is another one."""
        from sonline.merging import turned_round  # noqa: PLC0415 - seldom wanted

        states = [model.knowledge() for model in self._models]
        for number, (own, wanted) in enumerate(zip(self._signs, signs, strict=True)):
            if own != wanted:
                states[number] = turned_round(states[number])
        return states

    # -- inspection ------------------------------------------------------------------------------

    def features(self) -> list[str | int]:
        """Return the features seen, in the order of their appearance."""
        return self.core.features()

    def weights(self, scaled: bool = False) -> Floats:
        """Return the weights, a line per output, a column per feature, the intercept's first.

        They are for features as they come or, if ``scaled``, for features divided by their root
        mean square: what a feature of its usual size adds to a prediction. With scaling="none" or
        "gradient" the root mean squares are not known, and both are the same.
        """
        lines = []
        for model, sign in zip(self._models[: self.outputs], self._signs, strict=False):
            weights = sign * model.weights()
            lines.append(weights * model.scales() if scaled else weights)
        return np.array(lines).reshape(self.outputs, -1)

    def limits(self) -> Floats:
        """Return, for each feature, the size beyond which values are cut, the intercept's first."""
        limits: Floats = np.max([model.limits() for model in self._models], axis=0)
        return limits

    def line_of(self, label: Any = None) -> tuple[int, float]:
        """Return the output that speaks for a class, and 1, or -1 if it speaks against it.

        Without a label it is the only output: that of numbers, or of the second of two classes.
        """
        if self.table is None or (label is None and self.outputs == 1):
            if label is not None:
                raise InvalidInputError(f"there are no classes, so label={label!r} is none")
            return 0, 1.0
        if label is None or label not in self.table.numbers:
            shown = list(self.table.labels[:20])
            raise InvalidInputError(f"label must be one of {shown}, got {label!r}")
        number = self.table.numbers[label]
        return (0, 1.0 if number == 1 else -1.0) if self.classes == 2 else (number, 1.0)

    def weights_of(self, label: Any = None, scaled: bool = False) -> dict[str | int, float]:
        """Return the weight of each feature seen for a class, or for the only output."""
        line, sign = self.line_of(label)
        weights = (sign * self.weights(scaled)[line, 1:]).tolist()
        # Another thread may have added features since.
        return dict(zip(self.features(), weights, strict=False))

    def explain(self, x: Mapping[Any, Any], label: Any = None) -> dict[Any, float]:
        """Return what each feature of a row adds to its raw prediction, largest first."""
        weights = self.weights_of(label)
        found = {}
        for name, value in x.items():
            feature = f"{name}={value}" if isinstance(value, str) else name
            if feature in weights:
                found[feature] = weights[feature] * (1.0 if isinstance(value, str) else value)
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))

    def spectra(self) -> list[Floats]:
        """Return the eigenvalues that the sketch of each output holds, largest first."""
        return [np.sort(model.spectrum())[::-1] for model in self._models[: self.outputs]]

    def ranges(self) -> Floats:
        """Return the lowest and the highest raw prediction of each output, as two lines."""
        bound = np.inf if self.parameters.bound is None else float(self.parameters.bound)
        each = []
        for model, sign in zip(self._models[: self.outputs], self._signs, strict=False):
            ends = np.array([-bound, bound])
            low, high = model.label_range()
            if self.parameters.clip and low <= high:
                ends = np.clip([low, high], -bound, bound)
            each.append(np.sort(sign * ends))
        return np.array(each).reshape(-1, 2).T

    def begin_label_range(self, low: float, high: float) -> None:
        """Let the range of labels that ``clip`` keeps to begin with these two."""
        for model in self._models:
            state = {name: field for name, field in model.save().items() if name not in NAMES}
            for name, label in (("label_low", low), ("label_high", high)):
                state[name] = np.full_like(state[name], label)
            model.restore(state)

    def stats(self) -> dict[str, Any]:
        """Return counters; bytes and the upkeep of sketches over all learners."""
        each = [model.stats() for model in self._models]
        return each[0] | {
            name: sum(one[name] for one in each)
            for name in ("sweeps", "generations", "folds", "caught_up", "bytes")
        }

    # -- files -----------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return everything but the arrays, as values that JSON can hold."""
        return {
            "parameters": self.parameters.as_dict(),
            "classes": None if self.table is None else self.table.as_dict(),
            "signs": self._signs,
            "reading": vars(self.reading),
            "row_weight": self.row_weight,
            "only_predicts": self.only_predicts,
            "progress": self.progress.as_dict(),
            "run": self.run,
            "face": self.face,
        }

    def tensors(self) -> persistence.Tensors:
        """Return the arrays."""
        return _numbered([model.save() for model in self._models])

    def save(self, path: str | os.PathLike[str], face: Mapping[str, Any] | None = None) -> None:
        """Write everything, with a note of the face, so that the old or the new file is there."""
        document = self.document() | ({} if face is None else {"face": dict(face)})
        persistence.write(path, document, self.tensors())

    def to_bytes(self) -> bytes:
        """Return the content of a model file."""
        return persistence.pack(self.document(), self.tensors())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that any face saved."""
        return cls._of(*persistence.read(path), os.fspath(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Make a model from the content of a model file."""
        return cls._of(*persistence.unpack(data, "the model"), "the model")

    @classmethod
    def _of(cls, document: dict[str, Any], tensors: persistence.Tensors, name: str) -> Self:
        model = cls.__new__(cls)
        with persistence.reading(name):
            _check_document(document)
            model.__setstate__((document, tensors))
        return model

    def __getstate__(self) -> tuple[dict[str, Any], persistence.Tensors]:
        document = self.document() if self._labels_can_be_stored() else self._document_with_labels()
        return document, self.tensors()

    def _labels_can_be_stored(self) -> bool:
        return self.table is None or all(
            isinstance(label, (bool, int, float, str)) for label in self.table.labels
        )

    def _document_with_labels(self) -> dict[str, Any]:
        """Return the document for pickling, with labels that JSON cannot hold."""
        table, self.table = self.table, None
        try:
            return self.document() | {"classes": table}
        finally:
            self.table = table

    def __setstate__(self, state: tuple[dict[str, Any], persistence.Tensors]) -> None:
        document, tensors = state
        classes = document["classes"]
        if isinstance(classes, Mapping):
            classes = ClassTable.from_dict(dict(classes))
        self.parameters = Parameters(**document["parameters"])
        self.table = classes
        self.reading = Reading(**document["reading"])
        self.progress = Progress.from_dict(document["progress"])
        self.run, self.face = dict(document["run"]), dict(document["face"])
        self.row_weight = float(document["row_weight"])
        self.only_predicts = bool(document.get("only_predicts", False))
        self._stream = (None, False, None)
        signs = [float(sign) for sign in document["signs"]]
        growing = self.growing and self.classes > 1
        if len(signs) != max(self.outputs, 1) + growing or not set(signs) <= {1.0, -1.0}:
            raise ModelFileError(f"classes and signs {signs} of the learners do not fit together")
        self._restore(tensors, signs)

    def _adopt(self, states: Sequence[persistence.Tensors], signs: Sequence[float]) -> None:
        """Take learners that know this, as merging returns it; the first has the names."""
        single = self.parameters.dtype == "float32"
        models: list[_core.Model] = []
        for state in states:
            first = models[0] if models else None
            models.append(_core.Model(self.parameters.for_core(), single, first))
            own = {name: state[name] for name in state if first is None or name not in NAMES}
            try:
                models[-1].adopt(own)
            except ValueError as error:
                raise DivergenceError(
                    f"the numbers of the model do not fit {self.parameters.dtype}: {error}"
                ) from error
        self._arrange(models, signs)

    def _restore(self, tensors: persistence.Tensors, signs: Sequence[float]) -> None:
        single = self.parameters.dtype == "float32"
        for name in NAMES:
            if name not in tensors:
                raise ModelFileError(f"{name!r} is missing")
        models: list[_core.Model] = []
        features = np.zeros(0)
        for number in range(len(signs)):
            first = models[0] if models else None
            models.append(_core.Model(self.parameters.for_core(), single, first))
            prefix = f"{number}."
            wanted = [name for name in tensors if name.startswith(prefix)]
            # What has been restored is let go: a large model should not be in memory three times.
            own = {name.removeprefix(prefix): tensors.pop(name) for name in wanted}
            features = own.get("features", features) if number == 0 else features
            if not np.array_equal(own.get("features", features), features):
                raise ModelFileError(f"learner {number} has other features than the first")
            if number == 0:
                own |= {name: tensors.pop(name) for name in NAMES}
            models[-1].restore(own)
        self._arrange(models, signs)


def _check_document(document: dict[str, Any]) -> None:
    """Raise an error if the document of a file is not what `Model.document` could return."""
    persistence.check("document", document, DOCUMENT)
    weight = document["row_weight"]
    if not 0 < weight < np.inf:
        raise ModelFileError(f"row_weight must be a finite number above 0, got {weight!r}")
    measured = [document["progress"]]
    if document["run"]:
        persistence.check("run", document["run"], RUN)
        measured.append(document["run"]["held"])
    for one in map(Progress.from_dict, measured):
        one.loss.check()
        one.error.check()
    persistence.check("face.name", document["face"].get("name", ""), str)


def _numbered(states: Sequence[persistence.Tensors]) -> persistence.Tensors:
    """Return the arrays of several learners, which share names, in one dict."""
    return {
        name if name in NAMES else f"{number}.{name}": tensor
        for number, state in enumerate(states)
        for name, tensor in state.items()
    }


@contextmanager
def _interrupts(
    out: Floats, outputs: int, take: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Keep what has been learned when Ctrl-C comes, and hand the predictions over with it."""
    try:
        yield
    except BaseException as error:
        if hasattr(error, "rows_done"):
            done = out[: max(outputs, 1), : error.rows_done]
            vars(error)["predictions"] = done[0] if outputs == 1 else done.T
            take()
        raise


def _first_rows(codes: Codes, known: int, classes: int) -> list[tuple[int, int]]:
    """Return from which row on how many classes are known; new ones come in their order."""
    found = [(0, known)]
    for number in range(known, classes):
        row = int(np.argmax(codes == number))
        if row == found[-1][0]:
            found.pop()
        found.append((row, number + 1))
    return found


def probabilities(margins: Floats, classes: int) -> Floats:
    """Return the probability of each class, a line per class, for raw predictions, one per output.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.model import probabilities
    >>> probabilities(np.array([[0.0, np.log(3.0)]]), 2).round(2).tolist()
    [[0.5, 0.25], [0.5, 0.75]]
    """
    if classes == 2:
        return np.vstack([sigmoid(-margins), sigmoid(margins)])
    chances = sigmoid(margins)
    total = chances.sum(axis=0)
    # All of them so unlikely that they round to 0: what is left is their order of magnitude.
    none = total == 0
    if none.any():
        chances[:, none] = np.exp(margins[:, none] - margins[:, none].max(axis=0))
        total = chances.sum(axis=0)
    return np.asarray(chances / total)


def sigmoid(z: Floats) -> Floats:
    """Return ``1 / (1 + exp(-z))``, for any z without overflow."""
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1 + small))
