"""Models made from others: merged, with other classes, compact."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sonline.errors import DivergenceError, InvalidInputError, as_option
from sonline.labels import ClassTable
from sonline.merging import (
    State,
    check_same_parameters,
    compacted,
    merge_learners,
    merge_tree,
    outputs_of,
    together,
    with_opposite_labels,
    without_sketch,
)
from sonline.model.features import known_by, only_names
from sonline.model.files import new_core
from sonline.parameters import Parameters
from sonline.rows.columns import PLURALS

if TYPE_CHECKING:
    from sonline import _core
    from sonline.model.model import Model

M = TypeVar("M", bound="Model")


def merge(models: Sequence[M], start: M | None) -> M:
    """Return one model out of several that continued from ``start``; see `Model.merge`."""
    learned = 0 if start is None else start.stats()["rounds"]
    new = [id(model) for model in models if model.stats()["rounds"] > learned]
    if len({*new}) < len(new):
        raise InvalidInputError("a model is merged with itself: its rows would count twice")
    # Another thread may add classes to a growing model while it is merged: a copy stands still.
    models = [copy.deepcopy(model) if model.growing else model for model in models]
    first = models[0]
    involved = [*models, *([] if start is None else [start])]
    for model in involved:
        model.refuse_if_compact()
    check_same_parameters(first.parameters, [model.parameters for model in involved[1:]])
    _check_features(involved)
    table = _common_table([model.table for model in involved])
    if len(models) == 1:
        return copy.deepcopy(first)
    known = [_knowledge(model, table) for model in involved]
    if any(len(states[0]["weights"]) == 0 for states in known):
        known = [
            [without_sketch(state) if len(state["weights"]) else state for state in states]
            for states in known
        ]
    origin = None if start is None else known.pop()
    states = merge_learners(first.parameters, known, origin)
    merged = _without_core(models, start, table)
    return merged.rebuilt(table, core_with(first.parameters, table, states))


def core_with(
    parameters: Parameters, table: ClassTable | None, states: Sequence[State]
) -> _core.Model:
    """Return a model of the core with the knowledge of each output."""
    core = new_core(parameters, table)
    try:
        core.set_knowledge(together(states))
    except ValueError as error:
        raise DivergenceError(
            f"the numbers of the model do not fit {parameters.dtype}: {error}"
        ) from error
    return core


def _check_features(models: Sequence[Model]) -> None:
    """Raise an error if some models know their features by index, others by name."""
    exact = models[0].parameters.hash_bits is None
    if exact and {"index"} & {*map(known_by, models)} and any(map(only_names, models)):
        raise InvalidInputError(
            "some of the models to be merged know their features by index, others by name; train "
            "all of them on arrays, or all on data frames or mappings"
        )


def _common_table(tables: Sequence[ClassTable | None]) -> ClassTable | None:
    """Return the classes of all models."""
    known = [table for table in tables if table is not None]
    if not known:
        return None
    if len(known) < len(tables):
        raise InvalidInputError("a model of classes cannot be merged with one of numbers")
    return known[0].union(known[1:])


def _without_core(models: Sequence[M], start: M | None, table: ClassTable | None) -> M:
    """Return a model with everything merged but what the core holds."""
    first = models[0]
    merged = type(first)(first.parameters, None)
    merged.table = table
    columns = dict(first.reading.columns)
    for model in models[1:]:
        for name, kind in model.reading.columns.items():
            if columns.setdefault(name, kind) != kind:
                kinds = f"{PLURALS[columns[name]]} in some partitions and {PLURALS[kind]} in others"
                raise InvalidInputError(
                    f"column {name!r} holds {kinds}; convert it to one of them, or name it with "
                    f"{as_option('text', name)}"
                )
    merged.reading = replace(first.reading, columns=columns)
    merged.face = dict(first.face)
    origin = None if start is None else start.progress
    # In the shape in which the outputs are merged: sums round.
    merged.progress = merge_tree(
        [model.progress for model in models], lambda parts: parts[0].merge(parts[1:], origin)
    )
    return merged


def _knowledge(model: Model, table: ClassTable | None) -> list[State]:
    """Return the state of each output that a model with these classes has."""
    states = outputs_of(model.core.knowledge())
    own = model.table
    if own is None or table is None or own.labels == table.labels or own.signs or table.signs:
        return states  # with signs, whichever of -1 and 0 it is, the numbers are the same
    by_class = _by_class(states, own)
    never = states[-1]
    numbers = {own.numbers[label]: number for number, label in enumerate(table.labels)
               if label in own.numbers}  # fmt: skip
    seen = np.unique([numbers[code] for code in states[0]["classes.seen"].tolist()])
    aligned = [by_class.get(label, never) for label in table.labels]
    aligned = [aligned[1]] if len(table) == 2 else aligned if len(table) > 2 else []
    if table.growing or len(table) <= 1:
        aligned.append(never)
    common = {"classes.seen": seen.astype(np.int64)}
    names = {name: states[0][name] for name in states[0] if name.startswith("names.")}
    return [aligned[0] | common | names, *(state | common for state in aligned[1:])]


def _by_class(states: Sequence[State], table: ClassTable) -> dict[object, State]:
    """Return the state of "this class or not" for each label."""
    if len(table) <= 2:  # the only output is that of the second
        states = [with_opposite_labels(states[0]), states[0]]
    return dict(zip(table.labels, states, strict=False))


def compact(model: M) -> M:
    """Return a model that predicts like this one and cannot learn; see `Model.compact`."""
    if model.parameters.bound is not None and model.parameters.several:
        raise InvalidInputError(
            "with a bound, several weight vectors are bounded and then blended, which a "
            "compact model cannot do; train with a number for alpha, or without the bound"
        )
    table = None if model.table is None else replace(model.table, growing=False)
    states = outputs_of(model.core.knowledge())[: max(model.outputs, 1)]
    parts = [compacted(model.parameters, state) for state in states]
    parameters = parts[0][0]
    small = type(model)(parameters)
    small.reading, small.progress = model.reading, model.progress
    small.only_predicts = True
    return small.rebuilt(table, core_with(parameters, table, [state for _, state in parts]))
