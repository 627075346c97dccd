"""`SONClassifier`: the classifier for scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length

from sonline.constructors import ClassifierConstructor, documented
from sonline.errors import InvalidInputError, ParameterError
from sonline.estimators.base import OnlineEstimator
from sonline.estimators.labels import Labels, as_labels, table_of
from sonline.estimators.rows import checked_rows, more_rows
from sonline.labels import NEW, ClassTable
from sonline.model import PROBABILISTIC, Model, probabilities
from sonline.model.asking import Asking
from sonline.model.face import Sets
from sonline.parameters import CLASSIFICATION_LOSSES
from sonline.rows import Floats, Rows, check_class_weights


def _is_logistic(estimator: Any) -> bool:
    if estimator.loss != PROBABILISTIC:
        raise AttributeError(
            f"probabilities need loss={PROBABILISTIC!r}, this is {estimator.loss!r}"
        )
    return True


@documented
class SONClassifier(ClassifierMixin, Asking, Sets, ClassifierConstructor, OnlineEstimator):  # type: ignore[misc]  # no types there
    """Linear classifier in one pass, without feature scaling or a learning rate.

    Two classes are one model; more are one model per class ("this class or not"), trained in the
    same pass. Each row is predicted before the model is trained on it, which gives
    `progressive_loss_` and `progressive_score_` without a test set.

    Parameters
    ----------
    loss : str, default="logistic"
        "logistic", "hinge", "squared_hinge", or "squared" on labels -1 and +1. Probabilities need
        "logistic".
    {parameters}
    max_iter : int, default=1
        Number of passes of `fit` over the data.
    shuffle : bool, default=True
        Whether `fit` shuffles the rows before each pass. `partial_fit` keeps their order.
    random_state : int, RandomState or None, default=None
        Seed of `shuffle`; nothing else is random.
    class_weight : dict, "balanced" or None, default=None
        How much the rows of each class count. "balanced" gives all classes the same total weight,
        as in scikit-learn (n_samples / (n_classes * rows of the class)); it is for `fit` only.
    warm_start : bool, default=False
        Whether `fit` continues training the fitted estimator instead of starting again.
    discover_classes : bool, default=False
        Whether new labels in `partial_fit` become new classes. Then it needs no ``classes``, and
        the result is the same as if all classes had been named in the first call. It costs as much
        as one more class.
    n_jobs : int or None, default=None
        Threads for more than two classes, as in scikit-learn: None means 1, -1 all processors.
        Small batches use one thread. The result does not depend on it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Weights of the raw features (scaling is undone). Predictions follow them once a feature has
        occurred 16 times; until then its scale includes the row that is predicted.
    intercept_ : array of shape (1,) or (n_classes,)
        Weights of the constant feature.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features,)
        Names of the columns, if X had any.
    n_iter_ : int
        Number of passes of the last `fit`; 1 after `partial_fit`.
    progressive_loss_ : float
        Mean loss of the predictions made before each row was learned for the first time; for more
        than two classes, the mean over "this class or not".
    progressive_score_ : float
        Accuracy of those predictions.
    progress_ : sonline.evaluate.Curve
        `progressive_loss_` after 1, 2, 4, 8, ... rows.
    frozen_loss_, frozen_score_ : float
        Mean loss and accuracy on about one in ten batches of `partial_fit`, predicted before any of
        their rows was learned, as a deployed model would. If this is clearly worse than the
        progressive figures, the order of the rows matters.

    See Also
    --------
    sonline.OnlineLearner : The same model with more kinds of input.
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

    face: ClassVar[str] = "SONClassifier"
    losses: ClassVar[tuple[str, ...]] = CLASSIFICATION_LOSSES

    class_weight: dict[Any, float] | str | None
    discover_classes: bool

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Continue training with more rows, once and in their order.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array, optional
            All classes, also those of later calls. Needed in the first call, unless
            ``discover_classes``.

        Returns
        -------
        self : SONClassifier
            The estimator. After an error it is as it was before, except after a `DivergenceError`.
        """
        with self._as_before_on_error():
            labels = as_labels("y", y)
            if self.__sklearn_is_fitted__():
                self._check_same_parameters()
                if classes is not None:
                    self._compare(classes)
                rows = more_rows(self, X)
            else:
                parameters = self._parameters()
                rows = checked_rows(self, X, reset=True, least=0)
                self._begin(Model(parameters, self._declared(labels, classes)))
            if self.class_weight == "balanced":
                raise ParameterError(
                    "class_weight='balanced' needs all labels at once, as fit has them; for "
                    "partial_fit name the weight of each class: class_weight={label: weight, ...}"
                )
            self._learn_rows(rows, labels, sample_weight)
        return self

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Rows, Labels]:
        labels = as_labels("y", y)
        rows = checked_rows(self, X, reset=reset)
        check_consistent_length(rows if not isinstance(rows, list) else rows[0], labels)
        if not len(labels):
            raise InvalidInputError("X has no rows")
        return rows, labels

    # -- classes ---------------------------------------------------------------------------------

    def _table(self, labels: Labels, continuing: bool) -> ClassTable:
        table = table_of("y", labels, bool(self.discover_classes))
        if not continuing:
            _refuse_single(table)
        return table

    def _declared(self, labels: Labels, classes: ArrayLike | None) -> ClassTable:
        """Return the classes of the first `partial_fit`."""
        if classes is not None:
            named = as_labels("classes", classes)
            table = table_of("classes", named, bool(self.discover_classes))
            _refuse_single(table)
            return table
        if self.discover_classes:
            return ClassTable(growing=True)
        raise InvalidInputError(
            "classes must be passed on the first call to partial_fit: all labels, also those "
            "of later calls; or make the estimator with discover_classes=True"
        )

    def _compare(self, classes: ArrayLike) -> None:
        """Raise an error if ``classes`` are not those of the first call."""
        named = np.unique(as_labels("classes", classes))
        if not np.array_equal(named, self.classes_):
            raise InvalidInputError(
                f"classes={named.tolist()} is not what the first call of partial_fit had: "
                f"{self.classes_.tolist()}"
            )

    @property
    def classes_(self) -> Labels:
        """The labels, sorted."""
        table = self._attribute("classes_").table
        assert table is not None  # noqa: S101 - a classifier has classes
        return table.array[table.order]

    # -- learning and predicting -----------------------------------------------------------------

    def _check_arguments(self) -> None:
        super()._check_arguments()
        self._check_class_weight()

    def _check_class_weight(self) -> None:
        weights = self.class_weight
        if isinstance(weights, dict):
            check_class_weights(weights)
        elif not (weights is None or weights == "balanced"):
            raise ParameterError(
                f"class_weight must be None, 'balanced' or {{label: weight, ...}}, got {weights!r}"
            )

    def _weights(self, weights: Floats | None, labels: Labels) -> Floats | None:
        """Return the weights of the rows, times those of their classes."""
        self._check_class_weight()
        if self.class_weight is None or not labels.size:
            return weights
        classes = np.unique(labels)
        by_class = compute_class_weight(self.class_weight, classes=classes, y=labels)
        chosen = np.asarray(by_class, dtype=np.float64)[np.searchsorted(classes, labels)]
        return chosen if weights is None else chosen * weights

    def _threads(self, model: Model) -> int:
        return 1 if model.outputs == 1 else min(effective_n_jobs(self.n_jobs), model.outputs)

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
        with self._fitted().core.hold():  # no other thread may add a class
            margins = self._margins(X)
            return margins[0] if self.classes_.size == 2 else margins.T

    def _margins(self, X: Any) -> Floats:
        """Return the raw predictions, a line per output, in the order of `classes_`."""
        return self._model.in_order(self._raw(X))

    def predict(self, X: Any) -> Labels:
        """Return the most likely label of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        """
        with self._fitted().core.hold():
            scores = self.decision_function(X)
            codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
            return self.classes_[codes]  # type: ignore[no-any-return]

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : array of shape (n_samples,)
            The labels; booleans also if the labels of the model are True and False as words.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts.
        """
        table = self._fitted().table
        if table is not None and table.aliases:
            labels = as_labels("y", y)
            codes = table.codes(labels)
            y = table.array[codes] if codes.size and codes.min() != NEW else labels
        return float(super().score(X, y, sample_weight))

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of `classes_`.

        For two classes it is that of the logistic model. For more, it is proportional to
        ``p / sqrt(1 - p)``, p the probability of "this class or not". Needs ``loss="logistic"``.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        """
        with self._fitted().core.hold():
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

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba_one(self, row: Any) -> dict[Any, float]:
        """Return the probability of each label for one row.

        Parameters
        ----------
        row : mapping, or sequence of numbers
            By name or column, or all columns.
        """
        return self._fitted().probabilities_one(self._mapping(row))

    # -- inspection ------------------------------------------------------------------------------

    @property
    def frozen_score_(self) -> float:
        """Accuracy on batches of `partial_fit` that the model predicted before learning them."""
        return self._frozen("frozen_score_").accuracy

    @property
    def progressive_score_(self) -> float:
        """Accuracy of the predictions made before each row was learned for the first time."""
        return self._attribute("progressive_score_").progress.accuracy

    @property
    def coef_(self) -> Floats:
        """Weights of the features, a row per class (one row for two classes).

        Of columns with curves, the linear part.
        """
        weights = self._attribute("coef_").weights()
        return self._coefficients(self._model.in_order(weights)[:, 1:])

    @property
    def intercept_(self) -> Floats:
        """Weights of the constant feature."""
        return self._model.in_order(self._attribute("intercept_").weights())[:, 0]

    def prediction_range(self) -> tuple[Floats, Floats]:
        """Return the lowest and highest raw predictions that ``bound`` and ``clip`` allow.

        One of each for every row of `coef_`.
        """
        low, high = (self._model.in_order(ends) for ends in self._fitted().ranges())
        return np.minimum(low, high), np.maximum(low, high)


def _refuse_single(table: ClassTable) -> None:
    """Raise an error if there are fewer than two classes."""
    if len(table) < 2:
        raise InvalidInputError(
            f"at least two classes are needed, got {len(table)} class: {list(table.labels)}"
        )
