"""What the default settings are worth: the evidence behind docs/defaults.md.

    python benchmarks/defaults.py --data-dir DIR > defaults.md

For every data set of the paper that is in DIR (read in file order, one pass, progressive error):
the default learner beside the paper's tuned columns; the choice of the experts of alpha="auto"
with the set itself left out; the change of the error when features are multiplied by powers of
ten; and "auto" beside every single alpha, with its cost.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sonline import OnlineLearner, datasets, parameters
from sonline.experiments.published import ERROR_RATES

# Candidates for the experts of alpha="auto": (relative alpha, plain); the constant one is always
# there.
CANDIDATES = (
    ((0.03, False), (0.01, True)),
    ((0.01, False), (0.01, True)),
    ((0.1, False), (0.01, True)),
    ((0.03, False), (0.003, True)),
    ((0.03, False), (0.1, True)),
    ((0.03, False), (0.01, True), (0.1, True)),
    ((0.01, False), (0.1, False), (0.01, True)),
    ((0.003, False), (0.1, False), (0.003, True), (0.1, True)),
    ((0.01, False), (0.1, False)),
)
SINGLE = tuple(10.0**k for k in (-3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1))
POWERS = (-6, -3, 3, 6)
ROUNDING = 5e-7  # of the published numbers


def error(X: sp.csr_matrix, y: np.ndarray, **params: object) -> float:
    predictions = OnlineLearner(**params).learn(X, y)
    return float(np.mean((predictions > 0) != (y > 0)))


def with_experts(X: sp.csr_matrix, y: np.ndarray, experts: tuple) -> float:
    kept = parameters.EXPERTS
    parameters.EXPERTS = experts
    try:
        return error(X, y)
    finally:
        parameters.EXPERTS = kept


def seconds(X: sp.csr_matrix, y: np.ndarray, repeats: int = 3, **params: object) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        OnlineLearner(**params).learn(X, y)
        best = min(best, time.process_time() - start)
    return best


def scale_change(X: sp.csr_matrix, y: np.ndarray, base: float) -> tuple[float, float]:
    """Return the largest change of the error for all features at once, and for single ones."""
    together = max(abs(error(X * 10.0**k, y) - base) for k in POWERS)
    factors = 10.0 ** np.random.default_rng(0).integers(-6, 7, size=X.shape[1])
    return together, abs(error(X @ sp.diags(factors), y) - base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=sorted(ERROR_RATES))
    parser.add_argument("--rows", type=int, default=None, help="at most so many rows of each set")
    args = parser.parse_args()

    found = [n for n in args.sets if datasets.locate(n, args.data_dir) is not None]
    rows, choices = [], np.zeros((len(found), len(CANDIDATES)))
    singles, scales, costs = [], [], []
    for i, name in enumerate(found):
        data = datasets.load(name, args.data_dir, download=False)
        X, y = sp.csr_matrix(data.X)[: args.rows], data.y[: args.rows]
        choices[i] = [with_experts(X, y, c) for c in CANDIDATES]
        base = error(X, y)
        rows.append(base)
        scales.append(scale_change(X, y, base))
        singles.append(min(error(X, y, alpha=f"relative:{c:g}") for c in SINGLE))
        costs.append(seconds(X, y) / seconds(X, y, alpha="relative:0.1"))

    print("### The default beside the paper's tuned columns\n")
    print("| set | default | paper, best Oja-SON | paper, AdaGrad | chosen without this set |")
    print("|---|---|---|---|---|")
    wins = [0, 0, 0, 0]
    for i, name in enumerate(found):
        oja, adagrad = min(ERROR_RATES[name][:4]), ERROR_RATES[name][4]
        others = np.delete(np.log(np.maximum(choices, 1e-5)), i, axis=0).mean(axis=0)
        held_out = choices[i, int(np.argmin(others))]
        for j, (value, paper) in enumerate(
            ((rows[i], oja), (rows[i], adagrad), (held_out, oja), (held_out, adagrad))
        ):
            wins[j] += value <= paper + ROUNDING
        print(f"| {name} | {rows[i]:.6f} | {oja:.6f} | {adagrad:.6f} | {held_out:.6f} |")
    n = len(found)
    print(
        f"\nAt least as good as the paper's best Oja-SON column: {wins[0]} of {n}; as its AdaGrad"
    )
    print(f"column: {wins[1]} of {n}. With the experts chosen on the other sets: {wins[2]} and")
    print(f"{wins[3]} of {n}.\n")

    print("### One alpha against several at once\n")
    print("| set | best single alpha in hindsight | auto | relative difference | cost of auto |")
    print("|---|---|---|---|---|")
    for name, single, base, cost in zip(found, singles, rows, costs, strict=True):
        print(f"| {name} | {single:.6f} | {base:.6f} | {base / single - 1:+.1%} | {cost:.2f}x |")
    within = sum(base <= 1.05 * single for base, single in zip(rows, singles, strict=True))
    print(f"\nWithin 5 % of the best single alpha, or better: {within} of {n}.\n")

    print("### Units\n")
    print("| set | all features times 1e-6 ... 1e6 | each feature times its own power |")
    print("|---|---|---|")
    for name, (together, single) in zip(found, scales, strict=True):
        print(f"| {name} | {together:.5f} | {single:.5f} |")


if __name__ == "__main__":
    main()
