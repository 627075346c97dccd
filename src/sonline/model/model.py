"""`Model`: learns, predicts, merges and saves, behind every face of sonline.

A model is one object of the core (cpp/sonline/model_of.hpp), with the labels of its classes, the
names of its features, and what is needed to read more rows for it. It has one output for numbers
and for two classes, and one per class ("this class or not") for more. All faces share its file.

Classes may also emerge: the result is the same, bit for bit, as if all classes had been known from
the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sonline import _core
from sonline.errors import InvalidInputError, ModelFileError, shown
from sonline.evaluate import Progress, measures
from sonline.labels import SIGNS, ClassTable, Codes
from sonline.model.batches import StreamKeys
from sonline.model.features import check_features, check_stream_features
from sonline.model.files import ModelFiles, Reading, new_core
from sonline.model.inspection import PROBABILISTIC
from sonline.model.learning import Learning
from sonline.model.predictions import (
    LearnResult,
    probabilities,
    probabilities_one,
)
from sonline.model.uncertainty import Uncertainty
from sonline.parameters import Parameters
from sonline.rows import CoreRows, Floats, Rows, row_offsets, rows_of, vector
from sonline.rows.checks import Reasons, target_reasons


def to_merge(others: Any, start: Any) -> list[Any]:
    """Return the learners or estimators that `merge` was given, if that is what they are."""
    listed = list(others) if isinstance(others, Iterable) else None
    for item in [others] if listed is None else listed:
        if listed is None or not hasattr(type(item), "from_model"):
            raise InvalidInputError(
                "merge takes a list of learners or estimators: model.merge([other, ...]); "
                f"got {shown(item)}"
            )
    if start is not None and not hasattr(type(start), "from_model"):
        raise InvalidInputError(f"start must be a learner or an estimator, got {shown(start)}")
    return listed or []


class Model(Learning, Uncertainty, ModelFiles):
    """A model of the core with labels, names and files.

    Parameters
    ----------
    parameters : Parameters
        Of each output.
    table : ClassTable, optional
        The classes; without, numbers are predicted.

    Attributes
    ----------
    reading : Reading
        How streams are read for it.
    progress : Progress
        Measures of the predictions made before rows were learned, where a face keeps them.
    run : dict
        Position and counters of a training run, to resume it.
    face : dict
        Which face saved the model, and the arguments that only this face has.
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
        self.run = {}
        self.face = {}
        self.only_predicts = False
        self._learned_stream, self._predicted_stream = StreamKeys(), StreamKeys()
        self._set_core(new_core(parameters, table))

    @classmethod
    def for_labels(cls, parameters: Parameters) -> Self:
        """Make the model of an `OnlineLearner`: for numbers, or for -1 and 1."""
        return cls(parameters, SIGNS if parameters.binary else None)

    def _set_core(self, core: _core.Model) -> None:
        """Use this model of the core."""
        self.core = core
        # For one mapping. Attributes, because the cost of one more Python call per row can be
        # measured: learn_one(x, label or number of the class, weight), predict_one(x), a list of
        # raw predictions, and choose_one(x), the number of a class.
        self.learn_one: Callable[..., Any] = core.learn_one
        self.predict_one = core.predict_one
        self.choose_one = core.choose_one
        if self.only_predicts:
            self.learn_one = lambda *_: self.refuse_if_compact()
        self._set_labels(self.table)
        self._set_columns()

    def _set_labels(self, table: ClassTable | None) -> None:
        """Use these classes; labels and their numbers are attributes, for single rows."""
        self.table = table
        self.numbers: dict[Any, int] = {} if table is None else table.numbers
        self.known_labels: tuple[Any, ...] = () if table is None else table.labels

    # -- what it is ------------------------------------------------------------------------------

    @property
    def task(self) -> str:
        """What is predicted: "regression", "binary" or "classes"."""
        if self.table is None:
            return "regression"
        return "binary" if self.classes == 2 and not self.growing else "classes"

    def check_task(self, classes: bool) -> None:
        """Raise an error if the model predicts numbers instead of classes, or classes instead."""
        if classes == (self.table is None):
            predicted, wanted, face = "classes", "numbers", "SONClassifier"
            if classes:
                predicted, wanted, face = "numbers", "classes", "SONRegressor"
            raise ModelFileError(
                f"holds a model that predicts {predicted}, not {wanted}; open it with {face} or "
                "OnlineLearner"
            )

    @property
    def probabilistic(self) -> bool:
        """Whether predictions can be turned into probabilities."""
        return self.table is not None and self.parameters.loss == PROBABILISTIC

    def check_probabilistic(self) -> None:
        """Raise an error if predictions cannot be turned into probabilities."""
        if not self.probabilistic:
            raise self._without_probabilities()

    def _without_probabilities(self) -> InvalidInputError:
        return InvalidInputError(
            f"probabilities need classes and loss={PROBABILISTIC!r}, this model has "
            f"loss={self.parameters.loss!r}" + (" and numbers" if self.table is None else "")
        )

    # -- rows, labels and names ------------------------------------------------------------------

    def rows(self, X: Rows, add: bool) -> CoreRows:
        """Return rows as the core takes them; new names are entered if ``add``."""
        if isinstance(X, CoreRows):
            return X
        if hasattr(X, "indptr") and hasattr(X, "new_names"):
            check_stream_features(self, X.named, X.new_names)
            stream = self._learned_stream if add else self._predicted_stream
            return stream.rows(self.core, X, add)
        check_features(self, X, add)
        hashed = self.parameters.hash_bits is not None
        return rows_of(
            X,
            lambda names: self.core.name_keys(names, add),
            known_keys_of=None if hashed else lambda names: self.core.name_keys(names, False),
            types=self.reading.columns,
            dtype=self.parameters.dtype,
            missing=self.parameters.missing,
            training=add,
        )

    def targets(self, y: Any) -> tuple[NDArray[Any], ClassTable | None]:
        """Return labels as numbers, or numbers of classes, and the table with those that are new.

        Raises
        ------
        InvalidInputError
            About the first label that cannot be.
        """
        if self.table is None:
            numbers = vector("y", y)
            self.label_reasons("y", numbers).raise_first()
            return numbers, None
        table, codes = self.table.encode(vector("y", y) if self.table.signs else y)
        return codes, table.decided_by(codes)

    def label_reasons(self, name: str, labels: Floats) -> Reasons:
        """Return which labels that are numbers this model cannot learn."""
        return target_reasons(name, labels, self.parameters.least_label)

    def offsets(self, offset: Any, count: int) -> Floats | None:
        """Return the offsets of rows, checked; None if there are none."""
        if offset is not None and self.table is not None:
            raise InvalidInputError(
                f"an offset needs a loss for numbers, this model has {self.parameters.loss!r}"
            )
        return row_offsets(offset, count, self.parameters.log_link)

    def names(self) -> list[str]:
        """Return the names of features in the order of their ids."""
        return self.core.names()

    # -- predicting ------------------------------------------------------------------------------

    def predict(self, X: Rows, *, later: bool = True, offset: Any = None) -> Floats:
        """Return the raw predictions, a line per output; changes nothing.

        They are for rows that come later, or else for the next row, as those of `learn` are. The
        batch of a stream has its own offsets.
        """
        rows = self.rows(X, add=False)
        if hasattr(X, "new_names"):
            offset = X.offsets
        offsets = self.offsets(offset, rows.count)
        with self.core.hold():  # no other thread may add a class
            out = np.empty((self.core.lines(), rows.count))
            rows.call(self.core, "predict", out, later)
        return out if offsets is None else out + offsets

    def means(self, raw: Floats) -> Floats:
        """Return predicted numbers in the unit of the labels, for raw predictions of one output."""
        if not self.parameters.log_link:
            return raw
        means = np.empty(raw.shape)
        self.parameters.core_loss.means(raw, means)
        return means

    def mean_one(self, raw: float) -> float:
        """Return `means` of one number, to the same bits."""
        return float(self.means(np.array([raw]))[0]) if self.parameters.log_link else raw

    def measures(self, learned: LearnResult) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Return the loss of each prediction, and for classes whether it was wrong."""
        if len(learned.class_counts) == 1 and len(learned):
            loss, mistakes = measures(
                self.parameters, learned.raw, learned.targets, learned.class_counts[0][1]
            )
            return loss, None if self.table is None else mistakes
        loss = np.empty(len(learned))
        wrong = None if self.table is None else np.empty(len(learned), dtype=np.bool_)
        for rows, raw, classes in learned.parts():
            loss[rows], mistakes = measures(self.parameters, raw, learned.targets[rows], classes)
            if wrong is not None:
                wrong[rows] = mistakes
        return loss, wrong

    def choose(self, raw: Floats) -> Codes:
        """Return the number of the predicted class of each row."""
        if self.classes == 2:
            return np.asarray(raw[0] > 0, dtype=np.int64)
        return np.asarray(raw.argmax(axis=0), dtype=np.int64)

    def labels(self, raw: Floats) -> list[Any]:
        """Return the predicted label of each row."""
        if self.table is None:
            return list(self.means(raw[0]).tolist())
        return [self.table.labels[number] for number in self.choose(raw).tolist()]

    def probabilities(self, raw: Floats) -> Floats:
        """Return the probability of each class, a line per class, for raw predictions.

        For two classes it is that of the logistic model. For more, it is proportional to
        ``p / sqrt(1 - p)``, p the probability of "this class or not".
        """
        self.check_probabilistic()
        return probabilities(raw, self.classes)

    def probabilities_one(self, x: Mapping[Any, Any], *, later: bool = True) -> dict[Any, float]:
        """Return the probability of each label for one mapping, sorted by label."""
        with self.core.hold():  # no other thread may add a class
            table = self.table
            if table is None or self.parameters.loss != PROBABILISTIC:
                raise self._without_probabilities()
            raw = self.predict_one(x, later)
            labels, chances = table.labels, probabilities_one(raw, len(table))
            return {labels[number]: chances[number] for number in table.sorted_numbers}

    # -- other models ----------------------------------------------------------------------------

    def rebuilt(self, table: ClassTable | None, core: _core.Model) -> Self:
        """Return a model with other classes and another core, and all else of this one."""
        model = type(self).__new__(type(self))
        model.__dict__.update(self.__dict__)
        model.table = table
        model._set_core(core)  # noqa: SLF001 - of the same class
        return model

    def compact(self) -> Self:
        """Return a model that predicts like this one and holds nothing that only learning needs.

        Predictions are the same up to rounding.
        """
        from sonline.model.merge import compact  # noqa: PLC0415 - imports merging

        return compact(self)

    def refuse_if_compact(self) -> None:
        """Raise an error if the model only predicts."""
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
        from sonline.model.merge import merge  # noqa: PLC0415 - imports merging

        return merge([self, *others], start)

    def start_label_range(self, low: float, high: float) -> None:
        """Set the range of labels that ``clip`` starts with."""
        self.core.start_label_range(low, high)
