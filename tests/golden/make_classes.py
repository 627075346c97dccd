"""Rows and labels of the golden model of several classes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def rows(count: int, seed: int) -> sp.csr_matrix:
    """Wide rows, made of integers only, so that they never change."""
    numbers = np.random.Generator(np.random.PCG64(seed))
    columns = numbers.integers(0, 900, size=(count, 12))
    values = numbers.integers(1, 9, size=(count, 12)) / 4
    X = sp.csr_matrix((values.ravel(), columns.ravel(), np.arange(count + 1) * 12), (count, 900))
    X.sum_duplicates()
    return X


def labels(count: int, seed: int) -> list[str]:
    """Four classes."""
    drawn = np.random.Generator(np.random.PCG64(seed)).integers(0, 4, size=count)
    return [f"class {number}" for number in drawn.tolist()]
