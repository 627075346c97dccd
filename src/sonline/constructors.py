"""The constructors of all faces, and their text.

A new parameter is a line in `LearnerConstructor`, and one in what the estimators share. Those keep
their arguments as attributes, as scikit-learn and River require, which is what dataclasses do.
Faces differ in names, defaults and extra options. `tests/unit/test_parameters.py` compares names,
defaults and text with `Parameters`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, TypeVar

from sonline.parameters import Parameters


class _Started(ABC):
    """A face that makes its empty model at once, not when it is first trained."""

    @abstractmethod
    def _start(self, arguments: dict[str, Any]) -> None:
        """Make the empty model."""


class LearnerConstructor(_Started):
    """`sonline.OnlineLearner`."""

    def __init__(  # noqa: PLR0917 - the algorithm has as many parameters
        self,
        loss: str = Parameters.loss,
        sketch: str = Parameters.sketch,
        sketch_size: int = Parameters.sketch_size,
        alpha: float | str = Parameters.alpha,
        bound: float | None = Parameters.bound,
        clip: bool = Parameters.clip,
        step: str = Parameters.step,
        curvature: str = Parameters.curvature,
        sigma: float | None = Parameters.sigma,
        eta: float | str | None = Parameters.eta,
        oja_step: float | str = Parameters.oja_step,
        sketch_every: int | str = Parameters.sketch_every,
        scaling: str = Parameters.scaling,
        intercept: bool = Parameters.intercept,
        hash_bits: int | None = Parameters.hash_bits,
        dtype: str = Parameters.dtype,
        seed: int = Parameters.seed,
        quantile: float = Parameters.quantile,
        power: float = Parameters.power,
        delta: float = Parameters.delta,
        epsilon: float = Parameters.epsilon,
        missing: str = Parameters.missing,
        curves: bool | str = Parameters.curves,
        half_life: float | None = Parameters.half_life,
    ) -> None:
        self._start({name: value for name, value in locals().items() if name != "self"})


@dataclass(eq=False, repr=False)
class _Shared:
    """The parameters of all estimators."""

    loss: str = Parameters.loss
    _: KW_ONLY
    sketch: str = Parameters.sketch
    sketch_size: int = Parameters.sketch_size
    alpha: float | str = Parameters.alpha
    bound: float | None = Parameters.bound
    clip: bool = Parameters.clip
    step: str = Parameters.step
    curvature: str = Parameters.curvature
    sigma: float | None = Parameters.sigma
    eta: float | str | None = Parameters.eta
    oja_step: float | str = Parameters.oja_step
    sketch_every: int | str = Parameters.sketch_every
    scaling: str = Parameters.scaling
    dtype: str = Parameters.dtype
    missing: str = Parameters.missing
    curves: bool | str = Parameters.curves
    half_life: float | None = Parameters.half_life


@dataclass(eq=False, repr=False)
class _OfNumbers:
    """The parameters of single losses for numbers."""

    _: KW_ONLY
    quantile: float = Parameters.quantile
    power: float = Parameters.power
    delta: float = Parameters.delta
    epsilon: float = Parameters.epsilon


@dataclass(eq=False, repr=False)
class _ScikitLearn(_Shared):
    _: KW_ONLY
    fit_intercept: bool = Parameters.intercept
    max_iter: int = 1
    shuffle: bool = True
    random_state: Any = None
    warm_start: bool = False


@dataclass(eq=False, repr=False)
class ClassifierConstructor(_ScikitLearn):
    """`sonline.SONClassifier`."""

    _: KW_ONLY
    class_weight: dict[Any, float] | str | None = None
    discover_classes: bool = False
    n_jobs: int | None = None


@dataclass(eq=False, repr=False)
class RegressorConstructor(_OfNumbers, _ScikitLearn):
    """`sonline.SONRegressor`."""

    loss: str = "squared"


@dataclass(eq=False, repr=False)
class _River(_Started, _Shared):
    _: KW_ONLY
    dtype: str = "float64"
    intercept: bool = Parameters.intercept
    hash_bits: int | None = Parameters.hash_bits
    seed: int = Parameters.seed

    def __post_init__(self) -> None:
        self._start(dict(vars(self)))


@dataclass(eq=False, repr=False)
class RiverClassifierConstructor(_River):
    """`sonline.river.SONClassifier`."""


@dataclass(eq=False, repr=False)
class RiverRegressorConstructor(_OfNumbers, _River):
    """`sonline.river.SONRegressor`."""

    loss: str = "squared"


# Names that scikit-learn has for parameters.
RENAMED = {"fit_intercept": "intercept"}

_Class = TypeVar("_Class", bound=type)
_SENTENCE = re.compile(r"(?<=[a-zC\")_])\.(?: |$)")


def documented(cls: _Class) -> _Class:
    """Add the descriptions of the learner's parameters to the docstring of a face.

    The line ``{parameters}`` stands for those of its constructor that it does not describe itself.
    Errors about wrong arguments get the name of the face.
    """
    constructor = inspect.getattr_static(cls, "__init__")
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    parameters = {parameter.name: parameter for parameter in fields(Parameters)}
    entries = []
    for name, argument in inspect.signature(cls).parameters.items():
        parameter = parameters.get(RENAMED.get(name, name))
        if parameter is None or re.search(rf"^    {name}( :|$)", cls.__doc__ or "", re.MULTILINE):
            continue
        default = argument.default
        end = "optional" if default is None else f"default={default!r}".replace("'", '"')
        text = textwrap.fill(parameter.metadata["text"], 88, break_on_hyphens=False)
        entries.append(
            f"{name} : {parameter.metadata['kind']}, {end}\n" + textwrap.indent(text, " " * 4)
        )
    listed = textwrap.indent("\n".join(entries), " " * 4).lstrip()
    cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", listed)
    return cls


def first_sentence(name: str) -> str:
    """Return the first sentence about a parameter.

    Examples
    --------
    >>> first_sentence("hash_bits")
    'Hash features into 2^hash_bits slots, to limit memory.'
    """
    text: str = next(
        parameter.metadata["text"] for parameter in fields(Parameters) if parameter.name == name
    )
    return _SENTENCE.split(text.replace("``", ""))[0].removesuffix(".") + "."
