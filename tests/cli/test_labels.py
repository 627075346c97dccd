"""Labels: the class that a probability is of, and labels that cannot be used."""

import json

import pandas as pd
import pytest

from cli.conftest import svmlight
from sonline import OnlineLearner


@pytest.fixture
def from_python(tmp_path):
    """Write a table with a label column and the model of an `OnlineLearner` that never saw it."""
    rows = [({"age": float(n % 40), "plan": "free" if n % 3 else "paid"}, n % 2) for n in range(90)]
    learner = OnlineLearner()
    for x, y in rows:
        learner.learn_one(x, y)
    learner.save(tmp_path / "m.son")
    lines = [f"{x['age']:g},{x['plan']},{y},7\n" for x, y in rows]
    (tmp_path / "two.csv").write_text("age,plan,left,more\n" + "".join(lines))
    lines = [line.removesuffix(",7\n") + "\n" for line in lines]
    (tmp_path / "one.csv").write_text("age,plan,left\n" + "".join(lines))
    lines = [line.rpartition(",")[0] + "\n" for line in lines]
    (tmp_path / "none.csv").write_text("age,plan\n" + "".join(lines))
    return learner, [x for x, _ in rows]


def test_predict_names_the_label_column_that_a_model_of_python_does_not_know(sonline, from_python):
    learner, rows = from_python
    expected = [f"{p[1]}" for p in learner.predict_proba(rows)]
    plain = sonline("predict", "none.csv", "-m", "m.son")
    assert plain.stdout.split() == expected
    assert "does not know" not in plain.stderr
    done = sonline("predict", "one.csv", "-m", "m.son")
    assert done.stdout == plain.stdout
    assert "45 values" in done.stderr
    assert "in column left; if it is the label, use --label left\n" in done.stderr
    named = sonline("predict", "one.csv", "-m", "m.son", "--label", "left")
    assert named.stdout == plain.stdout
    assert "does not know" not in named.stderr
    done = sonline("predict", "two.csv", "-m", "m.son")
    assert "in columns left, more; if one of them is the label, use --label NAME\n" in done.stderr
    named = sonline("predict", "two.csv", "-m", "m.son", "--label", "left")
    assert "90 values of features that the model does not know, in column more" in named.stderr


@pytest.fixture
def mails(tmp_path):
    lines = [f"{'spam' if n % 3 else 'ham'} | {'buy' if n % 3 else 'hello'}\n" for n in range(60)]
    (tmp_path / "spam.vw").write_text("".join(lines[1:]))
    (tmp_path / "ham.vw").write_text("".join(lines))
    return tmp_path


def test_a_probability_is_that_of_the_second_label_in_sorted_order(sonline, mails):
    for first in ("spam", "ham"):
        sonline("train", f"{first}.vw", "-o", "m.son", "-q", "--predictions", "before.txt")
        done = sonline("predict", "-", "-m", "m.son", "--format", "vw", input="| buy\n| hello\n")
        spam, ham = map(float, done.stdout.split())
        assert spam > 0.5 > ham
        assert "of the class spam" in done.stderr
        report = sonline("predict", "-", "-m", "m.son", "--format", "vw", "--json", input="| buy\n")
        row = json.loads(report.stdout)
        assert row["label"] == "spam"
        assert row["probability"] == {"ham": pytest.approx(1 - spam), "spam": spam}
        assert row["raw"] > 0
        last = (mails / "before.txt").read_text().splitlines()[-1]
        assert float(last) > 0  # the last row is one of spam
        weights = json.loads(sonline("inspect", "m.son", "--json").stdout)["largest_weights"]
        by_name = {entry["feature"]: entry for entry in weights}
        assert by_name["buy"]["weight"] > 0
        assert by_name["buy"]["class"] == "spam"


def test_one_stray_label_is_not_a_third_class(sonline, tmp_path):
    lines = svmlight(300).splitlines(keepends=True)
    lines[200] = "7" + lines[200][lines[200].index(" ") :]
    (tmp_path / "d.svm").write_text("".join(lines))
    failed = sonline("train", "d.svm", "-q", code=2)
    assert "--classes multi" in failed.stderr
    assert "d.svm:201: nearly all" in failed.stderr
    assert "(7)" in failed.stderr
    failed = sonline("train", "d.svm", "-q", "--classes", "binary", code=3)
    assert "d.svm:201:" in failed.stderr
    done = sonline("train", "d.svm", "--json", "--on-error", "skip", "--bad-rows", "bad.svm")
    report = json.loads(done.stdout)
    assert (report["task"], report["rows"], report["skipped"]) == ("binary", 299, 1)
    assert (tmp_path / "bad.svm").read_text() == lines[200]
    report = json.loads(sonline("train", "d.svm", "--json", "--classes", "multi").stdout)
    assert sorted(report["classes"]) == [-1, 1, 7]


@pytest.mark.parametrize(
    ("label", "classes"), [("nan", "multi"), ("word", "multi"), ("5", "1,2,3,4"), ("0", "binary")]
)
@pytest.mark.parametrize("row", [3, 1500])
def test_labels_that_cannot_be_used_have_a_place_and_can_be_skipped(
    sonline, tmp_path, label, classes, row
):
    lines = svmlight(2000, classes=2 if classes == "binary" else 4).splitlines(keepends=True)
    lines[row] = label + lines[row][lines[row].index(" ") :]
    (tmp_path / "d.svm").write_text("".join(lines))
    command = ["train", "d.svm", "--classes", classes]
    failed = sonline(*command, "-q", code=3)
    assert f"d.svm:{row + 1}:" in failed.stderr
    done = sonline(*command, "--json", "--on-error", "skip", "--bad-rows", "bad.svm")
    assert json.loads(done.stdout)["skipped"] == 1
    assert (tmp_path / "bad.svm").read_text() == lines[row]


