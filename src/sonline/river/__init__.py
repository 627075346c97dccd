"""Estimators for River: `SONClassifier` and `SONRegressor`.

Both learn from dictionaries, one at a time, by the names of the features; text makes a feature of
its own (``{"colour": "red"}`` is ``{"colour=red": 1}``). `learn_many` is the same as a loop over
`learn_one`, bit for bit.
"""

from sonline.river.classifier import SONClassifier
from sonline.river.regressor import SONRegressor

__all__ = ["SONClassifier", "SONRegressor"]
