"""Messages of the command line about files and options that new users try."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from cli.conftest import tensors

ROWS = "".join(
    f"{i % 7 - 3},{9_000_000_000_000_000_000 - i},{'yes' if i % 2 else 'no'}\n" for i in range(40)
)
TABLE = f"größe,id,target\n{ROWS}"
LABEL = ("--label", "target", "--ignore", "id")


def test_a_table_that_is_not_utf8_says_how_to_convert_it(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(TABLE.encode("latin-1"))
    message = sonline("train", "d.csv", *LABEL, code=3).stderr
    assert "column's name is not valid UTF-8" in message
    assert "iconv" in message
    (tmp_path / "e.csv").write_bytes(
        TABLE.replace("größe", "size").replace("yes", "jä").encode("latin-1")
    )
    message = sonline("train", "e.csv", *LABEL, code=3).stderr
    assert "not valid UTF-8" in message
    assert "iconv" in message


def test_a_table_with_semicolons_needs_no_suffix(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text(TABLE.replace(",", ";"))
    assert "csv" in sonline("train", "d.txt", *LABEL).stderr


def test_columns_of_a_file_without_columns(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("1 2:1 3:1\n-1 2:2\n")
    message = sonline("train", "d.txt", "--label", "target", code=2).stderr
    assert "(--label) names a column, but d.txt is svmlight (by its content)" in message
    assert "--format csv" in message
    message = sonline("train", "d.txt", "--label", "t", "--format", "svmlight", code=2).stderr
    assert "--format csv" not in message


def test_an_identifier_that_is_too_large(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    message = sonline("train", "d.csv", "--label", "target", code=3).stderr
    assert "column 'id': 9000000000000000000 is too large: at most 1e+18 with float32" in message
    assert "--ignore id" in message
    assert "--text id" in message


def test_a_label_column_by_its_number(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(ROWS)
    for number in ("3", "-1"):
        message = sonline("train", "d.csv", "--no-header", "--label", number, code=2).stderr
        assert "no column" in message
        assert "'c3'" in message


def test_a_delimiter_that_is_not_detected(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE.replace(",", "^"))
    message = sonline("train", "d.csv", *LABEL, code=2).stderr
    assert "--delimiter" in message


def test_files_of_two_formats(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    (tmp_path / "e.tsv").write_text(TABLE.replace(",", "\t"))
    message = sonline("train", "d.csv", "e.tsv", *LABEL, code=2).stderr
    assert "e.tsv is tsv (by its name), but d.csv is csv (by its name)" in message


def test_a_row_without_a_weight(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,w,label\n1,2,0\n2,,1\n3,x,1\n")
    message = sonline("train", "d.csv", "--weight", "w", code=3).stderr
    assert "d.csv:3: row 2: no weight in column 'w'" in message
    (tmp_path / "d.csv").write_text("a,w,label\n1,2,0\n3,x,1\n")
    message = sonline("train", "d.csv", "--weight", "w", code=3).stderr
    assert "column 'w': a weight must be a number of at least 0 (found 'x')" in message


def test_missing_cells_that_are_refused(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b,label\n1,2,0\n2,,1\n")
    message = sonline("train", "d.csv", "--missing", "refuse", code=3).stderr
    assert "column 'b' has no value" in message
    assert "--missing absent" in message


def test_names_with_line_breaks_stay_on_one_line(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text('a,b,label\n1,"x\ny",0\n2,"tab\there",1\n')
    sonline("train", "d.csv", "-o", "m.son")
    lines = sonline("inspect", "m.son").stdout.splitlines()
    assert any(r"b=x\ny  (class" in line for line in lines)
    assert any(r"b=tab\there  (class" in line for line in lines)


def test_validation_rows_with_unknown_labels(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    (tmp_path / "v.csv").write_text(TABLE.replace("yes", "ja").replace("no", "nein"))
    command = ("train", "d.csv", *LABEL, "--validation", "v.csv", "--passes", 3, "-o", "m.son")
    message = sonline(*command, code=3).stderr
    assert "validation: no row of v.csv has a label that the model knows" in message
    assert not (tmp_path / "m.son").exists()


def test_an_output_whose_name_has_no_format(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    message = sonline("convert", "d.csv", *LABEL, "-o", "out.dat", code=2).stderr
    assert "out.dat: the name does not say the format; set it with --to" in message
    assert "auto" not in message
    message = sonline("convert", "d.csv", *LABEL, "-o", "out.dat", "--to", "xml", code=2).stderr
    assert "--to must be one of svmlight" in message


def test_resuming_another_run(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    (tmp_path / "e.csv").write_text(TABLE)
    sonline("train", "d.csv", *LABEL, "-o", "m.son")
    message = sonline("train", "e.csv", *LABEL, "-o", "m.son", "--resume", code=2).stderr
    assert "m.son was saved by a run with files ['d.csv'], this run has ['e.csv']" in message


@pytest.mark.parametrize(
    ("options", "hint"), [(("--loss_function", "logistic"), "--oaa"), (("--oaa", 3), "--oaa")]
)
def test_labels_that_vw_options_do_not_allow(sonline, tmp_path: Path, options, hint) -> None:
    (tmp_path / "d.vw").write_text("4 | a\n1 | b\n2 | c\n3 | d\n" * 5)
    message = sonline("vw", "-d", "d.vw", *options, code=3).stderr
    assert hint in message
    assert "--classes" not in message
    assert "classes multi" not in message


def test_ngrams_of_numbers(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    sonline("train", "d.csv", *LABEL, "--ngrams", "größe:2", "-o", "m.son")
    assert "größe=3" in sonline("inspect", "m.son").stdout


def test_json_that_is_not_an_object_per_line(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text('{\n "label": 1,\n "a": 2\n}\n')
    message = sonline("train", "d.json", code=3).stderr
    assert "JSON object over several lines" in message
    assert "jq -c . FILE" in message
    (tmp_path / "d.jsonl").write_text('{"label": 1, "a": NaN}\n')
    message = sonline("train", "d.jsonl", code=3).stderr
    assert "column 'a': NaN is not a finite number" in message
    assert "null" in message


@pytest.mark.parametrize("label", ["yes", "1"])
def test_rows_of_one_class(sonline, tmp_path: Path, label: str) -> None:
    (tmp_path / "d.csv").write_text("a,label\n" + f"1,{label}\n2,{label}\n" * 9)
    assert f"warning: all rows have the label {label}" in sonline("train", "d.csv").stderr
    other = {"yes": "no", "1": "0"}[label]
    (tmp_path / "d.csv").write_text(f"a,label\n1,{label}\n2,{other}\n")
    assert "warning" not in sonline("train", "d.csv").stderr


def test_predict_and_evaluate_name_no_options_of_train(sonline, tmp_path: Path) -> None:
    rows = "".join(f"{i % 7},{i % 2}\n" for i in range(40))
    (tmp_path / "d.csv").write_text(f"a,label\n{rows}")
    (tmp_path / "d.svm").write_text("1 2:1 3:1\n-1 2:2\n" * 20)
    sonline("train", "d.csv", "-o", "m.son", "-q")
    sonline("train", "d.svm", "-o", "i.son", "-q")
    (tmp_path / "e.csv").write_text("a,label\n1,0\nx,1\n")
    (tmp_path / "f.csv").write_text(rows)
    for model, file, expected in (
        ("m.son", "e.csv", "column 'a': 'x' is not a number, but the model has numbers"),
        ("m.son", "f.csv", "the model was trained on a table with a header"),
        ("i.son", "d.csv", "the model knows its features by index"),
    ):
        for command in ("predict", "evaluate"):
            message = sonline(command, file, "-m", model, code=3).stderr
            assert expected in message
            for option in ("--text", "--features", "--no-header", "--na-values"):
                assert option not in message


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.csv"])
def test_an_archive_is_no_table(sonline, tmp_path: Path, name: str) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    with tarfile.open(tmp_path / name, "w:gz" if name == "a.tgz" else "w") as archive:
        archive.add(tmp_path / "d.csv", "d.csv")
    message = sonline("train", name, *LABEL, code=3).stderr
    assert "if it is an archive (tar), unpack it" in message


def test_resume_needs_the_same_options(sonline, tmp_path: Path) -> None:
    rows = "".join(f"{i % 7},{i % 5},{i % 3 + 1},{i % 2}\n" for i in range(200))
    (tmp_path / "d.csv").write_text(f"a,b,w,label\n{rows}")
    run = ["train", "d.csv", "-o", "m.son", "-q", "--ignore", "w", "--class-weight", "1=2"]
    sonline(*run, "--limit", "100")
    other = {
        "ignore": [*run[:5], "--class-weight", "1=2", "--ignore", "b"],
        "class-weight": [*run[:-1], "1=3"],
        "interactions": [*run, "--interactions", "a*b"],
        "text": [*run, "--text", "a"],
        "na_values": [*run, "--na-values", "-"],
        "weight": [*run, "--weight", "b"],
    }
    for name, command in other.items():
        message = sonline(*command, "--resume", code=2).stderr
        assert f"m.son was saved by a run with {name} " in message
        assert "repeat the same run" in message
    sonline(*run, "--resume")
    sonline(*run[:3], "n.son", *run[4:])
    assert tensors(tmp_path / "m.son") == tensors(tmp_path / "n.son")


def test_classes_and_a_loss_of_numbers(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,label\n" + "1,1\n2,2\n3,3\n" * 9)
    for classes in ("multi", "1,2,3"):
        command = ["train", "d.csv", "--classes", classes, "--loss", "squared"]
        assert "(--classes) are given" in sonline(*command, code=2).stderr


def test_a_folder_is_no_model(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    (tmp_path / "folder").mkdir()
    for command in (["predict", "d.csv", "-m"], ["evaluate", "d.csv", "-m"], ["inspect"]):
        message = sonline(*command, "folder", code=3).stderr
        assert "folder is a folder; name a model file" in message


def test_a_product_of_three_columns(sonline, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(TABLE)
    message = sonline("train", "d.csv", *LABEL, "--interactions", "a*b*c", code=2).stderr
    assert "only pairs are supported" in message


@pytest.mark.parametrize(("first", "then"), [(0, -1), (-1, 0)])
def test_the_other_labels_for_a_model_of_two(
    sonline, tmp_path: Path, first: int, then: int
) -> None:
    for name, negative in (("d.csv", first), ("e.csv", then)):
        rows = "".join(f"{i % 7},{1 if i % 2 else negative}\n" for i in range(40))
        (tmp_path / name).write_text(f"a,label\n{rows}")
    sonline("train", "d.csv", "-o", "m.son", "-q")
    message = sonline("train", "e.csv", "--from", "m.son", "-o", "n.son", code=3).stderr
    assert f"the model has the labels {first} and 1" in message


def test_rows_that_are_sorted_by_label(sonline, tmp_path: Path) -> None:
    rows = [f"{i % 7},{i % 2}\n" for i in range(200)]
    (tmp_path / "d.csv").write_text("a,label\n" + "".join(rows))
    (tmp_path / "e.csv").write_text("a,label\n" + "".join(sorted(rows, key=lambda row: row[2])))
    assert "sorted by label" not in sonline("train", "d.csv").stderr
    assert "warning: the first rows are sorted by label" in sonline("train", "e.csv").stderr
    assert "sorted by label" not in sonline("train", "e.csv", "--shuffle", 1000).stderr


def test_several_passes_over_a_pipe_say_what_to_do_instead(sonline) -> None:
    refused = sonline("train", "-", "--passes", 2, input="1 1:1\n", code=2).stderr
    assert "sonline convert - -o rows.arrow" in refused
