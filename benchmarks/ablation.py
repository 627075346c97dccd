"""Take the mechanisms of the default away, one at a time, and measure what each is worth.

python -m benchmarks.ablation --build build/ablation --data-dir DIR    all; continues a run
python -m benchmarks.ablation ... --only shrinkage tail                 mechanisms by name

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
from benchmarks.accuracy import protocol, streams

ROWS = 8_000
CELLS = 40_000  # rows times classes of a stream with several classes
LEAST_ROWS = 2_500  # of it
STREAMS_OF_KIND = 8
DELAYS = (100, 1000)
DELAYS_OF_CLASSES = (1000,)  # short ones take most of the time of a run
SHAPES = {"dense": ("50", "50", "3000"), "wide": ("75", "50000", "1500")}


@dataclass(frozen=True)
class Removal:
    """A mechanism, its number in the list of the decision record, and what is there instead.

    ``without`` names it in cpp/sonline/ablation.hpp; ``change`` is called in the process of the
    run for what the package decides.
    """

    name: str
    number: int
    instead: str
    without: str = ""
    change: Callable[[], None] | None = None


def _experts(classes: Any, numbers: Any) -> Callable[[], None]:
    def change() -> None:
        from sonline import parameters

        parameters.EXPERTS, parameters.REGRESSION_EXPERTS = classes, numbers

    return change


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


LONG, MIDDLE, SHORT, LEVEL = (0.0001, 0.0), (0.003, 3000.0), (0.01, 100.0), (1.0, 50.0)
SHORT_MEMORY = "held_out,as_sure_as_others,half_gain,label_runs,label_information"
TARGETS = "label_offset,label_outliers,loss_outliers,pull_of_labels,likelihood_unit"
DEFAULT = Removal("default", 0, "")
REMOVALS = (
    Removal("three experts", 1, "alpha = relative:0.1", change=_parameter("alpha", "relative:0.1")),
    Removal(
        "expert without memory", 1, "the other two",
        change=_experts((MIDDLE, SHORT), (MIDDLE, LEVEL)),
    ),
    Removal(
        "expert of 3,000 rows", 1, "the other two", change=_experts((LONG, SHORT), (LONG, LEVEL))
    ),
    Removal(
        "expert of short memory", 1, "the other two",
        change=_experts((LONG, MIDDLE), (LONG, MIDDLE)),
    ),
    Removal(
        "other experts for numbers", 1, "those of classes",
        change=_experts((LONG, MIDDLE, SHORT), (LONG, MIDDLE, SHORT)),
    ),
    Removal("running energy", 2, "the energy of the first row", "running_energy"),
    Removal("implicit step", 3, "gradient at the start, A with the row", "implicit_step"),
    Removal("curvature at end of step", 4, "at the prediction", "curvature_at_end"),
    Removal("sketch of drawn rows", 5, "every row", "sketch_draws"),
    Removal("limit of repeated row", 6, "none", "repeated_row_limit"),
    Removal("isotropic tail", 7, "discarded directions are lost", "isotropic_tail"),
    Removal("limit of first steps", 8, "none", "first_steps_limit"),
    Removal("exponential weights", 9, "equal shares", "exponential_weights"),
    Removal("fixed share", 9, "0", "fixed_share"),
    Removal("floor of a likelihood", 9, "none", "likelihood_floor"),
    Removal("effective rows", 10, "sum of weights", "effective_rows"),
    Removal("short memory: held-out rows", 11, "learns and is judged by all", "held_out"),
    Removal("short memory: as sure as others", 12, "its own margin", "as_sure_as_others"),
    Removal("short memory: half a gain", 13, "the whole gain", "half_gain"),
    Removal("short memory: label runs", 14, "every row counts 1", "label_runs"),
    Removal("short memory: information", 14, "memory as it is", "label_information"),
    Removal("short memory: all of 11-14", 11, "an expert like the others", SHORT_MEMORY),
    Removal("shrinkage", 15, "factor 1", "shrinkage"),
    Removal("young scales include the row", 16, "the scale before the row", "young_scales"),
    Removal("common unit", 17, "root mean squares", "common_unit"),
    Removal("frequent features", 18, "1", "frequent_features"),
    Removal("value limits", 19, "values as they are", "value_limits"),
    Removal("centring", 20, "none", "centring"),
    Removal("scales: all of 17, 18, 20", 17, "scaling=rms", change=_parameter("scaling", "rms")),
    Removal("scales: all of 16-20", 16, "scaling=none", change=_parameter("scaling", "none")),
    Removal("shared sketch", 21, "a learner for each class", "shared_sketch"),
    Removal("more directions if shared", 21, "as many as for one class", "shared_directions"),
    Removal("label offset", 22, "0", "label_offset"),
    Removal("label outliers", 22, "labels as they are", "label_outliers"),
    Removal("loss outliers", 22, "mean loss (and labels as they are)", "loss_outliers"),
    Removal("pull of labels", 22, "1", "pull_of_labels"),
    Removal("unit of likelihoods", 22, "1", "likelihood_unit"),
    Removal("numbers: all of 22", 22, "a loss without a unit", TARGETS),
    Removal("scores of classes", 23, "softmax", change=_class_scores(lambda z: z)),
    Removal(
        "scores of classes (2)", 23, "probabilities over their sum",
        change=_class_scores(lambda z: -np.logaddexp(0.0, -z)),
    ),
)  # fmt: skip
ALL = (DEFAULT, *REMOVALS)


@dataclass(frozen=True)
class Case:
    """Rows of a stream, the kind that it counts as, and what is learned.

    ``task`` is the kind of the stream in `streams`, or "median" (absolute errors).
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


def kind_of(stream: streams.Stream, y: np.ndarray) -> str:
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


def cases(data_dir: Path | None) -> Iterator[Case]:
    """Yield a few streams of each kind, real ones first, all of the development half."""
    chosen = [s for s in streams.all_streams(data_dir) if s.half == "development"]
    chosen.sort(key=lambda s: (s.group == "synthetic", zlib.crc32(s.name.encode())))
    counts: dict[str, int] = {}
    for stream in chosen:
        X, y = stream.load()
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
        shape: instructions.count(program, "auto 11", numbers, environment)
        for shape, numbers in SHAPES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SONLINE_DATA"))
    parser.add_argument("--build", type=Path, default=Path("build/ablation"))
    parser.add_argument("--only", nargs="*", help="mechanisms whose names contain one of these")
    parser.add_argument("--out", type=Path, default=Path("build/ablation/run.json"))
    parser.add_argument("--table", type=Path, default=Path("build/ablation/table.md"))
    options = parser.parse_args()
    program = options.build / "kernel_bench"
    names = ",".join(removal.without for removal in REMOVALS if removal.without)
    environment = {**os.environ, "SONLINE_WITHOUT": names}
    subprocess.run([program, "--compiler"], check=True, stdout=subprocess.DEVNULL, env=environment)
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    _of_run["cases"] = list(cases(data_dir))
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
        entry: dict[str, Any] = {"number": removal.number, "instead": removal.instead}
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
