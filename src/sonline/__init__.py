"""Second-order online learning at first-order cost: Sketched Online Newton for streams."""

from importlib.metadata import version

from sonline.errors import (
    DataFormatError,
    DivergenceError,
    InvalidInputError,
    ModelFileError,
    ParameterError,
    SonlineError,
)
from sonline.learner import OnlineLearner

__version__ = version("sonline")

__all__ = [
    "DataFormatError",
    "DivergenceError",
    "InvalidInputError",
    "ModelFileError",
    "OnlineLearner",
    "ParameterError",
    "SonlineError",
    "__version__",
]
