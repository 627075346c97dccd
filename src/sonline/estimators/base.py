"""Shared by the two scikit-learn estimators: parameters, passes, inspection, files."""

from __future__ import annotations

import copy
import inspect
import os
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state

from sonline import persistence
from sonline.arguments import check_integer, check_loss
from sonline.constructors import RENAMED
from sonline.errors import (
    DivergenceError,
    InvalidInputError,
    ModelFileError,
    ParameterError,
)
from sonline.estimators.inspection import COMPARED_ROWS, Inspected
from sonline.estimators.rows import Order, known_rows
from sonline.labels import ClassTable, plain
from sonline.model import Model, NextRows, to_merge
from sonline.model.face import Face
from sonline.model.views import EstimatorView
from sonline.parameters import Parameters
from sonline.persistence import COUNT
from sonline.rows import Floats, pieces, row_weights

FACE = {
    "name": str,
    "arguments": dict,
    "n_features_in": (None, COUNT),
    "feature_names_in": (None, [str]),
    "n_iter": COUNT,
}


class OnlineEstimator(Inspected, EstimatorView, Face, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
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
        offset : array of shape (n_samples,), optional
            For a regressor: what is added to the raw prediction of each row. With the losses
            "poisson", "gamma" and "tweedie" it is the logarithm of the exposure.

        Returns
        -------
        self : estimator
            The fitted estimator. After an error it is as it was before.
        """
        with self._as_before_on_error():
            self._parameters()
            continuing = self.warm_start and self.__sklearn_is_fitted__()
            rows, labels = self._checked(X, y, reset=not continuing)
            table = self._table(labels, continuing)
            self._learn_passes(rows, labels, sample_weight, table, offset)
        return self

    def fit_stream(
        self,
        source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        label: str | None = None,
        **options: Any,
    ) -> Self:
        r"""Train on files in bounded memory, ``max_iter`` times, in the order of their rows.

        Parameters
        ----------
        source : name or sequence of names
            Files (plain or compressed), globs, folders, URLs, or "-" for standard input.
        label : str, optional
            The column of the label; by default "label".
        **options
            Options of `OnlineLearner.learn_stream`, such as ``weight`` or ``checkpoint``.

        Returns
        -------
        self : estimator
            The fitted estimator. After an error it is as it was before.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from sonline import SONClassifier
        >>> file = pathlib.Path(tempfile.mkdtemp(), "rows.csv")
        >>> _ = file.write_text("size,label\n" + "1,small\n9,large\n" * 50)
        >>> SONClassifier().fit_stream(file).predict([{"size": 1}, {"size": 9}]).tolist()
        ['small', 'large']
        """
        from sonline.learner import OnlineLearner  # noqa: PLC0415 - only for this method

        weights = getattr(self, "class_weight", None)
        if weights == "balanced":
            raise ParameterError(
                "class_weight='balanced' needs all labels at once, as fit has them; for fit_stream "
                "name the weight of each class: class_weight={label: weight, ...}"
            )
        learner = OnlineLearner(**self._parameters().as_dict())
        given: dict[str, Any] = {"passes": self.max_iter, "class_weight": weights} | options
        learner.learn_stream(source, label=label, **given)
        model = learner.model
        model.check_task(classes=hasattr(self, "class_weight"))
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        self._begin(model)
        self.n_iter_ = int(given["passes"])
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
        self,
        X: Any,
        labels: Any,
        sample_weight: ArrayLike | None,
        table: ClassTable | None,
        offset: ArrayLike | None = None,
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
        offsets = model.offsets(offset, count)
        if model.parameters.least_label:
            model.targets(labels)  # all are checked before the first is learned
        rows = model.rows(X, add=True)
        for number, order in enumerate(self._orders(count)):
            for part, piece in pieces(rows, order):
                targets, classes = model.targets(labels[part])
                with self._name_pass(number, part):
                    part_weights = None if weights is None else weights[part]
                    learned = model.learn_targets(
                        piece,
                        targets,
                        classes,
                        part_weights,
                        self._threads(model),
                        offsets=None if offsets is None else offsets[part],
                    )
                if number == 0:
                    model.update_progress(
                        learned, None if sample_weights is None else sample_weights[part]
                    )
        self._model = model
        self.n_iter_ = self.max_iter

    def _learn_rows(
        self,
        X: Any,
        labels: Any,
        sample_weight: ArrayLike | None,
        offset: ArrayLike | None = None,
    ) -> None:
        """Train on rows once: `partial_fit`, after rows and labels have been checked."""
        model = self._model
        sample_weights = row_weights(sample_weight, len(labels))
        weights = self._weights(sample_weights, labels)
        rows, threads = model.rows(X, add=True), self._threads(model)
        next_rows: NextRows = self.__dict__.setdefault("_next_rows", NextRows())
        # In a batch of few rows the frozen model is as good as the one that learns.
        seen = model.progress.loss.rows
        compared = len(labels) >= COMPARED_ROWS and next_rows.is_due(len(labels), seen)
        frozen = model.predict(rows, offset=offset) if compared else None
        learned = model.learn(rows, labels, weights, offset=offset, threads=threads)
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

    def _raw(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Return the raw predictions, a line per output."""
        return self._fitted().predict(self._rows(X), offset=offset)

    def _rows(self, X: Any) -> Any:
        return known_rows(self, X)

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
        """Raise an error if another estimator has other columns; those with names in any order."""
        ours, theirs = ({*map(str, getattr(one, "feature_names_in_", ()))} for one in (self, other))
        if ours != theirs:
            names = ", ".join(map(repr, sorted(ours ^ theirs)[:3]))
            raise InvalidInputError(
                f"the estimators to be merged have different names of columns: {names} not in "
                "all of them"
            )
        count, others = (getattr(one, "n_features_in_", None) for one in (self, other))
        if count != others:
            raise InvalidInputError(
                f"one of the estimators to be merged has {others} features, another {count}; all "
                "need the same columns"
            )

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
