"""One row at a time, and the estimators: the cost of the layers above the kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

from benchmarks import data, peers
from benchmarks.measure import CORES, Contender, Result, Run, pin, take_turns, timed
from benchmarks.settings import Settings
from sonline import OnlineLearner, SONClassifier
from sonline import river as son_river

SECTION = "one row at a time"
ESTIMATORS = "estimators"
MICRO, MILLI = 1e-6, 1e-3
RIVER_SGD = "River LogisticRegression, SGD"
SGD = "scikit-learn SGDClassifier"
# One weight vector on raw features, every row in the sketch, as in the learning section.
AS_IN_THE_PAPER = {
    "none": "SONClassifier as in the paper, m = 0",
    "oja": "SONClassifier as in the paper, oja, m = 10",
}


def measure(settings: Settings) -> Iterator[Result]:
    warnings.simplefilter("ignore")  # SGD says that one epoch is not enough
    yield from mappings(settings)
    yield from sparse_rows(settings)
    yield from thousand_rows(settings)
    yield from epochs(settings)
    yield from classes(settings)


def looping(function: Callable[..., object], items: Sequence[tuple[Any, ...]]) -> Run:
    def run() -> None:
        for item in items:
            function(*item)

    return timed(run)


def mappings(settings: Settings) -> Iterator[Result]:
    """`learn_one` and `predict_one` of 64 named features; Vowpal Wabbit gets lines of text.

    With names that are the same objects in all rows, and with new ones in each.
    """
    rows = data.generated(data.Shape(64, 64), settings.size(2000))
    for same, words in ((True, ""), (False, ", new texts in each row")):
        named = data.dictionaries(rows, "feature_", same_keys=same)
        yield from _mappings(settings, rows, named, words)


def _mappings(
    settings: Settings,
    rows: data.Rows,
    named: list[tuple[dict[str | int, float], bool]],
    words: str,
) -> Iterator[Result]:
    ours = {
        "sonline.river SONClassifier": son_river.SONClassifier(),
        "sonline.river SONClassifier, m = 0": son_river.SONClassifier(sketch_size=0),
    }
    theirs = {name: make() for name, make in peers.river_models().items()}
    learner = OnlineLearner()
    signed = [(x, 1.0 if y else -1.0) for x, y in named]
    lines = [(line,) for line in data.texts(rows, "feature_{}:{:.6f}")[1].decode().splitlines()]
    for verb in ("learn", "predict"):
        items = {name: named if verb == "learn" else [(x,) for x, _ in named] for name in ours}
        contenders = [
            Contender(name, looping(getattr(model, f"{verb}_one"), items[name]), len(named))
            for name, model in ours.items()
        ]
        plain = signed if verb == "learn" else [(x,) for x, _ in signed]
        bare = looping(getattr(learner, f"{verb}_one"), plain)
        contenders.append(Contender("OnlineLearner", bare, len(named)))
        for name, model in theirs.items():
            run = looping(
                getattr(model, f"{verb}_one"),
                named if verb == "learn" else [(x,) for x, _ in named],
            )
            contenders.append(Contender(name, run, len(named), peer=True))
        if peers.Workspace is not None:
            for options in ("", peers.vw_oja(10)):
                vw = peers.Workspace(f"--quiet -b 18 {peers.VW_LOSS} {options}")
                run = looping(getattr(vw, verb), lines)
                contenders.append(Contender(peers.vw_name(options), run, len(lines), peer=True))
        yield from take_turns(
            SECTION,
            f"{verb}_one, 64 named features{words}",
            "µs per row",
            contenders,
            settings.rounds,
            seconds=MICRO,
            cores=1,
        )


def sparse_rows(settings: Settings) -> Iterator[Result]:
    """Labels are integers, as classes mostly are, and floats, which take longer to be checked."""
    rows = data.generated(data.MAIN, 300)
    X, y = rows.X, rows.y.astype(np.int64)
    singles = [(X[i], y[i : i + 1]) for i in range(X.shape[0])]
    floats = [(x, label.astype(float)) for x, label in singles]
    ours = SONClassifier().partial_fit(X, y, classes=[-1, 1])
    theirs = SGDClassifier(loss="log_loss").partial_fit(X, y, classes=[-1, 1])
    for verb, what, items in (
        ("partial_fit", "integer label", singles),
        ("partial_fit", "float label", floats),
        ("predict", "no label", [(x,) for x, _ in singles]),
    ):
        yield from take_turns(
            SECTION,
            f"{verb}, one sparse row, {what}",
            "µs per row",
            [
                Contender("SONClassifier", looping(getattr(ours, verb), items), len(items)),
                Contender(SGD, looping(getattr(theirs, verb), items), len(items), peer=True),
            ],
            settings.rounds,
            seconds=MICRO,
            cores=1,
        )


def thousand_rows(settings: Settings) -> Iterator[Result]:
    """What `partial_fit` adds to the kernel."""
    rows = data.generated(data.MAIN, 1000)
    X, y = rows.X, rows.y.astype(np.int64)
    numbers, out = (rows.y > 0).astype(float), np.empty((1, len(y)))  # of the classes
    for m in (10, 0):
        ours = SONClassifier(sketch_size=m).partial_fit(X, y, classes=[-1, 1])
        bare = OnlineLearner(sketch_size=m).model.core  # nothing in between

        def learn(bare: Any = bare) -> None:
            bare.learn_arrays((X.data, X.indices, X.indptr, X.shape[1]), numbers, None, out)

        learn()
        times = 5
        yield from take_turns(
            ESTIMATORS,
            f"partial_fit, 1,000 sparse rows, m = {m}",
            "µs per row",
            [
                Contender(
                    "SONClassifier", looping(ours.partial_fit, [(X, y)] * times), 1000 * times
                ),
                Contender("the bare kernel", looping(learn, [()] * times), 1000 * times),
            ],
            3 * settings.rounds,
            seconds=MICRO,
            cores=1,
        )


def epochs(settings: Settings) -> Iterator[Result]:
    rows = data.generated(data.MAIN, settings.size(50_000))
    models = {f"SONClassifier(sketch_size={m})": SONClassifier(sketch_size=m) for m in (0, 10)}
    for sketch, name in AS_IN_THE_PAPER.items():
        models[name] = SONClassifier(sketch=sketch, scaling="none", alpha="relative:0.1")
    models[SGD] = SGDClassifier(loss="log_loss", max_iter=1, tol=None)
    contenders = []
    for name, model in models.items():
        model.set_params(shuffle=False)
        run = timed(lambda model=model: model.fit(rows.X, rows.y))
        contenders.append(Contender(name, run, rows.X.nnz, peer=name == SGD))
    yield from take_turns(
        ESTIMATORS,
        "fit, one epoch without shuffling",
        "ns per non-zero",
        contenders,
        settings.rounds,
        seconds=1e-9,
        cores=1,
    )


def classes(settings: Settings) -> Iterator[Result]:
    """Ten classes on one core and on two: elapsed time."""
    rows = data.generated(data.MAIN, settings.size(5000))
    y = np.random.default_rng(1).integers(0, 10, rows.X.shape[0])
    for count in (1, 2):
        pin(CORES[:count])
        model = SONClassifier(shuffle=False, n_jobs=count)
        yield from take_turns(
            ESTIMATORS,
            f"fit, one epoch, 10 classes, {count} core{'s' * (count > 1)}",
            "ms",
            [Contender("SONClassifier", timed(lambda m=model: m.fit(rows.X, y)), 1)],
            settings.rounds,
            seconds=MILLI,
            cores=count,
        )
    pin(CORES[-1:])
