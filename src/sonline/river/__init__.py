"""Estimators for River: `SONClassifier` and `SONRegressor`, and `LabelSampler`.

Both estimators learn from dictionaries, one at a time, by the names of the features; a text value
is part of the feature's name (``{"colour": "red"}`` is ``{"colour=red": 1}``). `learn_many` is the
same as a loop over `learn_one`, bit for bit.
"""

from sonline.errors import require

require("river", "river")

from sonline.river.classifier import SONClassifier  # noqa: E402 - says what is missing first
from sonline.river.regressor import SONRegressor  # noqa: E402
from sonline.river.sampler import LabelSampler  # noqa: E402

__all__ = ["LabelSampler", "SONClassifier", "SONRegressor"]
