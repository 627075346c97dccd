"""float32 predicts what float64 predicts, and its directions stay orthonormal, on long streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import Array, orthonormality
from sonline import OnlineLearner

NNZ, CHUNK = 32, 25_000
FIXED = {"alpha": 1.0, "scaling": "none"}
LEARNERS: dict[str, dict[str, Any]] = {
    "oja": {"sketch": "oja", **FIXED},
    "oja, squared": {"sketch": "oja", "loss": "squared", **FIXED, "alpha": 4.0},
    "isotropic": FIXED,
    "fd": {"sketch": "fd", **FIXED},
    "default": {},
}
VALUES = {
    "Gaussian": lambda values: values,
    "all positive": lambda values: np.abs(values) / 8,
    "one-hot": np.ones_like,
}


def chunks(kind: str, rows: int, features: int) -> Iterator[tuple[sp.csr_matrix, Array]]:
    """Yield rows with frequent and rare features, and the margins of a random linear rule.

    Feature i comes with a probability of about 3 / i: the first ones are in most rows.
    """
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(features)
    for _ in range(rows // CHUNK):
        positions = np.exp(rng.random((CHUNK, NNZ)) * np.log(features)).astype(np.int32) - 1
        values = VALUES[kind](rng.standard_normal((CHUNK, NNZ))).astype(np.float32)
        X = sp.csr_matrix(
            (values.ravel(), positions.ravel(), np.arange(CHUNK + 1) * NNZ), shape=(CHUNK, features)
        )
        X.sum_duplicates()
        yield X, X @ truth


def check_digits(
    kind: str, name: str, rows: int, features: int, limits: tuple[float, float]
) -> None:
    settings = LEARNERS[name]
    single = OnlineLearner(**settings, dtype="float32")
    double = OnlineLearner(**settings, dtype="float64")
    for X, margins in chunks(kind, rows, features):
        y = margins / 8 if settings.get("loss") == "squared" else np.where(margins > 0, 1.0, -1.0)
        difference = single.learn(X, y) - double.learn(X, y)
        assert np.sqrt(np.mean(difference**2)) < limits[0]
        basis = single.basis()
        assert len(basis) > 0
        assert orthonormality(basis) < limits[1]


@pytest.mark.parametrize("name", ["oja", "isotropic", "default"])
def test_digits(name: str) -> None:
    """Frequent features, which float32 would round in every row, are kept in double."""
    check_digits("Gaussian", name, rows=100_000, features=5000, limits=(1e-4, 1e-5))


@pytest.mark.long
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", LEARNERS)
def test_digits_after_a_million_rows(kind: str, name: str) -> None:
    check_digits(kind, name, rows=1_000_000, features=100_000, limits=(1e-3, 1e-5))