def test_labels_that_are_all_unknown_are_an_error(sonline, tmp_path):
    (tmp_path / "m.csv").write_text("a,city,label\n" + "1,Graz,yes\n-1,Linz,no\n" * 5)
    sonline("train", "m.csv", "-o", "m.son", "-q")
    for more in ([], ["--json"]):
        refused = sonline("evaluate", "m.csv", "-m", "m.son", "--label", "city", *more, code=3)
        assert "none of the 10 rows has a label of the model (no, yes)" in refused.stderr
        assert "--label" in refused.stderr
        assert refused.stdout == ""


def test_rows_with_unknown_labels_are_counted_and_in_no_measure(sonline, tmp_path):
    text = svmlight(500, classes=4)
    (tmp_path / "c.svm").write_text(text)
    sonline("train", "c.svm", "-o", "c.son", "-q")
    known = json.loads(sonline("evaluate", "c.svm", "-m", "c.son", "--json").stdout)
    (tmp_path / "more.svm").write_text(text + "9 1:1\n9 2:1\n")
    more = json.loads(sonline("evaluate", "more.svm", "-m", "c.son", "--json").stdout)
    assert more.pop("unknown_labels") == 2
    assert known.pop("unknown_labels") == 0
    assert more == known


def test_data_without_known_features_gives_a_warning(sonline, tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n" + "1,1\n2,0\n" * 20)
    (tmp_path / "b.csv").write_text("z,w\n1,2\n3,4\n")
    (tmp_path / "c.csv").write_text("x,w\n1,2\n3,4\n")
    sonline("train", "a.csv", "-o", "m.son", "-q")
    assert "warning: the model knows none" in sonline("predict", "b.csv", "-m", "m.son").stderr
    some = sonline("predict", "c.csv", "-m", "m.son").stderr
    assert "2 values of features" in some
    assert "warning" not in some


def test_numbers_with_commas_are_no_classes(sonline, tmp_path):
    rows = "".join(f'{n},"{n + 400},{n + 100}"\n' for n in range(50))
    (tmp_path / "a.csv").write_text(f"x,price\n{rows}")
    failed = sonline("train", "a.csv", "--label", "price", code=2).stderr
    assert "400,100 are numbers with commas" in failed
    sonline("train", "a.csv", "--label", "price", "--classes", "multi", "-q")


def test_a_weight_for_a_class_that_is_not_there_gives_a_warning(sonline, tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n" + "1,yes\n2,no\n" * 20)
    command = ["train", "a.csv", "--class-weight", "yes=2", "--class-weight"]
    assert "no row has the label maybe" in sonline(*command, "maybe=3").stderr
    assert "warning" not in sonline(*command, "no=3").stderr


def test_a_single_column_on_standard_input(sonline, tmp_path):
    (tmp_path / "a.csv").write_text("zip,label\n" + "10,1\n20,0\n" * 20)
    sonline("train", "a.csv", "--text", "zip", "-o", "m.son", "-q")
    frames = OnlineLearner()
    frames.learn(pd.DataFrame({"zip": ["10", "20"] * 20}), [1, 0] * 20)
    frames.save(tmp_path / "f.son")
    for model in ("m.son", "f.son"):
        for header in ("zip", '"zip"'):
            done = sonline("predict", "-", "-m", model, input=f"{header}\n10\n20\n")
            chances = [float(line) for line in done.stdout.split()]
            assert len(chances) == 2
            assert chances[0] > 0.8
            assert chances[1] < 0.2
            assert "-: csv (by its content)" in done.stderr


def test_columns_and_features_that_are_not_in_common_are_reported(sonline, tmp_path):
    rows = [(i % 7, i % 5, "xyz"[i % 3], i % 2) for i in range(90)]
    lines = "".join(f"{a},{b},{city},{y}\n" for a, b, city, y in rows)
    (tmp_path / "d.csv").write_text(f"a,b,city,label\n{lines}")
    lines = "".join(f"{b},{city}!,{y}\n" for _, b, city, y in rows)
    (tmp_path / "e.csv").write_text(f"b,city,label\n{lines}")
    (tmp_path / "d.svm").write_text("1 2:1 3:1\n-1 2:2\n" * 20)
    (tmp_path / "e.svm").write_text("1 2:1 5:1 7:1\n-1 900000000:2\n" * 20)
    sonline("train", "d.csv", "-o", "m.son", "-q")
    sonline("train", "d.csv", "-o", "strict.son", "-q", "--missing", "refuse")
    sonline("train", "d.svm", "-o", "i.son", "-q")
    for command in ("predict", "evaluate"):
        errors = sonline(command, "e.csv", "-m", "m.son").stderr
        assert "warning: column 'a' of the model is not in the data" in errors
        assert "90 values of features that the model does not know" in errors
        errors = sonline(command, "e.csv", "-m", "strict.son", code=3).stderr
        assert "e.csv: column 'a' of the model is not in the data" in errors
        errors = sonline(command, "e.svm", "-m", "i.son").stderr
        assert "60 values of features that the model does not know" in errors
        for file, model in (("d.csv", "m.son"), ("d.csv", "strict.son"), ("d.svm", "i.son")):
            errors = sonline(command, file, "-m", model).stderr
            assert "not in the data" not in errors
            assert "does not know" not in errors
