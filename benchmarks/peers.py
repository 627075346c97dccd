"""The other libraries, each used as its documentation says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.data import Rows
from benchmarks.measure import Contender, Run, Times, timed

try:
    import vowpalwabbit
except ImportError:  # no wheel for this Python: its lines are missing
    vowpalwabbit = None

Workspace: Any = getattr(vowpalwabbit, "Workspace", None)

VW_LOSS = "--loss_function logistic"
VW_NONZEROS = 640_000  # at least this many in a run, or the start-up time dominates


def vw_oja(m: int) -> str:
    """Return the arguments of the paper's own implementation."""
    return f"--OjaNewton --sketch_size {m}"


def vw_name(arguments: str) -> str:
    return f"vw {arguments}" if arguments else "vw (default)"


def vw_bits(features: int) -> int:
    return max(18, math.ceil(math.log2(features + 1)))


def vw_seconds(arguments: str) -> Times:
    """Run Vowpal Wabbit over the data that the arguments name."""
    start = time.process_time(), time.perf_counter()
    Workspace(f"--quiet {arguments}").finish()
    return Times(time.process_time() - start[0], time.perf_counter() - start[1])


class VwCache:
    """Rows in Vowpal Wabbit's binary cache, and a single row to measure the start-up time."""

    def __init__(self, rows: Rows, folder: Path) -> None:
        self.bits = vw_bits(rows.features)
        folder.mkdir(parents=True, exist_ok=True)
        self._all = self._make(rows, folder / "all")
        self._one = self._make(rows.head(1), folder / "one")

    def _make(self, rows: Rows, stem: Path) -> str:
        text, cache = stem.with_suffix(".vw"), stem.with_suffix(".cache")
        text.write_bytes(data.texts(rows)[1])
        cache.unlink(missing_ok=True)
        arguments = f"-d {text} --cache_file {cache} -b {self.bits}"
        vw_seconds(f"{arguments} --noop")
        return arguments

    def passes(self, arguments: str, count: int) -> Run:
        """Return passes over the cache, without the time that starting takes."""
        full = f"{VW_LOSS} --holdout_off {arguments}"
        every = f"{self._all} --passes {count} {full}"
        return lambda: vw_seconds(every) - vw_seconds(f"{self._one} {full}")


def vw_contenders(rows: Rows, arguments: list[str], folder: Path) -> list[Contender]:
    if Workspace is None:
        return []
    cache = VwCache(rows, folder)
    count = math.ceil(VW_NONZEROS / rows.X.nnz)
    return [
        Contender(vw_name(options), cache.passes(options, count), count * rows.X.nnz, peer=True)
        for options in arguments
    ]


def sgd_epoch(rows: Rows) -> Contender:
    """Return one epoch of scikit-learn's gradient descent."""
    from sklearn.linear_model import SGDClassifier  # noqa: PLC0415 - slow to import

    sgd = SGDClassifier(loss="log_loss", max_iter=1, tol=None, shuffle=False)
    run = timed(lambda: sgd.fit(rows.X, rows.y))
    return Contender("scikit-learn SGDClassifier", run, rows.X.nnz, peer=True)


def river_models() -> dict[str, Callable[[], Any]]:
    """Return makers of River's linear classifiers by name."""
    from river import linear_model, optim, preprocessing  # noqa: PLC0415 - slow to import

    logistic = linear_model.LogisticRegression
    return {
        "River LogisticRegression, SGD": lambda: logistic(optim.SGD(0.01)),
        "River LogisticRegression, AdaGrad": lambda: logistic(optim.AdaGrad(0.1)),
        "River StandardScaler | LogisticRegression": lambda: (
            preprocessing.StandardScaler() | logistic(optim.SGD(0.01))
        ),
    }


def river_epoch(rows: Rows) -> list[Contender]:
    """Return one pass of River's learners, row by row, which is how it works."""
    few = data.dictionaries(rows)

    def learn(model: Any) -> None:
        for x, y in few:
            model.learn_one(x, y)

    makers = list(river_models().items())[:2]
    return [Contender(name, timed(learn, maker), rows.X.nnz, peer=True) for name, maker in makers]
