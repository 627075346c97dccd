"""`ClassLearner`: one learner per class over one pass of the data.

Classes are numbers 0, 1, 2, ... here; what they are called is the business of the estimators. Two
classes need a single learner. With more, each class has its own: "this class or not".

Classes may also emerge. Then one more learner runs along that takes every row as "not this class":
the learner that a class would have by now if it had been declared at the start. A new class starts
as its copy, so the result is the same, bit for bit, as if all classes had been known from the
beginning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sonline import _core, persistence
from sonline.errors import InvalidInputError, ModelFileError
from sonline.inputs import Floats, Rows, csr_arrays, dense_array, is_sparse
from sonline.learner import OnlineLearner
from sonline.merging import NAMES, check_same_parameters, merge_learners, turned_round
from sonline.parameters import Parameters

Codes: TypeAlias = NDArray[np.int64]

NEVER = -1  # the target of the learner that takes every row as "not this class"


class ClassLearner:
    """Learners for a number of classes.

    Parameters
    ----------
    parameters : Parameters
        Of each learner.
    classes : int
        How many classes there are.
    growing : bool
        Whether classes may be added by `grown`.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.classes import ClassLearner
    >>> from sonline.parameters import Parameters
    >>> learner = ClassLearner(Parameters(), classes=3, growing=False)
    >>> X = np.eye(3)
    >>> for _ in range(5):
    ...     before = learner.learn(X, np.array([0, 1, 2]))
    >>> learner.predict(X).argmax(axis=0).tolist()
    [0, 1, 2]
    """

    def __init__(self, parameters: Parameters, classes: int, growing: bool) -> None:
        self.parameters = parameters
        self.growing = growing
        first = _core.Model(parameters.for_core(), parameters.dtype == "float32")
        if classes <= 1:
            self._set([first], classes)
        else:
            outputs = 1 if classes == 2 else classes
            others = [first.copy() for _ in range(outputs + growing - 1)]
            self._set([first, *others], classes)

    def _set(
        self, models: list[_core.Model], classes: int, signs: Sequence[float] | None = None
    ) -> None:
        self.classes = classes
        self._models = models
        if classes <= 1:
            # Only the learner of what has not come yet: turned round, it speaks for class 0.
            self._targets, self._signs = [0], [-1.0]
        else:
            self._targets = [1] if classes == 2 else list(range(classes))
            self._targets += [NEVER] * self.growing
            self._signs = list(signs) if signs is not None else [1.0] * len(models)
        self._group = _core.Classes(models, self._targets, self._signs)
        speaking = slice(0, max(self.outputs, 1))
        self._speakers = _core.Classes(
            models[speaking], self._targets[speaking], self._signs[speaking]
        )
        # For one mapping from features to numbers: learn_one(x, code, weight); predict_one(x), a
        # list with one raw prediction per output; choose_one(x), the number of the likeliest class.
        # Attributes, because here every call of a function in between shows.
        self.learn_one = self._group.learn_one
        self.predict_one = self._speakers.predict_one
        self.choose_one = self._speakers.choose_one

    @property
    def outputs(self) -> int:
        """How many raw predictions a row has: one for two classes, otherwise one per class."""
        return 1 if self.classes == 2 else self.classes

    def grown(self) -> Self:
        """Return a learner with one class more; this one is to be forgotten when it is used."""
        models = self._models
        if self.classes == 0:
            return self._twin(models, 1)
        if self.classes == 1:
            return self._twin([models[0].copy(), models[0]], 2)
        if self.classes == 2:
            pair, never = models
            return self._twin([pair.copy(), pair, never.copy(), never], 3, [-1.0, 1.0, 1.0, 1.0])
        *known, never = models
        return self._twin([*known, never.copy(), never], self.classes + 1, [*self._signs, 1.0])

    def learn(
        self, X: Rows, codes: Codes, weights: Floats | None = None, threads: int = 1
    ) -> Floats:
        """Learn rows; the raw predictions made before each update, one line per output.

        Parameters
        ----------
        X : array, sparse matrix or sequence of mappings, n rows
            As `OnlineLearner.learn` takes them.
        codes : array of n integers
            The class of each row.
        weights : array of n floats, optional
            Importance of each row.
        threads : int, default=1
            How many threads may share the work. The result does not depend on it.
        """
        columns = X.shape[1] if hasattr(X, "shape") else 0
        out = np.empty((len(self._models), len(codes)))
        if is_sparse(X):
            self._group.learn_csr(*csr_arrays(X), columns, codes, weights, out, threads)
        elif isinstance(X, np.ndarray):
            self._group.learn_dense(dense_array(X), codes, weights, out, threads)
        else:
            self._group.learn_rows(X, codes, weights, out, threads)
        return out[: self.outputs]

    def predict(self, X: Rows, threads: int = 1) -> Floats:
        """Return the raw predictions, one line per output; changes nothing."""
        rows, columns = X.shape if hasattr(X, "shape") else (len(X), 0)
        out = np.empty((max(self.outputs, 1), rows))
        if is_sparse(X):
            self._speakers.predict_csr(*csr_arrays(X), columns, out, threads)
        elif isinstance(X, np.ndarray):
            self._speakers.predict_dense(dense_array(X), out, threads)
        else:
            self._speakers.predict_rows(X, out, threads)
        return out[: self.outputs]

    def arranged(self, numbers: Sequence[int]) -> Self:
        """Return a learner whose class k is class ``numbers[k]`` here, to be merged with others.

        Numbers of classes that are not known here are those that new ones would get.
        """
        learner = self
        while learner.classes < len(numbers):
            learner = learner.grown()
        if list(numbers) == list(range(learner.classes)):
            return learner
        models, signs = learner._models, learner._signs
        if learner.classes == 2:
            return self._twin(models, 2, [-signs[0], *signs[1:]])
        order = [*numbers, *range(learner.classes, len(models))]
        return self._twin([models[n] for n in order], learner.classes, [signs[n] for n in order])

    def merge(self, others: Sequence[Self], start: Self | None = None) -> Self:
        """Return one learner that knows what this one and the others have learnt.

        All of them must have the same classes, in the same order. See `OnlineLearner.merge`.
        """
        every = [self, *others]
        common = [] if start is None else [start]
        check_same_parameters(self.parameters, [one.parameters for one in every[1:] + common])
        for one in every + common:
            if (one.classes, one.growing) != (self.classes, self.growing):
                raise InvalidInputError(
                    f"one of the learners to be merged has {one.classes} classes, another "
                    f"{self.classes}; all need the same"
                )
        # Two learners of "this or that" may face each other.
        states = [one._states(self._signs) for one in every]
        begun = None if start is None else start._states(self._signs)
        models: list[_core.Model] = []
        for state in merge_learners(self.parameters, states, begun):
            single = self.parameters.dtype == "float32"
            names_of = models[0] if models else None
            model = _core.Model(self.parameters.for_core(), single, names_of)
            model.adopt({key: state[key] for key in state if names_of is None or key not in NAMES})
            models.append(model)
        return self._twin(models, self.classes, self._signs)

    def _states(self, signs: Sequence[float]) -> list[persistence.Tensors]:
        """Return what each model knows, turned round where its sign is another one."""
        states = [model.knowledge() for model in self._models]
        for number, (own, wanted) in enumerate(zip(self._signs, signs, strict=True)):
            if own != wanted:
                states[number] = turned_round(states[number])
        return states

    def learner_of(self, output: int, sign: float = 1.0) -> OnlineLearner:
        """Return the learner of an output by itself: +1 is its class, or not (sign -1), -1 else."""
        state = self._states([sign] * len(self._models))[output]
        learner = OnlineLearner.__new__(OnlineLearner)
        document = {"parameters": self.parameters.as_dict(), "negative_label": -1.0}
        learner.__setstate__((document, state))
        return learner

    def features(self) -> list[str | int]:
        """Return the features seen, in the order of their appearance."""
        return self._models[0].features()

    def weights(self) -> Floats:
        """Return the weights, a line per output, a column per feature, the intercept's first."""
        return np.array(
            [
                sign * model.weights()
                for model, sign in zip(
                    self._models[: self.outputs], self._signs[: self.outputs], strict=True
                )
            ]
        ).reshape(self.outputs, -1)

    def limits(self) -> Floats:
        """Return, for each feature, the size beyond which values are cut, the intercept's first."""
        limits: Floats = np.max([model.limits() for model in self._models], axis=0)
        return limits

    def spectra(self) -> list[Floats]:
        """Return the eigenvalues that the sketch of each output holds, largest first."""
        return [np.sort(model.spectrum())[::-1] for model in self._models[: self.outputs]]

    def ranges(self) -> Floats:
        """Return the lowest and the highest raw prediction of each output, as two lines."""
        each = [
            sorted(sign * end for end in prediction_range(self.parameters, model.save()))
            for model, sign in zip(self._models, self._signs, strict=True)
        ]
        return np.array(each[: self.outputs]).reshape(-1, 2).T

    def stats(self) -> dict[str, Any]:
        """Return counters as `OnlineLearner.stats` does; rebases and bytes over all learners."""
        each = [model.stats() for model in self._models]
        return each[0] | {
            name: sum(one[name] for one in each)
            for name in ("sweeps", "generations", "folds", "caught_up", "bytes")
        }

    def _twin(
        self, models: list[_core.Model], classes: int, signs: Sequence[float] | None = None
    ) -> Self:
        twin = type(self).__new__(type(self))
        twin.parameters, twin.growing = self.parameters, self.growing
        twin._set(models, classes, signs)
        return twin

    def __getstate__(self) -> tuple[dict[str, Any], persistence.Tensors]:
        document = {
            "parameters": self.parameters.as_dict(),
            "classes": self.classes,
            "growing": self.growing,
            "signs": self._signs,
        }
        tensors: persistence.Tensors = {}
        for number, model in enumerate(self._models):
            for name, tensor in model.save().items():
                tensors[name if name in NAMES else f"{number}.{name}"] = tensor
        return document, tensors

    def __setstate__(self, state: tuple[dict[str, Any], persistence.Tensors]) -> None:
        document, tensors = state
        self.parameters = Parameters(**document["parameters"])
        self.growing = bool(document["growing"])
        classes = int(document["classes"])
        signs = [float(sign) for sign in document["signs"]]
        if any(sign not in (1.0, -1.0) for sign in signs):
            raise ModelFileError(f"signs must be 1 or -1, got {signs}")
        if len(signs) != (1 if classes <= 1 else (1 if classes == 2 else classes) + self.growing):
            raise ModelFileError(f"{classes} classes cannot have {len(signs)} models")
        single = self.parameters.dtype == "float32"
        models: list[_core.Model] = []
        for number in range(len(signs)):
            first = models[0] if models else None
            models.append(_core.Model(self.parameters.for_core(), single, first))
            own = {} if models[1:] else {name: tensors[name] for name in NAMES}
            prefix = f"{number}."
            for name, tensor in tensors.items():
                if name.startswith(prefix):
                    own[name.removeprefix(prefix)] = tensor
            models[-1].restore(own)
            if not np.array_equal(own["features"], tensors["0.features"]):
                raise ModelFileError(f"model {number} has other features than the first")
        self._set(models, classes, signs)


