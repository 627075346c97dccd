"""Shared by the two scikit-learn estimators: parameters, passes, inspection, files."""

from __future__ import annotations

import copy
import inspect
import os
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from sonline import persistence
from sonline.errors import (
    DivergenceError,
    InvalidInputError,
    ModelFileError,
    ParameterError,
)
from sonline.estimators.files import FitsFiles
from sonline.estimators.rows import Order, known_rows
from sonline.evaluate import Curve, Progress
from sonline.labels import ClassTable, plain
from sonline.model import Model, NextRows, to_merge
from sonline.model.face import Face
from sonline.parameters import RENAMED, Parameters, check_integer, check_loss
from sonline.persistence import COUNT
from sonline.rows import Floats, pieces, row_weights
from sonline.rows.columns import one_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from onnx import ModelProto

FACE = {
    "name": str,
    "arguments": dict,
    "n_features_in": (None, COUNT),
    "feature_names_in": (None, [str]),
    "n_iter": COUNT,
}

COMPARED_ROWS = 20  # of a batch


class OnlineEstimator(FitsFiles, Face, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base class of `SONClassifier` and `SONRegressor`; only they are public."""

    face: ClassVar[str]  # the name of this class in model files
    losses: ClassVar[tuple[str, ...]]
    # The arguments of the constructor that are parameters of the learner, and their names there.
    arguments: ClassVar[list[tuple[str, str]]]

    loss: str
    max_iter: int
    shuffle: bool
    random_state: Any
    warm_start: bool
    n_jobs: int | None = None

    n_features_in_: int
    n_iter_: int
    _first_values: Any  # these arguments when training started
    _values: ClassVar[attrgetter[Any]]  # reads these arguments in a single call

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        names = [(name, RENAMED.get(name, name)) for name in inspect.signature(cls).parameters]
        cls.arguments = [(name, field) for name, field in names if field in Parameters.names()]
        cls._values = attrgetter("__class__", *(name for name, _ in cls.arguments))

    # -- parameters ------------------------------------------------------------------------------

    def _parameters(self) -> Parameters:
        """Return the learner's parameters, checked."""
        check_loss(self.loss, self.losses)
        check_integer("max_iter", self.max_iter, 1)
        self._check_arguments()
        return Parameters(**{field: getattr(self, name) for name, field in self.arguments})

    def _check_arguments(self) -> None:
        """Raise an error about an invalid argument that is not a parameter of the learner."""
        for name in ("shuffle", "warm_start", "discover_classes"):
            value = getattr(self, name, False)
            if not isinstance(value, (bool, np.bool_, int)):
                raise ParameterError(f"{name} must be True or False, got {value!r}")
        jobs = self.n_jobs
        if jobs is not None and (not isinstance(jobs, Integral) or not jobs):
            raise ParameterError(f"n_jobs must be None or an integer other than 0, got {jobs!r}")

    def _check_same_parameters(self) -> None:
        """Raise an error if the parameters have changed since training started."""
        if self._values(self) == self._first_values:
            return
        for name, field in self.arguments:
            now, then = getattr(self, name), getattr(self._model.parameters, field)
            if now is not then and now != then:
                raise ParameterError(
                    f"{name} is {now!r}, but training started with {then!r}, which cannot "
                    "change; call fit with warm_start=False, or start with clone"
                )

    @contextmanager
    def _as_before_on_error(self) -> Iterator[None]:
        """Restore all attributes after an error."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    # -- learning --------------------------------------------------------------------------------

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on rows, ``max_iter`` times.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : array of shape (n_samples,)
            The labels: numbers, or for a classifier numbers or text.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts. The model predicts rows of weight 0, but does not train on
            them.

        Returns
        -------
        self : estimator
            The fitted estimator. After an error it is as it was before.
        """
        with self._as_before_on_error():
            self._parameters()
            continuing = self.warm_start and self.__sklearn_is_fitted__()
            rows, labels = self._checked(X, y, reset=not continuing)
            self._learn_passes(rows, labels, sample_weight, self._table(labels, continuing))
        return self

    @abstractmethod
    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        """Return rows and labels, at least one; if ``reset``, the columns become those of X."""

    def _table(self, labels: Any, continuing: bool) -> ClassTable | None:
        """Return the classes among labels; None for regression."""
        return None

    def _begin(self, model: Model) -> None:
        """Start training with an empty model."""
        self._model = model
        self._first_values = self._values(self)
        self.n_iter_ = 1

    def _orders(self, rows: int) -> Iterator[Order]:
        """Yield the order of the rows for each pass of `fit`."""
        random = check_random_state(self.random_state)
        for _ in range(self.max_iter):
            yield random.permutation(rows) if self.shuffle else None

    @staticmethod
    @contextmanager
    def _name_pass(number: int, rows: Any) -> Iterator[None]:
        """Add the pass, and which order its row numbers refer to, to a divergence."""
        try:
            yield
        except DivergenceError as error:
            where = "in the order of random_state" if not isinstance(rows, slice) else "of X"
            raise DivergenceError(f"pass {number + 1} of fit, rows {where}: {error}") from error

    def _learn_passes(
        self, X: Any, labels: Any, sample_weight: ArrayLike | None, table: ClassTable | None
    ) -> None:
        """Train on all rows ``max_iter`` times: `fit`, after labels have been checked."""
        parameters = self._parameters()
        continuing = self.warm_start and self.__sklearn_is_fitted__()
        if continuing:
            self._check_same_parameters()
            model = copy.deepcopy(self._model)
        else:
            model = Model(parameters, table)
            self._first_values = self._values(self)
            self.__dict__.pop("_next_rows", None)
        count = len(labels)
        sample_weights = row_weights(sample_weight, count)
        if sample_weights is not None and not sample_weights.any():
            raise InvalidInputError(
                "sample_weight: all are zero, so there is nothing to learn from"
            )
        weights = self._weights(sample_weights, labels)
        rows = model.rows(X, add=True)
        for number, order in enumerate(self._orders(count)):
            for part, piece in pieces(rows, order):
                targets, classes = model.targets(labels[part])
                with self._name_pass(number, part):
                    part_weights = None if weights is None else weights[part]
                    learned = model.learn_targets(
                        piece, targets, classes, part_weights, self._threads(model)
                    )
                if number == 0:
                    model.update_progress(
                        learned, None if sample_weights is None else sample_weights[part]
                    )
        self._model = model
        self.n_iter_ = self.max_iter

    def _learn_rows(self, X: Any, labels: Any, sample_weight: ArrayLike | None) -> None:
        """Train on rows once: `partial_fit`, after rows and labels have been checked."""
        model = self._model
        sample_weights = row_weights(sample_weight, len(labels))
        weights = self._weights(sample_weights, labels)
        rows, threads = model.rows(X, add=True), self._threads(model)
        next_rows: NextRows = self.__dict__.setdefault("_next_rows", NextRows())
        # In a batch of few rows the frozen model is as good as the one that learns.
        seen = model.progress.loss.rows
        compared = len(labels) >= COMPARED_ROWS and next_rows.is_due(len(labels), seen)
        frozen = model.predict(rows, threads=threads) if compared else None
        learned = model.learn(rows, labels, weights, threads=threads)
        model.update_progress(learned, sample_weights)
        if frozen is not None:
            next_rows.compare(model, learned, frozen, sample_weights)
            self._warn_if_frozen_is_worse(next_rows)

    def _warn_if_frozen_is_worse(self, next_rows: NextRows) -> None:
        if not self.__dict__.get("_warned") and (warning := next_rows.warning()):
            self._warned = True
            warnings.warn(warning, stacklevel=4)

    def _weights(self, weights: Floats | None, labels: Any) -> Floats | None:
        """Return the weights of the rows, times those of their classes."""
        return weights

    def _threads(self, model: Model) -> int:
        return 1

    def _raw(self, X: Any) -> Floats:
        """Return the raw predictions, a line per output."""
        model = self._fitted()
        rows = model.rows(known_rows(self, X), add=False)
        return model.predict(rows, threads=self._threads(model))

    def _fitted(self) -> Model:
        """Return the model; raise an error if the estimator is not fitted."""
        try:
            return self.__dict__["_model"]  # type: ignore[no-any-return]
        except KeyError:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' or "
                "'partial_fit' first."
            ) from None

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- merging ---------------------------------------------------------------------------------

    def merge(self, others: Iterable[Self], start: Self | None = None) -> Self:
        """Return one estimator that combines this one and the others.

        For estimators that were fitted to different rows with the same parameters; see
        `sonline.OnlineLearner.merge`. This estimator does not change.

        Parameters
        ----------
        others : iterable of estimators
            Fitted, of the same kind.
        start : estimator, optional
            The estimator that all of them started from, if they did not start empty. It is counted
            once.
        """
        estimators = [self, *to_merge(others, start)]
        common = [] if start is None else [start]
        for estimator in estimators + common:
            self._check_type(estimator)
        models = [estimator._fitted() for estimator in estimators]
        for estimator in estimators[1:] + common:
            self._check_columns(estimator)
        merged: Self = clone(self, safe=False)
        for name in ("n_features_in_", "n_iter_", "feature_names_in_", "_first_values"):
            if hasattr(self, name):
                setattr(merged, name, getattr(self, name))
        merged._model = models[0].merge(models[1:], None if start is None else start._fitted())
        return merged

    def _check_type(self, other: Self) -> None:
        if type(other) is not type(self):
            raise InvalidInputError(
                f"a {type(self).__name__} cannot be merged with a {type(other).__name__}"
            )

    def _check_columns(self, other: Self) -> None:
        ours, theirs = (getattr(estimator, "n_features_in_", None) for estimator in (self, other))
        if ours != theirs:
            raise InvalidInputError(
                f"one of the estimators to be merged has {theirs} features, another {ours}; all "
                "need the same columns"
            )
        ours, theirs = (
            getattr(estimator, "feature_names_in_", None) for estimator in (self, other)
        )
        if not np.array_equal([] if ours is None else ours, [] if theirs is None else theirs):
            raise InvalidInputError("the estimators to be merged have different names of columns")

    # -- inspection ------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The `Model` that this estimator uses."""
        return self._fitted()

    @property
    def progress_(self) -> Curve:
        """`progressive_loss_` after 1, 2, 4, 8, ... rows."""
        return self._attribute("progress_").progress.loss

    @property
    def progressive_loss_(self) -> float:
        """Mean loss of the predictions made before each row was learned for the first time."""
        return self._attribute("progressive_loss_").progress.loss.average

    @property
    def frozen_loss_(self) -> float:
        """Mean loss of batches of `partial_fit` that the model predicted before learning them."""
        return self._frozen("frozen_loss_").loss.average

    def _frozen(self, name: str) -> Progress:
        """Return the measures of the frozen model; without any, the attribute does not exist."""
        measures: Progress = self.__dict__.get("_next_rows", NextRows()).frozen
        if measures.loss.weight == 0:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r} before some batches of partial_fit: they "
                f"need {COMPARED_ROWS} rows each, and ten times as many rows before them"
            )
        return measures

    def _attribute(self, name: str) -> Model:
        """Return the model for an attribute that exists only after fitting."""
        if "_model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name!r} before it is fitted")
        return self._model

    def _coefficients(self, weights: Floats) -> Floats:
        """Return `_by_column`; without it, the attribute ``coef_`` does not exist."""
        try:
            return self._by_column(weights)
        except InvalidInputError as error:
            raise AttributeError(f"there is no coef_: {error}") from None

    def _by_column(self, weights: Floats) -> Floats:
        """Return weights of features as weights of all columns of X."""
        names = getattr(self, "feature_names_in_", None)
        numbers = {} if names is None else {name: column for column, name in enumerate(names)}
        chosen = []
        for feature in self._model.features():
            column = feature if isinstance(feature, int) else numbers.get(feature)
            if column is None and names is None:
                raise InvalidInputError(
                    f"coef_ and ONNX need one weight per column of X, and this model knows "
                    f"features by name (such as {feature!r}) but no columns yet: call partial_fit "
                    "with a data frame; weights() returns the weights by feature"
                )
            if column is None:
                raise InvalidInputError(
                    f"feature {feature!r} is not a column of X: coef_ and ONNX need one weight per "
                    "column, so encode text first (OneHotEncoder); weights() returns the weights "
                    "by feature"
                )
            chosen.append(column)
        width = getattr(self, "n_features_in_", max(chosen, default=-1) + 1)
        try:
            table = np.zeros((weights.shape[0], width))
        except (MemoryError, ValueError):  # sparse rows may have any column
            raise InvalidInputError(
                f"{width:,} columns do not fit into memory; weights() has the weights by feature"
            ) from None
        table[:, chosen] = weights
        return table

    def explain_one(self, row: Any, label: Any = None) -> dict[str | int, float]:
        """Return what each feature of a row adds to its raw prediction, largest first.

        The intercept is the part ``"(intercept)"``; the sum of all parts is the prediction of
        regression, or the `decision_function`. Values beyond `value_limits` count as large as the
        limit, so for such rows the sum differs from ``row @ coef_ + intercept_``.

        Parameters
        ----------
        row : mapping, sequence of numbers, or a frame or array of one row
            By name or column, or all columns.
        label : optional
            The class, as in `weights`.
        """
        return self._fitted().explain(self._mapping(row), label)

    def _mapping(self, row: Any) -> Any:
        """Return one row as a mapping by name or column."""
        row = one_row(row)
        if hasattr(row, "items"):
            return row
        if getattr(row, "ndim", 1) == 2:
            if row.shape[0] != 1:
                raise InvalidInputError(f"one row is expected, got {row.shape[0]}")
            row = (row.toarray() if hasattr(row, "toarray") else np.asarray(row))[0]
        names = getattr(self, "feature_names_in_", None)
        return dict(enumerate(row) if names is None else zip(names, row, strict=True))

    @property
    def members(self) -> int:
        """How many weight vectors are mixed: more than one with ``alpha="auto"``."""
        parameters = self._parameters()
        return len(parameters.members) + len(parameters.diagonal)

    def value_limits(self) -> tuple[Floats, Floats]:
        """Return the lowest and highest value of each column that `predict` uses as it is.

        Values beyond are cut (see `scaling`). Both are 0 for columns that were always 0.
        """
        low, high = self._by_column(np.array(self._fitted().limits())[:, 1:])
        return low, high

    def value_centres(self) -> Floats:
        """Return the centre of each column with a large offset, and 0 for all others."""
        return self._by_column(self._fitted().centres()[np.newaxis, 1:]).ravel()

    def report(self) -> Figure:
        """Draw the progressive loss, the spectrum of the sketch and the largest weights.

        Needs matplotlib (``pip install "sonline[plot]"``); `sonline.plots` has single plots.
        """
        from sonline import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.report(self)

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> ModelProto:
        """Return the fitted model in ONNX, and write it to ``path`` if there is one.

        Needs onnx (``pip install "sonline[onnx]"``); see `sonline.export.to_onnx`.
        """
        from sonline import export  # noqa: PLC0415 - onnx is an extra

        return export.to_onnx(self, path)

    # -- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file; a loaded estimator continues to the last bit.

        The file holds numbers and text only (safetensors), so loading it runs no code, unlike a
        pickle. All classes of sonline, and the command line, can open it.
        """
        model = self._fitted()
        names = getattr(self, "feature_names_in_", None)
        face = {
            "name": self.face,
            "arguments": {k: _to_json(k, v) for k, v in self.get_params(deep=False).items()},
            "n_features_in": getattr(self, "n_features_in_", None),
            "feature_names_in": None if names is None else [str(name) for name in names],
            "n_iter": self.n_iter_,
        }
        model.save(path, face)

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """Return an estimator that uses a `Model`."""
        model.check_task(classes=issubclass(cls, ClassifierMixin))
        face = model.face
        if face.get("name") == cls.face:
            persistence.check("face", face, FACE)
            estimator = cls(**{k: _from_json(v) for k, v in face["arguments"].items()})
            estimator.n_iter_ = face["n_iter"]
            if face["n_features_in"] is not None:
                estimator.n_features_in_ = face["n_features_in"]
            if face["feature_names_in"] is not None:
                estimator.feature_names_in_ = np.array(face["feature_names_in"], dtype=object)
                if estimator.feature_names_in_.shape != (face["n_features_in"],):
                    raise ModelFileError("the names of the columns are not as many as the columns")
            columns = [feature for feature in model.features() if isinstance(feature, int)]
            if max(columns, default=-1) >= getattr(estimator, "n_features_in_", 2**63):
                raise ModelFileError("the model has features that are no columns")
            check_random_state(estimator.random_state)
            same = estimator._parameters() == model.parameters
        else:
            same = True
            parameters = model.parameters.as_dict()
            estimator = cls(**{name: parameters[field] for name, field in cls.arguments})
            estimator.n_iter_ = 1
        model.face = {}
        estimator._model = model
        # They differ after set_params and save; `partial_fit` then names the parameter.
        estimator._first_values = cls._values(estimator) if same else None
        return estimator


def _to_json(name: str, value: Any) -> Any:
    """Return an argument of the constructor as JSON can hold it."""
    if isinstance(value, np.random.RandomState):
        kind, keys, *rest = value.get_state(legacy=True)
        return {"random_state": [kind, np.asarray(keys).tolist(), *rest]}
    if isinstance(value, dict):  # class_weight, whose keys are labels
        return {"pairs": [[plain(k), float(v)] for k, v in value.items()]}
    value = plain(value)
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
