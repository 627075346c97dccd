"""`sonline explain`, and the page about a training run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import svmlight
from sonline import OnlineLearner

pytest.importorskip("matplotlib")

COLOURS = ("red", "green", "blue")


def table(classes: int) -> str:
    rows = (f"r{i},{i % 7 - 3},{COLOURS[i % 3]},k{i % classes}\n" for i in range(200))
    return f"id,size,colour,label\n{''.join(rows)}"


@pytest.mark.parametrize("classes", [2, 3])
def test_the_parts_add_up_to_the_prediction(sonline, tmp_path: Path, classes: int) -> None:
    (tmp_path / "d.csv").write_text(table(classes))
    sonline("train", "d.csv", "--ignore", "id", "-o", "m.son")
    explained = sonline("explain", "d.csv", "-m", "m.son", "--tag", "id", "--json").stdout
    rows = [json.loads(line) for line in explained.splitlines()]
    predicted = sonline("predict", "d.csv", "-m", "m.son", "--json").stdout.splitlines()
    learner = OnlineLearner.load(tmp_path / "m.son")
    for number, (row, line) in enumerate(zip(rows, predicted, strict=True)):
        prediction = json.loads(line)
        raw = prediction["raw"] if classes == 2 else prediction["raw"][prediction["label"]]
        assert row["class"] == ("k1" if classes == 2 else prediction["label"])
        assert row["tag"] == f"r{number}"
        assert row["raw"] == pytest.approx(raw, abs=1e-6)
        assert sum(row["parts"].values()) == pytest.approx(raw, abs=1e-4)
        x = {"size": number % 7 - 3, "colour": COLOURS[number % 3]}
        assert row["parts"].keys() <= learner.explain_one(x, row["class"]).keys()
    (text,) = sonline("explain", "d.csv", "-m", "m.son", "--top", 1).stdout.splitlines()[:1]
    assert len(text.split("\t")) == 2
    of = sonline("explain", "d.csv", "-m", "m.son", "--class", "k0", "--json").stdout
    assert json.loads(of.splitlines()[0])["class"] == "k0"
    assert (
        "label must be one of"
        in sonline(*("explain", "d.csv", "-m", "m.son", "--class", "k9"), code=3).stderr
    )


@pytest.mark.parametrize("options", [[], ["--hash-bits", 12]])
def test_indices_and_hashes_are_explained(sonline, tmp_path: Path, options: list[object]) -> None:
    (tmp_path / "a.svm").write_text(svmlight(300))
    sonline("train", "a.svm", *options, "--loss", "squared", "-o", "m.son")
    lines = sonline("explain", "a.svm", "-m", "m.son", "--top", 50).stdout.splitlines()
    raw = sonline("predict", "a.svm", "-m", "m.son").stdout.split()
    for line, expected in zip(lines, raw, strict=True):
        total, *parts = line.split("\t")
        assert float(total) == pytest.approx(float(expected), rel=1e-4, abs=1e-5)
        added = sum(float(part.rsplit(" ", 1)[1]) for part in parts)
        assert added == pytest.approx(float(expected), rel=1e-3, abs=1e-4)


def test_a_feature_of_the_model_is_no_tag(sonline, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("size,label\n" + "1,0\n9,1\n" * 20)
    sonline("train", "a.csv", "-o", "m.son")
    for command in ("predict", "explain"):
        message = sonline(command, "a.csv", "-m", "m.son", "--tag", "size", code=2).stderr
        assert "this column is a feature of the model" in message


def test_the_offset_is_a_part_of_the_prediction(sonline, tmp_path: Path) -> None:
    rows = "".join(f"{n % 5},{n % 5 + 7},{n % 3 + 5}\n" for n in range(60))
    (tmp_path / "a.csv").write_text(f"size,label,known\n{rows}")
    sonline("train", "a.csv", "--loss", "squared", "--offset", "known", "-o", "m.son")
    for line in sonline("explain", "a.csv", "-m", "m.son", "--json").stdout.splitlines():
        explained = json.loads(line)
        assert sum(explained["parts"].values()) == pytest.approx(explained["raw"])
        assert explained["parts"]["(offset)"] in {5.0, 6.0, 7.0}
        assert next(iter(explained["parts"])) == "(offset)"


def test_many_rows_at_once() -> None:
    pandas = pytest.importorskip("pandas")
    learner = OnlineLearner(loss="squared")
    rows = [{"rooms": float(n % 4), "city": COLOURS[n % 3]} for n in range(60)]
    learner.learn(rows, [float(n % 5) for n in range(60)])
    expected = [learner.explain_one(row) for row in rows]
    assert learner.explain_many(rows) == expected
    assert learner.explain_many(pandas.DataFrame(rows)) == expected


def test_a_report_is_one_file(sonline, tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text(svmlight(300))
    done = sonline("train", "a.svm", "-o", "m.son", "--report", "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<svg" in page
    assert "Progressive loss" in page
    assert done.stdout.splitlines()[1] in page  # the loss of the summary
    assert "largest weights" in page
    assert 'src="' not in page
    sonline("train", "a.svm", "--report", "not-saved.html")
    assert ".html" in sonline("train", "a.svm", "--report", "r.txt", code=2).stderr
