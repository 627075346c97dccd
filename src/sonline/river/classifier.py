"""`SONClassifier`: the classifier for River."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from river import base

from sonline import persistence
from sonline.classes import ClassLearner
from sonline.errors import InvalidInputError, ModelFileError
from sonline.learner import Feature
from sonline.parameters import Parameters
from sonline.river.common import parameters_of, records_of, values_of, weights_of, write

if TYPE_CHECKING:
    import pandas as pd

KIND = "river-classifier"  # of the file that `save` writes
LOGISTIC = "logistic"
_LARGEST = float(np.finfo(np.float64).max)


class SONClassifier(base.MiniBatchClassifier):
    """Classifier that learns by Sketched Online Newton.

    Labels may be anything that can be a key of a dictionary and may appear at any time: the result
    is the same, bit for bit, as if all of them had been known from the start. Labels True and False
    are taken to be all there are, which saves a learner.

    Parameters
    ----------
    loss
        "logistic", "hinge", "squared_hinge", or "squared" on labels -1 and +1. Probabilities need
        "logistic".
    sketch
        As of `sonline.OnlineLearner`, like the parameters that follow.
    sketch_size
        Number of directions that the sketch keeps.
    alpha
        The regulariser, 1 / step size.
    bound
        Largest size of a raw prediction.
    clip
        Whether raw predictions are clipped to -1 ... +1.
    step
        "implicit", or "explicit" as in the paper.
    curvature
        What is sketched.
    sigma
        Curvature that the loss guarantees.
    eta
        Added curvature.
    oja_step
        Step of Oja's sketch.
    sketch_every
        The sketch takes in one row of so many.
    scaling
        How features are scaled.
    intercept
        Whether a constant feature is added.
    hash_bits
        Hash the features into 2^hash_bits. None keeps their names.
    dtype
        Type of the numbers kept per feature. "float64", so that the order of the features in a
        dictionary does not show.
    seed
        Chooses the hash function of ``hash_bits``. Nothing else is random.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from sonline.river import SONClassifier
    >>> evaluate.progressive_val_score(datasets.Phishing(), SONClassifier(), metrics.Accuracy())
    Accuracy: ...%

    """

    def __init__(  # noqa: PLR0917 - the algorithm has as many parameters
        self,
        loss: str = LOGISTIC,
        sketch: str = Parameters.sketch,
        sketch_size: int = Parameters.sketch_size,
        alpha: float | str = Parameters.alpha,
        bound: float | None = Parameters.bound,
        clip: bool = Parameters.clip,
        step: str = Parameters.step,
        curvature: str = Parameters.curvature,
        sigma: float | None = Parameters.sigma,
        eta: float | str | None = Parameters.eta,
        oja_step: float | str = Parameters.oja_step,
        sketch_every: int | str = Parameters.sketch_every,
        scaling: str = Parameters.scaling,
        intercept: bool = Parameters.intercept,
        hash_bits: int | None = Parameters.hash_bits,
        dtype: str = "float64",
        seed: int = Parameters.seed,
    ) -> None:
        self.loss = loss
        self.sketch = sketch
        self.sketch_size = sketch_size
        self.alpha = alpha
        self.bound = bound
        self.clip = clip
        self.step = step
        self.curvature = curvature
        self.sigma = sigma
        self.eta = eta
        self.oja_step = oja_step
        self.sketch_every = sketch_every
        self.scaling = scaling
        self.intercept = intercept
        self.hash_bits = hash_bits
        self.dtype = dtype
        self.seed = seed
        self._labels: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._learning = ClassLearner(parameters_of(self), classes=0, growing=True)

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x
            From features to numbers or texts.
        y
            The label.
        w
            Importance of the row.

        """
        try:
            number = self._numbers[y]
        except (KeyError, TypeError):  # new, or not hashable, which is said in what follows
            learner, labels = self._meeting([y])
            learner.learn_one(x, labels.index(_plain(y)), float(weights_of(w, 1)[0]))
            self._take(learner, labels)
            return
        if type(w) is not float or not 0.0 <= w <= _LARGEST:
            w = float(weights_of(w, 1)[0])
        self._learning.learn_one(x, number, w)

    def predict_one(self, x: Mapping[Any, Any]) -> Any:  # type: ignore[override]  # no kwargs
        """Return the most likely label; None before the first one has come.

        Parameters
        ----------
        x
            From features to numbers or texts.

        """
        number = self._learning.choose_one(x)
        return self._labels[number] if self._labels else None

    def predict_proba_one(  # type: ignore[override]  # no kwargs
        self, x: Mapping[Any, Any]
    ) -> dict[Any, float]:
        """Return the probability of each label that has come so far.

        Parameters
        ----------
        x
            From features to numbers or texts.

        """
        self._refuse_without_probabilities()
        labels = self._labels
        scores = self._learning.predict_one(x)
        if len(labels) == 2:
            return {labels[0]: _sigmoid(-scores[0]), labels[1]: _sigmoid(scores[0])}
        if not labels:
            return {}
        chances = [_sigmoid(score) for score in scores]
        if (total := sum(chances)) == 0:  # all so unlikely that they round to 0
            top = max(scores)
            chances = [math.exp(score - top) for score in scores]
            total = sum(chances)
        return {label: chance / total for label, chance in zip(labels, chances, strict=True)}

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: float | pd.Series = 1.0) -> None:
        """Learn from rows, one after another: the same as a loop over `learn_one`.

        Parameters
        ----------
        X
            The rows; columns are features.
        y
            Their labels.
        w
            Their importance, one number for all or one for each.

        """
        rows, targets, weights = records_of(X), values_of(y), weights_of(w, len(X))
        if len(targets) != len(rows):
            raise InvalidInputError(f"X has {len(rows)} rows, y has {len(targets)} labels")
        if not rows:
            return
        learner, labels = self._meeting(targets)
        numbers = {label: number for number, label in enumerate(labels)}
        codes = np.array([numbers[target] for target in targets], dtype=np.int64)
        learner.learn(rows, codes, weights)
        self._take(learner, labels)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the most likely label of each row.

        Parameters
        ----------
        X
            The rows; columns are features.

        """
        import pandas as pd  # noqa: PLC0415 - River itself does without it

        return pd.Series([self.predict_one(row) for row in records_of(X)], index=X.index)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the probability of each label, a column for each, for every row.

        Parameters
        ----------
        X
            The rows; columns are features.

        """
        import pandas as pd  # noqa: PLC0415 - River itself does without it

        self._refuse_without_probabilities()
        chances = [list(self.predict_proba_one(row).values()) for row in records_of(X)]
        return pd.DataFrame(chances, index=X.index, columns=self._labels, dtype=np.float64)

    def weights(self, label: Any = None) -> dict[Feature, float]:
        """Return the weight of each feature seen.

        Parameters
        ----------
        label
            For which label; may be left out for two labels, where it is the one that came second
            (True, for True and False).

        """
        if label is None and len(self._labels) == 2:
            label = self._labels[1]
        if label not in self._numbers:
            raise InvalidInputError(f"label must be one of {self._labels}, got {label!r}")
        lines, number = self._learning.weights(), self._numbers[label]
        line = lines[number] if len(self._labels) != 2 else lines[0] * (1 if number else -1)
        return dict(zip(self._learning.features(), line[1:].tolist(), strict=True))

    def merge(self, others: Iterable[Self], start: Self | None = None) -> Self:
        """Return one classifier out of several that learnt from different rows.

        Labels are matched, whatever the order in which each of them met them.

        Parameters
        ----------
        others
            With the same parameters; see `sonline.OnlineLearner.merge`.
        start
            What all of them went on from, if they were not new.

        """
        every = [one for one in (self, *others) if one._labels]  # others have not learnt anything
        merged: Self = self.clone()
        if not every:
            return merged
        common = [] if start is None or not start._labels else [start]
        labels = list(dict.fromkeys(label for one in every + common for label in one._labels))
        learners = [one._learner_for(labels) for one in every + common]
        begun = learners.pop() if common else None
        merged._take(learners[0].merge(learners[1:], begun), labels)
        return merged

    def _learner_for(self, labels: list[Any]) -> ClassLearner:
        """Return the learner with its classes in the order of these labels."""
        if self._labels == labels:
            return self._learning
        if not self._learning.growing:
            raise InvalidInputError(
                f"the classifiers to be merged have labels that do not fit together: {labels}"
            )
        new = itertools.count(len(self._labels))
        return self._learning.arranged(
            [self._numbers[label] if label in self._numbers else next(new) for label in labels]
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file; `load` goes on bit for bit as if it had never stopped."""
        for label in self._labels:
            if not isinstance(label, (bool, int, float, str)):
                raise InvalidInputError(
                    f"label {label!r} cannot be written to a model file: only text, numbers and "
                    "booleans can; use pickle"
                )
        write(self, KIND, path, labels=self._labels)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a classifier that `save` wrote; ModelFileError if the file is damaged."""
        document, tensors = persistence.read(path, KIND)
        with persistence.reading(path):
            model = cls(**document["arguments"])
            model._learning.__setstate__((document["learner"], tensors))
            labels = document["labels"]
            if len(labels) != model._learning.classes:
                raise ModelFileError("labels and learners do not fit together")
            model._take(model._learning, labels)
        return model

    @property
    def _raw_memory_usage(self) -> int:
        return int(super()._raw_memory_usage + self._learning.stats()["bytes"])

    def _refuse_without_probabilities(self) -> None:
        if self.loss != LOGISTIC:
            raise NotImplementedError(
                f"probabilities need loss={LOGISTIC!r}, this is loss={self.loss!r}"
            )

    def _meeting(self, targets: list[Any]) -> tuple[ClassLearner, list[Any]]:
        """Return a learner for the labels known and those that come now, and all of them."""
        learner, labels = self._learning, list(self._labels)
        try:
            distinct = dict.fromkeys(map(_plain, targets))
        except TypeError as error:
            raise InvalidInputError(f"y: a label must be a number or a text: {error}") from error
        for label in distinct:
            if label in self._numbers or label in labels:
                continue
            _check_label(label, labels)
            if not labels and isinstance(label, bool):
                labels = [False, True]
                learner = ClassLearner(learner.parameters, classes=2, growing=False)
                continue
            if not learner.growing:
                raise InvalidInputError(f"y: label {label!r} after labels that were True or False")
            labels.append(label)
            learner = learner.grown()
        return learner, labels

    def _take(self, learner: ClassLearner, labels: list[Any]) -> None:
        self._learning = learner
        if len(labels) != len(self._labels):
            self._labels = labels
            self._numbers = {label: number for number, label in enumerate(labels)}


def _plain(label: Any) -> Any:
    """Return a label of NumPy as Python's own: one of NumPy is no equal of a tuple."""
    return label.item() if isinstance(label, np.generic) else label


def _check_label(label: Any, labels: list[Any]) -> None:
    """Raise an error about a label that is missing or of another type than those before."""
    if label is None or label != label:  # noqa: PLR0124 - NaN is not itself
        raise InvalidInputError(f"y: {label!r} is not a label; leave rows without a label out")
    if labels and isinstance(label, str) != isinstance(labels[0], str):
        raise InvalidInputError(
            f"y: label {label!r} is of another type than the labels before, such as "
            f"{labels[0]!r}; use text or numbers throughout"
        )


def _sigmoid(z: float) -> float:
    if z >= 0:
        return 1 / (1 + math.exp(-z))
    small = math.exp(z)
    return small / (1 + small)