def prediction_range(
    parameters: Parameters, state: Mapping[str, NDArray[Any]]
) -> tuple[float, float]:
    """Return the lowest and the highest raw prediction that ``bound`` and ``clip`` allow."""
    bound = math.inf if parameters.bound is None else float(parameters.bound)
    if parameters.clip and state["label_low"] <= state["label_high"]:
        ends = np.clip([state["label_low"], state["label_high"]], -bound, bound)
        return float(ends[0]), float(ends[1])
    return -bound, bound


def probabilities(margins: Floats, classes: int) -> Floats:
    """Return the probability of each class, a line per class, for raw predictions, one per output.

    Those are of the logistic loss. For two classes, one line speaks for the second of them;
    otherwise each speaks for "this class or not", and the probabilities are divided by their sum.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.classes import probabilities
    >>> probabilities(np.array([[0.0, np.log(3.0)]]), 2).round(2).tolist()
    [[0.5, 0.25], [0.5, 0.75]]
    """
    if classes == 2:
        return np.vstack([_sigmoid(-margins), _sigmoid(margins)])
    chances = _sigmoid(margins)
    total = chances.sum(axis=0)
    # All of them so unlikely that they round to 0: what is left is their order of magnitude.
    none = total == 0
    if none.any():
        chances[:, none] = np.exp(margins[:, none] - margins[:, none].max(axis=0))
        total = chances.sum(axis=0)
    return np.asarray(chances / total)


def _sigmoid(z: Floats) -> Floats:
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1 + small))
