"""The paper in NumPy, line by line; imports nothing else of sonline.

`ReferenceLearner` is the oracle of the native learner.
"""

from sonline.reference.learner import ReferenceLearner
from sonline.reference.losses import LOSSES, Loss, make_loss
from sonline.reference.sketches import (
    AdaGrad,
    FrequentDirections,
    FullMatrix,
    Isotropic,
    LowRank,
    Oja,
    RobustFrequentDirections,
    Sketch,
)

__all__ = [
    "LOSSES",
    "AdaGrad",
    "FrequentDirections",
    "FullMatrix",
    "Isotropic",
    "Loss",
    "LowRank",
    "Oja",
    "ReferenceLearner",
    "RobustFrequentDirections",
    "Sketch",
    "make_loss",
]
