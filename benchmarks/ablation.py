"""Take the mechanisms of the default away, one at a time, and measure what each is worth.

    python -m benchmarks.ablation --build build/ablation --cache DIR    all; continues a run
    python -m benchmarks.ablation ... --only shrinking tail             mechanisms by name
    python -m benchmarks.ablation ... --streams iris --groups text      streams as for accuracy

The native module is one that is compiled with SONLINE_ABLATION (`make ablation` does it); it takes
mechanisms away by the environment variable SONLINE_WITHOUT. Streams are those of the development
half. Scores are ratios to the default on the same rows, as geometric means over the streams of a
kind; cost is in instructions.
"""

# ruff: noqa: PLC0415 - the package is imported once the native module has been chosen
from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from fuzz.models import load_core

from benchmarks import ablation_report, instructions
from benchmarks.accuracy import protocol
from benchmarks.accuracy.cache import Cache, rows_or_reason, tidy
from benchmarks.accuracy.stream import Stream
from benchmarks.accuracy.streams import chosen_streams

ROWS = 8_000
CELLS = 40_000  # rows times classes of a stream with several classes
LEAST_ROWS = 2_500  # of it
STREAMS_OF_KIND = 8
DELAYS = (100, 1000)
DELAYS_OF_CLASSES = (1000,)  # short ones take most of the time of a run
SHAPES: dict[str, instructions.Shape] = {
    "dense": (50, 50, 3_000, "even"),
    "wide": (75, 50_000, 1_500, "zipf"),
}


@dataclass(frozen=True)
class Removal:
    """A mechanism, and what is there instead.

    ``without`` names it in cpp/sonline/ablation.hpp; ``change`` is called in the process of the
    run for what the package decides.
    """

    name: str
    instead: str
    without: str = ""
    change: Callable[[], None] | None = None


def _member(number: int) -> Callable[[], None]:
    """Return a change that removes a member over the sketch."""

    def change() -> None:
        from sonline import parameters

        members = list(parameters.MEMBERS)
        del members[number]
        parameters.MEMBERS = tuple(members)

    return change


def _no_diagonal() -> None:
    from sonline import parameters

    parameters.DIAGONAL = ()


def _parameter(name: str, value: Any) -> Callable[[], None]:
    """Return a change of the default of one parameter of all learners."""

    def change() -> None:
        from sonline.parameters import Parameters

        check = Parameters.__post_init__

        def changed(self: Any) -> None:
            object.__setattr__(self, name, value)
            check(self)

        Parameters.__post_init__ = changed  # type: ignore[method-assign]

    return change


def _class_scores(score: Callable[[np.ndarray], np.ndarray]) -> Callable[[], None]:
    def change() -> None:
        from sonline.model import predictions

        predictions.share_score = score

    return change


