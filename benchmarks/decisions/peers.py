"""What makes intervals of numbers: sonline, and packages that may be missing."""

# ruff: noqa: PLC0415 - optional packages
from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

PACKAGES = ("river", "capymoa", "mapie", "crepes", "glum")
Ends = tuple[float, float]


def installed(package: str) -> bool:
    """Return whether a package is there."""
    return importlib.util.find_spec(package) is not None


class AdaPI:
    """CapyMOA's adaptive prediction intervals over its adaptive random forest, in Java."""

    name = "AdaPI"

    def __init__(self, features: int, level: float = 0.9) -> None:
        from capymoa import uncertainty
        from capymoa.core import RegressionInstance
        from capymoa.stream import NumpyStream

        rows = NumpyStream(np.zeros((2, features)), np.array([0.0, 1.0]), target_type="numeric")
        self.schema = rows.get_schema()
        self.model = getattr(uncertainty, self.name)(schema=self.schema, confidence_level=level)
        self.row = RegressionInstance.from_array

    def interval(self, x: np.ndarray) -> tuple[float, float, float]:
        said = self.model.predict(self.row(self.schema, x, 0.0))
        if said is None or len(said) < 3:
            return 0.0, 0.0, 0.0
        low, middle, high = (float(number) for number in said[:3])
        return low, middle, high

    def learn(self, x: np.ndarray, label: float) -> None:
        self.model.train(self.row(self.schema, x, label))


class Mve(AdaPI):
    """Intervals from CapyMOA's mean and standard deviation."""

    name = "MVE"


class Given(RegressorMixin, BaseEstimator):
    """Predicts what its only column says: packages that wrap a model get our predictions."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Given:
        self.n_features_in_ = 1
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X)[:, 0]


class Mapie:
    """MAPIE's adaptive conformal inference for time series around given predictions."""

    GAMMA = 0.05  # as in its examples

    def __init__(self, known: np.ndarray, labels: np.ndarray, level: float = 0.9) -> None:
        from mapie.regression import TimeSeriesRegressor

        column, self.level = known[:, np.newaxis], level
        prefit = Given().fit(column, labels)
        self.model = TimeSeriesRegressor(prefit, method="aci", cv="prefit").fit(column, labels)

    def step(self, prediction: float, label: float) -> Ends:
        """Return the interval around a prediction; then learn the label."""
        x, y = np.array([[prediction]]), np.array([label])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, ends = self.model.predict(x, confidence_level=self.level, allow_infinite_bounds=True)
            self.model.adapt_conformal_inference(
                x, y, gamma=self.GAMMA, confidence_level=self.level
            )
            self.model.update(x, y)
        low, high = ends[0, :, 0].tolist()
        return low, high


def crepes_intervals(
    predictions: np.ndarray, labels: np.ndarray, sizes: np.ndarray, first: int, level: float = 0.9
) -> np.ndarray:
    """Return crepes' intervals of the rows from `first` on, calibrated with all rows before each.

    With `sizes`, they are normalized by our standard deviations.
    """
    from crepes import ConformalRegressor

    known, later = slice(first), slice(first, None)
    model = ConformalRegressor()
    model.fit(labels[known] - predictions[known], sigmas=sizes[known])
    return np.asarray(
        model.predict_int_online(
            predictions[later], labels[later], sigmas=sizes[later], confidence=level
        )
    )


def river_intervals(
    predictions: np.ndarray, labels: np.ndarray, level: float = 0.9, window: int = 500
) -> np.ndarray:
    """Return the intervals of River's jackknife around given predictions."""
    from river import base, conf

    class Says(base.Regressor):  # type: ignore[misc]
        def learn_one(self, x: Any, y: Any) -> None: ...

        def predict_one(self, x: Any) -> float:
            return float(x["z"])

    model = conf.RegressionJackknife(Says(), confidence_level=level, window_size=window)
    ends = []
    for prediction, label in zip(predictions.tolist(), labels.tolist(), strict=True):
        said = model.predict_one({"z": prediction}, with_interval=True)
        ends.append((said.lower, said.upper))
        model.learn_one({"z": prediction}, label)
    return np.array(ends)
