"""Learners of the core from the arrays of a file or from merged knowledge, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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


def restored_learners(
    parameters: Parameters, tensors: Tensors, count: int, several: bool
) -> list[_core.Model]:
    """Return the learners that `numbered` arrays describe; they may be those of several classes.

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
        learners.append(_empty(parameters, learners, several))
        if "sketch.F" in state and "sketch.columns" in state:
            from sonline.model.older import knowledge_of  # noqa: PLC0415 - rarely needed

            learners[-1].set_knowledge(knowledge_of(parameters, state))
        else:
            learners[-1].restore(state)
    return learners


def learners_with(parameters: Parameters, states: Sequence[Tensors]) -> list[_core.Model]:
    """Return learners with merged knowledge, each by itself; the first state has the names."""
    learners: list[_core.Model] = []
    with _fitting(parameters):
        for state in states:
            known = {name: state[name] for name in state if not learners or name not in NAMES}
            learners.append(_empty(parameters, learners))
            learners[-1].set_knowledge(known)
    return learners


def group_with(parameters: Parameters, states: Sequence[Tensors]) -> list[_core.Model]:
    """Return learners over one sketch with merged knowledge.

    The first state has the names, and the last is that of the sketch.
    """
    *outputs, sketch = states
    first = _empty(parameters, [], several=True)
    first.set_names({name: states[0][name] for name in NAMES})
    learners = [first, *(_empty(parameters, [first], several=True) for _ in outputs[1:])]
    known = [{name: state[name] for name in OF_OUTPUT} for state in outputs]
    common = {name: sketch[name] for name in sketch if name not in NAMES}
    with _fitting(parameters):
        _core.Classes.set_group_knowledge(learners, [*known, common])
    return learners


# The knowledge of an output of a group, without the sketch.
OF_OUTPUT = (
    *("weights", "ensemble.share", "labels.recent", "labels.usual"),
    "shrinkage.share",
    *("curvature", "curvature.rows"),
)


@contextmanager
def _fitting(parameters: Parameters) -> Iterator[None]:
    """Turn errors about numbers that are too large for their type into a clear one."""
    try:
        yield
    except ValueError as error:
        raise DivergenceError(
            f"the numbers of the model do not fit {parameters.dtype}: {error}"
        ) from error


def _empty(
    parameters: Parameters, others: Sequence[_core.Model], several: bool = False
) -> _core.Model:
    """Return a learner that shares its names with the others."""
    single = parameters.dtype == "float32"
    return _core.Model(parameters.for_core(), single, others[0] if others else None, several)
