"""Estimators for scikit-learn: `SONClassifier` and `SONRegressor`."""

from sonline.estimators.classifier import SONClassifier
from sonline.estimators.regressor import SONRegressor

__all__ = ["SONClassifier", "SONRegressor"]
