"""Standard deviations of predictions: whether they are large where errors are, and their cost."""

# ruff: noqa: PLC0415 - optional packages
from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import spearmanr

from benchmarks.decisions.peers import AdaPI, Mve, installed
from benchmarks.decisions.streams import shuffled
from sonline import OnlineLearner

FIRST = 0.2  # of the rows are not judged
ROWS = 20_000  # that are predicted for the time


def run(data_dir: Path | None) -> dict[str, Any]:
    results = []
    for table in shuffled(data_dir):
        X, y = table.load()
        correlations = {}
        for name, (package, make) in CONTENDERS.items():
            if installed(package):
                correlations[name] = correlation(make(X.shape[1]), X, y)
        results.append({"stream": table.name, "rows": len(y), "correlations": correlations})
    return {"results": results, "times": {name: ratio(*rows()) for name, rows in TIMED.items()}}


def correlation(step: Step, X: np.ndarray, y: np.ndarray) -> float:
    """Return Spearman's correlation of the standard deviation and the squared error."""
    said = np.array([step(x, label) for x, label in zip(X, y.tolist(), strict=True)])
    first = int(FIRST * len(y))
    errors = (y[first:] - said[first:, 0]) ** 2
    value = spearmanr(said[first:, 1], errors).statistic
    return float(value) if np.isfinite(value) else 0.0  # the same deviation for all rows


# Predicts a row, learns it, and returns the prediction and its standard deviation from before.
Step = Callable[[np.ndarray, float], tuple[float, float]]


def _ours(_: int) -> Step:
    learner = OnlineLearner(loss="squared")

    def step(x: np.ndarray, label: float) -> tuple[float, float]:
        predictions, deviations = learner.predict(x[np.newaxis], return_std=True)
        learner.learn(x[np.newaxis], [label])
        return float(predictions[0]), float(deviations[0])

    return step


def _river(_: int) -> Step:
    from river import linear_model, preprocessing

    scaler, model = preprocessing.StandardScaler(), linear_model.BayesianLinearRegression()

    def step(x: np.ndarray, label: float) -> tuple[float, float]:
        row = dict(enumerate(x.tolist())) | {"1": 1.0}
        scaler.learn_one(row)
        row = scaler.transform_one(row) | {"1": 1.0}
        said = model.predict_one(row, with_dist=True)
        model.learn_one(row, label)
        return said.mu, said.sigma

    return step


def _capymoa(kind: type[AdaPI]) -> Callable[[int], Step]:
    def make(features: int) -> Step:
        model = kind(features)

        def step(x: np.ndarray, label: float) -> tuple[float, float]:
            low, middle, high = model.interval(x)
            model.learn(x, label)
            return middle, high - low

        return step

    return make


CONTENDERS: dict[str, tuple[str, Callable[[int], Step]]] = {
    "sonline": ("sonline", _ours),
    "River BayesianLinearRegression": ("river", _river),
    "CapyMOA MVE": ("capymoa", _capymoa(Mve)),
    "CapyMOA AdaPI": ("capymoa", _capymoa(AdaPI)),
}


def _dense(columns: int) -> tuple[Any, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(ROWS, columns))
    return X, X[:, 0] + np.abs(X[:, 1])


def _sparse() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    places = np.exp(rng.random((ROWS, 64)) * np.log(50_000)).astype(np.int32)
    X = sp.csr_matrix((np.ones(places.size), places.ravel(), np.arange(ROWS + 1) * 64))
    X.sum_duplicates()
    return X, X @ rng.normal(size=X.shape[1])


TIMED: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "10 columns": lambda: _dense(10),
    "100 columns": lambda: _dense(100),
    "64 of 50,000 words": _sparse,
}


def ratio(X: Any, y: np.ndarray) -> dict[str, float]:
    """Return the time of `predict`, and with standard deviations: µs a row, the best of some."""
    learner = OnlineLearner(loss="squared")
    learner.learn(X, y)
    seconds: dict[str, list[float]] = {"plain": [], "std": []}
    for _ in range(7):
        for name, each in seconds.items():
            start = time.process_time()
            learner.predict(X, return_std=name == "std")
            each.append(time.process_time() - start)
    return {name: min(each) / len(y) * 1e6 for name, each in seconds.items()}
