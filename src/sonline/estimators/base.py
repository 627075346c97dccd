"""What the two scikit-learn estimators share: parameters, passes, inspection, files."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from sonline import persistence
from sonline.errors import DivergenceError, InvalidInputError, ModelFileError, ParameterError
from sonline.estimators.rows import Order
from sonline.evaluate import Curve
from sonline.inputs import contiguous
from sonline.parameters import LOSSES, Parameters

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from onnx import ModelProto

Floats: TypeAlias = NDArray[np.float64]

# Names of the learner's parameters that are called otherwise here.
RENAMED = {"fit_intercept": "intercept"}


class OnlineEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base class of `SONClassifier` and `SONRegressor`; only they are public."""

    kind: ClassVar[str]  # of the file that `save` writes
    losses: ClassVar[tuple[str, ...]]
    # The arguments of the constructor that are the learner's, and what it calls them.
    arguments: ClassVar[list[tuple[str, str]]]

    loss: str
    max_iter: int
    shuffle: bool
    random_state: Any
    warm_start: bool

    progress_: Curve
    n_features_in_: int
    n_iter_: int
    _begun: Parameters  # with which learning began ...
    _begun_values: Any  # ... and the arguments as they were given
    _values: ClassVar[attrgetter[Any]]  # reads these arguments, in a single call

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        names = [(name, RENAMED.get(name, name)) for name in inspect.signature(cls).parameters]
        cls.arguments = [(name, field) for name, field in names if field in Parameters.names()]
        cls._values = attrgetter("__class__", *(name for name, _ in cls.arguments))

    # -- parameters ------------------------------------------------------------------------------

    def _parameters(self) -> Parameters:
        """Return the learner's parameters, checked."""
        if self.loss not in self.losses:
            raise ParameterError(
                f"loss must be one of {', '.join(map(repr, self.losses))}; got {self.loss!r}"
            )
        passes = self.max_iter
        if isinstance(passes, bool) or not isinstance(passes, Integral) or passes < 1:
            raise ParameterError(f"max_iter must be an integer of at least 1, got {passes!r}")
        return Parameters(**{field: getattr(self, name) for name, field in self.arguments})

    def _remember(self, parameters: Parameters) -> None:
        """Keep the parameters with which learning begins."""
        self._begun, self._begun_values = parameters, self._values(self)

    def _check_same_parameters(self) -> None:
        """Raise an error if the parameters are not those that learning began with."""
        if self._values(self) == self._begun_values:
            return
        for name, field in self.arguments:
            now, then = getattr(self, name), getattr(self._begun, field)
            if now is not then and now != then:
                raise ParameterError(
                    f"{name} is {now!r}, but this estimator began to learn with {then!r}, which "
                    "cannot change on the way; call fit with warm_start=False, or start with clone"
                )

    @contextmanager
    def _as_before_on_error(self) -> Iterator[None]:
        """Take back all attributes if anything goes wrong."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    # -- learning --------------------------------------------------------------------------------

    def _orders(self, rows: int) -> Iterator[Order]:
        """Yield the order of the rows for each pass of `fit`."""
        random = check_random_state(self.random_state)
        for _ in range(self.max_iter):
            yield random.permutation(rows) if self.shuffle else None

    @staticmethod
    @contextmanager
    def _say_where(number: int, rows: Any) -> Iterator[None]:
        """Add to a divergence in which pass, and over which rows of X, it happened."""
        try:
            yield
        except DivergenceError as error:
            where = "in the order of random_state" if not isinstance(rows, slice) else "of X"
            raise DivergenceError(f"pass {number + 1} of fit, rows {where}: {error}") from error

    def _learner(self) -> Any:
        """Return what learns; an error if there is nothing yet."""
        try:
            return self.__dict__["_learning"]
        except KeyError:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' or "
                "'partial_fit' first."
            ) from None

    def __sklearn_is_fitted__(self) -> bool:
        return "_learning" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- merging ---------------------------------------------------------------------------------

    def merge(self, others: Iterable[Self], start: Self | None = None) -> Self:
        """Return one estimator that knows what this one and the others have learnt.

        For estimators that were fitted to different rows with the same parameters; see
        `sonline.OnlineLearner.merge`. Nothing here is changed.

        Parameters
        ----------
        others : iterable of estimators
            Fitted, of the same kind.
        start : estimator, optional
            What all of them went on from, if they were not new: it is counted once.
        """
        every = [self, *others]
        common = [] if start is None else [start]
        learners = [one._learner() for one in every + common]
        for one in every[1:] + common:
            self._check_mergeable(one)
        merged: Self = clone(self, safe=False)
        merged._remember(self._begun)
        for name in ("n_features_in_", "n_iter_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(merged, name, getattr(self, name))
        merged.progress_ = self.progress_.merge(
            [one.progress_ for one in every[1:]], None if start is None else start.progress_
        )
        merged._take_merged(every, start, learners)
        return merged

    def _check_mergeable(self, other: Self) -> None:
        if type(other) is not type(self):
            raise InvalidInputError(
                f"a {type(self).__name__} cannot be merged with a {type(other).__name__}"
            )
        if other.n_features_in_ != self.n_features_in_:
            raise InvalidInputError(
                f"one of the estimators to be merged has {other.n_features_in_} features, another "
                f"{self.n_features_in_}; all need the same columns"
            )
        ours, theirs = (getattr(one, "feature_names_in_", None) for one in (self, other))
        if not np.array_equal([] if ours is None else ours, [] if theirs is None else theirs):
            raise InvalidInputError("the estimators to be merged have different names of columns")

    def _take_merged(self, every: list[Self], start: Self | None, learners: list[Any]) -> None:
        """Set what is merged of estimators, the start's learner being the last, if there is one."""
        raise NotImplementedError

    # -- inspection ------------------------------------------------------------------------------

    @property
    def progressive_loss_(self) -> float:
        """Mean loss of the predictions made before each row was learnt for the first time."""
        self._attribute("progressive_loss_")
        return self.progress_.average

    def _attribute(self, name: str) -> Any:
        """Return the learner for a fitted attribute, which must not exist before."""
        if "_learning" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name!r} before it is fitted")
        return self.__dict__["_learning"]

    def _by_column(self, features: list[int], weights: Floats) -> Floats:
        """Spread weights by feature seen over all columns of X."""
        table = np.zeros((weights.shape[0], self.n_features_in_))
        table[:, features] = weights
        return table

    def _feature_name(self, column: int) -> str | int:
        names = getattr(self, "feature_names_in_", None)
        return column if names is None else str(names[column])

    @property
    def experts(self) -> int:
        """How many weight vectors are blended: more than one with ``alpha="auto"``."""
        return len(self._parameters().experts)

    def prediction_range(self) -> tuple[Floats, Floats]:
        """Return the lowest and highest raw predictions that ``bound`` and ``clip`` allow.

        One of each for every row of `coef_`.
        """
        raise NotImplementedError

    def report(self) -> Figure:
        """Draw the progressive loss, the spectrum of the sketch and the largest weights.

        Needs matplotlib (``pip install sonline[plot]``); `sonline.plots` has each plot by itself.
        """
        from sonline import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.report(self)

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> ModelProto:
        """Return the fitted linear model in ONNX, and write it to a file if one is named.

        Needs onnx (``pip install sonline[onnx]``); see `sonline.export.to_onnx`.
        """
        from sonline import export  # noqa: PLC0415 - onnx is an extra

        return export.to_onnx(self, path)

    # -- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file; `load` goes on as if it had never stopped.

        The file holds numbers and text only (safetensors), so loading it runs no code, unlike a
        pickle.
        """
        document, tensors = self._learner().__getstate__()
        names = getattr(self, "feature_names_in_", None)
        persistence.write(
            path,
            self.kind,
            {
                "learner": document,
                "arguments": {k: _to_json(k, v) for k, v in self.get_params(deep=False).items()},
                "n_features_in": self.n_features_in_,
                "feature_names_in": None if names is None else [str(name) for name in names],
                "n_iter": self.n_iter_,
                "progress": self.progress_.as_dict(),
                **self._document(),
            },
            tensors,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator that `save` wrote.

        Raises
        ------
        ModelFileError
            If the file is damaged or holds something else.
        """
        document, tensors = persistence.read(path, cls.kind)
        with persistence.reading(path):
            arguments = {k: _from_json(v) for k, v in document["arguments"].items()}
            estimator = cls(**arguments)
            estimator.n_features_in_ = int(document["n_features_in"])
            estimator.n_iter_ = int(document["n_iter"])
            estimator.progress_ = Curve.from_dict(document["progress"])
            names = document["feature_names_in"]
            if names is not None:
                estimator.feature_names_in_ = np.array(names, dtype=object)
                if estimator.feature_names_in_.shape != (estimator.n_features_in_,):
                    raise ModelFileError("the names of the columns are not as many as the columns")
            estimator._remember(estimator._parameters())
            estimator._restore(document, tensors)
            columns = estimator._learner().features()
            if not all(isinstance(c, int) and c < estimator.n_features_in_ for c in columns):
                raise ModelFileError("the learner has features that are no columns")
        return estimator

    def _document(self) -> dict[str, Any]:
        """Return what else the file holds."""
        raise NotImplementedError

    def _restore(self, document: dict[str, Any], tensors: persistence.Tensors) -> None:
        raise NotImplementedError