OTHERS = "the other members"
LATER = "later_shares,half_rate,phases,held_weights"
NUMBERS = "label_offset,outliers,typical_loss,pull,likelihood_unit"
DEFAULT = Removal("default", "")
REMOVALS = (
    Removal("mixture", "alpha = relative:0.1", change=_parameter("alpha", "relative:0.1")),
    Removal("member of alpha 0.0001", OTHERS, change=_member(0)),
    Removal("member of alpha 0.01", OTHERS, change=_member(1)),
    Removal("member of 100 rows, next row", OTHERS, change=_member(2)),
    Removal("member without sketch", OTHERS, change=_member(3)),
    Removal("member of 100 rows, later rows", OTHERS, change=_member(4)),
    Removal("member with steps per feature", OTHERS, change=_no_diagonal),
    Removal("steps for many classes", "alpha as for two classes", "many_classes"),
    Removal("running energy", "the energy of the first row", "running_energy"),
    Removal("implicit step", "gradient at the start, A with the row", "implicit_step"),
    Removal("curvature at end of step", "at the prediction", "curvature_at_end"),
    Removal("sketch of drawn rows", "every row", "drawn_rows"),
    Removal("limit of repeated row", "none", "repeated_row"),
    Removal("isotropic tail", "discarded directions are lost", "isotropic_tail"),
    Removal("limit of first steps", "none", "first_steps"),
    Removal("exponential weights", "equal shares", "exponential_weights"),
    Removal("fixed share", "0", "fixed_share"),
    Removal("effective rows", "sum of weights", "effective_rows"),
    Removal("shares for later rows", "those for the next row", "later_shares"),
    Removal("half rate of later shares", "the whole rate", "half_rate"),
    Removal("phases", "members for later rows learn and are judged by all rows", "phases"),
    Removal("held weights", "steps per feature: weights of the last row", "held_weights"),
    Removal("later rows: all of these", "one set of shares", LATER),
    Removal("calibration", "factor 1", "calibration"),
    Removal("base rate", "calibration from 0", "base_rate"),
    Removal("young scales include the row", "the scale before the row", "young_scales"),
    Removal("common unit", "root mean squares", "common_unit"),
    Removal("frequent features", "1", "frequent_features"),
    Removal("value limits", "values as they are", "value_limits"),
    Removal("centring", "none", "centring"),
    Removal("scales: unit, frequency, centres", "scaling=rms", change=_parameter("scaling", "rms")),
    Removal("scales: all", "scaling=none", change=_parameter("scaling", "none")),
    Removal("wide rows without sketches", "with sketches", "wide_rows"),
    Removal("label offset", "0", "label_offset"),
    Removal("outliers", "labels as they are", "outliers"),
    Removal("typical loss", "mean loss (and labels as they are)", "typical_loss"),
    Removal("pull of labels", "1", "pull"),
    Removal("unit of likelihoods", "1", "likelihood_unit"),
    Removal("numbers: all of these", "a loss without a unit", NUMBERS),
    Removal("scores of classes", "softmax", change=_class_scores(lambda z: z)),
)
ALL = (DEFAULT, *REMOVALS)


@dataclass(frozen=True)
class Case:
    """Rows of a stream, the kind that it counts as, and what is learned.

    ``task`` is the kind of the stream, or "median" (absolute errors).
    """

    name: str
    kind: str
    task: str
    X: sp.csr_matrix
    y: np.ndarray
    weighted: bool = False

    def make(self) -> protocol.Contender:
        from benchmarks.accuracy.learners import Sonline, SonlineClasses
        from sonline import OnlineLearner

        if self.task == "multiclass":
            return SonlineClasses(int(self.y.max()) + 1)
        model = Sonline("regression" if self.task == "median" else self.task)
        if self.task == "median":
            model.learner = OnlineLearner(loss="quantile")
        return Weighted(model) if self.weighted else model


class Weighted:
    """A binary classifier whose rows have random weights of very different sizes."""

    def __init__(self, model: Any) -> None:
        self.model, self.random = model, np.random.default_rng(23)

    def learn(self, X: sp.csr_matrix, y: np.ndarray) -> np.ndarray:
        weights = 10 * self.random.lognormal(sigma=1.5, size=y.size)
        margins = self.model.learner.learn(X, y, weights)
        return np.asarray(1 / (1 + np.exp(-margins)))

    def predict(self, X: sp.csr_matrix) -> np.ndarray:
        return np.asarray(self.model.predict(X))


