"""`SONRegressor`: the regressor for scikit-learn."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from sonline import persistence
from sonline.classes import prediction_range
from sonline.estimators.base import Floats, OnlineEstimator, losses_that, sample_weights
from sonline.estimators.rows import CHECKS, known_rows, pieces
from sonline.evaluate import R2, Curve, losses
from sonline.inputs import contiguous
from sonline.learner import OnlineLearner
from sonline.parameters import Parameters


class SONRegressor(RegressorMixin, OnlineEstimator):  # type: ignore[misc]  # no types there
    """Linear regression that learns in one pass by Sketched Online Newton.

    It needs neither scaled features nor a learning rate. Every row is predicted before it is
    learnt, which gives `progressive_loss_` and `progressive_score_` for nothing.

    Parameters
    ----------
    loss : str, default="squared"
        "squared" (half the squared error) or "quantile".
    sketch, sketch_size, alpha, bound, clip, step, curvature, sigma, eta, oja_step, sketch_every,
    scaling, dtype
        As of `sonline.OnlineLearner`, with its defaults.
    fit_intercept : bool, default=True
        Whether a constant feature is added.
    quantile : float, default=0.5
        Level of the quantile loss.
    max_iter : int, default=1
        Passes over the data that `fit` makes.
    shuffle : bool, default=True
        Whether `fit` takes the rows in random order, a new one for each pass. `partial_fit` takes
        them as they come.
    random_state : int, RandomState or None, default=None
        Chooses the order of `shuffle`; nothing else is random.
    warm_start : bool, default=False
        Whether `fit` goes on from where the estimator is, instead of starting anew.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights of the features as they come (scales are taken out).
    intercept_ : array of shape (1,)
        Weight of the constant feature.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features,)
        Names of the columns, where X had some.
    n_iter_ : int
        Passes that the last `fit` made; 1 after `partial_fit`.
    progressive_loss_ : float
        Mean loss of the predictions made before each row was learnt for the first time.
    progressive_score_ : float
        R² of those predictions.
    progress_ : sonline.evaluate.Curve
        The course of `progressive_loss_`, after 1, 2, 4, 8, ... rows.

    See Also
    --------
    sonline.OnlineLearner : The learner behind it.
    sonline.river.SONRegressor : The same for River.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sonline import SONRegressor
    >>> X, y = make_regression(500, 10, noise=1.0, random_state=0)
    >>> model = SONRegressor(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    kind: ClassVar[str] = "regressor"
    losses: ClassVar[tuple[str, ...]] = losses_that(are_binary=False)

    _learning: OnlineLearner
    _r2: R2

    def __init__(
        self,
        loss: str = "squared",
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
        quantile: float = Parameters.quantile,
        max_iter: int = 1,
        shuffle: bool = True,
        random_state: Any = None,
        warm_start: bool = False,
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
        self.quantile = quantile
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.warm_start = warm_start

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows, ``max_iter`` times over.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : array of shape (n_samples,)
            The labels.
        sample_weight : array of shape (n_samples,), optional
            Importance of each row. Rows of weight 0 are only predicted.

        Returns
        -------
        self : SONRegressor
            The fitted estimator. After an error it is as it was before.
        """
        with self._as_before_on_error():
            parameters = self._parameters()
            going_on = self.warm_start and self.__sklearn_is_fitted__()
            rows, labels = validate_data(self, X, y, reset=not going_on, y_numeric=True, **CHECKS)
            labels = contiguous(labels, np.float64)
            if going_on:
                self._check_same_parameters()
                learner = copy.deepcopy(self._learning)
                self.progress_, self._r2 = copy.deepcopy((self.progress_, self._r2))
            else:
                learner = self._begin(parameters)
            weights = sample_weights(sample_weight, labels.size, some=True)
            for number, order in enumerate(self._orders(labels.size)):
                for part, piece in pieces(rows, order):
                    some = None if weights is None else weights[part]
                    with self._say_where(number, part):
                        before = learner.learn(piece, labels[part], some)
                    if number == 0:
                        self._watch(before, labels[part], some)
            self._learning = learner
            self.n_iter_ = self.max_iter
        return self

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from some rows of a stream, once and in their order.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : array of shape (n_samples,)
            The labels.
        sample_weight : array of shape (n_samples,), optional
            Importance of each row. Rows of weight 0 are only predicted.

        Returns
        -------
        self : SONRegressor
            The estimator. After an error it is as it was before, except after a `DivergenceError`.
        """
        with self._as_before_on_error():
            if "_learning" not in self.__dict__:
                rows, labels = validate_data(self, X, y, y_numeric=True, **CHECKS)
                self._learning = self._begin(self._parameters())
                self.n_iter_ = 1
            else:
                self._check_same_parameters()
                rows, labels = known_rows(self, X), _numbers(y)
            weights = sample_weights(sample_weight, labels.size)
            before = self._learning.learn(rows, labels, weights)
        self._watch(before, labels, weights)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the prediction for each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        """
        learner: OnlineLearner = self._learner()
        return learner.predict(known_rows(self, X))

    def _begin(self, parameters: Parameters) -> OnlineLearner:
        self.progress_, self._r2 = Curve(), R2()
        self._remember(parameters)
        return OnlineLearner(**parameters.as_dict())

    def _watch(self, before: Floats, labels: Floats, weights: Floats | None) -> None:
        """Take predictions made before the update into the progressive loss and score."""
        self.progress_.update(losses(self.loss, labels, before, self.quantile), weights)
        self._r2.update(labels, before, weights)

    def _take_merged(self, every: list[Self], start: Self | None, learners: list[Any]) -> None:
        begun = None if start is None else learners.pop()
        self._learning = learners[0].merge(learners[1:], begun)
        self._r2 = every[0]._r2.merge(
            [one._r2 for one in every[1:]], None if start is None else start._r2
        )

    # -- inspection ------------------------------------------------------------------------------

    @property
    def progressive_score_(self) -> float:
        """R² of the predictions made before each row was learnt for the first time."""
        self._attribute("progressive_score_")
        return self._r2.value

    @property
    def coef_(self) -> Floats:
        """Weights of the features."""
        weights = self._attribute("coef_").weights()
        line = np.array([list(weights.values())])
        return self._by_column([int(feature) for feature in weights], line).ravel()

    @property
    def intercept_(self) -> Floats:
        """Weight of the constant feature."""
        return np.array([self._attribute("intercept_").bias])

    def weights(self) -> dict[str | int, float]:
        """Return the weight of each feature seen, by name (by column, where X had no names)."""
        weights = self._learner().weights().items()
        return {self._feature_name(int(feature)): weight for feature, weight in weights}

    def spectra(self) -> list[Floats]:
        """Return the eigenvalues that the sketch holds, as a list of one array."""
        return [self._learner().spectrum()]

    def value_limits(self) -> Floats:
        """Return, for each feature, the size beyond which `predict` cuts values (see `scaling`)."""
        learner = self._learner()
        limits = learner._model.limits()[np.newaxis, 1:]
        return self._by_column([int(feature) for feature in learner.features()], limits).ravel()

    def prediction_range(self) -> tuple[Floats, Floats]:
        """Return the lowest and the highest prediction that ``bound`` and ``clip`` allow."""
        low, high = prediction_range(self._begun, self._learner().__getstate__()[1])
        return np.array([low]), np.array([high])

    # -- files -----------------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        return {"r2": self._r2.as_dict()}

    def _restore(self, document: dict[str, Any], tensors: persistence.Tensors) -> None:
        self._r2 = R2.from_dict(document["r2"])
        learner = OnlineLearner.__new__(OnlineLearner)
        learner.__setstate__((document["learner"], tensors))
        self._learning = learner


def _numbers(y: Any) -> Floats:
    """Return labels as a vector of finite numbers."""
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuf":
        return y.astype(np.float64, copy=False)  # the learner looks at the numbers
    return column_or_1d(  # type: ignore[no-any-return]
        check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True
    )
