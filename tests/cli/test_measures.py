"""Measures of `evaluate`, merged models, weights of classes, folders, errors as JSON."""

import json

import numpy as np
import pytest

from cli.conftest import svmlight, tensors
from sonline.errors import InvalidInputError


@pytest.mark.parametrize("classes", [2, 4])
def test_measures_are_those_of_scikit_learn(sonline, tmp_path, classes):
    from sklearn import metrics  # noqa: PLC0415 - only here

    text = svmlight(800, classes=classes)
    (tmp_path / "d.svm").write_text(text)
    sonline("train", "d.svm", "-o", "m.son", "-q", "--limit", 300)
    report = json.loads(sonline("evaluate", "d.svm", "-m", "m.son", "--json").stdout)
    truth = [int(line.split()[0]) for line in text.splitlines()]
    chosen = sonline("predict", "d.svm", "-m", "m.son", "--as", "label").stdout.split()
    chosen = [int(label) for label in chosen]
    average = "binary" if classes == 2 else "macro"
    for name in ("precision", "recall", "f1"):
        wanted = getattr(metrics, f"{name}_score")(truth, chosen, average=average)
        assert report[name] == pytest.approx(wanted)
        alone = sonline("evaluate", "d.svm", "-m", "m.son", "--metric", name, "-q").stdout
        assert float(alone) == report[name]
    labels = sorted(set(truth))
    assert report["labels"] == labels
    assert report["confusion"] == metrics.confusion_matrix(truth, chosen, labels=labels).tolist()
    each = metrics.f1_score(truth, chosen, average=None, labels=labels)
    assert [values["f1"] for values in report["classes"].values()] == pytest.approx(each.tolist())
    shown = sonline("evaluate", "d.svm", "-m", "m.son").stdout
    assert "predicted class (across)" in shown
    failed = sonline("evaluate", "d.svm", "-m", "m.son", "--metric", "beauty", code=2)
    assert "--metric must be one of loss, error, accuracy" in failed.stderr
    (tmp_path / "bad.svm").write_text("1 x:y\n")
    early = sonline("evaluate", "bad.svm", "-m", "m.son", "--metric", "beauty", code=2)
    assert "--metric must be one of" in early.stderr  # before the file is read
    several = ["--metric", "log-loss", "--metric", "accuracy", "--metric", "log_loss"]
    lines = sonline("evaluate", "d.svm", "-m", "m.son", *several, "-q").stdout.splitlines()
    assert lines == [f"log-loss {report['log_loss']!r}", f"accuracy {1 - report['error']!r}"]


def test_models_are_merged_as_the_library_merges_them(sonline, tmp_path):
    from sonline import OnlineLearner  # noqa: PLC0415 - only here

    for number in range(3):
        (tmp_path / f"{number}.svm").write_text(svmlight(200, seed=number))
        sonline("train", f"{number}.svm", "-o", f"{number}.son", "-q")
    done = sonline("merge", "0.son", "1.son", "2.son", "-o", "all.son", "--json")
    assert json.loads(done.stdout)["rounds"] == 600
    first, *others = [OnlineLearner.load(tmp_path / f"{number}.son") for number in range(3)]
    first.merge(others).save(tmp_path / "library.son")
    assert tensors(tmp_path / "all.son") == tensors(tmp_path / "library.son")
    sonline("predict", "0.svm", "-m", "all.son")
    sonline("train", "0.svm", "--loss", "hinge", "-o", "hinge.son", "-q")
    other = sonline("merge", "0.son", "1.son", "hinge.son", "-o", "a.son", code=2)
    assert "hinge.son has loss='hinge', 0.son has 'logistic'" in other.stderr
    first.compact().save(tmp_path / "compact.son")
    other = sonline("merge", "0.son", "compact.son", "-o", "a.son", code=2)
    assert "compact.son is a compact model, which only predicts" in other.stderr
    data = (tmp_path / "1.son").read_bytes()
    for name, content in (("cut", data[:-9]), ("flipped", data[:-9] + b"x" + data[-8:])):
        (tmp_path / f"{name}.son").write_bytes(content)
        other = sonline("merge", "0.son", f"{name}.son", "-o", "a.son", code=4)
        assert f"{name}.son: " in other.stderr
        assert "restore it from a copy" in other.stderr
    assert not (tmp_path / "a.son").exists()
    assert "two models" in sonline("merge", "0.son", "-o", "a.son", code=2).stderr
    assert "is read" in sonline("merge", "0.son", "1.son", "-o", "1.son", code=2).stderr
    (tmp_path / "copy.son").write_bytes((tmp_path / "0.son").read_bytes())
    for twice in ("0.son", "./0.son", "copy.son"):
        other = sonline("merge", "0.son", "1.son", twice, "-o", "a.son", code=2)
        assert "hold the same model: its rows would count twice" in other.stderr
    with pytest.raises(InvalidInputError, match="merged with itself: its rows would count twice"):
        first.merge([*others, first])


