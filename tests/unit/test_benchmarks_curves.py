"""The comparison of curves with other learners: contenders, the run, and its page."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("river", reason="an extra")  # benchmarks.accuracy.learners
from benchmarks import curves, curves_report
from benchmarks.accuracy.learners import Sonline
from benchmarks.curves_contenders import (
    BINS,
    ENTRIES,
    OneByOne,
    VowpalWabbit,
    bytes_of,
    installed,
)


def rows(kind: str) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = X[:, 0] ** 2
    return X, np.where(y > 1, 1.0, -1.0) if kind == "binary" else y


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_rows_one_by_one_give_the_same_predictions(kind):
    X, y = rows(kind)
    many, one = Sonline(kind), OneByOne(kind)
    np.testing.assert_array_equal(many.learn(X, y), one.learn(X, y))
    np.testing.assert_array_equal(many.predict(X), one.predict(X))


@pytest.mark.parametrize("kind", ["binary", "regression"])
@pytest.mark.parametrize("name", ["River Hoeffding tree", "VW -q ::", "VW, bins", "boosting"])
def test_contenders_learn(kind, name):
    [entry] = [entry for entry in ENTRIES if entry.name.startswith(name)]
    if not installed(entry):
        pytest.skip(f"{entry.package} is not installed")
    X, y = rows(kind)
    contender = entry.make(kind)
    before = contender.learn(X[:300], y[:300])
    assert (before is None) == entry.batch
    predictions = contender.predict(X[300:])
    assert predictions.shape == (100,)
    assert np.corrcoef(predictions, y[300:])[0, 1] > 0.2
    assert bytes_of(contender) > 100


def test_bins_are_one_feature_a_column():
    contender = VowpalWabbit.__new__(VowpalWabbit)
    contender.bins = True
    contender.ends = [np.linspace(-1, 1, BINS - 1), np.array([0.0])]
    features = contender._features(np.array([[-5.0, 0.0], [5.0, -1.0]]))
    assert features.toarray().sum(axis=1).tolist() == [2, 2]
    assert features.indices.reshape(2, 2).tolist() == [[0, BINS + 1], [BINS - 1, BINS]]


def test_a_run_writes_a_page_and_is_continued(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(curves, "STREAMS", ("concept switches", "no such stream"))
    arguments = ["curves", "--rows", "300", "--only", "sonline", "boosting"]
    places = ["--out", str(tmp_path), "--page", str(tmp_path / "page.md")]
    monkeypatch.setattr(sys, "argv", arguments + places)
    curves.main()
    assert "left out: no such stream" in capsys.readouterr().err
    run = json.loads((tmp_path / "run.json").read_text())
    [result] = run["results"]
    assert result["rows"] == 300
    ours, same = (result["scores"][name] for name in (curves_report.OURS, curves_report.SAME_BITS))
    assert ours["frozen"] == same["frozen"]
    assert ours["micro"] > 0
    assert ours["bytes"] > 1000
    page = (tmp_path / "page.md").read_text()
    assert "| concept switches *dev* | 300 |" in page
    monkeypatch.setattr(curves, "scored", None)  # would fail if it were called
    curves.main()
    assert (tmp_path / "page.md").read_text() == page


def test_a_part_has_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "STREAMS", ("concept switches",))
    for only in ("boosting", "sonline, curves=False", "sonline, curves"):
        places = ["--out", str(tmp_path / only), "--page", str(tmp_path / "page.md")]
        monkeypatch.setattr(sys, "argv", ["curves", "--rows", "200", "--only", only, *places])
        curves.main()
        assert "| concept switches *dev* | 200 |" in (tmp_path / "page.md").read_text()


def test_what_a_run_lacks_is_measured_later(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "STREAMS", ("concept switches",))
    places = ["--out", str(tmp_path), "--page", str(tmp_path / "page.md")]
    for only in ("boosting", "sonline, curves=False"):
        monkeypatch.setattr(sys, "argv", ["curves", "--rows", "200", "--only", only, *places])
        curves.main()
    [result] = json.loads((tmp_path / "run.json").read_text())["results"]
    assert list(result["scores"]) == ["boosting (scikit-learn)", "sonline, curves=False"]


def test_texts_have_the_figures_of_the_page():
    page = Path("docs/accuracy-curves.md").read_text()
    readme, guide = (
        " ".join(Path(path).read_text().split()) for path in ("README.md", "docs/guide/curves.md")
    )

    def cells(name):
        return re.search(rf"^\| {re.escape(name)} \|(.*)\|$", page, re.MULTILINE)[1].split(" | ")

    tables, linear = (cells(curves_report.LINEAR)[i].strip() for i in (0, 1))
    boosting = cells(curves_report.BOOSTING)[1].strip()
    wanted = f"the mean of {tables} tables its error is {boosting} times"
    assert wanted in readme
    assert wanted.replace("the mean", "the geometric mean") in guide
    # At or under its error (progressive, frozen), its error (the same), its time.
    river, moa = (cells(f"{name} | all") for name in curves_report.FORESTS)
    wins = [int(river[i].split(" of ")[0]) for i in (0, 1)]
    assert (
        f"mean of {tables} tables, lines have {linear} times the error of curves, "
        f"River's adaptive random forest {river[3].strip()} times at {river[5].strip()} times the "
        f"time per row, and CapyMOA's {moa[3].strip()} times at {moa[5].strip()} times"
    ) in readme
    assert f"at or under River's forest on {wins[1]} of them ({wins[0]} while they learn)" in readme


def result(name, kind, **errors):
    scores = {
        contender: {
            "frozen": {"error": error, "log loss": 0.5},
            "micro": 2.0,
            "bytes": 1000,
        }
        | ({} if contender in curves_report.BATCH else {"progressive": {"error": error}})
        for contender, error in errors.items()
    }
    return {"stream": name, "kind": kind, "half": "report", "rows": 9, "scores": scores}


def test_the_page_shows_losses_first_and_what_is_left_to_boosting():
    ours, linear, boosting = (
        curves_report.OURS,
        curves_report.LINEAR,
        curves_report.BOOSTING,
    )
    run = {
        "rows": 9,
        "missing": ["pyGAM"],
        "results": [
            result("a", "binary", **{ours: 0.2, linear: 0.4, boosting: 0.1, "VW": 0.1}),
            result("b", "binary", **{ours: 0.3, linear: 0.3, boosting: 0.1, "VW": 0.1}),
            result("c", "regression", **{ours: 0.1, linear: 0.1, boosting: 0.2, "VW": 0.2}),
        ],
    }
    page = curves_report.page(run)
    assert "Not installed, and missing here: pyGAM." in page
    losses = page[: page.index("## Beside batch")]
    assert losses.index("| b | frozen | 0.3000 | VW | 0.1000 | 2.98 |") < losses.index("| a | fr")
    assert "| c |" not in losses
    assert "| River ARF |" not in page
    assert "| a | 0.4000 | 0.2000 |  |  | 0.1000 | 67% |" in page
    assert "| b | 0.3000 | 0.3000 |  |  | 0.1000 | 0% |" in page
    assert "half of the distance on 1." in page
    assert "more error on 2 of 3 tables, 3.0 times as much" in " ".join(page.split())


def test_forests_are_counted_by_table_and_half():
    ours, forest = curves_report.OURS, "River ARF"
    development = result("a", "binary", **{ours: 0.2, forest: 0.1}) | {"half": "development"}
    others = [
        result("b", "binary", **{ours: 0.1, forest: 0.1}),
        result("c", "regression", **{ours: 0.1, forest: 0.4}),
    ]
    for one in (development, *others):
        one["scores"][forest]["micro"] = 400.0
    lines = curves_report.forests([development, *others]).splitlines()
    assert "| River ARF | all | 2 of 3 | 2 of 3 | 1.26 | 1.26 | 200 |  |" in lines
    assert "| River ARF | not *dev* | 2 of 2 | 2 of 2 | 1.99 | 1.99 | 200 |  |" in lines
