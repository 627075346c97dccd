"""Streams as files: each is built once, and read by other programs, too.

A folder has one .npz file for every stream (the arrays of a CSR matrix, y, kind, group, half) and
index.json, which lists them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.accuracy.stream import MOST_ROWS, Rows, Stream


class Cache:
    """The streams of a folder.

    Parameters
    ----------
    folder
        Where the files are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, stream: Stream) -> Rows:
        """Return the rows of a stream; build and keep them first if they are not there."""
        path = self.folder / _file(stream)
        if not path.exists():
            self._keep(stream, path)
        with np.load(path) as kept:
            parts = kept["data"].astype(float), kept["indices"], kept["indptr"]
            return sp.csr_matrix(parts, shape=kept["shape"]), kept["y"]

    def _keep(self, stream: Stream, path: Path) -> None:
        X, y = tidy(stream)
        single = X.data.astype(np.float32)
        arrays = {
            "data": single if np.array_equal(single, X.data) else X.data,
            "indices": X.indices,
            "indptr": X.indptr,
            "shape": np.array(X.shape),
            "y": y,
            **{key: np.array(value) for key, value in _about(stream).items()},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path.with_suffix(".part.npz"), **arrays)
        path.with_suffix(".part.npz").replace(path)
        index = self.folder / "index.json"
        listed = json.loads(index.read_text(encoding="utf-8")) if index.exists() else []
        listed = [entry for entry in listed if entry["name"] != stream.name]
        listed.append(_about(stream) | {"file": path.name} | described(stream.kind, X, y))
        listed.sort(key=lambda entry: (entry["group"], entry["name"]))
        index.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def tidy(stream: Stream) -> Rows:
    """Return the first rows of a stream, without columns of zeros; check rows and labels."""
    X, y = stream.load()
    X, y = sp.csr_matrix(X, dtype=float)[:MOST_ROWS], np.asarray(y, float)[:MOST_ROWS]
    X.sum_duplicates()
    X.eliminate_zeros()
    used = np.unique(X.indices)
    X = sp.csr_matrix(X[:, used])
    X.sort_indices()
    if X.shape[0] != y.size or not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError(f"{stream.name}: rows and labels do not fit, or are not finite")
    if stream.kind == "binary" and set(np.unique(y)) != {-1.0, 1.0}:
        raise ValueError(f"{stream.name}: labels must be -1 and +1, both of them")
    if stream.kind == "multiclass":
        y = np.unique(y, return_inverse=True)[1].astype(float)  # rows that were cut off
    return X, y


def described(kind: str, X: sp.csr_matrix, y: np.ndarray) -> dict[str, Any]:
    """Return the numbers of index.json; the base rate is of positives, or of the largest class."""
    counts = np.unique(y, return_counts=True)[1]
    share = {"binary": np.mean(y > 0), "multiclass": counts.max() / y.size, "regression": y.mean()}
    return {
        "rows": y.size,
        "features": X.shape[1],
        "nnz_per_row": round(X.nnz / y.size, 2),
        "classes": None if kind == "regression" else counts.size,
        "base_rate": round(float(share[kind]), 5),
    }


def _about(stream: Stream) -> dict[str, str]:
    return {
        key: getattr(stream, key) for key in ("name", "kind", "group", "half", "source")
    }  # fmt: skip


def _file(stream: Stream) -> str:
    return re.sub(r"[^a-z0-9]+", "-", stream.name.lower()).strip("-") + ".npz"


def rows_or_reason(rows_of: Callable[[Stream], Rows], stream: Stream) -> Rows | None:
    """Return the rows of a stream; print why it is left out if it cannot be built."""
    try:
        return rows_of(stream)
    except Exception as error:  # noqa: BLE001 - the other streams are run
        print(f"left out: {stream.name}: {error!r}", file=sys.stderr, flush=True)
        return None
