"""Contenders of `benchmarks.curves`: what learns relations that are not linear.

Each has `learn(X, y)`, which predicts each row before it learns from it (batch learners only fit),
and `predict(X)`: probabilities of the positive class, or numbers. Rows are dense arrays.
"""

# ruff: noqa: PLC0415 - optional packages
from __future__ import annotations

import importlib.util
import io
import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.accuracy.learners import River, Sonline, Vw

BINS = 16  # of each column, in "VW, bins"
BAGS = 1  # of EBM; its default of 14 takes 14 times as long
BINNED_BY = 128  # first rows, whose quantiles are the ends of the bins


class OneByOne(Sonline):
    """`learn_one` and `predict_one`, with mappings."""

    def learn(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        learn_one = self.learner.learn_one
        rows = [dict(enumerate(row)) for row in X.tolist()]
        return self._out(np.array([learn_one(x, t) for x, t in zip(rows, y.tolist(), strict=True)]))


class Forest(River):
    """River's adaptive random forest."""

    def __init__(self, kind: str) -> None:
        from river import forest

        self.kind = kind
        regression = kind == "regression"
        self.model = (forest.ARFRegressor if regression else forest.ARFClassifier)(seed=1)

    def _rows(self, X: np.ndarray) -> list[dict[int, float]]:
        return [dict(enumerate(row)) for row in X.tolist()]


class Tree(Forest):
    """River's Hoeffding tree, with models in its leaves."""

    def __init__(self, kind: str) -> None:
        from river import tree

        self.kind = kind
        regression = kind == "regression"
        self.model = (tree.HoeffdingTreeRegressor if regression else tree.HoeffdingTreeClassifier)()


class Moa:
    """A forest of CapyMOA, which runs MOA in Java; its rows are arrays."""

    def __init__(self, kind: str, name: str) -> None:
        from capymoa import classifier, regressor
        from capymoa.core import LabeledInstance, RegressionInstance
        from capymoa.stream import NumpyStream

        self.regression = kind == "regression"
        self.stream = NumpyStream
        self.make = getattr(regressor if self.regression else classifier, name)
        self.row = (RegressionInstance if self.regression else LabeledInstance).from_array
        self.model: Any = None

    def learn(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        if self.model is None:
            labels = np.array([0, 1])
            of = {"target_type": "numeric" if self.regression else "categorical"}
            self.schema = self.stream(X[:2], labels, **of).get_schema()
            self.model = self.make(schema=self.schema, random_seed=1)
        out = []
        for x, label in zip(X, y.tolist(), strict=True):
            row = self.row(self.schema, x, label if self.regression else int(label > 0))
            out.append(self._one(row))
            self.model.train(row)
        return np.array(out)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.array([self._one(self.row(self.schema, x, 0)) for x in X])

    def _one(self, row: Any) -> float:
        if self.regression:
            return float(self.model.predict(row) or 0.0)
        shares = self.model.predict_proba(row)
        if shares is None or not np.sum(shares) > 0:
            return 0.5
        return float(shares[1] / np.sum(shares)) if len(shares) > 1 else 0.0

    def size(self) -> int | None:
        from capymoa.core.io import save_model

        buffer = io.BytesIO()
        try:
            save_model(self.model, buffer)
        except Exception:  # noqa: BLE001 - of Java: SRP cannot be saved
            return None
        return len(buffer.getvalue())


class VowpalWabbit(Vw):
    """Vowpal Wabbit on the columns; or, with bins, on a feature for each bin of each column."""

    def __init__(self, kind: str, arguments: str = "", *, bins: bool = False) -> None:
        super().__init__(kind, arguments)
        self.bins = bins
        self.ends: list[np.ndarray] = []

    def learn(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        if self.bins and not self.ends:
            shares = np.linspace(0, 1, BINS + 1)[1:-1]
            self.ends = [np.unique(np.quantile(x, shares)) for x in X[:BINNED_BY].T]
        return super().learn(self._features(X), y)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return super().predict(self._features(X))

    def _features(self, X: np.ndarray) -> sp.csr_matrix:
        if not self.bins:
            return sp.csr_matrix(X)
        places = [
            np.searchsorted(ends, x, side="right") for ends, x in zip(self.ends, X.T, strict=True)
        ]
        columns = np.stack(places, axis=1) + BINS * np.arange(X.shape[1])
        starts = np.arange(0, columns.size + 1, X.shape[1])
        shape = (len(X), BINS * X.shape[1])
        return sp.csr_matrix((np.ones(columns.size), columns.ravel(), starts), shape=shape)

    def size(self) -> int:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model")
            self.vw.save(str(path))
            return path.stat().st_size


class Batch:
    """A learner that needs all rows at once: it learns when it has them."""

    def __init__(self, kind: str, make: Callable[[bool], Any]) -> None:
        self.regression = kind == "regression"
        self.model = make(self.regression)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        self.model.fit(X, y if self.regression else (y > 0).astype(int))

    def predict(self, X: np.ndarray) -> np.ndarray:
        if self.regression:
            return np.asarray(self.model.predict(X))
        p = np.asarray(self.model.predict_proba(X))
        return p[:, 1] if p.ndim == 2 else p


def _boosting(regression: bool) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    make = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    return make(random_state=1)


def _ebm(pairs: bool) -> Callable[[bool], Any]:
    def make(regression: bool) -> Any:
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

        kind = ExplainableBoostingRegressor if regression else ExplainableBoostingClassifier
        extra = {} if pairs else {"interactions": 0}
        return kind(n_jobs=1, random_state=1, outer_bags=BAGS, **extra)

    return make


def _gam(regression: bool) -> Any:
    from pygam import LinearGAM, LogisticGAM

    return LinearGAM() if regression else LogisticGAM()


@dataclass(frozen=True)
class Entry:
    """A contender, the package that it needs, and for which kinds of targets it is."""

    name: str
    make: Callable[[str], Any] = field(repr=False)
    package: str = "sonline"
    kinds: tuple[str, ...] = ("binary", "regression")
    batch: bool = False


ENTRIES = (
    Entry("sonline, curves", Sonline),
    Entry("sonline, curves=False", lambda kind: Sonline(kind, curves=False)),
    Entry("sonline, curves, `learn_one`", OneByOne),
    Entry("River Hoeffding tree", Tree, "river"),
    Entry("River ARF", Forest, "river"),
    Entry(
        "CapyMOA ARF",
        lambda kind: Moa(
            kind, f"AdaptiveRandomForest{'Regressor' if kind == 'regression' else 'Classifier'}"
        ),
        "capymoa",
    ),
    Entry("CapyMOA SRP", lambda kind: Moa(kind, "StreamingRandomPatches"), "capymoa", ("binary",)),
    Entry("VW", VowpalWabbit, "vowpalwabbit"),
    Entry("VW -q ::", lambda kind: VowpalWabbit(kind, "-q ::"), "vowpalwabbit"),
    Entry("VW, bins", lambda kind: VowpalWabbit(kind, bins=True), "vowpalwabbit"),
    Entry("boosting (scikit-learn)", lambda kind: Batch(kind, _boosting), "sklearn", batch=True),
    Entry("EBM without pairs", lambda kind: Batch(kind, _ebm(False)), "interpret", batch=True),
    Entry("EBM", lambda kind: Batch(kind, _ebm(True)), "interpret", batch=True),
    Entry("pyGAM", lambda kind: Batch(kind, _gam), "pygam", batch=True),
)


def installed(entry: Entry) -> bool:
    """Return whether the package of a contender is there."""
    return importlib.util.find_spec(entry.package) is not None


def bytes_of(contender: Any) -> int | None:
    """Return the size of a model in a file, or pickled; None if it cannot be saved."""
    if hasattr(contender, "size"):
        size: int | None = contender.size()
        return size
    model = contender.learner if isinstance(contender, Sonline) else contender.model
    return len(pickle.dumps(model))


def warm_up(entries: Sequence[Entry]) -> None:
    """Start Java and let it compile, which is not part of the time of a row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    for entry in entries:
        for kind in entry.kinds if entry.package == "capymoa" else ():
            y = X[:, 0] ** 2
            contender = entry.make(kind)
            contender.learn(X, np.where(y > 1, 1.0, -1.0) if kind == "binary" else y)
            contender.predict(X[:10])
