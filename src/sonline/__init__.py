"""Second-order online learning at first-order cost: Sketched Online Newton for streams."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sonline.errors import (
    DataFormatError,
    DivergenceError,
    InvalidInputError,
    ModelFileError,
    ParameterError,
    SonlineError,
)

if TYPE_CHECKING:
    from sonline.estimators.classifier import SONClassifier
    from sonline.estimators.regressor import SONRegressor
    from sonline.learner import OnlineLearner

    __version__: str

__all__ = [
    "DataFormatError",
    "DivergenceError",
    "InvalidInputError",
    "ModelFileError",
    "OnlineLearner",
    "ParameterError",
    "SONClassifier",
    "SONRegressor",
    "SonlineError",
    "__version__",
]

# Imported when first asked for: NumPy, SciPy and the core take most of the time that `sonline
# --help` would need. A name of the public interface is one line here and one above.
_LAZY = {
    "OnlineLearner": "sonline.learner",
    "SONClassifier": "sonline.estimators.classifier",
    "SONRegressor": "sonline.estimators.regressor",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - as slow as NumPy

        value: Any = version("sonline")
    elif name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
    else:
        raise AttributeError(f"module 'sonline' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