def sample_weights(sample_weight: ArrayLike | None, rows: int, some: bool = False) -> Floats | None:
    """Return the weights as the core takes them; with ``some``, not all of them may be 0."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"sample_weight must be numbers: {error}") from error
    weights = np.full(rows, weights) if weights.ndim == 0 else contiguous(weights)
    if weights.shape != (rows,):
        raise InvalidInputError(
            f"sample_weight must be one number for each of the {rows} rows, got shape "
            f"{weights.shape}"
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInputError(
            f"sample_weight: {weights[row]:g} in row {row}; it must be a finite number of 0 or more"
        )
    if some and not weights.any():
        raise InvalidInputError("sample_weight: all are zero, so there is nothing to learn from")
    return weights


def losses_that(are_binary: bool) -> tuple[str, ...]:
    """Return the losses for labels -1 and +1, or the others."""
    return tuple(name for name, info in LOSSES.items() if bool(info["binary"]) == are_binary)


def _to_json(name: str, value: Any) -> Any:
    """Return an argument of the constructor as JSON can hold it."""
    if isinstance(value, np.random.RandomState):
        kind, keys, *rest = value.get_state(legacy=True)
        return {"random_state": [kind, np.asarray(keys).tolist(), *rest]}
    if isinstance(value, dict):  # class_weight, whose keys are labels
        return {"pairs": [[_plain(k), float(v)] for k, v in value.items()]}
    value = _plain(value)
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise ParameterError(f"{name}={value!r} cannot be written to a model file")
    return value


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "pairs" in value:
        return dict(value["pairs"])
    kind, keys, *rest = value["random_state"]
    random = np.random.RandomState()
    random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    return random


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
