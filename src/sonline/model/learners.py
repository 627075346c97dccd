"""Learners of the core from the arrays of a file or from merged knowledge, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sonline import _core
from sonline.errors import DivergenceError, ModelFileError
from sonline.parameters import Parameters
from sonline.persistence import NAMES, Tensors


def numbered(states: Sequence[Tensors]) -> Tensors:
    """Return the arrays of several learners, which share names, in one dict."""
    return {
        name if name in NAMES else f"{number}.{name}": tensor
        for number, state in enumerate(states)
        for name, tensor in state.items()
    }


def restored_learners(parameters: Parameters, tensors: Tensors, count: int) -> list[_core.Model]:
    """Return the learners that `numbered` arrays describe.

    The arrays are taken out of the dict, so that a large model is not in memory three times.
    """
    for name in NAMES:
        if name not in tensors:
            raise ModelFileError(f"{name!r} is missing")
    learners: list[_core.Model] = []
    features = np.zeros(0)
    for number in range(count):
        prefix = f"{number}."
        names = [name for name in tensors if name.startswith(prefix)]
        state = {name.removeprefix(prefix): tensors.pop(name) for name in names}
        if number == 0:
            features = state.get("features", features)
            state |= {name: tensors.pop(name) for name in NAMES}
        elif not np.array_equal(state.get("features", features), features):
            raise ModelFileError(f"learner {number} has other features than the first")
        learners.append(_empty(parameters, learners))
        learners[-1].restore(state)
    return learners


def learners_with(parameters: Parameters, states: Sequence[Tensors]) -> list[_core.Model]:
    """Return learners with merged knowledge; the first state has the names."""
    learners: list[_core.Model] = []
    for state in states:
        known = {name: state[name] for name in state if not learners or name not in NAMES}
        learners.append(_empty(parameters, learners))
        try:
            learners[-1].set_knowledge(known)
        except ValueError as error:
            raise DivergenceError(
                f"the numbers of the model do not fit {parameters.dtype}: {error}"
            ) from error
    return learners


def _empty(parameters: Parameters, others: Sequence[_core.Model]) -> _core.Model:
    """Return a learner that shares its names with the others."""
    single = parameters.dtype == "float32"
    return _core.Model(parameters.for_core(), single, others[0] if others else None)
