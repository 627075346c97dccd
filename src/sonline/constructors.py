"""The constructors of all faces, and their text: a new parameter is a line in each of them.

They differ where scikit-learn and River require it: in names, defaults and extra options.
`tests/unit/test_parameters.py` compares names, defaults and text with `Parameters`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from sonline.parameters import Parameters

_Function = TypeVar("_Function", bound=Callable[..., None])


def _of(name: str) -> Callable[[_Function], _Function]:
    """Name the class that users know in the errors about wrong arguments."""

    def rename(function: _Function) -> _Function:
        function.__qualname__ = f"{name}.__init__"
        return function

    return rename


def _arguments(local: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor, whose ``locals()`` these are."""
    return {name: value for name, value in local.items() if name != "self"}


class _Started(ABC):
    """A face that makes its empty model at once, not when it is first trained."""

    @abstractmethod
    def _start(self, arguments: dict[str, Any]) -> None:
        """Make the empty model."""


class LearnerConstructor(_Started):
    """`sonline.OnlineLearner`."""

    @_of("OnlineLearner")
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
        self._start(_arguments(locals()))


class ClassifierConstructor:
    """`sonline.SONClassifier`."""

    @_of("SONClassifier")
    def __init__(
        self,
        loss: str = Parameters.loss,
        *,
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
        fit_intercept: bool = Parameters.intercept,
        dtype: str = Parameters.dtype,
        missing: str = Parameters.missing,
        curves: bool | str = Parameters.curves,
        half_life: float | None = Parameters.half_life,
        max_iter: int = 1,
        shuffle: bool = True,
        random_state: Any = None,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        discover_classes: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        vars(self).update(_arguments(locals()))


class RegressorConstructor:
    """`sonline.SONRegressor`."""

    @_of("SONRegressor")
    def __init__(
        self,
        loss: str = "squared",
        *,
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
        fit_intercept: bool = Parameters.intercept,
        dtype: str = Parameters.dtype,
        quantile: float = Parameters.quantile,
        power: float = Parameters.power,
        delta: float = Parameters.delta,
        epsilon: float = Parameters.epsilon,
        missing: str = Parameters.missing,
        curves: bool | str = Parameters.curves,
        half_life: float | None = Parameters.half_life,
        max_iter: int = 1,
        shuffle: bool = True,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        vars(self).update(_arguments(locals()))


class RiverClassifierConstructor(_Started):
    """`sonline.river.SONClassifier`."""

    @_of("SONClassifier")
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
        dtype: str = "float64",
        seed: int = Parameters.seed,
        missing: str = Parameters.missing,
        curves: bool | str = Parameters.curves,
        half_life: float | None = Parameters.half_life,
    ) -> None:
        self._start(_arguments(locals()))


class RiverRegressorConstructor(_Started):
    """`sonline.river.SONRegressor`."""

    @_of("SONRegressor")
    def __init__(  # noqa: PLR0917 - the algorithm has as many parameters
        self,
        loss: str = "squared",
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
        dtype: str = "float64",
        seed: int = Parameters.seed,
        quantile: float = Parameters.quantile,
        power: float = Parameters.power,
        delta: float = Parameters.delta,
        epsilon: float = Parameters.epsilon,
        missing: str = Parameters.missing,
        curves: bool | str = Parameters.curves,
        half_life: float | None = Parameters.half_life,
    ) -> None:
        self._start(_arguments(locals()))


# Names that scikit-learn has for parameters.
RENAMED = {"fit_intercept": "intercept"}

_Class = TypeVar("_Class", bound=type)
_SENTENCE = re.compile(r"(?<=[a-zC\")_])\.(?: |$)")


def documented(cls: _Class) -> _Class:
    """Add the descriptions of the learner's parameters to the docstring of a face.

    The line ``{parameters}`` stands for those of its constructor that it does not describe itself.
    """
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
