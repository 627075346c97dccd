"""The harness of the benchmarks: verdicts, tables and fits follow from the numbers of a run."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("river", reason="the benchmarks compare with River")
pytest.importorskip("matplotlib", reason="the benchmarks draw")

from benchmarks import data, instructions, learning, memory, plots, report, targets
from benchmarks.learners import ADAGRAD, OJA
from benchmarks.measure import Contender, Result, Times, take_turns

COMMITTED = Path(__file__).parents[2] / "docs" / "benchmarks"


def result(section, case, contender, best, *, kind="cpu", peer=False, **about):
    values = {kind: [best, 2 * best, 3 * best]}
    return Result(section, case, contender, "ns per non-zero", values, peer, about)


def main_case(contender, best, **about):
    return result(learning.SECTION, data.MAIN.name, contender, best, **about)


def verdict_of(results, what):
    return next(verdict for verdict in targets.judge(results) if verdict.target.what == what)


@pytest.mark.parametrize(
    ("theirs", "word"), [(120.0, "met"), (119.0, "**missed**"), (None, "not measured")]
)
def test_at_least_so_many_times_faster(theirs, word):
    results = [main_case(OJA.name, 10.0)]
    if theirs:
        results.append(main_case(targets.VW_OJA_10, theirs, peer=True))
    verdict = verdict_of(results, "learning, oja, m = 10, against VW OjaNewton")
    assert verdict.word == word
    assert verdict.measured == (theirs / 10 if theirs else None)


@pytest.mark.parametrize(("ours", "word"), [(3.4, "met"), (3.6, "**missed**")])
def test_at_most_so_many_times_slower(ours, word):
    results = [main_case(OJA.name, ours), main_case(ADAGRAD.name, 1.0)]
    other = "20news"
    results += [
        result(learning.SECTION, other, OJA.name, 9.0),
        result(learning.SECTION, other, ADAGRAD.name, 1.0),
    ]
    verdict = verdict_of(results, "oja, m = 10, against own AdaGrad")
    assert verdict.word == word
    assert verdict.range == (9.0, ours), "other cases are shown, worst first, and not judged"


@pytest.mark.parametrize(("megabytes", "word"), [(839.0, "met"), (841.0, "**missed**")])
def test_memory_may_grow_with_the_features(megabytes, word):
    results = [
        result(memory.SECTION, "a case", OJA.name, megabytes, kind="memory", features=10_000_000)
    ]
    verdict = verdict_of(results, "peak memory, 1e7 features, oja, m = 10")
    assert (verdict.word, verdict.bound) == (word, 840)


def test_contenders_take_turns_in_alternating_order():
    order = []

    def contender(name, seconds):
        def run():
            order.append(name)
            return Times(seconds, 2 * seconds)

        return Contender(name, run, work=1000)

    pair = [contender("a", 1e-3), contender("b", 3e-3)]
    first, second = take_turns("s", "c", "ns", pair, rounds=2, seconds=1e-9)
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert first.values == {"cpu": [1000.0] * 2, "wall": [2000.0] * 2}
    assert second.best("cpu") == 3000


def test_a_straight_line_is_fitted_exactly():
    x = np.array([1.0, 10.0, 100.0])
    line = plots.fit("rows", "oja", x, 5 + 3 * x, "ms")
    assert (line.start, line.slope, line.r2) == pytest.approx((5, 3, 1))
    assert line.worst < 1e-9


def test_a_report_has_ratios_to_each_peer(tmp_path, capsys):
    results = [main_case(OJA.name, 10.0)]
    results.append(main_case("vw --OjaNewton --sketch_size 10", 125.0, peer=True))
    results += [
        main_case(f"oja, m = {m}", 2.0 + m, size=m, sketch="oja", against="size") for m in (5, 10)
    ]
    run = {
        "machine": {"processor": "a processor"},
        "versions": {"sonline": "0"},
        "rounds": 3,
        "quick": False,
        "results": [result.as_dict() for result in results],
    }
    report.write(run, tmp_path)
    page = (tmp_path / "report.markdown").read_text(encoding="utf-8")
    assert "| oja, m = 10 | 10.0 | 20.0 | 12.5 |" in page
    assert "![Time against m" in page
    assert (tmp_path / "against-m.png").stat().st_size > 1000
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8")) == run
    assert "12.5×" in capsys.readouterr().out


def test_more_instructions_than_committed_are_noticed(capsys):
    before = {"even oja 10": 1000, "even fd 10": 1000}
    assert (
        instructions.compare({"even oja 10": 1090, "even fd 10": 500, "zipf fd 10": 7}, before)
        == []
    )
    assert instructions.compare({"even oja 10": 1110, "even fd 10": 1000}, before) == [
        "even oja 10"
    ]
    assert "+11.0%" in capsys.readouterr().out


def test_the_committed_targets_are_those_of_the_committed_run():
    run = json.loads((COMMITTED / "run.json").read_text(encoding="utf-8"))
    results = [Result(**entry) for entry in run["results"]]
    page = (COMMITTED / "report.markdown").read_text(encoding="utf-8")
    assert "\n".join(report.target_table(results)) in page
    assert not run["quick"]
