"""Rows that are expensive for sketches: the cost per non-zero, compared with clean rows.

    python -m benchmarks.hostile [--features 10000 100000] [--rows 20000] [--only oja]
    python -m benchmarks.hostile --draw  # only the picture, from the table

Twelve streams, several sketches and losses. Each cost is processor time per non-zero, best of three
runs; the ratio is to the same sketch with logistic loss on clean rows of the same shape, measured
in the same round. Writes docs/benchmarks/hostile.markdown and draws hostile.png from it.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sonline import OnlineLearner

NNZ = 32
FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"
TABLE = FOLDER / "hostile.markdown"

SETTINGS: dict[str, dict[str, Any]] = {
    "oja": {"sketch": "oja", "alpha": 1.0, "scaling": "none"},
    "isotropic": {"alpha": 1.0, "scaling": "none"},
    "fd": {"sketch": "fd", "alpha": 1.0, "scaling": "none"},
    "rfd": {"sketch": "rfd", "alpha": 1.0, "scaling": "none"},
    "default": {},
}
LOSSES: dict[str, dict[str, Any]] = {
    "squared": {"loss": "squared"},
    "squared, clip": {"loss": "squared", "clip": True},
    "logistic": {},
    "hinge": {"loss": "hinge"},
}

Values = Callable[[np.random.Generator, int], np.ndarray]


def clean(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return Gaussian values."""
    return rng.standard_normal((n, NNZ)) / np.sqrt(NNZ)


def _times(scale: Callable[[np.ndarray], np.ndarray]) -> Values:
    def values(rng: np.random.Generator, n: int) -> np.ndarray:
        return clean(rng, n) * scale(np.arange(n) / n)[:, None]

    return values


STREAMS: dict[str, Values] = {
    "Gaussian": clean,
    "all positive": lambda rng, n: np.abs(clean(rng, n)),
    "one-hot": lambda _, n: np.ones((n, NNZ)),
    "log-normal": lambda rng, n: np.exp(3 * rng.standard_normal((n, NNZ))) / 50,
    "Cauchy": lambda rng, n: np.clip(rng.standard_cauchy((n, NNZ)), -1e8, 1e8),
    "growing scale": _times(lambda t: np.exp(10 * t)),
    "shrinking scale": _times(lambda t: np.exp(-10 * t)),
    "units x 1000 at half": _times(lambda t: np.where(t < 0.5, 1.0, 1000.0)),
    "drifting features": clean,
    "one huge feature": clean,
    "nearly constant features": clean,
    "every 100th row x 1000": _times(lambda t: np.where(np.arange(t.size) % 100 == 7, 1e3, 1.0)),
}


def stream(name: str, n: int, d: int, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return the rows of a stream and real-valued labels.

    Features are met with probability 1 / index, so that there are frequent and rare ones.
    """
    rng = np.random.default_rng(seed)
    columns = np.exp(rng.random((n, NNZ)) * np.log(d)).astype(np.int64) - 1
    values = STREAMS[name](rng, n)
    if name == "drifting features":
        window = d // 10
        start = (np.arange(n) * (d - window) // n)[:, None]
        columns = start + rng.integers(0, window, (n, NNZ))
    if name == "one huge feature":
        columns[:, 0], values[:, 0] = 0, 1e4
    if name == "nearly constant features":
        columns[:, :8] = np.arange(8)
        values[:, :8] = 1 + 1e-3 * rng.standard_normal((n, 8))
    rows = sp.csr_matrix((values.ravel(), columns.ravel(), np.arange(n + 1) * NNZ), shape=(n, d))
    rows.sum_duplicates()
    truth = rng.standard_normal(d)
    labels = rows @ truth
    return rows, labels / max(float(np.std(labels)), 1e-300)


def labels_for(loss: dict[str, Any], y: np.ndarray) -> np.ndarray:
    """Return labels that a loss takes."""
    return y if loss.get("loss") == "squared" else np.where(y > 0, 1.0, -1.0)


def cost(settings: dict[str, Any], X: sp.csr_matrix, y: np.ndarray, repeats: int = 3) -> float:
    """Return nanoseconds of processor time per non-zero."""
    best = np.inf
    for _ in range(repeats):
        learner = OnlineLearner(**settings)
        start = time.thread_time()
        learner.learn(X, y)
        best = min(best, time.thread_time() - start)
    return best * 1e9 / X.nnz


def measure(features: list[int], rows: int, only: str | None) -> list[dict[str, Any]]:
    """Return a result for each sketch, loss, stream and number of features."""
    results = []
    for d in features:
        data = {name: stream(name, rows, d) for name in STREAMS}
        for sketch, settings in SETTINGS.items():
            if only not in {None, sketch}:
                continue
            X, y = data["Gaussian"]
            base = cost(settings, X, labels_for({}, y))
            for loss, changes in LOSSES.items():
                for name, (X, y) in data.items():
                    ns = cost(settings | changes, X, labels_for(changes, y), repeats=2)
                    results.append(
                        {"d": d, "sketch": sketch, "loss": loss, "stream": name, "ns": ns}
                        | {"ratio": ns / base}
                    )
                    print(f"{d:8d} {sketch:10} {loss:14} {name:26} {ns:8.1f} {ns / base:6.2f}")
    return results


def write(results: list[dict[str, Any]], rows: int) -> None:
    """Write the table."""
    features = sorted({result["d"] for result in results})
    lines = [
        f"Worst ratio of four losses over {rows:,} rows of {NNZ} non-zeros (benchmarks.hostile).",
        "",
        "| stream | " + " | ".join(f"{s}, d = {d:,}" for s in SETTINGS for d in features) + " |",
        "|---|" + "---|" * (len(SETTINGS) * len(features)),
    ]
    for name in STREAMS:
        cells = []
        for sketch in SETTINGS:
            for d in features:
                ratios = [
                    result["ratio"]
                    for result in results
                    if (result["stream"], result["sketch"], result["d"]) == (name, sketch, d)
                ]
                cells.append(f"{max(ratios):.2f}" if ratios else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def draw() -> None:
    """Draw the ratios of the table."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - only for the picture

    table = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in TABLE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    heads = [re.fullmatch(r"(.+), d = ([\d,]+)", head) for head in table[0][1:]]
    columns = [(head[1], int(head[2].replace(",", ""))) for head in heads if head]
    colours = [*(f"C{i}" for i in range(10)), "black", "gold"]
    figure, axes = plt.subplots(
        1, len(SETTINGS), figsize=(13, 3.8), sharey=True, layout="constrained"
    )
    for axis, sketch in zip(axes, SETTINGS, strict=True):
        for (name, *ratios), colour in zip(table[1:], colours, strict=True):
            points = [
                (d, float(ratio))
                for (of, d), ratio in zip(columns, ratios, strict=True)
                if of == sketch
            ]
            axis.plot(*zip(*points, strict=True), "o-", color=colour, markersize=4, label=name)
        axis.axhline(1, color="gray", linestyle=":")
        axis.set(title=sketch, xlabel="features", xscale="log", ylim=(0, None))
    axes[0].set_ylabel("cost, clean rows = 1")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(FOLDER / "hostile.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", choices=list(SETTINGS))
    parser.add_argument("--draw", action="store_true", help="draw the table that is there")
    args = parser.parse_args()
    if not args.draw:
        results = measure(args.features, args.rows, args.only)
        if args.only is None:
            write(results, args.rows)
    if args.only is None:
        draw()


if __name__ == "__main__":
    main()
