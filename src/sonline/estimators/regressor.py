"""`SONRegressor`: the regressor for scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from sonline.constructors import RegressorConstructor, documented
from sonline.errors import InvalidInputError, shown
from sonline.estimators.base import OnlineEstimator
from sonline.estimators.rows import (
    CHECKS,
    beyond_all_floats,
    by_name,
    checked_rows,
    clear_errors,
    is_named,
    more_rows,
    refuse_rows,
)
from sonline.model import Model
from sonline.parameters import REGRESSION_LOSSES
from sonline.rows import LABEL_ADVICE, Floats, contiguous, refuse_unusable
from sonline.rows.checks import first_word


@documented
class SONRegressor(RegressorMixin, RegressorConstructor, OnlineEstimator):  # type: ignore[misc]  # no types there
    """Linear regression in one pass, without feature scaling or a learning rate.

    Each row is predicted before the model is trained on it, which gives `progressive_loss_` and
    `progressive_score_` without a test set.

    Parameters
    ----------
    loss : str, default="squared"
        "squared" (half the squared error), "quantile", or one for counts and amounts, which is
        half the deviance: "poisson", "gamma" or "tweedie".
    {parameters}
    max_iter : int, default=1
        Number of passes of `fit` over the data.
    shuffle : bool, default=True
        Whether `fit` shuffles the rows before each pass. `partial_fit` keeps their order.
    random_state : int, RandomState or None, default=None
        Seed of `shuffle`; nothing else is random.
    warm_start : bool, default=False
        Whether `fit` continues training the fitted estimator instead of starting again.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights of the raw features (scaling is undone). Predictions follow them once a feature has
        occurred 16 times; until then its scale includes the row that is predicted.
    intercept_ : array of shape (1,)
        Weight of the constant feature.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features,)
        Names of the columns, if X had any.
    n_iter_ : int
        Number of passes of the last `fit`; 1 after `partial_fit`.
    progressive_loss_ : float
        Mean loss of the predictions made before each row was learned for the first time. The very
        first row is not counted: without any label there is nothing to predict from.
    progressive_score_ : float
        R² of those predictions.
    progress_ : sonline.evaluate.Curve
        `progressive_loss_` after 1, 2, 4, 8, ... rows.
    frozen_loss_, frozen_score_ : float
        Mean loss and R² on about one in ten batches of `partial_fit`, predicted before any of
        their rows was learned, as a deployed model would. If this is clearly worse than the
        progressive figures, the order of the rows matters.

    See Also
    --------
    sonline.OnlineLearner : The same model with more kinds of input.
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

    face: ClassVar[str] = "SONRegressor"
    losses: ClassVar[tuple[str, ...]] = REGRESSION_LOSSES

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Continue training with more rows, once and in their order.

        Parameters
        ----------
        X, y, sample_weight, offset
            As in `fit`.

        Returns
        -------
        self : SONRegressor
            The estimator. After an error it is as it was before, except after a `DivergenceError`.
        """
        with self._as_before_on_error():
            if self.__sklearn_is_fitted__():
                self._check_same_parameters()
                rows, labels = more_rows(self, X), _numbers(y)
            else:
                parameters = self._parameters()
                rows, labels = self._checked(X, y, reset=True, least=0)
                self._begin(Model(parameters))
            self._learn_rows(rows, labels, sample_weight, offset)
        return self

    def _checked(self, X: Any, y: Any, reset: bool, least: int = 1) -> tuple[Any, Floats]:
        if is_named(X):
            return checked_rows(self, X, reset), _numbers(y)
        refuse_rows(X)
        numbers = y if y is None else _numbers(y)
        with beyond_all_floats(), clear_errors(X):
            rows, labels = validate_data(
                self, X, numbers, reset=reset, y_numeric=True, ensure_min_samples=least, **CHECKS
            )
        return by_name(self, rows), contiguous(labels, np.float64)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        interval: float | None = None,
        offset: ArrayLike | None = None,
    ) -> Any:
        """Return the prediction for each row, in the unit of the labels.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        return_std : bool, default=False
            Whether to return the standard deviation of the label about each prediction, too.
        interval : float, optional
            Between 0 and 1: return an interval for each row that holds the label so often, too.
            It is learned from the predictions made before each row was learned.
        offset : array of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        predictions : array of shape (n_samples,)
        std : array of shape (n_samples,)
            If ``return_std``.
        intervals : array of shape (n_samples, 2)
            With ``interval``: the lower and the upper end.
        """
        if not return_std and interval is None:
            raw: Floats = self._raw(X, offset)[0]
            return self._model.means(raw)
        model = self._fitted()
        rows = model.rows(self._rows(X), add=False)
        predictions, *others = model.predicted(rows, return_std, interval, offset)
        if return_std:
            others[0] = others[0][0]
        return predictions[0], *others

    # -- inspection ------------------------------------------------------------------------------

    @property
    def frozen_score_(self) -> float:
        """R² on batches of `partial_fit` that the model predicted before learning them."""
        return self._frozen("frozen_score_").r2.value

    @property
    def progressive_score_(self) -> float:
        """R² of the predictions made before each row was learned for the first time."""
        return self._attribute("progressive_score_").progress.r2.value

    @property
    def coef_(self) -> Floats:
        """Weights of the features; of curves, the linear part."""
        return self._coefficients(self._attribute("coef_").weights()[:, 1:]).ravel()

    @property
    def intercept_(self) -> Floats:
        """Weight of the constant feature."""
        return self._attribute("intercept_").weights()[:, 0]

    def prediction_range(self) -> tuple[Floats, Floats]:
        """Return the lowest and the highest prediction that ``bound`` and ``clip`` allow."""
        low, high = self._fitted().ranges()
        return low, high


def _numbers(y: Any) -> Floats:
    """Return labels as a vector of finite numbers."""
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuf":
        return y.astype(np.float64, copy=False)  # the learner looks at the numbers
    refuse_unusable("y", y)
    if (word := first_word(y)) is not None:
        raise InvalidInputError(f"y has text ({shown(word)}) and must be numbers; {LABEL_ADVICE}")
    with beyond_all_floats():
        numbers = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    return column_or_1d(numbers, warn=True)  # type: ignore[no-any-return]
