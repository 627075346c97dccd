"""Regret on the data sets of MetaGrad, in its protocol; writes docs/benchmarks/metagrad.markdown.

    python -m benchmarks.metagrad [--data-dir FOLDER] [--only heart splice] [--rows 50000]

MetaGrad: van Erven, Koolen and van der Hoeven, JMLR 22 (161), 2021. The protocol is that of their
published code: one pass over shuffled rows with a constant feature and without the last one; two
losses; the regret to the best weights in hindsight, whose norms also tune gradient descent, AdaGrad
and MetaGrad. sonline is not told anything. FOLDER has files in svmlight format under the names of
LIBSVM's page (heart_scale, w8a, ...), possibly compressed, or those of `sonline.paper.datasets`,
which are then scaled to [-1, 1].
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.optimize
from scipy.linalg.blas import dger
from sklearn.datasets import load_svmlight_file

from sonline import OnlineLearner

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "metagrad.markdown"
SEED = 841992  # of their shuffle
SCALED = "_scale"
CLASSES = (
    "a9a",
    "australian_scale",
    "breast-cancer_scale",
    "covtype_scale",
    "diabetes_scale",
    "heart_scale",
    "ijcnn1",
    "ionosphere_scale",
    "phishing",
    "splice_scale",
    "w1atest",
    "w8a",
)
NUMBERS = (
    "abalone_scale",
    "bodyfat_scale",
    "cpusmall_scale",
    "housing_scale",
    "mg_scale",
    "space_ga_scale",
)
ROWS = {"a9a": 32_561}  # LIBSVM's training part
FILES = {  # other names of the same rows
    "covtype_scale": ("covtype.libsvm.binary.scale",),
    "ijcnn1": ("ijcnn1.t",),
    "w1atest": ("w1a.t",),
}
ENDINGS = ("", ".txt", ".gz", ".bz2", ".svm.gz", ".svm")

# Value, slope, and the name of the loss in sonline.
Loss = tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Callable[[float, float], float], str]
LOSSES: dict[str, Loss] = {
    "hinge": (
        lambda z, y: np.maximum(0.0, 1.0 - y * z),
        lambda z, y: -y if y * z < 1.0 else 0.0,
        "hinge",
    ),
    "logistic": (
        lambda z, y: np.logaddexp(0.0, -y * z),
        lambda z, y: -y / (1.0 + math.exp(min(y * z, 700.0))),
        "logistic",
    ),
    "absolute": (lambda z, y: np.abs(z - y), lambda z, y: math.copysign(z != y, z - y), "quantile"),
    "squared": (lambda z, y: (z - y) ** 2, lambda z, y: 2.0 * (z - y), "squared"),
}


def find(folder: Path, name: str) -> Path | None:
    """Return the file of a set: LIBSVM's, or that of the same rows in their own units."""
    for stem in (*FILES.get(name, ()), name, name.removesuffix(SCALED)):
        for place in (folder, folder / "regression"):
            for ending in ENDINGS:
                if (path := place / (stem + ending)).is_file():
                    return path
    return None


