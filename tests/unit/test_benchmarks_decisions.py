"""The comparison of counts, standard deviations, intervals and questions: parts and the page."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("river", reason="an extra")  # benchmarks.accuracy.learners
from benchmarks.decisions import __main__ as decisions
from benchmarks.decisions import counts, intervals, labels, report, spread, streams


@pytest.mark.parametrize("target", counts.TARGETS, ids=lambda target: target.name)
def test_targets_are_counts_and_amounts(target):
    X, y, offset = target.draw(np.random.default_rng(0), 2000)
    assert X.shape[0] == y.size == 2000
    assert (y >= 0).all()
    assert (y > 0).all() or target.loss != "gamma"
    assert offset is None or np.isfinite(offset).all()


def test_the_deviance_of_the_mean_is_that_of_scikit_learn():
    target = counts.TARGETS[0]
    assert counts.deviance(target, np.array([0.0, 2.0]), np.array([1.0, 0.0])) is None
    assert counts.deviance(target, np.array([1.0, 2.0]), np.array([1.0, 2.0])) == pytest.approx(0)
    y = np.arange(100.0)
    assert counts.lift(y, y, None) == pytest.approx(94.5 / 49.5)


def test_intervals_are_scored():
    y = np.zeros(2000)
    ends = np.stack([np.where(np.arange(2000) % 10, -1.0, 0.5), np.ones(2000)], axis=1)
    scores = intervals.scored(ends, y, 1.0)
    assert scores["coverage"] == pytest.approx(0.9)
    assert scores["window"] == pytest.approx(0)
    assert scores["width"] == pytest.approx(0.9 * 2 + 0.1 * 0.5)
    assert scores["score"] == pytest.approx(scores["width"] + 0.1 * 20 * 0.5)
    assert scores["infinite"] == 0


def test_deviations_are_correlated_with_errors():
    X, y = streams.changing("noise", rows=500)
    assert -1 < spread.correlation(spread.CONTENDERS["sonline"][1](5), X, y) < 1
    times = spread.ratio(X, y)
    assert times["std"] > 0
    assert times["plain"] > 0


def test_rules_ask_for_as_many_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    rows = labels.Labelled("some", X, (X[:, 0] + 0.1 * rng.normal(size=600) > 0).astype(int))
    result = labels.compared(rows)
    assert result["all"]["share"] == 1
    assert 0 < result["ours"]["share"] < 0.7
    assert result["margin"]["share"] == pytest.approx(result["ours"]["share"], rel=0.2)


def test_a_run_writes_a_page_and_is_continued(tmp_path, monkeypatch):
    some = [table for table in streams.drifting(None) if table.name.startswith("noise")]
    monkeypatch.setattr(intervals, "drifting", lambda _: some)
    monkeypatch.setattr(intervals, "shuffled", lambda _: [])
    monkeypatch.setattr(intervals, "installed", lambda _: False)
    monkeypatch.setattr(counts, "LEARNED", 1000)
    places = ["--out", str(tmp_path), "--page", str(tmp_path / "page.md")]
    monkeypatch.setattr(sys, "argv", ["decisions", "--only", "intervals", *places])
    decisions.main()
    run = json.loads((tmp_path / "run.json").read_text())
    assert [result["stream"] for result in run["intervals"]["results"]] == ["noise (generated)"]
    page = (tmp_path / "page.md").read_text()
    assert "| noise (generated) | 4,000 |" in page
    assert "## Counts" not in page
    monkeypatch.setitem(decisions.PARTS, "intervals", None)  # would fail if it were called
    decisions.main()
    assert (tmp_path / "page.md").read_text() == page


def test_the_page_has_all_parts_and_losses_first():
    page = Path("docs/accuracy-decisions.md").read_text()
    titles = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert titles == ["Where we lose", *(title for title, _ in report.SECTIONS.values())]
    assert "missing here" not in page
