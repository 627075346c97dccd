"""The conventions of the paper's experiments, which its text states only in part.

They follow from reproducing its table of error rates (docs/reproduction.md): the experiments ran
in Vowpal Wabbit, so the loss is half the squared error, predictions are clipped to the range of the
labels *before* the gradient is taken, that range is [-1, 1] from the first row on, nothing is
projected, every row has a constant feature, numbers are single precision, and what is sketched is
half the gradient (sigma + eta = 1/4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from sonline import OnlineLearner
from sonline.paper.datasets import Dataset
from sonline.paper.datasets.contents import Floats, rounded

STEPS = tuple(2.0**j for j in range(-3, 7))
"""The step sizes 1/alpha that the paper tries."""

PAPER: Mapping[str, Any] = MappingProxyType(
    {
        "loss": "squared",
        "bound": None,
        "clip": True,
        "step": "explicit",
        "curvature": "gradient",
        "sigma": 0.25,
        "eta": 0.0,
        "oja_step": 1.0,
        "scaling": "none",
        "intercept": True,
        "hash_bits": None,
        "dtype": "float32",
    }
)
"""Parameters of `sonline.OnlineLearner` in all experiments with published numbers."""

IN_WORDS = (
    "loss: half the squared error, gradient taken at the prediction clipped to [-1, 1]",
    "labels -1 and +1, rows in the order of the file, one pass, features as published",
    "a constant feature; no projection; single precision",
    "sketched: g x / 2 (sigma + eta = 1/4); Oja's step 1/t, started from the first gradients",
    "diagonal adaptation: features divided by sqrt(0.1 + sum of squared gradients, with this one)",
    "error: share of rows whose prediction, made before the update, has the wrong sign (0 is -1)",
    "each number is the best over 1/alpha = 2^-3, ..., 2^6, as in the paper",
    "random numbers: only in the streams of Fig. 1 and Fig. 2, which name their seeds",
)


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method: its name in tables, and the parameters in which it differs from `PAPER`."""

    label: str
    changes: Mapping[str, Any]

    def settings(self, alpha: float | str) -> dict[str, Any]:
        """Return all parameters of the learner."""
        return {"sketch_size": 0, **PAPER, **self.changes, "alpha": alpha}


def make(settings: Mapping[str, Any]) -> OnlineLearner:
    """Return a learner that clips to [-1, 1] from its first row on, if it clips at all.

    Vowpal Wabbit's range of labels starts at 0 and grows with each label *before* the prediction,
    which for labels -1 and +1 is the same as [-1, 1].
    """
    learner = OnlineLearner(**settings)
    if settings["clip"]:
        learner.model.start_label_range(-1.0, 1.0)
    return learner


Rows: TypeAlias = sp.csr_matrix | Floats


@dataclass(frozen=True)
class PublishedRows:
    """The number of rows behind a published error rate, as far as it can be inferred."""

    X: Rows
    y: Floats
    note: str


A9A_ROWS = 32561


def published_rows(data: Dataset) -> PublishedRows:
    """Return the rows with which the paper's error rates of a data set were computed."""
    X, y = data.X, data.y
    match data.info.name:
        case "a9a":
            note = "the first 32,561 rows (a9a without a9a.t): the published rates are multiples "
            return PublishedRows(X[:A9A_ROWS], y[:A9A_ROWS], note + "of 1/32,561")
        case "covtype":
            scaled = _unit_range(X)
            note = "features scaled to [0, 1] and rounded to six digits, as in LIBSVM's "
            return PublishedRows(scaled, y, note + "covtype.libsvm.binary.scale")
        case "20news":
            note = "the published rates are multiples of 1/18,774, the rows of another version "
            return PublishedRows(X, y, note + "(20news-bydate-matlab, 61,188 words)")
        case _:
            return PublishedRows(X, y, "")


def _unit_range(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return the rows with each column scaled from its range to [0, 1]."""
    table = X.toarray()
    low, high = table.min(axis=0), table.max(axis=0)
    table -= low
    table /= np.where(high > low, high - low, 1.0)
    scaled = sp.csr_matrix(table)
    scaled.data = rounded(scaled.data)
    return scaled
