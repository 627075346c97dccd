"""What the default settings are worth: the evidence behind docs/defaults.md.

    python benchmarks/defaults.py --data-dir DIR > defaults.md

For every data set of the paper that is in DIR (read in file order, one pass, progressive error):
the default learner beside the paper's tuned columns; the choice of the members of alpha="auto" with
the set itself left out; the change of the error when features are multiplied
by powers of ten; and "auto" beside every single alpha, with its cost, in file order and on shuffled
rows.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sonline import OnlineLearner, parameters
from sonline.paper import datasets
from sonline.paper.datasets.contents import Floats
from sonline.paper.experiments.published import ERROR_RATES
from sonline.parameters import ALL_ROWS, MEMBERS

# Candidates for the members of alpha="auto": relative alpha, memory in rows, and use.
LONG = ((1e-4, ALL_ROWS, "both"), (1e-2, ALL_ROWS, "both"))
LATER = (1e-2, 100.0, "later")
CANDIDATES = (
    MEMBERS,
    (*LONG, (1e-2, 100.0, "next"), LATER),
    (*LONG, (0.1, 0.0, "next"), LATER),
    (*LONG, (1e-2, 1000.0, "next"), (0.1, 0.0, "next"), LATER),
    ((1e-3, ALL_ROWS, "both"), (0.1, ALL_ROWS, "both"), *MEMBERS[2:]),
    LONG,
    LONG[1:],
    ((1e-2, ALL_ROWS, "both"), (0.1, ALL_ROWS, "both")),
)
SINGLE = tuple(10.0**k for k in (-3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1))
POWERS = (-6, -3, 3, 6)
ROUNDING = 5e-7  # of the published numbers
CLOSE = 1.05  # times the best single alpha
SHUFFLED_ROWS = 50_000  # of a larger set, in the shuffles


def error(X: sp.csr_matrix, y: Floats, **params: object) -> float:
    predictions = OnlineLearner(**params).learn(X, y)
    return float(np.mean((predictions > 0) != (y > 0)))


def with_members(X: sp.csr_matrix, y: Floats, members: tuple) -> float:
    parameters.MEMBERS = members
    try:
        return error(X, y)
    finally:
        parameters.MEMBERS = MEMBERS


def single_errors(X: sp.csr_matrix, y: Floats) -> list[float]:
    """Return the error of each single alpha, all else as in the default."""
    return [error(X, y, alpha=f"relative:{c:g}") for c in SINGLE]


def seconds(X: sp.csr_matrix, y: Floats, repeats: int = 3, **params: object) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        OnlineLearner(**params).learn(X, y)
        best = min(best, time.process_time() - start)
    return best


def scale_change(X: sp.csr_matrix, y: Floats, base: float) -> tuple[float, float]:
    """Return the largest change of the error for all features at once, and for single ones."""
    together = max(abs(error(X * 10.0**k, y) - base) for k in POWERS)
    factors = 10.0 ** np.random.default_rng(0).integers(-6, 7, size=X.shape[1])
    return together, abs(error(X @ sp.diags(factors), y) - base)


@dataclass(frozen=True)
class Evidence:
    """What one data set says, in file order but for the last two fields.

    `auto` and `singles` hold errors on shuffled rows, a row for each shuffle; `singles` has a
    column for each of `SINGLE`.
    """

    name: str
    default: float
    candidates: Floats
    best_single: float
    cost: float
    together: float
    one_by_one: float
    rows: int
    auto: Floats
    singles: Floats


def shuffled(X: sp.csr_matrix, y: Floats, seed: int) -> tuple[sp.csr_matrix, Floats]:
    """Return the rows in random order, of a large set only the first of them."""
    order = np.random.default_rng(seed).permutation(y.size)[:SHUFFLED_ROWS]
    return X[order], y[order]


def gather(name: str, X: sp.csr_matrix, y: Floats, shuffles: int) -> Evidence:
    """Run everything on one data set."""
    default = error(X, y)
    together, one_by_one = scale_change(X, y, default)
    parts = [shuffled(X, y, seed) for seed in range(shuffles)]
    return Evidence(
        name=name,
        default=default,
        candidates=np.array([with_members(X, y, c) for c in CANDIDATES]),
        best_single=min(single_errors(X, y)),
        cost=seconds(X, y) / seconds(X, y, alpha="relative:0.1"),
        together=together,
        one_by_one=one_by_one,
        rows=min(y.size, SHUFFLED_ROWS),
        auto=np.array([error(*part) for part in parts]),
        singles=np.array([single_errors(*part) for part in parts]),
    )


def print_beside_the_paper(evidence: list[Evidence]) -> None:
    print("### The default beside the paper's tuned columns\n")
    print("| set | default | paper, best Oja-SON | paper, AdaGrad | chosen without it |")
    print("|---|---|---|---|---|")
    choices = np.array([e.candidates for e in evidence])
    wins = [0, 0, 0, 0]
    for i, e in enumerate(evidence):
        oja, adagrad = min(ERROR_RATES[e.name][:4]), ERROR_RATES[e.name][4]
        others = np.delete(np.log(np.maximum(choices, 1e-5)), i, axis=0).mean(axis=0)
        held_out = choices[i, int(np.argmin(others))]
        for j, (value, paper) in enumerate(
            ((e.default, oja), (e.default, adagrad), (held_out, oja), (held_out, adagrad))
        ):
            wins[j] += value <= paper + ROUNDING
        print(f"| {e.name} | {e.default:.6f} | {oja:.6f} | {adagrad:.6f} | {held_out:.6f} |")
    n = len(evidence)
    print(
        f"\nAt least as good as the paper's best Oja-SON column: {wins[0]} of {n}; as its AdaGrad"
    )
    print(f"column: {wins[1]} of {n}. With the members chosen on the other sets: {wins[2]} and")
    print(f"{wins[3]} of {n}.\n")


def print_alphas_in_file_order(evidence: list[Evidence]) -> None:
    print("### One alpha against several at once\n")
    print("| set | best single alpha in hindsight | auto | relative difference | cost of auto |")
    print("|---|---|---|---|---|")
    for e in evidence:
        relative = e.default / e.best_single - 1
        print(
            f"| {e.name} | {e.best_single:.6f} | {e.default:.6f} | {relative:+.1%} "
            f"| {e.cost:.2f}x |"
        )
    within = sum(e.default <= CLOSE * e.best_single for e in evidence)
    print(f"\nWithin 5 % of the best single alpha, or better: {within} of {len(evidence)}.\n")


def print_alphas_on_shuffles(evidence: list[Evidence]) -> None:
    shuffles = evidence[0].auto.size
    print("### The same on shuffled rows\n")
    print(
        "| set | rows | best single alpha | its mean error | auto, mean error "
        "| relative difference | difference in mistakes |"
    )
    print("|---|---|---|---|---|---|---|")
    within = 0
    for e in evidence:
        best = int(np.argmin(e.singles.mean(axis=0)))
        single, auto = e.singles[:, best].mean(), e.auto.mean()
        differences = e.rows * (e.auto - e.singles[:, best])
        deviation = differences.std(ddof=1) / math.sqrt(shuffles)
        within += auto <= CLOSE * single
        print(
            f"| {e.name} | {e.rows} | {SINGLE[best]:.2g} | {single:.6f} | {auto:.6f} "
            f"| {auto / single - 1:+.1%} | {differences.mean():+.1f} ± {deviation:.1f} |"
        )
    print(
        f"\nMeans over {shuffles} shuffles; ± is the standard error. Within 5 % of the single\n"
        f"alpha with the smallest mean error, or better: {within} of {len(evidence)}.\n"
    )


def print_units(evidence: list[Evidence]) -> None:
    print("### Units\n")
    print("| set | all features times 1e-6 ... 1e6 | each feature times its own power |")
    print("|---|---|---|")
    for e in evidence:
        print(f"| {e.name} | {e.together:.5f} | {e.one_by_one:.5f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=sorted(ERROR_RATES))
    parser.add_argument("--rows", type=int, default=None, help="at most so many rows of each set")
    parser.add_argument("--shuffles", type=int, default=8, help="random orders, at least two")
    args = parser.parse_args()
    if args.shuffles < 2:
        parser.error(f"--shuffles: a standard error needs at least two, got {args.shuffles}")

    names = [name for name in args.sets if datasets.locate(name, args.data_dir) is not None]
    if len(names) < 2:
        parser.error(
            f"--data-dir: leaving sets out needs two at least, {args.data_dir} has {names}"
        )

    evidence = []
    for name in names:
        data = datasets.load(name, args.data_dir, download=False)
        X, y = sp.csr_matrix(data.X)[: args.rows], data.y[: args.rows]
        evidence.append(gather(name, X, y, args.shuffles))
        print(f"{name}: done", file=sys.stderr)
    print_beside_the_paper(evidence)
    print_alphas_in_file_order(evidence)
    print_alphas_on_shuffles(evidence)
    print_units(evidence)


if __name__ == "__main__":
    main()
