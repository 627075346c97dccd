"""Speed of the estimators beside scikit-learn and River, measured in one run.

Each line is measured in rounds; in each round both sides run once, in alternating order, so that
whatever else the machine does falls on both. Times are those that the calling thread spent on a
processor (wall-clock time where there are more threads), so waiting for other programs does not
count. Shown are the medians of the times, the median of the ratios of the rounds, and the target:

    python benchmarks/bench_estimators.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import scipy.sparse as sp
from river import linear_model, optim, preprocessing
from sklearn.linear_model import SGDClassifier

from sonline import OnlineLearner, SONClassifier
from sonline import river as son_river

FEATURES = 64
WIDE = 50_000

Run = Callable[[], int]  # does some work, returns how many times


@dataclass
class Line:
    what: str
    ours: Run
    peer_name: str
    peer: Run
    target: str  # of (time of peer) / (time of ours), or of its inverse; empty: for comparison
    inverse: bool = False
    clock: Callable[[], float] = time.thread_time


def seconds(run: Run, clock: Callable[[], float]) -> float:
    start = clock()
    count = run()
    return (clock() - start) / count


def measure(line: Line, rounds: int) -> None:
    ours, peers, ratios = [], [], []
    for number in range(rounds + 2):
        if number % 2:
            mine, theirs = seconds(line.ours, line.clock), seconds(line.peer, line.clock)
        else:
            theirs, mine = seconds(line.peer, line.clock), seconds(line.ours, line.clock)
        if number < 2:  # warm up
            continue
        ours.append(mine)
        peers.append(theirs)
        ratios.append(mine / theirs if line.inverse else theirs / mine)
    ratio = statistics.median(ratios)
    verdict = ""
    if line.target:
        bound = float(line.target.split()[1])
        met = ratio <= bound if line.inverse else ratio >= bound
        verdict = f"{line.target:>7}  {'met' if met else 'MISSED'}"
    print(
        f"{line.what:<44} {show(statistics.median(ours)):>9}   {line.peer_name:<30} "
        f"{show(statistics.median(peers)):>9}   {ratio:6.2f}   {verdict}"
    )


def show(duration: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if duration >= size:
            return f"{duration / size:.2f} {unit}"
    return f"{duration / 1e-9:.1f} ns"


def dictionaries(count: int) -> list[tuple[dict[str, float], bool]]:
    rng = np.random.default_rng(0)
    names = [f"feature_{j}" for j in range(FEATURES)]
    rows = rng.normal(size=(count, FEATURES))
    labels = rows @ rng.normal(size=FEATURES) + rng.normal(size=count) > 0
    return [
        (dict(zip(names, row, strict=True)), label)
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True)
    ]


def sparse_rows(count: int, dtype: type = np.float64) -> tuple[sp.csr_matrix, np.ndarray]:
    rng = np.random.default_rng(0)
    # As in text: a few columns are common, most are rare.
    columns = (WIDE * rng.random((count, FEATURES)) ** 3).astype(np.int32)
    columns.sort(axis=1)
    values = rng.normal(size=count * FEATURES).astype(dtype)
    X = sp.csr_matrix(
        (values, columns.ravel(), np.arange(count + 1, dtype=np.int32) * FEATURES),
        shape=(count, WIDE),
    )
    X.sum_duplicates()
    y = (X @ rng.normal(size=WIDE) > 0).astype(np.int64)
    return X, y


def looping(function: Callable[..., object], items: list[tuple[object, ...]]) -> Run:
    def run() -> int:
        for item in items:
            function(*item)
        return len(items)

    return run


def river_lines() -> list[Line]:
    rows = dictionaries(1000)
    only = [(x,) for x, _ in rows]
    ours = {m: son_river.SONClassifier(sketch_size=m) for m in (0, 10)}
    sgd = linear_model.LogisticRegression(optim.SGD(0.01))
    adagrad = linear_model.LogisticRegression(optim.AdaGrad(0.1))
    scaled = preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.01))
    lines = []
    for name, peer, target in (
        ("LogisticRegression(SGD)", sgd, ">= 8"),
        ("LogisticRegression(AdaGrad)", adagrad, ""),
        ("StandardScaler | LogisticReg.", scaled, ""),
    ):
        lines += [
            Line(
                "River learn_one, 64 names, m = 10",
                looping(ours[10].learn_one, rows),
                name,
                looping(peer.learn_one, rows),
                target,
            ),
            Line(
                "River predict_one, 64 names, m = 10",
                looping(ours[10].predict_one, only),
                name,
                looping(peer.predict_one, only),
                target,
            ),
        ]
    lines.append(
        Line(
            "River learn_one, 64 names, m = 0",
            looping(ours[0].learn_one, rows),
            "LogisticRegression(SGD)",
            looping(sgd.learn_one, rows),
            "",
        )
    )
    return lines


def one_row_lines() -> list[Line]:
    X, y = sparse_rows(300)
    rows = [(X[i], y[i : i + 1]) for i in range(X.shape[0])]
    ours = SONClassifier().partial_fit(X, y, classes=[0, 1])
    sgd = SGDClassifier(loss="log_loss").partial_fit(X, y, classes=[0, 1])
    return [
        Line(
            "partial_fit, one sparse row, m = 10",
            looping(ours.partial_fit, rows),
            "SGDClassifier.partial_fit",
            looping(sgd.partial_fit, rows),
            ">= 10",
        ),
        Line(
            "predict, one sparse row, m = 10",
            looping(ours.predict, [(x,) for x, _ in rows]),
            "SGDClassifier.predict",
            looping(sgd.predict, [(x,) for x, _ in rows]),
            "",
        ),
    ]


def batch_lines() -> list[Line]:
    X, y = sparse_rows(1000)
    signs, out = 2.0 * y - 1.0, np.empty(len(y))
    lines = []
    for m in (10, 0):
        ours = SONClassifier(sketch_size=m).partial_fit(X, y, classes=[0, 1])
        bare = OnlineLearner(sketch_size=m)._model  # noqa: SLF001 - nothing in between

        def learn(bare: object = bare) -> None:
            bare.learn_csr(X.data, X.indices, X.indptr, signs, None, out)

        learn()
        lines.append(
            Line(
                f"partial_fit, 1000 sparse rows, m = {m}",
                looping(ours.partial_fit, [(X, y)] * 3),
                "the bare kernel",
                looping(learn, [()] * 3),
                "<= 1.2" if m else "",
                inverse=True,
            )
        )
    return lines


def epoch_lines() -> list[Line]:
    X, y = sparse_rows(50_000)
    sgd = SGDClassifier(loss="log_loss", max_iter=1, tol=None, shuffle=False)
    lines = []
    for m, target in ((0, "<= 1"), (10, "<= 4")):
        ours = SONClassifier(sketch_size=m, shuffle=False)
        lines.append(
            Line(
                f"one epoch, 50,000 rows of CSR, m = {m}",
                looping(ours.fit, [(X, y)]),
                "SGDClassifier, no shuffling",
                looping(sgd.fit, [(X, y)]),
                target,
                inverse=True,
            )
        )
    alone = {"alpha": "relative:0.3", "shuffle": False}
    for what, ours in (
        ("  m = 0, one alpha", SONClassifier(sketch_size=0, **alone)),
        ("  m = 10, one alpha", SONClassifier(sketch_size=10, **alone)),
        ("  gradient descent", SONClassifier(sketch="none", scaling="none", **alone)),
    ):
        lines.append(
            Line(
                what,
                looping(ours.fit, [(X, y)]),
                "SGDClassifier, no shuffling",
                looping(sgd.fit, [(X, y)]),
                "",
                inverse=True,
            )
        )
    return lines


def class_lines() -> list[Line]:
    X, _ = sparse_rows(5000)
    y = np.random.default_rng(1).integers(0, 10, X.shape[0])
    two, one = (SONClassifier(shuffle=False, n_jobs=n) for n in (2, 1))
    return [
        Line(
            "one epoch, 5,000 rows, 10 classes, 2 threads",
            looping(two.fit, [(X, y)]),
            "1 thread",
            looping(one.fit, [(X, y)]),
            "",
            clock=time.perf_counter,
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")  # SGD says that one epoch is not enough
    packages = ("sonline", "scikit-learn", "river", "numpy", "scipy")
    print(", ".join(f"{name} {version(name)}" for name in packages))
    print(f"Python {platform.python_version()}, {platform.machine()}, {rounds} rounds")
    print(f"{'':<44} {'sonline':>9}   {'beside':<30} {'':>9}   {'ratio':>6}   target")
    for lines in (river_lines, one_row_lines, batch_lines, epoch_lines, class_lines):
        for line in lines():
            measure(line, rounds)


if __name__ == "__main__":
    main()
