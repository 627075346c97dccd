"""Models made from others: merged, with other classes, compact."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sonline import _core
from sonline.errors import InvalidInputError
from sonline.labels import ClassTable
from sonline.merging import (
    check_same_parameters,
    compacted,
    merge_learners,
    merge_tree,
    with_opposite_labels,
)
from sonline.model.features import known_by, only_names
from sonline.parameters import Parameters
from sonline.persistence import Tensors

if TYPE_CHECKING:
    from sonline.model.model import Model

M = TypeVar("M", bound="Model")


def merge(models: Sequence[M], start: M | None) -> M:
    """Return one model out of several that continued from ``start``; see `Model.merge`."""
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
    aligned = [with_classes(model, table) for model in models]
    origin = None if start is None else with_classes(start, table)
    # Learners of two classes may stand for different ones of them.
    signs = aligned[0].signs
    merged = _without_learners(models, start, table)
    if _share(aligned, origin):
        knowledge = _merged_group(first.parameters, aligned, origin, signs)
    else:
        knowledge = merge_learners(
            first.parameters,
            [_knowledge(model, signs) for model in aligned],
            None if origin is None else _knowledge(origin, signs),
        )
    merged.set_knowledge(knowledge, signs)
    return merged


def _check_features(models: Sequence[Model]) -> None:
    """Raise an error if some models know their features by index, others by name."""
    exact = models[0].parameters.hash_bits is None
    if exact and {"index"} & {*map(known_by, models)} and any(map(only_names, models)):
        raise InvalidInputError(
            "some of the models to be merged know their features by index, others by name; train "
            "all of them on arrays, or all on data frames or mappings"
        )


def _share(models: Sequence[Model], start: Model | None) -> bool:
    """Return whether the classes of the merged model share a sketch.

    They do if they do so in one model, and in the others they do or are not decided yet.
    """
    involved = [*models, *([] if start is None else [start])]
    forms = {_core.Classes.form(model.learners) for model in involved}
    return models[0].classes > 2 and "shared" in forms and "separate" not in forms


def _merged_group(
    parameters: Parameters, models: Sequence[Model], start: Model | None, signs: Sequence[float]
) -> list[Tensors]:
    """Return the merged knowledge of classes that share a sketch, and of the sketch.

    The sketch is merged as a learner without weights.
    """
    known = [_group_knowledge(model, signs) for model in models]
    first = None if start is None else _group_knowledge(start, signs)
    size = int(known[0][-1]["capacity"])
    merged = merge_learners(replace(parameters, sketch_size=size), known, first)
    for number, state in enumerate(merged[:-1]):
        for name in ("curvature", "curvature.rows"):
            zero = 0.0 if first is None else float(first[number][name])
            changes = [float(states[number][name]) - zero for states in known]
            state[name] = np.array(max(zero + sum(changes), 0.0))
    return merged


def _group_knowledge(model: Model, signs: Sequence[float]) -> list[Tensors]:
    """Return what each output of a group knows, as `_knowledge`, and then its sketch."""
    *outputs, sketch = _core.Classes.group_knowledge(model.learners)
    return [*_turned(outputs, model.signs, signs), sketch]


def _common_table(tables: Sequence[ClassTable | None]) -> ClassTable | None:
    """Return the classes of all models."""
    known = [table for table in tables if table is not None]
    if not known:
        return None
    if len(known) < len(tables):
        raise InvalidInputError("a model of classes cannot be merged with one of numbers")
    return known[0].union(known[1:])


def _without_learners(models: Sequence[M], start: M | None, table: ClassTable | None) -> M:
    """Return a model with everything merged but its learners."""
    first = models[0]
    merged = type(first)(first.parameters, None)
    merged.table = table
    columns = dict(first.reading.columns)
    for model in models[1:]:
        for name, kind in model.reading.columns.items():
            if columns.setdefault(name, kind) != kind:
                raise InvalidInputError(
                    f"column {name!r} holds numbers in some partitions and words in others; "
                    f"convert it to one of them, or name it with --text {name}"
                )
    merged.reading = replace(first.reading, columns=columns)
    merged.face = dict(first.face)
    origin = None if start is None else start.progress
    # In the shape in which the learners are merged: sums round.
    merged.progress = merge_tree(
        [model.progress for model in models], lambda parts: parts[0].merge(parts[1:], origin)
    )
    return merged


def _knowledge(model: Model, signs: Sequence[float]) -> list[Tensors]:
    """Return what each learner knows, as a learner with the given sign would know it."""
    states = _core.Classes.states(model.learners, knowledge=True)
    # Outputs of a group have more directions than a separate learner keeps.
    capacity = np.array(model.parameters.sketch_size)
    if _core.Classes.form(model.learners) == "shared":
        states = [state | {"capacity": capacity} for state in states]
    return _turned(states, model.signs, signs)


def _turned(
    states: Sequence[Tensors], signs: Sequence[float], wanted: Sequence[float]
) -> list[Tensors]:
    """Return the knowledge of learners with the wanted signs."""
    return [
        state if sign == target else with_opposite_labels(state)
        for state, sign, target in zip(states, signs, wanted, strict=True)
    ]


def with_class(model: M, label: object) -> M:
    """Return a model with one class more, to be used instead of this one."""
    assert model.table is not None  # noqa: S101 - it has classes
    table, learners = model.table.added([label]), model.learners
    if model.classes == 0:
        return model.rebuilt(table, learners)
    if model.classes == 1:
        return model.rebuilt(table, [learners[0].copy(), learners[0]])
    if model.classes == 2:
        pair, never = learners
        signs = [-model.signs[0], model.signs[0], 1.0, 1.0]
        return model.rebuilt(table, [pair.copy(), pair, never.copy(), never], signs)
    *known, never = learners
    return model.rebuilt(table, [*known, never.copy(), never], [*model.signs, 1.0])


def with_classes(model: M, table: ClassTable | None) -> M:
    """Return a model with the classes of another table, in its order."""
    if table is None or model.table is None or model.table.labels == table.labels:
        return model
    if model.table.signs or table.signs:
        return model  # whichever of -1 and 0 it is, the numbers are the same
    result = model
    for label in table.labels:
        if label not in model.table.numbers:
            result = with_class(result, label)
    assert result.table is not None  # noqa: S101 - it has classes
    numbers = [result.table.numbers[label] for label in table.labels]
    if numbers == list(range(len(numbers))):
        return result
    learners, signs = result.learners, result.signs
    if len(table) == 2:
        return model.rebuilt(table, learners, [-signs[0], *signs[1:]])
    order = [*numbers, *range(len(numbers), len(learners))]
    return model.rebuilt(table, [learners[n] for n in order], [signs[n] for n in order])


def compact(model: M) -> M:
    """Return a model that predicts like this one and cannot learn; see `Model.compact`."""
    if model.parameters.bound is not None and model.parameters.several:
        raise InvalidInputError(
            "with a bound, several weight vectors are bounded and then blended, which a "
            "compact model cannot do; train with a number for alpha, or without the bound"
        )
    learners = model.learners[: max(model.outputs, 1)]
    states = _core.Classes.states(learners, knowledge=True)
    parts = [compacted(model.parameters, state) for state in states]
    knowledge = [known for _, known in parts]
    small = type(model)(parts[0][0])
    small.table = None if model.table is None else replace(model.table, growing=False)
    small.reading, small.progress = model.reading, model.progress
    small.only_predicts = True
    if model.classes > 2 and _core.Classes.form(learners) == "shared":
        # The only sketch that classes share is the default, here without directions.
        small.parameters = replace(small.parameters, sketch=Parameters.sketch)
        nothing = dict.fromkeys(("curvature", "curvature.rows"), np.zeros(()))
        knowledge = [*(known | nothing for known in knowledge), knowledge[0]]
    small.set_knowledge(knowledge, model.signs[: len(parts)])
    return small
