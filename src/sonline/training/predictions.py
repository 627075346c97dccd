"""Predictions as text and as JSON, with classes in the order of their labels."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

import numpy as np

from sonline.model import Model, probabilities
from sonline.rows import Floats


def prediction_lines(
    model: Model,
    raw: Floats,
    kind: str,
    tags: list[str] | None,
    classes: int | None = None,
) -> str:
    """Return predictions as text, a line per row, with its tag.

    Its kind is "raw", "probability", "label" or "mean" (of numbers, in the unit of the label).

    For two classes a number is that of the second label in sorted order; for more, each class has
    its label and its number. ``classes`` is the number of classes when the predictions were made,
    if the model has more by now.
    """
    table = model.table
    count = model.classes if classes is None else classes
    if table is not None and kind == "label":
        chosen = raw[0] > 0 if count == 2 else raw.argmax(axis=0)
        names = [str(label) for label in table.labels]
        rows = [names[int(number)] for number in chosen.tolist()]
    else:
        numbers = raw if table is None else table.in_order(raw, count)
        if table is None and kind in ("mean", "label"):
            numbers = model.means(raw[0])[np.newaxis]
        if kind == "probability":
            numbers = probabilities(numbers, count)
            numbers = numbers[1:] if count == 2 else numbers
        if table is None or count <= 2:
            rows = [repr(value) for value in numbers[0].tolist()]
        else:
            names = [f"{label}:" for label in table.sorted_labels(count)]
            rows = [
                " ".join(name + repr(value) for name, value in zip(names, line, strict=True))
                for line in numbers.T.tolist()
            ]
    if tags is not None:
        rows = [f"{row} {tag}" if tag else row for row, tag in zip(rows, tags, strict=True)]
    return "".join(f"{row}\n" for row in rows)


def prediction_objects(
    model: Model,
    raw: Floats,
    tags: list[str] | None,
    intervals: Floats | None = None,
    wanted: list[bool] | None = None,
) -> str:
    """Return predictions as JSON lines, an object per row."""
    table = model.table
    columns: dict[str, list[Any]] = {"raw": raw[0].tolist()}
    if model.parameters.log_link:
        columns["mean"] = model.means(raw[0]).tolist()
    if table is not None:
        columns = {"label": model.labels(raw)}
        names = [str(label) for label in table.sorted_labels()]
        ordered = table.in_order(raw)
        columns["raw"] = ordered[0].tolist() if len(names) == 2 else _named(names, ordered)
        if model.probabilistic:
            columns["probability"] = _named(names, probabilities(ordered, len(names)))
    if intervals is not None:
        for name, ends in zip(("low", "high"), intervals.T.tolist(), strict=True):
            columns[name] = [end if isfinite(end) else None for end in ends]  # JSON has no infinity
    if wanted is not None:
        columns["wants_label"] = wanted
    if tags is not None:
        columns["tag"] = list(tags)
    rows = zip(*columns.values(), strict=True)
    return "".join(f"{json.dumps(dict(zip(columns, row, strict=True)))}\n" for row in rows)


def _named(names: list[str], numbers: Floats) -> list[dict[str, float]]:
    return [dict(zip(names, line, strict=True)) for line in numbers.T.tolist()]