def kind_of(stream: Stream, y: np.ndarray) -> str:
    """Return the kind of stream as the report has it."""
    classes = np.unique(y).size if stream.kind == "multiclass" else 2
    if classes >= 10:
        return "many classes"
    if y.size < 1_000:
        return "small sets"
    if stream.group in ("text", "ids", "ordered"):
        return stream.group
    if stream.kind == "regression":
        return "regression"
    rare = stream.kind == "binary" and min((y > 0).mean(), (y <= 0).mean()) < 0.05
    return "rare classes" if rare else "tables"


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield a few streams of each kind, real ones first, all of the development half."""
    rows_of = tidy if options.cache is None else Cache(options.cache / "streams").rows
    chosen = chosen_streams(options)[1]
    chosen.sort(key=lambda s: (s.group == "synthetic", zlib.crc32(s.name.encode())))
    counts: dict[str, int] = {}
    for stream in chosen:
        if (loaded := rows_or_reason(rows_of, stream)) is None:
            continue
        X, y = loaded
        kind = kind_of(stream, y)
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] > STREAMS_OF_KIND:
            continue
        rows = ROWS
        if stream.kind == "multiclass":
            rows = min(rows, max(CELLS // np.unique(y).size, LEAST_ROWS))
        X, y = sp.csr_matrix(X[:rows]), y[:rows]
        yield Case(stream.name, kind, stream.kind, X, y)
        if kind == "tables" and stream.kind == "binary":
            yield Case(f"{stream.name}, weighted", "weighted rows", stream.kind, X, y, True)
        if kind == "regression":
            yield Case(f"{stream.name}, median", "medians", "median", X, y)


_of_run: dict[str, Any] = {}  # what the processes of a run inherit


def measure(name: str) -> dict[str, Any]:
    """Return the scores of the default without a mechanism, by stream. In a process of its own."""
    removal = next(removal for removal in ALL if removal.name == name)
    os.environ["SONLINE_WITHOUT"] = removal.without
    load_core(str(_of_run["core"]))
    if removal.change is not None:
        removal.change()
    scores: dict[str, Any] = {}
    for case in _of_run["cases"]:
        try:
            with np.errstate(all="ignore"):
                delays = DELAYS_OF_CLASSES if case.task == "multiclass" else DELAYS
                scores[case.name] = protocol.judge(
                    case.make, case.task, case.X, case.y, delays=delays
                )
        except Exception as error:  # noqa: BLE001 - it may diverge, which is a result
            scores[case.name] = {"failed": f"{type(error).__name__}: {error}"}
    return scores


def counts(program: Path, without: str) -> dict[str, int]:
    """Return the kernel's instructions on dense and on wide rows."""
    environment = {**os.environ, "SONLINE_WITHOUT": without}
    return {
        shape: instructions.count(program, instructions.AUTO, numbers, environment)
        for shape, numbers in SHAPES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SONLINE_DATA"))
    parser.add_argument("--cache", type=Path, help="folder of the streams, see benchmarks.accuracy")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    parser.add_argument("--streams", nargs="*", help="streams whose names contain one of these")
    parser.add_argument("--groups", nargs="*", help="groups of streams")
    parser.add_argument("--build", type=Path, default=Path("build/ablation"))
    parser.add_argument("--only", nargs="*", help="mechanisms whose names contain one of these")
    parser.add_argument("--out", type=Path, default=Path("build/ablation/run.json"))
    parser.add_argument("--table", type=Path, default=Path("build/ablation/table.md"))
    options = parser.parse_args(namespace=argparse.Namespace(half="development"))
    program = options.build / "kernel_bench"
    names = ",".join(removal.without for removal in REMOVALS if removal.without)
    environment = {**os.environ, "SONLINE_WITHOUT": names}
    subprocess.run([program, "--compiler"], check=True, stdout=subprocess.DEVNULL, env=environment)
    _of_run["cases"] = list(cases(options))
    if not _of_run["cases"]:
        parser.error("no stream of the development half has such a name or group")
    _of_run["core"] = options.build / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    kinds = {case.name: case.kind for case in _of_run["cases"]}
    rows = {case.name: int(case.y.size) for case in _of_run["cases"]}
    run: dict[str, Any] = {"kinds": kinds, "rows": rows, "removals": {}}
    if options.out.exists():
        earlier = json.loads(options.out.read_text(encoding="utf-8"))
        run = earlier if earlier["rows"] == rows else run
    for removal in ALL:
        name = removal.name
        wanted = not options.only or any(part in name for part in options.only)
        if name in run["removals"] or not (wanted or removal is DEFAULT):
            continue
        entry: dict[str, Any] = {"instead": removal.instead}
        with multiprocessing.get_context("fork").Pool(1) as pool:
            entry["scores"] = pool.apply(measure, (name,))
        if removal.without or removal is DEFAULT:
            entry["instructions"] = counts(program, removal.without)
        run["removals"][name] = entry
        options.out.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        options.table.write_text(ablation_report.tables(run), encoding="utf-8")
        print(name, file=sys.stderr, flush=True)
    print(ablation_report.tables(run))


if __name__ == "__main__":
    main()
