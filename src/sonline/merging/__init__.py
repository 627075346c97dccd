"""Merging: learners that were trained on disjoint shards of the data become one.

A learner is a quadratic: weights w and the matrix A of its second-order information. For shards
with a common start (A₀, w₀), the merged one is

    A = ΣA_i − (K−1)A₀,   w = w₀ + A⁻¹ ΣA_i(w_i − w₀),

which is exact for the full matrix with squared loss and Hessian curvature, and is done through the
stacked sketches otherwise. The parts of the work:

- `features`: one set of features out of several, names united by name;
- `state`: what a learner knows, from the core and back;
- `precision`: the formula above, where the matrices are precisions, averages elsewhere;
- `stack`: the sketch of the sum;
- `tree`: the fixed shape in which many are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from sonline import _core
from sonline.errors import DivergenceError, InvalidInputError, ParameterError, SonlineError
from sonline.merging.curved import CurvedLearners
from sonline.merging.curves import read_curves
from sonline.merging.features import NameTable, State, translated, united
from sonline.merging.precision import combined
from sonline.merging.state import (
    OF_ERRORS,
    averaged,
    forgotten,
    outputs_of,
    rank_of,
    read,
    together,
    with_opposite_labels,
    without_sketch,
    write,
)
from sonline.merging.tree import FAN_IN, groups, merge_tree
from sonline.parameters import AUTO, CURVED, Parameters
from sonline.persistence import NAMES
from sonline.rows import Floats, Keys

__all__ = [
    "FAN_IN",
    "State",
    "check_same_parameters",
    "compacted",
    "groups",
    "merge_learners",
    "merge_tree",
    "outputs_of",
    "together",
    "with_opposite_labels",
    "without_sketch",
]


def merge_learners(
    parameters: Parameters,
    learners: Sequence[Sequence[State]],
    start: Sequence[State] | None = None,
) -> list[State]:
    """Return the knowledge of the merged learner; many learners are merged as in `merge_tree`.

    For each learner there are the states of its outputs (`outputs_of`); the first has the names.
    ``start`` is the same for the learner that all of them continued from.
    """
    table = NameTable()
    first = None if start is None else (start, table.add(start[0]))
    inputs = [(states, table.add(states[0])) for states in learners]
    names = table.state()
    everything = table.add(names)

    def merge(group: Sequence[tuple[Sequence[State], Keys]]) -> tuple[Sequence[State], Keys]:
        # Nodes of the tree are rounded as models are: bits do not depend on where they are merged.
        group = [
            ([_rounded(parameters, state | names) for state in states], ids)
            if ids is everything
            else (states, ids)
            for states, ids in group
        ]
        models = [
            _merge_models(
                parameters,
                [(states[number], ids) for states, ids in group],
                None if first is None else (first[0][number], first[1]),
            )
            for number in range(len(learners[0]))
        ]
        return models, everything

    # The last bits of the sums would depend on the number of threads.
    with threadpool_limits(1, user_api="blas"), _too_large():
        merged, ids = merge_tree(inputs, merge)
    if ids is not everything:  # there is only one learner
        return list(merged)
    return [merged[0] | names, *merged[1:]]


@contextmanager
def _too_large() -> Iterator[None]:
    """Raise a clear error if sums of squares overflow or a matrix cannot be inverted."""
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except SonlineError:
        raise
    except (ArithmeticError, IndexError, ValueError) as error:  # LinAlgError among them
        raise DivergenceError(
            f"the learners cannot be merged, their numbers are too large or too small ({error}); "
            "scale the features or use scaling='auto'"
        ) from error


def _rounded(parameters: Parameters, state: State) -> State:
    """Return knowledge as a model of these parameters rounds it."""
    model = _core.Model(parameters.for_core(), parameters.dtype == "float32")
    of_errors = {name: state[name] for name in OF_ERRORS if name in state}  # also of classes
    others = {name: state[name] for name in state if name not in of_errors}
    model.set_knowledge(together([others]))
    rounded = outputs_of(model.knowledge())[0]
    return {name: rounded[name] for name in rounded if name not in OF_ERRORS} | of_errors


def _merge_models(
    parameters: Parameters,
    models: Sequence[tuple[State, Keys]],
    start: tuple[State, Keys] | None,
) -> State:
    """Merge models in one step; each comes with the ids of its names in the merged model."""
    if start is not None and parameters.half_life:
        start = forgotten(start[0], _kept(parameters.half_life, models, start)), start[1]
    learners = [*models, *([] if start is None else [start])]
    union, positions = united([translated(state["features"], ids) for state, ids in learners])
    ranks = [rank_of(state) for state, _ in learners]
    directions = np.empty((sum(ranks), union.size))  # of all learners, stacked
    knowledge = [
        read(parameters, state, union, position, V)
        for (state, _), position, V in zip(
            learners, positions, np.split(directions, np.cumsum(ranks)[:-1]), strict=True
        )
    ]
    states = [state for state, _ in learners]
    curved = None  # before the rest changes what is known
    if any(state["curves"] for state in states):
        curved = CurvedLearners(states, knowledge, positions, start is not None)
    origin = knowledge.pop() if start is not None else None
    if origin is not None:
        for learner in knowledge:
            if learner.rounds < origin.rounds:
                raise InvalidInputError(
                    f"start has learned {origin.rounds:.0f} rows, but one of the learners to be "
                    f"merged only {learner.rounds:.0f}: it cannot have continued from it"
                )
    total = combined(parameters, knowledge, origin, directions)
    merged = write(parameters, total)
    merged |= averaged(states[: len(models)])
    if curved is not None:
        merged |= curved.merged(parameters, total)
    for name, values in merged.items():
        if not np.isfinite(values).all():
            raise DivergenceError(
                f"the learners cannot be merged: '{name}' would hold numbers that are not finite; "
                "scale the features or use scaling='auto'"
            )
    return merged


def _kept(
    half_life: float, models: Sequence[tuple[State, Keys]], start: tuple[State, Keys]
) -> float:
    """Return how much the rows before the start count in the learners, in the mean."""
    rows = [max(float(state["rounds"]) - float(start[0]["rounds"]), 0.0) for state, _ in models]
    return float(np.mean(np.exp2(-np.array(rows) / half_life)))


def compacted(parameters: Parameters, state: State) -> tuple[Parameters, State]:
    """Return parameters and knowledge of a learner that predicts like this one and cannot learn.

    Its weight vectors become their blend, and nothing is left of the sketch.
    """
    small = Parameters(
        **parameters.as_dict()
        | {"sketch": "none", "sketch_size": 0, "sketch_every": AUTO, "alpha": 1.0}
        | {"step": Parameters.step}
        | ({"curves": AUTO} if parameters.curves is True else {})
    )
    none = {"directions": np.zeros((0, state["features"].size)), "ev": np.zeros(0)}
    none["diagonal"] = state["diagonal.later"]
    knowledge = read(parameters, state | none, state["features"])
    empty = outputs_of(_core.Model(small.for_core(), small.dtype == "float32").knowledge())[0]
    numbers = knowledge.numbers | dict.fromkeys(("tail", "total", "capacity", "wide"), 0.0)
    no_shift = dict.fromkeys(("next.shift", "later.shift"), 0.0)
    shares, factors = knowledge.shares["later.members"], knowledge.shares["later.factors"]
    constant = 0.0
    if shares.size > 1:  # a single member is not calibrated
        base = _base(parameters, numbers)
        constant = float(shares @ (1 - factors)) * base + numbers["later.shift"]
        shares = shares * factors
    weights = shares[: len(knowledge.weights)] @ knowledge.weights
    hats = None
    if state["curves"]:
        curves = read_curves(state)
        curved = shares[len(knowledge.weights) :] @ state["curved.weights"]
        weights += curved[curves.own]
        hats = curved
        hats[curves.own] = 0.0
    if constant:
        weights[0] += constant * np.sqrt(knowledge.effective[0])
    blend = replace(
        knowledge,
        numbers=numbers | no_shift,
        shares={name: empty[name] for name in knowledge.shares},
        weights=weights[np.newaxis],
        dense=None,
        gradients=None,
    )
    written = write(small, blend)
    if hats is not None:
        written |= _compact_curves(state, written["weights"], hats)
    kept = (*NAMES, *OF_ERRORS)
    return small, written | {name: state[name] for name in kept if name in state}


def _compact_curves(state: State, weights: Floats, hats: Floats) -> State:
    """Return the fields of a compact model with curves: half of all shares is that of lines."""
    more = len(CURVED)
    shares = np.append(0.5, np.full(more, 0.5 / more))
    plain = np.ones(1 + more)  # nothing is left to calibrate
    return {name: state[name] for name in state if name.startswith("curves")} | {
        "weights": 2 * weights,
        "curved.weights": np.tile(2 * hats, (more, 1)),
        "curved.directions": np.zeros((0, hats.size)),
        "curved.ev": np.zeros(0),
        "next.members": shares,
        "later.members": shares,
        "next.factors": plain,
        "later.factors": plain,
    }


def _base(parameters: Parameters, numbers: dict[str, float]) -> float:
    """Return the base rate, from which calibration starts: see targets.hpp."""
    mean, weight = numbers["label.mean"], numbers["label.weight"]
    if not parameters.intercept or weight == 0:
        return 0.0
    if not parameters.binary:
        return 0.0
    unit = numbers["label.unit"]
    return float(np.log((1 + mean) * weight + unit) - np.log((1 - mean) * weight + unit))


def check_same_parameters(
    first: Parameters, others: Sequence[Parameters], names: Sequence[object] = ()
) -> None:
    """Raise an error if the parameters of learners differ; the error uses their names, if known."""
    expected = first.as_dict()
    shown_names = names or [
        "the first",
        *(f"model {number}" for number in range(2, len(others) + 2)),
    ]
    for whose, other in zip(shown_names[1:], others, strict=True):
        for name, value in other.as_dict().items():
            if value != expected[name]:
                raise ParameterError(
                    f"{whose} has {name}={value!r}, {shown_names[0]} has {expected[name]!r}; "
                    "only models with the same parameters can be merged"
                )
