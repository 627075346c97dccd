"""Intervals and pairs of quantiles under drift: coverage, its worst window, width, crossings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import QuantileRegressor
from sklearn.preprocessing import StandardScaler

from benchmarks.decisions.peers import AdaPI, Mapie, crepes_intervals, installed, river_intervals
from benchmarks.decisions.streams import Table, changing, drifting, shuffled
from sonline import OnlineLearner

LEVEL, FIRST, WINDOW = 0.9, 500, 1000
PAIR = (0.1, 0.9)  # 80 % are to be between
LEARNED = 0.7  # of the rows; the model then predicts the others
SEVERAL = 10  # rows at a time, for quantiles: predicted, then learned


def run(data_dir: Path | None) -> dict[str, Any]:
    return {
        "rows from": FIRST,
        "results": [compared(table) for table in drifting(data_dir)],
        "pairs": pairs(data_dir),
    }


def compared(table: Table) -> dict[str, Any]:
    """Return what intervals of 90 % are worth, predicted for each row before it is learned."""
    X, y = table.load()
    start = time.process_time()
    said = live(X, y)
    seconds = {"sonline": time.process_time() - start}
    predictions, sizes, ends = said[:, 0], said[:, 1], said[:, 2:]
    intervals = {"sonline": ends[FIRST:]}

    def measure(name: str, package: str, make: Any) -> None:
        if installed(package):
            start = time.process_time()
            intervals[name] = make()
            seconds[name] = time.process_time() - start

    measure("MAPIE ACI", "mapie", lambda: mapie(predictions, y))
    measure(
        "crepes, online",
        "crepes",
        lambda: crepes_intervals(predictions, y, np.ones_like(y), FIRST, LEVEL),
    )
    measure(
        "crepes, online, our std",
        "crepes",
        lambda: crepes_intervals(predictions, y, np.maximum(sizes, 1e-300), FIRST, LEVEL),
    )
    measure(
        "River jackknife, last 500",
        "river",
        lambda: river_intervals(predictions, y, LEVEL, FIRST)[FIRST:],
    )
    measure("CapyMOA AdaPI", "capymoa", lambda: adapi(X, y)[FIRST:])
    scale = float(y.std())
    return {
        "stream": table.name,
        "rows": len(y),
        "whole": {"coverage": coverage(ends, y), "window": worst(ends, y)},  # from the first row on
        "scores": {
            name: {**scored(found, y[FIRST:], scale), "micro": 1e6 * seconds[name] / len(y)}
            for name, found in intervals.items()
        },
    }


def live(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return prediction, standard deviation and both ends of each row, before it is learned."""
    learner, out = OnlineLearner(loss="squared"), np.empty((len(y), 4))
    for t in range(len(y)):
        prediction, size, ends = learner.predict(X[t : t + 1], return_std=True, interval=LEVEL)
        out[t] = prediction[0], size[0], *ends[0]
        learner.learn(X[t : t + 1], y[t : t + 1])
    return out


def mapie(predictions: np.ndarray, y: np.ndarray) -> np.ndarray:
    model = Mapie(predictions[:FIRST], y[:FIRST], LEVEL)
    rows = zip(predictions[FIRST:].tolist(), y[FIRST:].tolist(), strict=True)
    return np.array([model.step(prediction, label) for prediction, label in rows])


def adapi(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    model, ends = AdaPI(X.shape[1], LEVEL), []
    for x, label in zip(X, y.tolist(), strict=True):
        low, _, high = model.interval(x)
        ends.append((low, high))
        model.learn(x, label)
    return np.array(ends)


def inside(ends: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (ends[:, 0] <= y) & (y <= ends[:, 1])


def coverage(ends: np.ndarray, y: np.ndarray) -> float:
    return float(inside(ends, y).mean())


def worst(ends: np.ndarray, y: np.ndarray, level: float = LEVEL) -> float:
    """Return how far the coverage of some 1,000 rows in a row is from its target."""
    windows = np.convolve(inside(ends, y), np.ones(WINDOW) / WINDOW, "valid")
    return float(np.abs(windows - level).max())


def scored(ends: np.ndarray, y: np.ndarray, scale: float) -> dict[str, float]:
    """Return coverage, worst window, width, and the share of intervals that are infinite.

    The interval score is the width, and 2 / 10 % times how far a label is outside (Winkler 1972).
    An infinite interval counts as the widest finite one of its contender.
    """
    widths = ends[:, 1] - ends[:, 0]
    finite = np.isfinite(widths)
    outside = np.maximum(np.maximum(ends[:, 0] - y, y - ends[:, 1]), 0)
    score = np.where(finite, widths, widths[finite].max()) + 2 / (1 - LEVEL) * outside
    return {
        "coverage": coverage(ends, y),
        "window": worst(ends, y),
        "width": float(widths[finite].mean() / scale),
        "score": float(score.mean() / scale),
        "infinite": float(1 - finite.mean()),
    }


def pairs(data_dir: Path | None) -> list[dict[str, Any]]:
    """Return coverage and crossings of pairs of quantiles: shuffled, in order, live, and counts."""
    found = [
        pair(table.name, "shuffled", *table.load())
        for table in shuffled(data_dir)
        if table.name != "bike by the hour"
    ]
    found += [pair(table.name, "in order", *table.load()) for table in drifting(data_dir)]
    X, _ = changing("noise")
    counts = np.random.default_rng(2).poisson(np.exp(1 + 0.5 * X[:, 0])).astype(float)
    found.append(pair("counts (generated)", "shuffled", X, counts))
    return found


def pair(name: str, order: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    cut = int(LEARNED * len(y))
    frozen, before = np.empty((len(y) - cut, 2)), np.empty((len(y), 2))
    for side, level in enumerate(PAIR):
        learner = OnlineLearner(loss="quantile", quantile=level)
        for low in range(0, len(y), SEVERAL):
            rows = slice(low, min(low + SEVERAL, len(y)))
            before[rows, side] = learner.predict(X[rows])
            learner.learn(X[rows], y[rows])
        learner = OnlineLearner(loss="quantile", quantile=level)
        learner.learn(X[:cut], y[:cut])
        frozen[:, side] = learner.predict(X[cut:])
    scaler = StandardScaler().fit(X[:cut])
    batch = np.stack(
        [
            QuantileRegressor(quantile=level, alpha=0, solver="highs")
            .fit(scaler.transform(X[:cut]), y[:cut])
            .predict(scaler.transform(X[cut:]))
            for level in PAIR
        ],
        axis=1,
    )
    return {
        "stream": name,
        "order": order,
        "rows": len(y),
        "frozen": both(frozen, y[cut:]),
        "live": both(before[FIRST // 2 :], y[FIRST // 2 :]),
        "batch": both(batch, y[cut:]),
    }


def both(ends: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the share between the ends, and that of pairs in the wrong order."""
    return {
        "coverage": coverage(ends, y),
        "below": float(np.mean(y < ends[:, 0])),
        "above": float(np.mean(y > ends[:, 1])),
        "crossings": float(np.mean(ends[:, 0] > ends[:, 1])),
    }
