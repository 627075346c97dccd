"""Streams of the svmlight files in a folder."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.accuracy.encode import shuffled, signs, tfidf
from benchmarks.accuracy.stream import Rows, Stream

IN_FILE_ORDER = ("covtype", "ijcnn1", "census", "a9a")
SHUFFLED = {
    "tables": ("a9a", "covtype", "magic04", "mushrooms", "splice"),
    "rare": ("census", "ijcnn1", "w8a"),
    "small": ("breast-cancer", "diabetes", "heart", "ionosphere"),
}
REGRESSION = {
    "regression": ("abalone", "airfoil", "bike", "california", "concrete", "elevators"),
    "small": ("energy",),
}
CLASSES = {"letter": "many", "covtype": "tables", "20news": "many"}


def streams(folder: Path) -> Iterator[Stream]:
    """Yield the streams whose files are there."""
    for stream, file in _all(folder):
        if file.exists():
            yield stream


def _all(folder: Path) -> Iterator[tuple[Stream, Path]]:
    def file(name: str) -> Path:
        return folder / f"{name}.svm.gz"

    def stream(
        label: str, about: tuple[str, str], name: str, load: Callable[[Path], Rows], *, mix: bool
    ) -> tuple[Stream, Path]:
        read = functools.partial(load, file(name))
        return Stream(label, *about, shuffled(read) if mix else read), file(name)

    for name in IN_FILE_ORDER:
        yield stream(f"{name} (file order)", ("binary", "ordered"), name, _binary, mix=False)
    for name in ("elec", "weather"):
        yield stream(name, ("binary", "ordered"), f"drift/{name}", _binary, mix=False)
    for group, names in SHUFFLED.items():
        for name in names:
            yield stream(name, ("binary", group), name, _binary, mix=True)
    for group, names in REGRESSION.items():
        for name in names:
            yield stream(name, ("regression", group), f"regression/{name}", _parsed, mix=True)
    bike = "regression/bike"
    yield stream("bike (time order)", ("regression", "ordered"), bike, _parsed, mix=False)
    yield stream("rcv1", ("binary", "text"), "rcv1_subset", _binary, mix=True)
    for name, group in CLASSES.items():
        yield stream(f"{name} (classes)", ("multiclass", group), name, classes, mix=True)
    for number in (2, 8, 11, 15, 18):
        for weights in ("counts", "tf-idf"):
            load = functools.partial(_newsgroup, number, weights)
            label = f"20news group {number} {weights}"
            yield stream(label, ("binary", "text"), "20news", load, mix=True)


@functools.lru_cache(maxsize=4)  # several streams share a file
def _parsed(path: Path) -> Rows:
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415 - slow to import

    X, y = load_svmlight_file(str(path))
    X.eliminate_zeros()
    return sp.csr_matrix(X), y


def _binary(path: Path) -> Rows:
    X, y = _parsed(path)
    return X, signs(y == 2 if path.name.startswith("covtype") else y == y.max())


def classes(path: Path) -> Rows:
    X, y = _parsed(path)
    return X, np.unique(y, return_inverse=True)[1].astype(float)


def _newsgroup(number: int, weights: str, path: Path) -> Rows:
    X, y = _parsed(path)
    if weights == "tf-idf":
        X = tfidf(X)
    # The neighbouring groups are the other class: one of twenty against the rest would be rare.
    near = (y >= number - 2) & (y <= number + 2)
    return X[near], signs(y[near] == number)
