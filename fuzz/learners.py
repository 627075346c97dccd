"""Learners with random parameters and hostile numbers; shared with the other targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sonline import OnlineLearner
from sonline.errors import SonlineError
from sonline.parameters import LOSSES, SKETCHES

SIZES = [0.0, 5e-324, 1e-310, 1e-200, 1e-150, 1e-80, 1e-45, 1e-38, 1e-20, 1e-8, 0.1, 1.0, 3.0]
SIZES += [1e3, 1e8, 1e17, 1e18, 1e38, 1e75, 1e149, 1e150, 1e154, 1e300, np.inf, np.nan]
COUNTS = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 63, 64, 255, 511, 512, 513, 1023, 1024, 4095, 4096]
COUNTS += [8191, 8192, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1]
WORDS = [
    "",
    "a",
    "none",
    "full",
    "fd",
    "auto",
    "relative:1e-300",
    "relative:",
    "logistic",
    "x" * 99,
]
THINGS: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    1e308,
    -0.5,
    2**63,
    2**70,
    [],
    {},
    [[]],
    *WORDS,
]


def random_parameters(rng: np.random.Generator) -> dict[str, Any]:
    """Return parameters of an OnlineLearner, about half of them as usual."""
    choices: dict[str, list[Any]] = {
        "loss": list(LOSSES),
        "sketch": [*SKETCHES, "isotropic", "fd", "rfd", "oja"],
        "sketch_size": [0, 1, 2, 3, 5, 10, 17],
        "alpha": ["auto", "auto", 1.0, 1e-300, 1e-12, 1e12, 1e300, "relative:1", "relative:1e-9"],
        "bound": [None, None, 1.0, 1e-300, 1e300],
        "clip": [False, True],
        "step": ["implicit", "implicit", "explicit"],
        "curvature": ["auto", "auto", "gradient"],
        "sigma": [None, None, 0.0, 1.0, 1e300],
        "eta": [None, None, "convex", 1.0, 1e-300, 1e300],
        "oja_step": ["scale-free", "scale-free", 1.0, 1e-300, 1e300],
        "sketch_every": ["auto", 1, 2, 7],
        "scaling": ["auto", "auto", "rms", "none", "gradient"],
        "intercept": [True, False],
        "hash_bits": [None, None, 1, 4, 62],
        "dtype": ["float32", "float64"],
        "quantile": [0.5, 1e-9, 1 - 1e-9],
    }
    chosen = {name: pick(rng, values) for name, values in choices.items()}
    if chosen["alpha"] == "auto":
        del chosen["step"]  # only implicit steps are blended
    usual = rng.random() < 0.5
    fixed = ("loss", "sketch", "sketch_size", "alpha", "scaling", "dtype", "intercept", "step")
    return {name: value for name, value in chosen.items() if name in fixed or not usual}


def pick(rng: np.random.Generator, values: Any) -> Any:
    """Return one of them, as it is."""
    return values[int(rng.integers(len(values)))]


def numbers(rng: np.random.Generator, shape: Any, largest: float) -> np.ndarray[Any, Any]:
    """Return numbers of a few sizes, often extreme ones, hardly ever impossible ones."""
    allowed = [size for size in SIZES if size <= largest]
    some = rng.choice(allowed, size=int(rng.integers(1, 4)))
    if rng.random() < 0.3:
        some = np.array([0.0, 1.0])
    out = rng.choice(some, size=shape) * rng.choice([-1.0, 1.0, 1.0], size=shape)
    if rng.random() < 0.5:
        out = out * rng.normal(size=shape)
    if rng.random() < 0.02 and out.size:
        out.reshape(-1)[int(rng.integers(out.size))] = pick(rng, [np.nan, np.inf, -np.inf, 1e301])
    return np.asarray(out)


def rows(rng: np.random.Generator, count: int, columns: int, dtype: str) -> Any:
    """Return rows as an array, a sparse matrix or mappings."""
    X = numbers(rng, (count, columns), 1e18 if dtype == "float32" else 1e150)
    X *= rng.random(X.shape) < pick(rng, [0.2, 0.7, 1.0])
    kind = rng.random()
    if kind < 0.4:
        return X
    if kind < 0.7:
        sparse = sp.csr_matrix(X)
        if rng.random() < 0.3 and sparse.nnz:  # features of any size, and twice
            indices = rng.choice(np.array(COUNTS[:-1], dtype=np.int64), size=sparse.nnz)
            starts = sparse.indptr.astype(np.int64)
            return sp.csr_array((sparse.data, indices, starts), shape=(count, 2**63 - 1))
        return sparse
    keys: list[Any] = [f"f{j}" if rng.random() < 0.7 else j for j in range(columns)]
    return [
        {
            key: (float(value) if rng.random() < 0.9 else "text")
            for key, value in zip(keys, row, strict=True)
        }
        for row in X
    ]


def labels(rng: np.random.Generator, learner: Any, count: int) -> Any:
    """Return labels that the loss takes."""
    loss = LOSSES[learner.params["loss"]]
    if loss["binary"]:
        return rng.choice([-1.0, 1.0], size=count)
    if loss["log_link"]:
        return np.abs(numbers(rng, count, 1e18))
    return numbers(rng, count, 1e150)


def learn_some(rng: np.random.Generator, learner: Any) -> None:
    """Learn a batch; all predictions must be finite."""
    count = pick(rng, [0, 1, 2, 5, 8, 12, 40])  # 40: beyond the first rows
    X = rows(rng, count, int(rng.integers(1, 9)), learner.params["dtype"])
    y = labels(rng, learner, count)
    weights = np.abs(numbers(rng, count, 1e150)) if rng.random() < 0.3 else None
    predictions = learner.learn(X, y, weights)
    bound = learner.params["bound"] or np.inf
    if LOSSES[learner.params["loss"]]["log_link"]:
        margins = np.log(predictions, where=predictions > 0, out=np.zeros(count))
        margins /= 1 + 1e-9  # of rounding
    else:
        margins = predictions
    if not (np.isfinite(predictions) & (np.abs(margins) <= bound)).all():
        raise AssertionError(f"predictions {predictions}, bound {bound}")


def look(learner: Any) -> None:
    """Read all that a learner shows."""
    learner.features(), learner.stats(), learner.spectrum(), repr(learner)
    learner.weights(), learner.basis()


def save_and_load(learner: Any, folder: Path) -> Any:
    """Return the learner from its file, which must hold the same."""
    try:
        before = state_of(learner)
        learner.save(folder / "saved")
    except SonlineError:
        return learner
    loaded = type(learner).load(folder / "saved")
    if before != state_of(loaded):
        raise AssertionError("the loaded learner is not the one that was saved")
    return loaded


def state_of(learner: Any) -> Any:
    """Return all that is saved, to be compared."""
    document, tensors = learner.model.__getstate__()
    arrays = {name: (a.dtype, a.shape, a.tobytes()) for name, a in tensors.items()}
    return document, arrays


def fuzz_numbers(rng: np.random.Generator, folder: Path) -> None:
    """Learners with random parameters meet hostile numbers."""
    parameters = random_parameters(rng)
    learner, other = OnlineLearner(**parameters), OnlineLearner(**parameters)
    for _ in range(int(rng.integers(1, 8))):
        action = rng.random()
        if action < 0.6:
            learn_some(rng, learner)
        elif action < 0.7:
            learn_some(rng, other)
        elif action < 0.8:
            learner.predict(rows(rng, 3, 9, parameters["dtype"]))
        elif action < 0.88:
            learner = save_and_load(learner, folder)
        elif action < 0.95:
            learner = learner.merge([other])
        else:
            look(learner)
    look(learner)
