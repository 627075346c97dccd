"""What a row costs: nanoseconds of processor time per non-zero, float32, one pass.

    python benchmarks/cost.py            all of it, some minutes
    python benchmarks/cost.py --quick    half a minute, for a look

Prints tables, writes cost.json and cost.png into --out. Every measurement starts a new learner,
shows it every feature once (not timed), and then times `OnlineLearner.learn` on rows with the given
number of non-zeros, rebases and the checks of the input included. The work is the same each time,
so the best of several rounds is the one that was disturbed least; the rounds go over all cases
before any is repeated, in alternating order, so that a busy minute does not fall on one of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import platform
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from matplotlib import colormaps
from matplotlib.figure import Figure

import sonline
from sonline import OnlineLearner

SIZES = (0, 5, 10, 20, 40)
NONZEROS = (10, 100, 1000)
FEATURES = (1_000, 10_000, 100_000, 1_000_000)
RATIO_NONZEROS, RATIO_FEATURES, RATIO_LIMIT = 64, 50_000, 4.0
START_BITS, START_MILLISECONDS, START_MEGABYTES = 26, 50, 50
LEAST_ROWS = 4_000  # so that rare rebases show up in their true share


@dataclasses.dataclass(frozen=True)
class Learner:
    sketch: str
    size: int = 0
    scaling: str = "none"
    alpha: str = "relative:0.1"  # one weight vector; "auto" has several over one sketch

    @property
    def label(self) -> str:
        return f"{self.sketch} {self.size}" if self.size else self.sketch

    def new(self) -> OnlineLearner:
        return OnlineLearner(
            sketch=self.sketch,
            sketch_size=self.size,
            scaling=self.scaling,
            alpha=self.alpha,
            dtype="float32",
        )


@dataclasses.dataclass(frozen=True)
class Case:
    nonzeros: int
    features: int


@cache
def stream(rows: int, case: Case, seed: int) -> tuple[sp.csr_array, np.ndarray]:
    """Rows with one random feature out of each of `nonzeros` equal ranges."""
    random = np.random.default_rng(seed)
    width = case.features // case.nonzeros
    firsts = np.arange(case.nonzeros) * width
    indices = (firsts + random.integers(0, width, size=(rows, case.nonzeros))).astype(np.int32)
    values = random.random(indices.size, dtype=np.float32) - np.float32(0.5)
    ends = np.arange(0, indices.size + 1, case.nonzeros, dtype=np.int32)
    X = sp.csr_array((values, indices.ravel(), ends), shape=(rows, case.features))
    return X, np.where(X @ (random.random(case.features) - 0.5) > 0, 1.0, -1.0)


@cache
def every_feature(features: int) -> tuple[sp.csr_array, np.ndarray]:
    """Rows of up to 1,000 features that show each feature once."""
    random = np.random.default_rng(1)
    order = random.permutation(features).astype(np.int32)
    values = random.random(features, dtype=np.float32) - np.float32(0.5)
    ends = np.append(np.arange(0, features, 1000), features).astype(np.int32)
    X = sp.csr_array((values, order, ends), shape=(ends.size - 1, features))
    return X, np.where(random.random(ends.size - 1) > 0.5, 1.0, -1.0)


def timed_rows(case: Case, nonzeros: int) -> int:
    return max(nonzeros // case.nonzeros, LEAST_ROWS)


def measure(learner: Learner, case: Case, nonzeros: int) -> tuple[float, int]:
    """Return nanoseconds per non-zero, and the rebases meanwhile."""
    X, y = stream(timed_rows(case, nonzeros), case, seed=0)
    model = learner.new()
    model.learn(*every_feature(case.features))
    rebases = model.stats()["rebases"]
    start = time.thread_time()
    model.learn(X, y)
    seconds = time.thread_time() - start
    return 1e9 * seconds / X.nnz, model.stats()["rebases"] - rebases


def measure_all(
    pairs: list[tuple[Learner, Case]], nonzeros: int, rounds: int
) -> dict[tuple[Learner, Case], tuple[float, int]]:
    best: dict[tuple[Learner, Case], tuple[float, int]] = {}
    for turn in range(rounds):
        for i, (learner, case) in enumerate(pairs if turn % 2 == 0 else pairs[::-1]):
            progress = f"round {turn + 1}/{rounds}, {i + 1}/{len(pairs)}: {learner.label}, {case}"
            print(f"\r{progress:100}", end="", file=sys.stderr, flush=True)
            found = measure(learner, case, nonzeros)
            best[learner, case] = min(found, best.get((learner, case), (math.inf, 0)))
    print(f"\r{'':100}\r", end="", file=sys.stderr)
    return best


# A process of its own, so that memory freed by the measurements before does not hide anything.
START_UP = """
import json, time
from sonline import OnlineLearner
OnlineLearner().learn_one({0: 1.0}, 1)  # what the first learner of a process imports and touches
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
before, start = resident(), time.perf_counter()
learner = OnlineLearner(hash_bits=BITS)
learner.learn_one({"a": 1.0, 123456789: 2.0}, 1)
took = 1e3 * (time.perf_counter() - start)
print(json.dumps([took, resident() - before]))
"""


def start_up(bits: int, rounds: int) -> tuple[float, float]:
    """Return the milliseconds until the first row is learnt, and the megabytes taken."""
    program = START_UP.replace("BITS", str(bits))
    runs = [
        json.loads(subprocess.check_output([sys.executable, "-c", program], text=True))
        for _ in range(rounds)
    ]
    return min(run[0] for run in runs), max(run[1] for run in runs)


def print_table(title: str, head: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print(f"\n{title}\n")
    for row in [head, *rows]:
        print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def draw(best: dict, learners: list[Learner], cases: list[Case], path: Path) -> None:
    sketches = [s for s in ("isotropic", "oja") if any(x.sketch == s for x in learners)]
    counts = sorted({case.nonzeros for case in cases})
    figure = Figure(figsize=(3.4 * len(counts), 3.0 * len(sketches)), layout="constrained")
    panels = figure.subplots(len(sketches), len(counts), sharex=True, sharey=True, squeeze=False)
    sizes = sorted({learner.size for learner in learners})
    shades = dict(zip(sizes, colormaps["viridis"](np.linspace(0.85, 0.0, len(sizes))), strict=True))
    for line, sketch in zip(panels, sketches, strict=True):
        for panel, count in zip(line, counts, strict=True):
            here = [case for case in cases if case.nonzeros == count]
            d = [case.features for case in here]
            for learner in learners:
                times = [best[learner, case][0] for case in here]
                if learner.sketch == "adagrad":
                    panel.plot(d, times, "k--", label="AdaGrad")
                elif learner.sketch in (sketch, "none"):
                    label = f"m = {learner.size}"
                    panel.plot(d, times, color=shades[learner.size], marker="o", label=label)
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.grid(color="#dddddd")
            panel.spines[["top", "right"]].set_visible(False)
            panel.set_title(f"{sketch}, {count} non-zeros a row", fontsize=10)
        line[0].set_ylabel("ns per non-zero")
    for panel in panels[-1]:
        panel.set_xlabel("features")
    panels[0][-1].legend(fontsize=8)
    figure.savefig(path, dpi=160)


def machine() -> dict[str, object]:
    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "load": [round(x, 2) for x in os.getloadavg()],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "sonline": sonline.__version__,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many")
    parser.add_argument("--nonzeros", type=int, default=500_000, help="in each measurement")
    parser.add_argument("--quick", action="store_true", help="fewer cases, one round")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a limit is broken")
    options = parser.parse_args()
    quick = options.quick
    rounds = 1 if quick else options.rounds
    nonzeros = options.nonzeros // 4 if quick else options.nonzeros
    options.out.mkdir(parents=True, exist_ok=True)
    environment = machine()
    print(", ".join(f"{name} {value}" for name, value in environment.items()))

    sizes = [m for m in SIZES if m and (m == 10 or not quick)]
    learners = [Learner("adagrad"), Learner("none")]
    learners += [Learner(sketch, m) for sketch in ("oja", "isotropic") for m in sizes]
    cases = [Case(s, d) for s in NONZEROS for d in (FEATURES[::2] if quick else FEATURES)]
    ratio_case = Case(RATIO_NONZEROS, RATIO_FEATURES)
    ratio_learners = [
        Learner(sketch, size, scaling)
        for scaling in ("none", "rms")
        for sketch, size in (("adagrad", 0), ("oja", 10), ("isotropic", 10))
    ]
    ratio_learners += [
        Learner(sketch, 10, scaling, "auto")
        for scaling in ("none", "rms")
        for sketch in ("oja", "isotropic")
    ]
    grid = [(learner, case) for case in cases for learner in learners]
    ratio_pairs = [(learner, ratio_case) for learner in ratio_learners]
    ratio_best = measure_all(ratio_pairs, 4 * nonzeros, 3 * rounds)
    best = measure_all(grid, nonzeros, rounds)

    print_table(
        "ns per non-zero (rows: non-zeros a row, features; columns: sketch and its size)",
        ["nnz", "features", *(learner.label for learner in learners)],
        [
            [str(c.nonzeros), f"{c.features:,}", *(f"{best[x, c][0]:.1f}" for x in learners)]
            for c in cases
        ],
    )
    sketched = [learner for learner in learners if learner.size]
    print_table(
        "rebases in 1,000 rows (their time is in the numbers above)",
        ["nnz", "features", *(learner.label for learner in sketched)],
        [
            [
                str(c.nonzeros),
                f"{c.features:,}",
                *(f"{1e3 * best[x, c][1] / timed_rows(c, nonzeros):.3g}" for x in sketched),
            ]
            for c in cases
        ],
    )
    rows, ratios = [], {}
    for learner in ratio_learners:
        base = ratio_best[Learner("adagrad", 0, learner.scaling), ratio_case][0]
        time_here = ratio_best[learner, ratio_case][0]
        ratios[learner] = time_here / base
        times = [f"{time_here:.1f}", f"{time_here / base:.2f}"]
        rows.append([learner.scaling, learner.alpha, learner.label, *times])
    print_table(
        f"beside AdaGrad at {RATIO_NONZEROS} non-zeros, {RATIO_FEATURES:,} features",
        ["scaling", "alpha", "sketch", "ns per non-zero", "times AdaGrad"],
        rows,
    )
    milliseconds, megabytes = start_up(START_BITS, 3)
    limits = {
        f"oja m=10 at most {RATIO_LIMIT:g} times AdaGrad": ratios[Learner("oja", 10)]
        <= RATIO_LIMIT,
        f"isotropic m=10 at most {RATIO_LIMIT:g} times AdaGrad": (
            ratios[Learner("isotropic", 10)] <= RATIO_LIMIT
        ),
        f"hash_bits={START_BITS} starts within {START_MILLISECONDS} ms": (
            milliseconds < START_MILLISECONDS
        ),
        f"hash_bits={START_BITS} starts within {START_MEGABYTES} MB": megabytes < START_MEGABYTES,
    }
    print(f"\nhash_bits={START_BITS}: first row learnt after {milliseconds:.2f} ms,", end=" ")
    print(f"{megabytes:.2f} MB\n")
    for limit, kept in limits.items():
        print(f"{'kept' if kept else 'BROKEN'}: {limit}")

    document = {
        "machine": environment,
        "rounds": rounds,
        "ns_per_nonzero": [
            {**dataclasses.asdict(x), **dataclasses.asdict(c), "ns": round(ns, 3), "rebases": n}
            for found in (best, ratio_best)
            for (x, c), (ns, n) in found.items()
        ],
        "start_up": {"hash_bits": START_BITS, "milliseconds": milliseconds, "megabytes": megabytes},
        "limits": limits,
    }
    (options.out / "cost.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    draw(best, learners, cases, options.out / "cost.png")
    print(f"\nwritten: {options.out / 'cost.json'}, {options.out / 'cost.png'}")
    return int(options.check and not all(limits.values()))


if __name__ == "__main__":
    sys.exit(main())
