"""`SONClassifier`: the classifier for scikit-learn."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from sonline import _core
from sonline.classes import ClassLearner, probabilities
from sonline.errors import InvalidInputError, ParameterError
from sonline.estimators.base import Floats, losses_that, sample_weights
from sonline.estimators.fitted import FittedClassifier
from sonline.estimators.labels import ClassTable, Codes, Labels, as_labels
from sonline.estimators.rows import CHECKS, Rows, known_rows, pieces
from sonline.evaluate import Curve, Mean
from sonline.parameters import Parameters

LOGISTIC = "logistic"


def _is_logistic(estimator: Any) -> bool:
    if estimator.loss != LOGISTIC:
        raise AttributeError(f"probabilities need loss={LOGISTIC!r}, this is {estimator.loss!r}")
    return True


class SONClassifier(ClassifierMixin, FittedClassifier):  # type: ignore[misc]  # no types there
    """Linear classifier that learns in one pass by Sketched Online Newton.

    It needs neither scaled features nor a learning rate. Two classes are one learner; more are one
    learner per class ("this class or not") over the same pass. Every row is predicted before it is
    learnt, which gives `progressive_loss_` and `progressive_score_` for nothing.

    Parameters
    ----------
    loss : str, default="logistic"
        "logistic", "hinge", "squared_hinge", or "squared" on labels -1 and +1. Probabilities need
        "logistic".
    sketch, sketch_size, alpha, bound, clip, step, curvature, sigma, eta, oja_step, sketch_every,
    scaling, dtype
        As of `sonline.OnlineLearner`, with its defaults.
    fit_intercept : bool, default=True
        Whether a constant feature is added.
    max_iter : int, default=1
        Passes over the data that `fit` makes.
    shuffle : bool, default=True
        Whether `fit` takes the rows in random order, a new one for each pass. `partial_fit` takes
        them as they come.
    random_state : int, RandomState or None, default=None
        Chooses the order of `shuffle`; nothing else is random.
    class_weight : dict, "balanced" or None, default=None
        Weight of the rows of each class. "balanced" (rows / (classes * rows of the class)) is for
        `fit` only.
    warm_start : bool, default=False
        Whether `fit` goes on from where the estimator is, instead of starting anew.
    discover_classes : bool, default=False
        Whether `partial_fit` takes labels that it has not met before as new classes. Then it needs
        no ``classes``, and the result is the same as if all of them had been named in the first
        call. It costs one more learner.
    n_jobs : int or None, default=None
        Threads for more than two classes, in scikit-learn's way: None is 1, -1 all processors.
        Small batches use one. The result does not depend on it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Weights of the features as they come (scales are taken out).
    intercept_ : array of shape (1,) or (n_classes,)
        Weights of the constant feature.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features,)
        Names of the columns, where X had some.
    n_iter_ : int
        Passes that the last `fit` made; 1 after `partial_fit`.
    progressive_loss_ : float
        Mean loss of the predictions made before each row was learnt for the first time; for more
        than two classes, of the sum over the learners.
    progressive_score_ : float
        Accuracy of those predictions.
    progress_ : sonline.evaluate.Curve
        The course of `progressive_loss_`, after 1, 2, 4, 8, ... rows.

    See Also
    --------
    sonline.OnlineLearner : The learner behind it.
    sonline.river.SONClassifier : The same for River.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sonline import SONClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SONClassifier(random_state=0).fit(X, y)
    >>> bool(model.progressive_score_ > 0.9)
    True
    """

    kind: ClassVar[str] = "classifier"
    losses: ClassVar[tuple[str, ...]] = (*losses_that(are_binary=True), "squared")

    def __init__(
        self,
        loss: str = LOGISTIC,
        *,
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
        fit_intercept: bool = Parameters.intercept,
        dtype: str = Parameters.dtype,
        max_iter: int = 1,
        shuffle: bool = True,
        random_state: Any = None,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        discover_classes: bool = False,
        n_jobs: int | None = None,
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
        self.fit_intercept = fit_intercept
        self.dtype = dtype
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.discover_classes = discover_classes
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows, ``max_iter`` times over.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : array of shape (n_samples,)
            The labels: numbers or text.
        sample_weight : array of shape (n_samples,), optional
            Importance of each row. Rows of weight 0 are only predicted.

        Returns
        -------
        self : SONClassifier
            The fitted estimator. After an error it is as it was before.
        """
        with self._as_before_on_error():
            parameters = self._parameters()
            going_on = self.warm_start and self.__sklearn_is_fitted__()
            rows, labels = validate_data(self, X, as_labels("y", y), reset=not going_on, **CHECKS)
            if going_on:
                self._check_same_parameters()
                learner, codes = self._grown_for(labels)
                learner = copy.deepcopy(learner)
                self.progress_, self._right = copy.deepcopy((self.progress_, self._right))
            else:
                self._table = ClassTable.of("y", labels)
                self._table.refuse_single()
                codes, _ = self._table.codes(labels)
                learner = self._begin(parameters)
            given = sample_weights(sample_weight, labels.size, some=True)
            weights = self._weights(given, codes, labels)
            for number, order in enumerate(self._orders(labels.size)):
                for part, piece in pieces(rows, order):
                    some = None if weights is None else weights[part]
                    with self._say_where(number, part):
                        margins = self._learn(learner, piece, codes[part], some)
                    if number == 0:
                        self._watch(margins, codes[part], None if given is None else given[part])
            self._learning = learner
            self.n_iter_ = self.max_iter
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from some rows of a stream, once and in their order.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : array of shape (n_samples,)
            The labels.
        classes : array, optional
            All labels that will ever come. Needed in the first call, unless ``discover_classes``.
        sample_weight : array of shape (n_samples,), optional
            Importance of each row. Rows of weight 0 are only predicted.

        Returns
        -------
        self : SONClassifier
            The estimator. After an error it is as it was before, except after a `DivergenceError`.
        """
        with self._as_before_on_error():
            if "_learning" not in self.__dict__:
                rows, labels = validate_data(self, X, as_labels("y", y), **CHECKS)
                self._declare(labels, classes)
                self._learning = self._begin(self._parameters())
                self.n_iter_ = 1
            else:
                self._check_same_parameters()
                if classes is not None:
                    self._compare(classes)
                rows, labels = known_rows(self, X), as_labels("y", y)
                if rows.shape[0] != labels.size:
                    raise InvalidInputError(
                        f"X has {rows.shape[0]} rows, y has {labels.size} labels"
                    )
            if self.class_weight == "balanced":
                raise ParameterError(
                    "class_weight='balanced' needs all labels at once, as fit has them; for "
                    "partial_fit name the weight of each class: class_weight={label: weight, ...}"
                )
            learner, codes = self._grown_for(labels)
            given = sample_weights(sample_weight, labels.size)
            weights = self._weights(given, codes, labels)
            margins = self._learn(learner, rows, codes, weights)
            self._learning = learner
        self._watch(margins, codes, given)
        return self

    # -- classes ---------------------------------------------------------------------------------

    def _declare(self, labels: Labels, classes: ArrayLike | None) -> None:
        """Set the classes of the first `partial_fit`."""
        if classes is not None:
            self._table = ClassTable.of("classes", as_labels("classes", classes))
            self._table.refuse_single()
        elif self.discover_classes:
            self._table = ClassTable.of("y", labels)
        else:
            raise InvalidInputError(
                "classes must be passed on the first call to partial_fit: all labels that will "
                "ever come; or make the estimator with discover_classes=True"
            )

    def _compare(self, classes: ArrayLike) -> None:
        """Raise an error if classes are named again and others than before."""
        named = ClassTable.of("classes", as_labels("classes", classes)).labels
        if not np.array_equal(named, self.classes_):
            raise InvalidInputError(
                f"classes={named.tolist()} is not what the first call of partial_fit said: "
                f"{self.classes_.tolist()}"
            )

    def _begin(self, parameters: Parameters) -> ClassLearner:
        """Start to learn the classes."""
        self._remember(parameters)
        self.progress_, self._right = Curve(), Mean()
        return ClassLearner(parameters, self._table.labels.size, bool(self.discover_classes))

    def _grown_for(self, labels: Labels) -> tuple[ClassLearner, Codes]:
        """Return the learner with all classes that the labels need, and the labels' places.

        The table of classes is set with it; the learner that is in use stays as it is.
        """
        learner = self._learning
        codes, new = self._table.codes(labels)
        if new.any():
            if not learner.growing:
                self._table.refuse(labels, new)
            self._table = self._table.grown(labels[new])
            while learner.classes < self._table.labels.size:
                learner = learner.grown()
            codes, _ = self._table.codes(labels)
        return learner, codes

    # -- learning and predicting -----------------------------------------------------------------

    def _weights(self, weights: Floats | None, codes: Codes, labels: Labels) -> Floats | None:
        """Return the weights of the rows, those of their classes taken in."""
        if self.class_weight is None:
            return weights
        by_class = compute_class_weight(self.class_weight, classes=self._table.labels, y=labels)
        chosen = np.asarray(by_class, dtype=np.float64)[codes]
        return chosen if weights is None else chosen * weights

    def _learn(
        self, learner: ClassLearner, X: Rows, codes: Codes, weights: Floats | None
    ) -> Floats:
        numbers = self._table.numbers[codes] if learner.growing else codes
        return self._table.in_order(learner.learn(X, numbers, weights, self._threads(learner)))

    def _threads(self, learner: ClassLearner) -> int:
        return 1 if learner.outputs == 1 else min(effective_n_jobs(self.n_jobs), learner.outputs)

    def _watch(self, margins: Floats, codes: Codes, weights: Floats | None) -> None:
        """Take predictions made before the update into the progressive loss and score."""
        loss = np.empty(margins.shape[1])
        if self._table.labels.size == 2:
            _loss_values(self.loss, margins[0], np.where(codes, 1.0, -1.0), loss)
            right = (margins[0] > 0) == codes
        else:
            own = np.empty(loss.size)
            loss[:] = 0
            for number, line in enumerate(margins):
                _loss_values(self.loss, line, np.where(codes == number, 1.0, -1.0), own)
                loss += own
            right = margins.argmax(axis=0) == codes
        self.progress_.update(loss, weights)
        self._right.add(right, weights)

    def decision_function(self, X: Any) -> Floats:
        """Return the raw predictions ``w.x``.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive for ``classes_[1]``; otherwise one column per class.
        """
        margins = self._margins(X)
        return margins[0] if self.classes_.size == 2 else margins.T

    def _margins(self, X: Any) -> Floats:
        """Return the raw predictions, a line per output."""
        learner: ClassLearner = self._learner()
        margins = learner.predict(known_rows(self, X), self._threads(learner))
        return self._table.in_order(margins)

    def predict(self, X: Any) -> Labels:
        """Return the most likely label of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        """
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]  # type: ignore[no-any-return]

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of `classes_`.

        For two classes it is that of the logistic model. For more, those of "this class or not"
        are divided by their sum. Needs ``loss="logistic"``.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        """
        return probabilities(self._margins(X), self.classes_.size).T

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))  # type: ignore[no-any-return]


def _loss_values(loss: str, margins: Floats, targets: Floats, out: Floats) -> None:
    _core.loss_values(loss, margins, targets, Parameters.quantile, out)
