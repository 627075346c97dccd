"""`SONRegressor`: the regressor for River."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from river import base

from sonline.constructors import RiverRegressorConstructor
from sonline.errors import InvalidInputError
from sonline.model import Model
from sonline.parameters import REGRESSION_LOSSES, documented
from sonline.river.common import (
    RiverEstimator,
    cleaned,
    opened,
    parameters_of,
    values_of,
)
from sonline.rows import LARGEST, row_weights

if TYPE_CHECKING:
    import pandas as pd


@documented
class SONRegressor(RiverRegressorConstructor, RiverEstimator, base.MiniBatchRegressor):
    """Linear regression for River, without feature scaling or a learning rate.

    Parameters
    ----------
    loss
        "squared" (half the squared error) or "quantile".
    {parameters}
    dtype
        Precision of the numbers stored per feature. "float64", so that the order of the features in
        a dictionary makes no visible difference.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from sonline.river import SONRegressor
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), SONRegressor(), metrics.MAE())
    MAE: 0...

    """

    face = "river.SONRegressor"

    def _start(self) -> None:
        self._model = Model(parameters_of(self, REGRESSION_LOSSES))

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x
            From feature to number or text.
        y
            The label.
        w
            Importance of the row.

        """
        if type(y) is not float or not -LARGEST <= y <= LARGEST:
            y = float(self._model.targets([y])[0][0])
        if type(w) is not float or not 0.0 <= w <= LARGEST:
            w = float(row_weights([w], 1, "w")[0])  # type: ignore[index]  # not None
        try:
            self._model.core.learn_one(x, y, w)
        except InvalidInputError:  # n-grams and scalers of River need `cleaned`
            self._model.core.learn_one(cleaned(x, self.missing), y, w)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return the prediction for one row.

        Parameters
        ----------
        x
            From feature to number or text.

        """
        try:
            return self._model.core.predict_one(x)
        except InvalidInputError:
            return self._model.core.predict_one(cleaned(x, self.missing))

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: float | pd.Series = 1.0) -> None:
        """Train on rows, one after another: the same as a loop over `learn_one`.

        Parameters
        ----------
        X
            The rows; columns are features.
        y
            Their labels.
        w
            Their weights, one number for all or one for each.

        """
        if len(X):
            self._model.learn(self._records(X), values_of(y), row_weights(w, len(X), "w"))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the prediction for each row.

        Parameters
        ----------
        X
            The rows; columns are features.

        """
        import pandas as pd  # noqa: PLC0415 - River itself does without it

        rows = self._records(X)
        return pd.Series(self._model.predict(rows)[0], index=X.index, dtype=float)

    def merge(self, others: Iterable[Self], start: Self | None = None) -> Self:
        """Return one regressor out of several that were trained on different rows.

        Parameters
        ----------
        others
            With the same parameters; see `sonline.OnlineLearner.merge`.
        start
            The estimator that all of them started from, if they did not start empty.

        """
        merged: Self = self.clone()
        models = [other._model for other in others]
        merged._model = self._model.merge(models, None if start is None else start._model)
        return merged

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """Return an estimator that uses a `Model`.

        Parameters
        ----------
        model
            A model for regression.

        """
        model.check_task(classes=False)
        return opened(cls, model)
