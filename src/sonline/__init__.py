"""Linear models for streams: second-order online learning at first-order cost."""

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
    import os

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
    "load",
]

# Imported when first asked for: NumPy, SciPy and the core take most of the time that `sonline
# --help` would need. A name of the public interface is one line here and one above.
_LAZY = {
    "OnlineLearner": "sonline.learner",
    "SONClassifier": "sonline.estimators.classifier",
    "SONRegressor": "sonline.estimators.regressor",
}


# What a model file says about the face that saved it, and where that face is.
_FACES = {
    "SONClassifier": ("sonline.estimators.classifier", "SONClassifier"),
    "SONRegressor": ("sonline.estimators.regressor", "SONRegressor"),
    "river.SONClassifier": ("sonline.river.classifier", "SONClassifier"),
    "river.SONRegressor": ("sonline.river.regressor", "SONRegressor"),
}


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model file, as the class that saved it or as an `OnlineLearner`.

    To choose the class yourself, call `OnlineLearner.load`, `SONClassifier.load` and so on.

    Parameters
    ----------
    path : path-like
        A file that any class of sonline, or the command line, saved.

    Raises
    ------
    ModelFileError
        If the file is damaged or was not written by sonline.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import sonline
    >>> file = pathlib.Path(tempfile.mkdtemp(), "model.son")
    >>> sonline.SONRegressor().fit([[1.0], [2.0]], [1.0, 2.0]).save(file)
    >>> type(sonline.load(file)).__name__
    'SONRegressor'
    """
    from sonline import persistence  # noqa: PLC0415 - see below
    from sonline.model import Model  # noqa: PLC0415

    model = Model.load(path)
    name = model.face.get("name")
    module, face = _FACES.get(str(name), ("sonline.learner", "OnlineLearner"))
    opened = getattr(import_module(module), face)
    with persistence.reading(path):
        return opened.from_model(model)


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
