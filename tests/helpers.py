"""Streams and comparisons that several tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline import OnlineLearner
from sonline.parameters import LOSSES, SCALE_FREE, Parameters

Array = NDArray[np.float64]

LOW_RANK = ("oja", "fd", "rfd", "isotropic")
"""Sketches that have directions and eigenvalues to look at."""


def unit_rows(rng: np.random.Generator, rounds: int, features: int) -> Array:
    """Dense rows of norm 1, their directions not equally likely."""
    X = rng.normal(size=(rounds, features)) * np.logspace(0, -1, features)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def raw_rows(rng: np.random.Generator, rounds: int, features: int) -> Array:
    """Dense rows with norms from 1e-3 to 1e3."""
    return unit_rows(rng, rounds, features) * 10 ** rng.uniform(-3, 3, size=(rounds, 1))


def emerging_rows(rng: np.random.Generator, rounds: int, features: int) -> Array:
    """Sparse rows (three in ten) whose features appear one after another until 7/10 of the time."""
    X = rng.normal(size=(rounds, features)) * (rng.random((rounds, features)) < 0.3)
    first = np.linspace(0, 0.7 * rounds, features).astype(int)
    X[np.arange(rounds)[:, None] < first] = 0
    return X


def growing_rows(rng: np.random.Generator, rounds: int, features: int) -> Array:
    """Sparse rows: a third of the features grows, a third has a long tail; some are wrong."""
    X = rng.normal(size=(rounds, features)) * (rng.random((rounds, features)) < 0.6)
    X[:, ::3] *= np.linspace(0.01, 1, rounds)[:, None]
    X[:, 1::3] *= np.exp(rng.normal(size=X[:, 1::3].shape) - 2)
    X[rng.random(X.shape) < 0.001] *= 1000
    return X


KINDS = {
    "unit": unit_rows,
    "raw": raw_rows,
    "emerging": emerging_rows,
    "growing": growing_rows,
}


def stream(kind: str, loss: str, rounds: int, features: int, seed: int = 0) -> tuple[Array, Array]:
    """Rows of a kind and noisy labels, of size about 1, that the loss can take."""
    rng = np.random.default_rng(seed)
    X = KINDS[kind](rng, rounds, features)
    margins = X @ rng.normal(size=features)
    if kind == "raw":
        margins = margins / np.linalg.norm(X, axis=1)
    margins = margins + 0.3 * rng.normal(size=rounds)
    return X, labels_of(loss, margins)


def labels_of(loss: str, numbers: Array) -> Array:
    """Turn numbers of size about 1 into labels that a loss can take."""
    if LOSSES[loss]["binary"]:
        return np.where(numbers > 0, 1.0, -1.0)
    if LOSSES[loss]["positive"]:
        return np.exp(np.clip(numbers, -3, 3))
    return np.maximum(numbers, 0.0) if LOSSES[loss]["log_link"] else numbers


def raw(model: OnlineLearner, predictions: Array) -> Array:
    """Return the raw predictions, which are logarithms with a log link."""
    return np.log(predictions) if model.model.parameters.log_link else predictions


def learner(**changed: Any) -> OnlineLearner:
    """Make a small linear learner in double precision."""
    return OnlineLearner(**{"dtype": "float64", "sketch_size": 4, "curves": False, **changed})


def reference_parameters(**changed: Any) -> dict[str, Any]:
    """Every parameter that the oracle has too, spelled out: its defaults are its own."""
    shared = Parameters(**{"sketch_size": 5, "oja_step": SCALE_FREE, **changed}).as_dict()
    for name in ("hash_bits", "dtype", "seed", "missing", "curves"):
        del shared[name]
    if shared["eta"] is None:  # the library's default: none where the loss is curved
        shared["eta"] = 0.0 if LOSSES[shared["loss"]]["hessian"] else "convex"
    if shared["alpha"] != "auto" and shared["sketch_every"] == "auto":
        shared["sketch_every"] = 1  # a lone weight vector needs every row
    return shared


def state_of(model: OnlineLearner) -> dict[str, Any]:
    """All that `save` would write, as bytes that can be compared."""
    document, tensors = model.__getstate__()
    arrays = {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in tensors.items()}
    return {"document": document, **arrays}


def orthonormality(basis: Array) -> float:
    """Return the largest entry of ``V V' - I``."""
    return float(np.abs(basis @ basis.T - np.eye(len(basis))).max(initial=0.0))
