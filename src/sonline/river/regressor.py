"""`SONRegressor`: the regressor for River."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from river import base

from sonline.constructors import RiverRegressorConstructor, documented
from sonline.model.face import Intervals
from sonline.parameters import REGRESSION_LOSSES
from sonline.river.common import RiverEstimator
from sonline.rows import LARGEST, LARGEST_WEIGHT, UNIT, row_weights

if TYPE_CHECKING:
    import pandas as pd


@documented
class SONRegressor(Intervals, RiverEstimator, RiverRegressorConstructor, base.MiniBatchRegressor):
    """Linear regression for River, without feature scaling or a learning rate.

    Parameters
    ----------
    loss
        "squared" (half the squared error), "quantile", or one for counts and amounts: "poisson",
        "gamma" or "tweedie".
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

    def learn_one(
        self, x: Mapping[Any, Any], y: float, w: float = UNIT, offset: float | None = None
    ) -> None:
        """Learn from one row.

        Parameters
        ----------
        x
            From feature to number or text.
        y
            The label.
        w
            Importance of the row.
        offset
            What is added to the raw prediction: with the losses "poisson", "gamma" and "tweedie"
            the logarithm of the exposure.

        """
        if offset is not None:
            weights = row_weights([w], 1, "w")
            self._model.learn([x], [y], weights, offset=offset)
            return
        if self._model.parameters.log_link or type(y) is not float or not -LARGEST <= y <= LARGEST:
            y = float(self._model.targets([y])[0][0])
        if w is not UNIT and (type(w) is not float or not 0.0 <= w <= LARGEST_WEIGHT):
            w = float(row_weights([w], 1, "w")[0])  # type: ignore[index]  # not None
        core = self._model.core
        core.learn_one(x, y, w)

    def predict_one(self, x: Mapping[Any, Any], offset: float | None = None) -> float:
        """Return the prediction for one row.

        Parameters
        ----------
        x
            From feature to number or text.
        offset
            As in `learn_one`.

        """
        model = self._model
        raw = model.core.predict_number(x, False)
        if offset is not None:
            raw += float(model.offsets(offset, 1)[0])  # type: ignore[index]  # not None
        return model.mean_one(raw)

    def learn_many(
        self, X: pd.DataFrame, y: pd.Series, w: float | pd.Series = 1.0, offset: Any = None
    ) -> None:
        """Train on rows, one after another: the same as a loop over `learn_one`.

        Parameters
        ----------
        X
            The rows; columns are features.
        y
            Their labels.
        w
            Their weights, one number for all or one for each.
        offset
            As in `learn_one`, one number for all or one for each.

        """
        if rows := self._records(X):
            labels = y.tolist() if hasattr(y, "tolist") else list(y)
            self._model.learn(rows, labels, row_weights(w, len(rows), "w"), offset=offset)

    def predict_many(self, X: pd.DataFrame, offset: Any = None) -> pd.Series:
        """Return the prediction for each row.

        Parameters
        ----------
        X
            The rows; columns are features.
        offset
            As in `learn_many`.

        """
        import pandas as pd  # noqa: PLC0415 - River itself does without it

        raw = self._model.predict(self._records(X), later=False, offset=offset)
        means = self._model.means(raw[0])
        return pd.Series(means, index=X.index, dtype=float)