def test_weights_of_classes_are_weights_of_their_rows(sonline, tmp_path):
    text = svmlight(500)
    (tmp_path / "d.svm").write_text(text)
    sonline("train", "d.svm", "-o", "m.son", "-q", "--class-weight", "1=3")
    lines = [line.split(" ", 1) for line in text.splitlines()]
    rows = [f"{label} {3 if label == '1' else 1} | {rest}\n" for label, rest in lines]
    (tmp_path / "d.vw").write_text("".join(rows))
    sonline("train", "d.vw", "-o", "w.son", "-q", "--features", "index")
    assert tensors(tmp_path / "m.son") == tensors(tmp_path / "w.son")
    assert "CLASS=WEIGHT" in sonline("train", "d.svm", "--class-weight", "1", code=2).stderr


def test_a_folder_is_its_files(sonline, tmp_path):
    (tmp_path / "d").mkdir()
    for number in range(2):
        (tmp_path / "d" / f"{number}.svm").write_text(svmlight(100, seed=number))
    (tmp_path / "d" / "_SUCCESS").write_text("")
    (tmp_path / "d" / "README").write_text("two files of rows")
    sonline("train", "d", "-o", "a.son", "-q")
    sonline("train", "d/*.svm", "-o", "b.son", "-q")
    assert tensors(tmp_path / "a.son") == tensors(tmp_path / "b.son")


def test_errors_are_json_for_those_who_asked(sonline):
    report = json.loads(sonline("train", "nowhere.svm", "--json", code=3).stderr)
    assert report["error"]["type"] == "FileNotFoundError"
    assert report["error"]["exit_code"] == 3
    assert "nowhere.svm" in report["error"]["message"]


def test_arrays_and_objects_in_json_lines(tmp_path):
    from sonline import streams  # noqa: PLC0415 - only here

    file = tmp_path / "a.jsonl"
    row = {"label": 1, "user": {"age": 3, "city": "Oslo", "no": None}, "xs": [0.5, 0, 2]}
    file.write_text(json.dumps(row | {"words": ["a", "b", "a"], "empty": []}) + "\n")
    with streams.open(file) as stream:
        [batch] = list(stream)
    actual = dict(zip(batch.new_names, batch.values.tolist(), strict=True))
    wanted = {"user.age": 3, "user.city=Oslo": 1, "xs.0": 0.5, "xs.2": 2}
    assert actual == wanted | {"words=a": 2, "words=b": 1}
    assert np.array_equal(batch.labels, [1.0])


def test_the_label_column_may_have_another_name(sonline, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2)).round(3)
    y = np.where(x[:, 0] + rng.normal(size=300) > 0, "yes", "no")
    rows = [f"{a},{b},{label}\n" for (a, b), label in zip(x.tolist(), y, strict=True)]
    (tmp_path / "train.csv").write_text("a,b,left\n" + "".join(rows[:200]))
    (tmp_path / "test.csv").write_text("a,b,left\n" + "".join(rows[200:]))
    (tmp_path / "renamed.csv").write_text("a,b,churn\n" + "".join(rows[200:]))
    both = [row.replace("\n", ",yes\n") for row in rows[200:]]  # and the old name, as a leak
    (tmp_path / "both.csv").write_text("a,b,churn,left\n" + "".join(both))
    sonline("train", "train.csv", "-o", "m.son", "--label", "left", "-q")
    for more in ([], ["--progressive"]):
        wanted, *actual = (
            json.loads(sonline("evaluate", file, "-m", "m.son", "--json", *more, *label).stdout)
            for file, label in (
                ("test.csv", []),
                ("renamed.csv", ["--label", "churn"]),
                ("both.csv", ["--label=churn"]),
            )
        )
        assert wanted["rows"] == 100
        assert actual == [wanted, wanted]
    assert "churn" in sonline("evaluate", "test.csv", "-m", "m.son", "--label=churn", code=2).stderr


def test_a_matrix_of_weights_is_not_called_one_of_rows(sonline, tmp_path):
    rows = "".join(f"{i % 7},{i % 3 + 1},{i % 2}\n" for i in range(60))
    (tmp_path / "d.csv").write_text(f"a,w,label\n{rows}")
    sonline("train", "d.csv", "-o", "m.son", "-q", "--weight", "w")
    sonline("train", "d.csv", "-o", "n.son", "-q")
    assert "\nweights of rows by class" in sonline("evaluate", "d.csv", "-m", "m.son").stdout
    assert "\nrows by class" in sonline("evaluate", "d.csv", "-m", "n.son").stdout
