"""Rows: generated ones, and the paper's data sets where a folder has them; as arrays and as text.

Every contender gets the same rows: CSR with float32 values and 32-bit indices, or the text of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sonline.paper import datasets

REAL = ("a9a", "20news", "rcv1_subset")


@dataclass(frozen=True, eq=False)
class Rows:
    name: str
    X: sp.csr_matrix
    y: np.ndarray  # -1 and +1

    @property
    def features(self) -> int:
        return int(self.X.shape[1])

    def head(self, rows: int) -> Rows:
        return Rows(self.name, self.X[:rows], self.y[:rows])


@dataclass(frozen=True)
class Shape:
    """Of generated rows. Zipf: feature k is drawn with probability ~ 1/k, as words are."""

    nonzeros: int
    features: int
    zipf: bool = False

    @property
    def name(self) -> str:
        kind = "Zipf" if self.zipf else "uniform"
        return f"{self.nonzeros} non-zeros, {self.features:,} features, {kind}"

    @property
    def about(self) -> dict[str, Any]:
        return {"nonzeros": self.nonzeros, "features": self.features, "zipf": self.zipf}


MAIN = Shape(64, 50_000)  # the case of which targets speak
GENERATED = (MAIN, Shape(64, 200_000, zipf=True), Shape(500, 50_000), Shape(500, 200_000, True))


@cache
def generated(shape: Shape, rows: int, seed: int = 0) -> Rows:
    """Make rows whose labels are the sign of a linear function."""
    random = np.random.default_rng(seed)
    count = (rows, shape.nonzeros)
    if shape.zipf:
        # The inverse of the distribution function, ln k / ln d; duplicates are summed below.
        indices = np.power(float(shape.features), random.random(count)).astype(np.int32) - 1
        scatter = random.permutation(shape.features).astype(np.int32)  # common ones anywhere
        indices = scatter[indices]
    else:  # one feature out of each of `nonzeros` equal ranges
        width = shape.features // shape.nonzeros
        indices = np.arange(shape.nonzeros, dtype=np.int32) * width
        indices = indices + random.integers(0, width, count, dtype=np.int32)
    indices.sort(axis=1)
    values = np.round(random.random(indices.size, dtype=np.float32) - np.float32(0.5), 6)
    ends = np.arange(0, indices.size + 1, shape.nonzeros, dtype=np.int32)
    X = sp.csr_matrix((values, indices.ravel(), ends), shape=(rows, shape.features))
    X.sum_duplicates()
    y = np.where(X @ (random.random(shape.features) - 0.5) > 0, 1.0, -1.0)
    return Rows(shape.name, X, y)


@cache
def every_feature(features: int) -> Rows:
    """Make rows of up to 1,000 features that show each feature once."""
    random = np.random.default_rng(1)
    order = random.permutation(features).astype(np.int32)
    values = random.random(features, dtype=np.float32) - np.float32(0.5)
    ends = np.append(np.arange(0, features, 1000), features).astype(np.int32)
    X = sp.csr_matrix((values, order, ends), shape=(ends.size - 1, features))
    return Rows("every feature once", X, np.where(random.random(ends.size - 1) > 0.5, 1.0, -1.0))


def real(folder: Path | None) -> list[Rows]:
    """Return those of the three real sets that the folder has."""
    sets = []
    for name in REAL:
        path = real_file(name, folder)
        if path is None:
            continue
        from sklearn.datasets import load_svmlight_file  # noqa: PLC0415 - slow to import

        X, y = load_svmlight_file(str(path), dtype=np.float32, zero_based=False)
        if len(np.unique(y)) > 2:  # speed only: the first half of the classes against the rest
            y = np.where(y <= np.median(np.unique(y)), 1.0, -1.0)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        sets.append(Rows(name, sp.csr_matrix(X), np.where(y > 0, 1.0, -1.0)))
    return sets


def real_file(name: str, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    if name in datasets.names():
        return datasets.locate(name, folder)
    path = folder / f"{name}.svm.gz"
    return path if path.exists() else None


def texts(rows: Rows, form: str = "{}:{:.6g}") -> tuple[bytes, bytes]:
    """Return the rows as svmlight (indices from 1) and as Vowpal Wabbit text."""
    ends, indices = rows.X.indptr.tolist(), (rows.X.indices + 1).tolist()
    values, labels = rows.X.data.tolist(), rows.y.astype(int).tolist()
    svmlight, vw = [], []
    for start, end, label in zip(ends[:-1], ends[1:], labels, strict=True):
        pairs = " ".join(map(form.format, indices[start:end], values[start:end]))
        svmlight.append(f"{label} {pairs}\n")
        vw.append(f"{label} | {pairs}\n")
    return "".join(svmlight).encode(), "".join(vw).encode()


def dictionaries(
    rows: Rows, prefix: str = "", *, same_keys: bool = True
) -> list[tuple[dict[str | int, float], bool]]:
    """Return the rows as mappings; keys are names if there is a prefix.

    These are the same objects in all rows, as in those of a CSV file or a data frame, or texts of
    each row's own, as from JSON.
    """
    ends, labels = rows.X.indptr.tolist(), (rows.y > 0).tolist()
    values = rows.X.data.astype(float).tolist()
    keys: list[str | int] = [f"{prefix}{j}" if prefix else j for j in rows.X.indices.tolist()]
    if same_keys:
        first = {key: key for key in reversed(keys)}
        keys = [first[key] for key in keys]
    return [
        (dict(zip(keys[start:end], values[start:end], strict=True)), label)
        for start, end, label in zip(ends[:-1], ends[1:], labels, strict=True)
    ]
