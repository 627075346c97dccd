"""One protocol: how good a model is while it learns, once it is frozen, and with late labels.

    progressive  every row is predicted, then learned
    frozen       the model of a half (and of three quarters) of the rows predicts the next quarter
    late D       the label of a row is learned after D more rows have been predicted

Errors are shares of wrong labels, or squared errors over the variance of the target. `log loss` is
that of the probability (natural logarithm), `ece` the calibration error in 15 bins of equal size.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

Scores = dict[str, float]
DELAYS = (1, 100, 1000)
LATE_ROWS = 30_000  # the most that are used for delays


class Contender(Protocol):
    """A model. Predictions are probabilities (rows x classes) or numbers."""

    def learn(self, X: sp.csr_matrix, y: np.ndarray) -> np.ndarray: ...
    def predict(self, X: sp.csr_matrix) -> np.ndarray: ...


def judge(
    make: Callable[[], Contender],
    kind: str,
    X: sp.csr_matrix,
    y: np.ndarray,
    *,
    delays: Sequence[int] = DELAYS,
) -> dict[str, Any]:
    """Return the scores of one contender on one stream."""
    n = y.size
    start = time.process_time()
    contender = make()
    cuts = [0, n // 2, 3 * n // 4, n]
    progressive, frozen, truth = [], [], []
    for low, high in itertools.pairwise(cuts):
        progressive.append(contender.learn(X[low:high], y[low:high]))
        if high < n:
            later = slice(high, min(high + n // 4, n))
            frozen.append(contender.predict(X[later]))
            truth.append(y[later])
    result: dict[str, Any] = {"seconds": time.process_time() - start}
    spread = y.var() if kind == "regression" else 1.0
    result["progressive"] = score(kind, np.concatenate(progressive), y, spread)
    result["frozen"] = score(kind, np.concatenate(frozen), np.concatenate(truth), spread)
    rows = min(n, LATE_ROWS)
    for delay in delays:
        if rows >= 4 * delay:
            late_predictions = with_delay(make(), X[:rows], y[:rows], delay)
            result[f"late {delay}"] = score(kind, late_predictions, y[delay:rows], spread)
    return result


def with_delay(contender: Contender, X: sp.csr_matrix, y: np.ndarray, delay: int) -> np.ndarray:
    """Return predictions of the rows from `delay` on, in batches of a tenth of the delay.

    Row t is predicted by a model that has learned the rows before t - delay (delay 1 leaves out
    one label: that of the row before).
    """
    batch = max(delay // 10, 1)
    predictions = []
    for t in range(delay, y.size, batch):
        done = t - delay
        if done > 0:
            contender.learn(X[max(done - batch, 0) : done], y[max(done - batch, 0) : done])
        predictions.append(contender.predict(X[t : min(t + batch, y.size)]))
    return np.concatenate(predictions)


def score(kind: str, predictions: np.ndarray, y: np.ndarray, spread: float) -> Scores:
    """Return error, and for classes log loss and calibration error."""
    if kind == "median":
        return {"error": float(np.mean(np.abs(predictions - y)))}
    if kind == "regression":
        return {"error": float(np.mean((predictions - y) ** 2) / spread)}
    if predictions.ndim == 1:
        p = np.stack([1 - predictions, predictions], axis=1)
        truth = (y > 0).astype(int)
    else:
        p, truth = predictions, y.astype(int)
    of_truth = np.clip(p[np.arange(truth.size), truth], 1e-9, 1)
    confidence, guess = p.max(1), p.argmax(1)
    return {
        "error": float(np.mean(guess != truth)),
        "log loss": float(-np.mean(np.log(of_truth))),
        "ece": calibration_error(confidence, guess == truth),
        "mean p": float(p[:, 1].mean()),
        "base rate": float(np.mean(truth == 1)),
    }


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> float:
    """Return the mean distance of confidence and accuracy, in bins of equal size."""
    order = np.argsort(confidence, kind="stable")
    parts = np.array_split(order, bins)
    gaps = [abs(confidence[i].mean() - right[i].mean()) * i.size for i in parts if i.size]
    return float(np.sum(gaps) / confidence.size)
