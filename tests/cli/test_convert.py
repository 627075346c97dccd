"""`sonline convert`, and that no command overwrites its input."""

import bz2
import gzip
import json
import lzma

import pytest
import zstandard

from cli.conftest import svmlight, tensors


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(svmlight(50))
    return path


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("suffix", "unpack"),
    [
        ("gz", gzip.decompress),
        ("bz2", bz2.decompress),
        ("xz", lzma.decompress),
        ("zst", lambda packed: zstandard.ZstdDecompressor().decompressobj().decompress(packed)),
    ],
)
def test_the_name_of_the_output_says_how_it_is_compressed(sonline, data, tmp_path, suffix, unpack):
    sonline("convert", data, "-o", f"a.vw.{suffix}", "-q")
    sonline("convert", data, "-o", "a.vw", "-q")
    assert unpack((tmp_path / f"a.vw.{suffix}").read_bytes()) == (tmp_path / "a.vw").read_bytes()
    sonline("convert", f"a.vw.{suffix}", "-o", f"b.csv.{suffix}", "-q")
    sonline("train", f"b.csv.{suffix}", "-o", "b.son", "-q", "--features", "index")
    sonline("train", data, "-o", "d.son", "-q")
    assert tensors(tmp_path / "b.son") == tensors(tmp_path / "d.son")


def test_json_and_standard_output(sonline, data, tmp_path):
    answer = json.loads(sonline("convert", data, "-o", "a.jsonl", "--json").stdout)
    assert answer == {"output": "a.jsonl", "format": "jsonl", "rows": 50, "skipped": 0}
    shown = sonline("convert", data, "-o", "-", "--to", "jsonl", "-q").stdout
    assert shown == (tmp_path / "a.jsonl").read_text()


def test_an_output_is_whole_or_not_there(sonline, data, tmp_path):
    (tmp_path / "a.vw").write_text("as before")
    data.write_text(svmlight(50) + "1 2:x\n")
    assert "data.svm:51:5:" in sonline("convert", data, "-o", "a.vw", code=3).stderr
    assert (tmp_path / "a.vw").read_text() == "as before"
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize(
    ("row", "target", "words"),
    [
        ({"label": 1, "x": 2.5, "label ": 1, "weight": 2}, "svm", "weight 2"),
        ({"x": 1, "weight": 2}, "vw", "without a label"),
        ({"label": 1, "": 3}, "vw", "without a name"),
        ({"label": "a b", "x": 1}, "vw", "label 'a b'"),
        ({"label": "", "x": 1}, "vw", "label ''"),
        ({"label": "a:b", "1": 1}, "svm", "label 'a:b'"),
        ({"y": 1, "label": 3}, "jsonl", "'label'"),
        ({"label": 1, "x": 1}, "svm", "--names FILE"),
        ({"label": 1, "x": 1}, "parquet.gz", "plain file"),
        ({"label": 1, "x": 1}, "foo", "does not say the format; set it with --to"),
    ],
)
def test_rows_that_a_format_cannot_hold_are_refused(sonline, tmp_path, row, target, words):
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    options = ["--weight", "weight"] if "weight" in row else []
    options += ["--label", "y"] if "y" in row else []
    code = 2 if words in ("'label'", "--names FILE", "plain file") or target == "foo" else 3
    done = sonline("convert", "a.jsonl", "-o", f"b.{target}", *options, code=code)
    assert words in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_inputs_are_never_overwritten(sonline, data, tmp_path):
    before = data.read_text()
    (tmp_path / "link.svm").symlink_to(data)
    sonline("train", data, "-o", "m.son", "-q")
    model = (tmp_path / "m.son").read_bytes()
    for command in (
        ["train", data, "-o", "data.svm"],
        ["train", "*.svm", "-o", "link.svm"],
        ["train", data, "-o", "n.son", "--predictions", "data.svm"],
        ["train", data, "-o", "n.son", "--bad-rows", data, "--on-error", "skip"],
        ["train", data, "-o", "n.son", "--checkpoint", data],
        ["predict", data, "-m", "m.son", "-o", data],
        ["predict", data, "-m", "m.son", "-o", "m.son"],
        ["convert", data, "-o", data],
        ["vw", "-t", "-d", data, "-i", "m.son", "-p", data],
    ):
        assert "this file is read" in sonline(*command, code=2).stderr
    twice = sonline("train", data, "-o", "n.son", "--predictions", "n.son", code=2)
    assert "--output is the same file" in twice.stderr
    assert data.read_text() == before
    assert (tmp_path / "m.son").read_bytes() == model
    assert not (tmp_path / "n.son").exists()


def test_names_that_vw_cannot_hold_are_reported(sonline, tmp_path):
    (tmp_path / "d.csv").write_text("a,city,label\n1,New York,1\n2,Rome,0\n3,New York,1\n")
    done = sonline("convert", "d.csv", "-o", "d.vw")
    assert "1 of the names: 'city=New York' is 'city=New%20York' there" in done.stderr
    assert "of the names" not in sonline("convert", "d.csv", "-o", "d.jsonl").stderr
    assert "of the names" not in sonline("convert", "d.vw", "-o", "e.jsonl").stderr
    assert "of the names" not in sonline("convert", "d.vw", "-o", "f.vw").stderr
    assert (tmp_path / "f.vw").read_text() == (tmp_path / "d.vw").read_text()
    assert '"city=New%20York": 1' in (tmp_path / "e.jsonl").read_text()
