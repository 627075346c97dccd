"""The targets, and how a run compares with them. Nothing here is typed from a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks import data, learning, memory, parsing, peers, rows, storage, text
from benchmarks.learners import ADAGRAD, DEFAULT, FD, ISOTROPIC, NONE, OJA, RFD, Learner
from benchmarks.measure import Result

VW_OJA_10, VW_OJA_30 = (peers.vw_name(peers.vw_oja(m)) for m in (10, 30))
VW_DEFAULT = peers.vw_name("")
SGD = "scikit-learn SGDClassifier"


@dataclass(frozen=True)
class Target:
    """A bound on a ratio of two contenders of one case, or on a number.

    ``faster``: at least so many times faster than the other one. ``slower``: at most so many times
    its time. ``number``: at most this number (``bound`` plus ``per_feature`` bytes, in the unit of
    the result).
    """

    what: str
    section: str
    ours: str
    sense: str
    bound: float
    other: str = ""
    case: str = ""  # how the name of the case starts; the first match is used
    kind: str = "cpu"
    per_feature: float = 0.0
    plus: str = ""  # a contender of the same case whose number is added to the bound

    @property
    def wanted(self) -> str:
        if self.sense == "faster":
            return f"≥ {self.bound:g}× faster"
        if self.sense == "slower":
            return f"≤ {self.bound:g}× its time"
        parts = [f"{self.per_feature:g} bytes per feature"] if self.per_feature else []
        unit = "MB" if self.kind == "memory" else "ms"
        parts.append(f"{self.bound:g} {unit}")
        return "≤ " + " + ".join([*parts, *([self.plus] if self.plus else [])])


def _learning(what: str, ours: Learner, sense: str, bound: float, other: str) -> Target:
    return Target(what, learning.SECTION, ours.name, sense, bound, other, data.MAIN.name)


LIMIT_10 = learning.LIMIT.format(10)
TARGETS = (
    _learning("learning, oja, m = 10, against VW OjaNewton", OJA, "faster", 12, VW_OJA_10),
    _learning("… isotropic, m = 10", ISOTROPIC, "faster", 12, VW_OJA_10),
    _learning("… default settings", DEFAULT, "faster", 12, VW_OJA_10),
    _learning(
        "learning, oja, m = 30, against VW OjaNewton", Learner("oja", 30), "faster", 20, VW_OJA_30
    ),
    _learning("oja, m = 10, against own AdaGrad", OJA, "slower", 3.5, ADAGRAD.name),
    _learning("… isotropic, m = 10", ISOTROPIC, "slower", 3.5, ADAGRAD.name),
    _learning("m = 0 against SGDClassifier, one epoch", NONE, "slower", 1, SGD),
    _learning("AdaGrad against SGDClassifier, one epoch", ADAGRAD, "slower", 1, SGD),
    _learning("oja, m = 10, against reading and writing back", OJA, "slower", 3, LIMIT_10),
    _learning("isotropic against oja, m = 10", ISOTROPIC, "slower", 3, OJA.name),
    _learning("rfd against oja, m = 10", RFD, "slower", 3, OJA.name),
    _learning("fd against oja, m = 10", FD, "slower", 3, OJA.name),
    Target(
        "svmlight text to CSR against load_svmlight_file",
        parsing.SECTION,
        parsing.BATCHES,
        "faster",
        15,
        parsing.SKLEARN,
    ),
    Target(
        "… as one matrix",
        parsing.SECTION,
        parsing.MATRIX,
        "faster",
        15,
        parsing.SKLEARN,
    ),
    Target(
        "svmlight text to CSR against VW's text parser",
        parsing.SECTION,
        parsing.BATCHES,
        "faster",
        3,
        parsing.VW,
    ),
    *(
        Target(
            f"text to model, {words}, two cores, against {peer}",
            text.SECTION,
            f"sonline train, {learner.name}",
            "faster",
            bound,
            peer,
            case="generated",
            kind="wall",
        )
        for learner, words in ((DEFAULT, "default settings (m = 10)"), (OJA, "oja, m = 10"))
        for peer, bound in ((VW_OJA_10, 6), (VW_DEFAULT, 2))
    ),
    *(
        Target(
            f"peak memory, 1e7 features, {words}",
            memory.SECTION,
            learner.name,
            "number",
            200,
            kind="memory",
            per_feature=64,
        )
        for learner, words in ((OJA, "oja, m = 10"), (DEFAULT, "default settings"))
    ),
    Target(
        f"hash_bits={storage.BITS} starts",
        storage.START,
        "OnlineLearner",
        "number",
        50,
        case=storage.HASHED_CASE,
    ),
    Target(
        f"hash_bits={storage.BITS} starts, memory",
        storage.START,
        "OnlineLearner",
        "number",
        50,
        case=f"{storage.HASHED_CASE}: memory",
        kind="memory",
    ),
    *(
        Target(
            f"{verb}_one, 64 names, against River's SGD",
            rows.SECTION,
            "sonline.river SONClassifier",
            "faster",
            8,
            rows.RIVER_SGD,
            case=f"{verb}_one",
        )
        for verb in ("learn", "predict")
    ),
    Target(
        "partial_fit of one sparse row, integer label",
        rows.SECTION,
        "SONClassifier",
        "faster",
        10,
        rows.SGD,
        case="partial_fit, one sparse row, integer",
    ),
    Target(
        "… float label",
        rows.SECTION,
        "SONClassifier",
        "faster",
        10,
        rows.SGD,
        case="partial_fit, one sparse row, float",
    ),
    Target(
        "partial_fit of 1,000 rows against the bare kernel",
        rows.ESTIMATORS,
        "SONClassifier",
        "slower",
        1.2,
        "the bare kernel",
        case="partial_fit, 1,000 sparse rows, m = 10",
    ),
    Target(
        "SONClassifier(sketch_size=0), one epoch",
        rows.ESTIMATORS,
        "SONClassifier(sketch_size=0)",
        "slower",
        1,
        rows.SGD,
        case="fit, one epoch without",
    ),
    Target(
        "… as in the paper, m = 0",
        rows.ESTIMATORS,
        rows.AS_IN_THE_PAPER["none"],
        "slower",
        1,
        rows.SGD,
        case="fit, one epoch without",
    ),
    Target(
        "SONClassifier(sketch_size=10), one epoch",
        rows.ESTIMATORS,
        "SONClassifier(sketch_size=10)",
        "slower",
        4,
        rows.SGD,
        case="fit, one epoch without",
    ),
    Target(
        "… as in the paper, oja, m = 10",
        rows.ESTIMATORS,
        rows.AS_IN_THE_PAPER["oja"],
        "slower",
        4,
        rows.SGD,
        case="fit, one epoch without",
    ),
    Target(
        "memory while training on a 2 GB file",
        memory.SECTION,
        "peak memory",
        "number",
        300,
        kind="memory",
        plus="the model's file",
    ),
)


@dataclass(frozen=True)
class Verdict:
    """What a run says of a target; `measured` is None where the run left it out."""

    target: Target
    measured: float | None = None
    median: float | None = None
    bound: float | None = None
    range: tuple[float, float] | None = None  # over all cases, worst first

    @property
    def word(self) -> str:
        if self.measured is None or self.bound is None:
            return "not measured"
        good = (
            self.measured >= self.bound
            if self.target.sense == "faster"
            else self.measured <= self.bound
        )
        return "met" if good else "**missed**"


def judge(results: Iterable[Result]) -> list[Verdict]:
    """Return the verdicts on all targets."""
    cases: dict[tuple[str, str], dict[str, Result]] = {}
    for result in results:
        if "against" not in result.about:  # the series for the plots are no cases of their own
            cases.setdefault((result.section, result.case), {})[result.contender] = result
    return [_judge(target, cases) for target in TARGETS]


def _judge(target: Target, cases: dict[tuple[str, str], dict[str, Result]]) -> Verdict:
    needed = {target.ours, *([target.other] if target.other else [])}
    fitting = {
        case: results
        for (section, case), results in cases.items()
        if section == target.section and needed <= results.keys()
        if target.kind in results[target.ours].values
        if target.kind != "wall" or results[target.ours].about["cores"] > 1
    }
    if target.sense == "number":
        return _judge_number(target, fitting)
    chosen = [case for case in fitting if case.startswith(target.case)]
    if not chosen:
        return Verdict(target)
    ratios = {case: _ratio(target, results, "best") for case, results in fitting.items()}
    median = _ratio(target, fitting[chosen[0]], "median")
    ends = (min, max) if target.sense == "faster" else (max, min)
    # Cases of these sections are the same work on other rows; elsewhere they are other work.
    several = len(ratios) > 1 and target.section in (
        learning.SECTION,
        parsing.SECTION,
        text.SECTION,
    )
    spread = (ends[0](ratios.values()), ends[1](ratios.values())) if several else None
    return Verdict(target, ratios[chosen[0]], median, target.bound, spread)


def _judge_number(target: Target, fitting: dict[str, dict[str, Result]]) -> Verdict:
    for case, results in fitting.items():
        if not case.startswith(target.case):
            continue
        ours = results[target.ours]
        bound = target.bound + target.per_feature * ours.about.get("features", 0) / 1e6
        if target.plus:
            bound += results[target.plus].best(target.kind)
        return Verdict(target, ours.best(target.kind), ours.median(target.kind), bound)
    return Verdict(target)


def _ratio(target: Target, results: dict[str, Result], how: str) -> float:
    one, two = results[target.ours], results[target.other]
    ours, other = (
        (one.best(target.kind), two.best(target.kind))
        if how == "best"
        else (one.median(target.kind), two.median(target.kind))
    )
    return other / ours if target.sense == "faster" else ours / other
