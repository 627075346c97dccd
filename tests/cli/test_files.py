"""Files that the command line reads and writes: whole or not at all, and equal for equal models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import svmlight

TABLE = "id,size,label\n" + "".join(f"r{i},{i % 7 - 3},{i % 2}\n" for i in range(40))


def test_equal_models_give_equal_files(sonline, tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text(svmlight(300))
    sonline("train", "a.svm", "-o", "a.son")
    for number, options in enumerate(
        (["--predictions", "p.txt"], ["--bad-rows", "b.txt", "--on-error", "skip"])
    ):
        sonline("train", "a.svm", "-o", f"{number}.son", *options)
        assert (tmp_path / f"{number}.son").read_bytes() == (tmp_path / "a.son").read_bytes()


def test_more_passes_continue_the_file_of_predictions(sonline, tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text(svmlight(200))
    sonline("train", "a.svm", "-o", "two.son", "--passes", 2, "--predictions", "two.txt")
    sonline("train", "a.svm", "-o", "one.son", "--predictions", "one.txt")
    again = ("--passes", 2, "--predictions", "one.txt", "--resume")
    sonline("train", "a.svm", "-o", "one.son", *again)
    assert (tmp_path / "one.txt").read_text() == (tmp_path / "two.txt").read_text()


def test_a_failed_predict_leaves_no_file(sonline, tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text(svmlight(100))
    sonline("train", "a.svm", "-o", "m.son")
    (tmp_path / "bad.svm").write_text(svmlight(20_000) + "1 broken\n")
    sonline("predict", "bad.svm", "-m", "m.son", "-o", "p.txt", code=3)
    assert not (tmp_path / "p.txt").exists()
    sonline("predict", "a.svm", "-m", "m.son", "-o", "p.txt")
    before = (tmp_path / "p.txt").read_text()
    assert before.count("\n") == 100
    sonline("predict", "bad.svm", "-m", "m.son", "-o", "p.txt", code=3)
    assert (tmp_path / "p.txt").read_text() == before
    assert not [*tmp_path.glob(".*part")]


def test_predict_prints_a_column_after_each_prediction(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    sonline("train", "d.csv", "--ignore", "id", "-o", "m.son")
    lines = sonline("predict", "d.csv", "-m", "m.son", "--tag", "id").stdout.splitlines()
    assert [line.split()[1] for line in lines] == [f"r{i}" for i in range(40)]
    assert (
        "feature of the model"
        in sonline(*("predict", "d.csv", "-m", "m.son", "--tag", "size"), code=2).stderr
    )
    (tmp_path / "a.svm").write_text("1 1:1\n")
    refused = sonline("predict", "a.svm", "-m", "m.son", "--tag", "id", code=2).stderr
    assert "has no columns" in refused


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, {"k": 2}], "holds an object, and another kind"),
        (["x", [1, 2]], "holds an array, and another kind"),
        ([{"k": 2}, 3], "holds a number, and another kind"),
        ([[1, 2], "x"], "holds text, and another kind"),
        ([[1, 2], ["x"]], "holds an array, and"),
    ],
)
def test_a_nested_value_among_single_ones_is_an_error(
    sonline, tmp_path: Path, values, words
) -> None:
    rows = [{"label": n % 2, "ok": {"deep": [n, 1]}, "a": value} for n, value in enumerate(values)]
    (tmp_path / "d.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    message = sonline("train", "d.jsonl", code=3).stderr
    assert "d.jsonl:2" in message
    assert "column 'a'" in message
    assert words in message
    kept = sonline("train", "d.jsonl", "--on-error", "skip", "--json").stdout
    assert json.loads(kept)["skipped"] == 1


def test_a_folder_in_hive_layout_has_its_partition_columns(sonline, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    for day in (1, 2, 10):
        for city in ("Oslo", "S%C3%A3o"):
            folder = tmp_path / "clicks" / f"day={day}" / f"city={city}"
            folder.mkdir(parents=True)
            rows = {"size": [day / 4, 2.0], "label": [day % 2, 1 - day % 2]}
            parquet.write_table(pa.table(rows), folder / "part-0.parquet")
    (tmp_path / "clicks" / "_SUCCESS").write_text("")
    sonline("train", "clicks", "-o", "m.son")
    shown = json.loads(sonline("inspect", "m.son", "--json").stdout)
    assert shown["rows"] == 12
    names = {entry["feature"] for entry in shown["largest_weights"]}
    assert names == {"size", "day", "city=Oslo", "city=São"}
    predicted = sonline("predict", "clicks/day=2", "-m", "m.son", "-q").stdout
    assert len(predicted.split()) == 4
    sonline("train", "clicks", "--text", "day", "--ignore", "city", "-o", "t.son")
    shown = json.loads(sonline("inspect", "t.son", "--json").stdout)
    names = {entry["feature"] for entry in shown["largest_weights"]}
    assert names == {"size", "day=1", "day=10", "day=2"}


def test_a_folder_without_files_of_a_known_suffix(sonline, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("1 1:1\n")
    assert "known suffix (.svm, .vw, .csv" in sonline("train", "folder", code=3).stderr