def load(path: Path, name: str, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return shuffled rows with a constant first and without the last feature, and labels."""
    sparse, y = load_svmlight_file(str(path))
    X = sparse.toarray()[: ROWS.get(name)]
    y = y[: ROWS.get(name)]
    if name.endswith(SCALED) and SCALED not in path.name and ".scale" not in path.name:
        low, high = X.min(axis=0), X.max(axis=0)
        X = 2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0
    if name in CLASSES:
        values = np.unique(y)
        y = np.where(y == (2.0 if values.size > 2 else values[-1]), 1.0, -1.0)  # covtype: class 2
    X = np.column_stack([np.ones(len(y)), X[:, :-1]])
    order = np.random.RandomState(SEED).permutation(len(y))[:rows]
    return X[order], y[order]


def best_weights(X: np.ndarray, y: np.ndarray, loss: str) -> np.ndarray:
    """Minimise the summed loss: exactly, or by L-BFGS with kinks that become sharper."""
    if loss == "squared":
        return np.linalg.lstsq(X, y, rcond=None)[0]

    def objective(w: np.ndarray, width: float) -> tuple[float, np.ndarray]:
        z = X @ w
        if loss == "absolute":
            root = np.sqrt((z - y) ** 2 + width**2)
            return float(root.mean()), X.T @ ((z - y) / root) / len(y)
        margin = (y * z - (loss == "hinge")) / width
        slope = -y * np.exp(-np.logaddexp(0.0, margin))
        return float(width * np.logaddexp(0.0, -margin).mean()), X.T @ slope / len(y)

    w, tried = np.zeros(X.shape[1]), []
    for width in (1.0,) if loss == "logistic" else (1.0, 0.1, 0.01, 0.001):
        options = {"maxiter": 5000 if loss == "logistic" else 500, "ftol": 1e-13, "gtol": 1e-9}
        w = scipy.optimize.minimize(
            objective, w, args=(width,), jac=True, method="L-BFGS-B", options=options
        ).x
        tried.append(w)
    return min(tried, key=lambda w: LOSSES[loss][0](X @ w, y).sum())


class Descent:
    """Gradient descent in a ball: steps by the largest gradient ("t") or by all ("norm")."""

    def __init__(self, best: np.ndarray, by_norm: bool) -> None:
        radius = float(np.linalg.norm(best))
        self.eta, self.radius, self.by_norm = 4.0 * radius / math.sqrt(2.0), 3.0 * radius, by_norm
        self.w = np.zeros_like(best)
        self.largest, self.total, self.t = 1e-8, 1e-8, 0

    def predict(self, x: np.ndarray) -> float:
        return float(self.w @ x)

    def learn(self, x: np.ndarray, slope: float) -> None:
        energy = slope * slope * float(x @ x)
        self.t += 1
        self.total += energy
        self.largest = max(self.largest, math.sqrt(energy))
        scale = math.sqrt(self.total) if self.by_norm else self.largest * math.sqrt(self.t)
        self.w -= self.eta / scale * slope * x
        norm = float(np.linalg.norm(self.w))
        if norm > self.radius:
            self.w *= self.radius / norm


class AdaGrad:
    """AdaGrad in a box."""

    def __init__(self, best: np.ndarray) -> None:
        radius = float(np.abs(best).max())
        self.eta, self.radius = 4.0 * radius / math.sqrt(2.0), 3.0 * radius
        self.w, self.total = np.zeros_like(best), np.full_like(best, 1e-8)

    def predict(self, x: np.ndarray) -> float:
        return float(self.w @ x)

    def learn(self, x: np.ndarray, slope: float) -> None:
        g = slope * x
        self.total += g * g
        self.w = np.clip(self.w - self.eta * g / np.sqrt(self.total), -self.radius, self.radius)


class MetaGrad:
    """MetaGrad with full matrices on the domain ``|w.x| <= C``: experts for steps ``2^i``."""

    def __init__(self, best: np.ndarray, bound: float) -> None:
        self.d, self.start, self.bound = best.size, float(best @ best), bound
        self.steps = np.zeros(0)  # exponents, largest first
        self.p = np.zeros(0)
        self.W, self.H = np.zeros((0, self.d)), np.zeros((0, self.d, self.d))
        self.range = self.sum = self.range_at_start = self.since_start = 0.0
        self.w = np.zeros(self.d)

    def predict(self, x: np.ndarray) -> float:
        self._choose_steps()
        margins = self.W @ x
        for e in np.flatnonzero(np.abs(margins) > self.bound):
            direction = self.H[e] @ x
            excess = margins[e] - math.copysign(self.bound, margins[e])
            self.W[e] -= excess / (x @ direction) * direction
        if self.p.size:
            tilted = self.p * 2.0**self.steps
            self.w = tilted @ self.W / tilted.sum()
        return float(self.w @ x)

    def _choose_steps(self) -> None:
        if self.range == 0.0:
            return
        largest = math.floor(-math.log2(2.0 * self.range))
        smallest = math.ceil(-math.log2(2.0 * (self.sum + self.range)))
        kept = self.steps <= largest
        new = [i for i in range(largest, smallest - 1, -1) if i not in set(self.steps)]
        if kept.all() and not new:
            return
        self.steps = np.r_[self.steps[kept], new]
        self.p = np.r_[self.p[kept], np.ones(len(new))]
        self.W = np.vstack([self.W[kept], np.zeros((len(new), self.d))])
        fresh = np.broadcast_to(self.start * np.eye(self.d), (len(new), self.d, self.d))
        self.H = np.concatenate([self.H[kept], fresh])

    def learn(self, x: np.ndarray, slope: float) -> None:
        g, before = slope * x, self.range
        width = self.bound * abs(slope) + abs(float(self.w @ g))
        self.range = max(width, before)
        if self.range == 0.0:
            return
        self.sum += min(width, before)
        self.since_start += width / self.range
        if self.p.size and slope != 0.0:
            eta = 2.0**self.steps
            lead = (self.w - self.W) @ g
            gain = eta * lead * (before / self.range)
            surrogate = gain * gain - gain
            p = self.p * np.exp(surrogate.min() - surrogate)
            self.p = p * (self.p.sum() / p.sum())
            q = self.H @ g
            scale = 2.0 * eta * eta
            shrink = scale / (1.0 + scale * (q @ g))
            for H, part, direction in zip(self.H, shrink, q, strict=True):
                dger(-part, direction, direction, a=H.T, overwrite_a=1)  # in place
            # H g of the new H is q (1 - shrink g.q)
            move = (eta - scale * lead) * (1.0 - shrink * (q @ g))
            self.W -= move[:, None] * q
        if self.range > self.since_start * self.range_at_start:
            self.p = np.ones_like(self.p)
            self.range_at_start = self.range


def run(learner: Descent | AdaGrad | MetaGrad, X: np.ndarray, y: np.ndarray, loss: str) -> float:
    """Return the sum of the losses of one pass."""
    slope, predictions = LOSSES[loss][1], np.empty(len(y))
    for t, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        predictions[t] = z = learner.predict(x)
        learner.learn(x, slope(z, label))
    return float(LOSSES[loss][0](predictions, y).sum())


def regrets(X: np.ndarray, y: np.ndarray, loss: str) -> dict[str, float]:
    """Return the regret of each method on one set with one loss."""
    value, _, name = LOSSES[loss]
    best = best_weights(X, y, loss)
    bound = 3.0 * float(np.abs(X @ best).max())
    total = float(value(X @ best, y).sum())
    found = {
        "descent, t": run(Descent(best, by_norm=False), X, y, loss),
        "descent, norm": run(Descent(best, by_norm=True), X, y, loss),
        "AdaGrad": run(AdaGrad(best), X, y, loss),
        "MetaGrad, full": run(MetaGrad(best, bound), X, y, loss),
    }
    for label, setting in {"sonline": {}, 'sonline, `sketch="full"`': {"sketch": "full"}}.items():
        predictions = OnlineLearner(loss=name, **setting).learn(X[:, 1:], y)
        found[label] = float(value(predictions, y).sum())
    return {method: losses - total for method, losses in found.items()}


def table(results: dict[tuple[str, str, int, int], dict[str, float]], missing: list[str]) -> str:
    """Return the table: regrets in bold as in their article, a summary, and what is missing."""
    methods = list(next(iter(results.values())))
    lines = ["| set | rows | features | loss | " + " | ".join(methods) + " |"]
    lines.append("|---|--:|--:|---" + "|--:" * len(methods) + "|")
    for (name, loss, rows, features), row in results.items():
        least = min(row.values())
        cells = [f"**{v:,.0f}**" if v - least < 1.0 else f"{v:,.0f}" for v in row.values()]
        lines.append(f"| {name} | {rows:,} | {features} | {loss} | " + " | ".join(cells) + " |")
    cells = [sum(r[m] - min(r.values()) < 1.0 for r in results.values()) for m in methods]
    lines.append("| least, up to 1 | | | | " + " | ".join(map(str, cells)) + " |")
    ratios = [np.median([r[m] / r[methods[0]] for r in results.values()]) for m in methods]
    lines.append(
        "| median ratio to the first | | | | " + " | ".join(f"{r:.2f}" for r in ratios) + " |"
    )
    lines += [
        "",
        "Not measured, because the file is missing: " + (", ".join(missing) or "none") + ".",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    folder = os.environ.get("SONLINE_DATA")
    parser.add_argument("--data-dir", type=Path, default=folder, required=folder is None)
    parser.add_argument("--only", nargs="+", help="sets, with or without _scale")
    parser.add_argument("--rows", type=int, help="at most so many of each set")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    results, missing = {}, []
    for name in (*CLASSES, *NUMBERS):
        short = name.removesuffix(SCALED)
        if options.only and not {name, short} & set(options.only):
            continue
        path = find(options.data_dir, name)
        if path is None:
            missing.append(name)
            continue
        X, y = load(path, name, options.rows)
        for loss in ("hinge", "logistic") if name in CLASSES else ("absolute", "squared"):
            started = time.perf_counter()
            key = short, loss, *X.shape
            results[key] = regrets(X, y, loss)
            shown = ", ".join(f"{m} {v:.0f}" for m, v in results[key].items())
            print(f"{short} {loss}: {shown} ({time.perf_counter() - started:.0f} s)", flush=True)
    if not results:
        raise SystemExit(f"{options.data_dir} has none of the sets: {', '.join(missing)}")
    options.out.write_text(table(results, missing), encoding="utf-8")


if __name__ == "__main__":
    main()
