"""Sums in the order of the rows, the same however a stream is split into batches."""

from __future__ import annotations

import math

import numpy as np

from sonline.rows import Floats

LOOP_UP_TO = 4  # up to this many rows, a loop is faster than NumPy


def to_json(number: float) -> float | str:
    """Return a number as JSON can hold it: sums of losses may be infinite, and are kept so."""
    return float(number) if math.isfinite(number) else str(float(number))


def running_sum(start: float, values: Floats) -> float:
    """Return ``start`` and the values, added one after another."""
    if values.size <= LOOP_UP_TO:
        for value in values.tolist():
            start += value
        return start
    return float(running_sums(start, values)[-1])


def running_sums(start: float, values: Floats) -> Floats:
    """Return ``start`` and its sums with the values, added one after another."""
    sums = np.empty(values.size + 1)
    sums[0] = start
    sums[1:] = values
    return np.cumsum(sums, out=sums)
