"""Does learning run away? Short runs over all sketches, losses, alphas, scalings and data scales.

    python -m benchmarks.divergence [--every N] [--cases FILE]

A run learns 200 rows. It fails if it raises `DivergenceError`, and it is bad if the mean loss of
the predictions made before each row was learned is more than ten times that of the best constant
prediction, chosen with all labels known. ``--every N`` takes one run of N; without it, the counts
go to docs/benchmarks/divergence.markdown. ``--cases`` writes each failed or bad run as a line of
JSON, which `run` takes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from benchmarks.report import table
from sonline import OnlineLearner
from sonline.errors import DivergenceError
from sonline.evaluate import Loss
from sonline.parameters import LOSSES, SCALINGS, SKETCHES

ROWS, FEATURES = 200, 8
BAD = 10.0  # times the loss of the best constant
FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"

Case = dict[str, Any]
Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]

STREAMS: dict[str, Draw] = {
    "Gaussian": lambda _, Z: Z,
    "units from 1e-3 to 1e3": lambda _, Z: Z * np.logspace(-3, 3, FEATURES),
    "correlated, with an offset": lambda rng, Z: Z @ rng.normal(size=(FEATURES, FEATURES)) + 3,
    "heavy tails, half empty": lambda rng, Z: Z**5 * (rng.random(Z.shape) < 0.5),
}
GRID: dict[str, tuple[Any, ...]] = {
    "sketch": SKETCHES,
    "loss": tuple(LOSSES),
    "alpha": (0.01, 0.1, 1.0, 10.0, 100.0, "relative:0.01", "relative:1", "auto"),
    "scaling": SCALINGS,
    "scale": (1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6),
    "stream": tuple(STREAMS),
}


@cache
def rows(stream: str, loss: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Return features and labels of a stream, and the mean loss of the best constant."""
    rng = np.random.default_rng(list(STREAMS).index(stream))
    Z = rng.standard_normal((ROWS, FEATURES))
    X = STREAMS[stream](rng, Z)
    y = Z @ rng.normal(size=FEATURES) + 0.5 * rng.standard_normal(ROWS) + 1
    if LOSSES[loss]["binary"]:
        y = np.where(y > 0, 1.0, -1.0)
    elif LOSSES[loss]["positive"]:
        y = np.exp(np.clip(y, -3.0, 3.0))
    elif LOSSES[loss]["log_link"]:
        y = np.maximum(y, 0.0)
    best = minimize_scalar(lambda c: mean_loss(loss, y, np.full(ROWS, c)), (y.min(), y.max()))
    return X, y, float(best.fun)


def mean_loss(loss: str, y: np.ndarray, predictions: np.ndarray) -> float:
    """Return the mean loss of raw predictions."""
    metric = Loss(loss)
    metric.update(y, predictions)
    return float(metric.value)


def run(case: Case) -> float:
    """Return the loss of a run in units of that of the best constant; infinite if it failed."""
    X, y, constant = rows(case["stream"], case["loss"])
    learner = OnlineLearner(
        **{name: case[name] for name in ("sketch", "loss", "alpha", "scaling")}, sketch_size=4
    )
    try:
        predictions = learner.learn(X * case["scale"], y)
    except DivergenceError:
        return math.inf
    if LOSSES[case["loss"]]["log_link"]:
        predictions = np.log(predictions)
    return mean_loss(case["loss"], y, predictions) / constant


def cases(every: int = 1) -> Iterator[Case]:
    """Yield one of so many cases, all of the grid by default."""
    grid = itertools.product(*GRID.values())
    for values in itertools.islice(grid, 0, None, every):
        yield dict(zip(GRID, values, strict=True))


def markdown(results: list[tuple[Case, float]]) -> list[str]:
    """Return the counts as a page."""
    ratios = np.array([ratio for _, ratio in results])
    failed, bad = np.isinf(ratios), ratios > BAD
    summary = (
        f"{len(results):,} runs of {ROWS} rows and {FEATURES} features "
        "(`python -m benchmarks.divergence`): "
        f"{failed.sum():,} raised `DivergenceError`, {bad.sum():,} ({100 * bad.mean():.2f} %) had "
        f"more than {BAD:g} times the loss of the best constant."
    )
    cells = []
    for name, values in GRID.items():
        for value in values:
            here = np.array([case[name] == value for case, _ in results])
            share = f"{100 * bad[here].mean():.2f} %"
            worst = f"{np.median(ratios[here]):.2f}"
            cells.append([name, str(value), str(here.sum()), str(failed[here].sum()), share, worst])
    head = ["", "value", "runs", "diverged", "10 times worse", "median of loss / constant's"]
    return [summary, "", *table(head, cells, 2)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="one run of so many")
    parser.add_argument("--cases", type=Path, help="file for failed and bad runs")
    args = parser.parse_args()
    results = []
    for case in cases(args.every):
        results.append((case, run(case)))
        if results[-1][1] > BAD and args.cases is not None:
            with args.cases.open("a", encoding="utf-8") as file:
                file.write(json.dumps([case, str(results[-1][1])]) + "\n")
    lines = "\n".join(markdown(results)) + "\n"
    print(lines)
    if args.every == 1:
        (FOLDER / "divergence.markdown").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
