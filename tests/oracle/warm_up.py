"""What the first rows of a stream show about its features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracle.inputs import ALIKE, YOUNG
from sonline.paper.reference.sketches import Array

WARM_UP_ROWS = 32
ALIKE_SHARE = 0.8
OFFSET, LARGE_OFFSET, INDEPENDENT, ROUNDING = 9, 1000, 1.2, 1e-24
TABLE_COLUMNS = 256
WIDE_FEATURES, WIDE_ROWS = 128, 8


@dataclass(frozen=True)
class Choices:
    """What is chosen after the first rows.

    Parameters
    ----------
    unit : float
        The squared size of features that are measured alike; 0 if there is none.
    centres : array
        What is subtracted from features with a large offset.
    wide : bool
        Whether each row has few of many features.
    """

    unit: float
    centres: Array
    wide: bool


def choose(rows: Array, directions: int, intercept: bool, scaling: str = "auto") -> Choices:
    """Choose from the first rows, in their order.

    Parameters
    ----------
    rows : array of shape (rows, columns)
        Column 0 is the constant feature if there is an intercept. Zeros are absent features.
    directions : int
        The size of the sketch.
    intercept : bool
        Only then features are centred.
    scaling : str
        There is neither unit nor centre unless it is "auto".

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(1.0, 0.1, size=(32, 4))
    >>> choices = choose(np.hstack([np.ones((32, 1)), rows]), directions=2, intercept=True)
    >>> print(round(choices.unit, 1), choices.centres[:3].round(1), choices.wide)
    1.0 [0. 1. 1.] False
    """
    X = np.array(rows)
    if intercept:
        X[:, 0] = 0.0
    features = int(np.any(X != 0.0, axis=0).sum())
    wide = features > WIDE_FEATURES and features * len(X) > WIDE_ROWS * int(np.count_nonzero(X))
    if scaling != "auto":
        return Choices(0.0, np.zeros(X.shape[1]), wide)
    centres = _centres(X, directions) if intercept else np.zeros(X.shape[1])
    return Choices(_unit(X), centres, wide)


def _unit(X: Array) -> float:
    counts = np.count_nonzero(X, axis=0)
    if counts.sum() == 0:
        return 0.0
    unit = float(np.sum(X**2) / counts.sum())
    squares = np.sum(X**2, axis=0) / np.maximum(counts, 1)
    limit = ALIKE * np.maximum(1.0, YOUNG / (counts + 0.5))  # of few values, the size is vague
    alike = (squares * limit >= unit) & (squares <= unit * limit)
    return unit if counts @ alike >= ALIKE_SHARE * counts.sum() else 0.0


def _centres(X: Array, directions: int) -> Array:
    present = X != 0.0
    always = present.all(axis=0)
    mean, variance = X.mean(axis=0), X.var(axis=0)
    many = always.sum() > directions or present.any(axis=0).sum() > 2 * directions
    offset = OFFSET if many else LARGE_OFFSET
    in_order = np.sum(np.diff(X, axis=0) ** 2, axis=0) < INDEPENDENT * variance * (len(X) - 1)
    large = (mean**2 > offset * variance) & (variance > ROUNDING * mean**2)
    centred = always & large & ~in_order & (present.sum(axis=1).max() <= TABLE_COLUMNS)
    return np.where(centred, mean.astype(np.float32), 0.0).astype(np.float64)
