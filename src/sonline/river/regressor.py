"""`SONRegressor`: the regressor for River."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from river import base

from sonline.constructors import RiverRegressorConstructor
from sonline.errors import InvalidInputError
from sonline.parameters import REGRESSION_LOSSES, documented
from sonline.river.common import RiverEstimator
from sonline.rows import LARGEST, LARGEST_WEIGHT, UNIT, row_weights

if TYPE_CHECKING:
    import pandas as pd


@documented
class SONRegressor(RiverEstimator, RiverRegressorConstructor, base.MiniBatchRegressor):
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
    losses = REGRESSION_LOSSES

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = UNIT) -> None:
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
        if w is not UNIT and (type(w) is not float or not 0.0 <= w <= LARGEST_WEIGHT):
            w = float(row_weights([w], 1, "w")[0])  # type: ignore[index]  # not None
        core = self._model.core
        try:
            core.learn_one(x, y, w)
        except InvalidInputError as error:
            core.learn_one(self._model.cleaned(x, error), y, w)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return the prediction for one row.

        Parameters
        ----------
        x
            From feature to number or text.

        """
        try:
            return self._model.core.predict_number(x)
        except InvalidInputError as error:
            return self._model.core.predict_number(self._model.cleaned(x, error))

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
