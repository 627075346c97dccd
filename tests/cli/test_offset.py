"""Counts with exposure on the command line: --loss poisson, --offset."""

import json

import numpy as np
import pandas as pd
import pytest

from sonline import OnlineLearner

ROWS = 400


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 70, ROWS), "exposed": rng.uniform(0.1, 1, ROWS)})
    frame["offset"] = np.log(frame.pop("exposed"))
    mean = np.exp(-0.03 * frame["age"] + 1 + frame["offset"])
    frame["count"] = rng.poisson(mean).astype(float)
    frame.to_csv(tmp_path / "claims.csv", index=False)
    frame.to_json(tmp_path / "claims.jsonl", orient="records", lines=True, double_precision=15)
    frame.to_parquet(tmp_path / "claims.parquet")
    return frame


TRAIN = ("--label", "count", "--offset", "offset", "--loss", "poisson")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_train_and_predict_from_files(sonline, table, tmp_path, form):
    sonline("train", f"claims.{form}", *TRAIN, "-o", "m.son", "-q", "--predictions", "before.txt")
    curves = False if form == "jsonl" else "auto"  # streams of JSON lines have no curves
    learner = OnlineLearner(loss="poisson", curves=curves)
    X, y = table[["age"]], table["count"]
    before = learner.learn(X, y, offset=table["offset"])
    np.testing.assert_allclose(np.loadtxt(tmp_path / "before.txt"), before, rtol=1e-5)
    done = sonline("predict", f"claims.{form}", "-m", "m.son")
    expected = learner.predict(X, offset=table["offset"])
    np.testing.assert_allclose([float(word) for word in done.stdout.split()], expected, rtol=1e-5)
    done = sonline("predict", f"claims.{form}", "-m", "m.son", "--as", "raw")
    raw = [float(word) for word in done.stdout.split()]
    np.testing.assert_allclose(raw, np.log(expected), rtol=1e-5, atol=1e-6)
    line = sonline("predict", f"claims.{form}", "-m", "m.son", "--json").stdout.splitlines()[0]
    assert json.loads(line)["mean"] == pytest.approx(expected[0], rel=1e-5)
    assert OnlineLearner.load(tmp_path / "m.son").features() == ["age"]
    scores = json.loads(sonline("evaluate", f"claims.{form}", "-m", "m.son", "--json", "-q").stdout)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((expected - y) ** 2)), rel=1e-4)


def test_shuffled_rows_keep_their_offsets(sonline, table, tmp_path):
    sonline("train", "claims.csv", *TRAIN, "-o", "m.son", "-q", "--shuffle", "400")
    done = sonline("predict", "claims.csv", "-m", "m.son")
    predictions = np.array([float(word) for word in done.stdout.split()])
    assert predictions.mean() == pytest.approx(table["count"].mean(), rel=0.1)
    assert np.corrcoef(predictions, np.exp(table["offset"]))[0, 1] > 0.5


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("count", "-1", "the label -1 must be 0 or more"),
        ("offset", "", "the offset nan is not a finite number"),
        ("offset", "inf", "column 'offset': an offset must be a finite number"),
        ("offset", "77", "the offset 77 is not a finite number of at most 50"),
    ],
)
def test_bad_rows(  # noqa: PLR0917 - three of them are cases
    sonline, table, tmp_path, column, value, message
):
    lines = (tmp_path / "claims.csv").read_text().splitlines()
    cells = dict(zip(lines[0].split(","), lines[5].split(","), strict=True))
    lines[5] = ",".join((cells | {column: value}).values())
    (tmp_path / "claims.csv").write_text("\n".join(lines) + "\n")
    done = sonline("train", "claims.csv", *TRAIN, "-o", "m.son", code=3)
    assert "claims.csv:6" in done.stderr
    assert message in done.stderr
    assert not (tmp_path / "m.son").exists()
    sonline("train", "claims.csv", *TRAIN, "-o", "m.son", "--on-error", "skip")
    assert OnlineLearner.load(tmp_path / "m.son").stats()["rounds"] == ROWS - 1


def test_the_frozen_model_has_offsets_too(sonline, tmp_path):
    rng = np.random.default_rng(0)
    count = 200_000
    offset = rng.uniform(-3, 3, count)
    y = rng.poisson(np.exp(offset))
    lines = (f"{label},{o:.3f},{n % 7}" for n, (label, o) in enumerate(zip(y, offset, strict=True)))
    (tmp_path / "claims.csv").write_text("count,offset,a\n" + "\n".join(lines) + "\n")
    done = sonline("train", "claims.csv", *TRAIN, "--json", "-q")
    summary = json.loads(done.stdout)
    assert summary["frozen_loss"] == pytest.approx(summary["loss"], rel=0.1)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("column", ["count", "offset"])
def test_rows_that_cannot_be_evaluated_are_named(sonline, table, tmp_path, form, column):
    sonline("train", "claims.csv", *TRAIN, "-o", "m.son", "-q")
    table.loc[4, column] = {"count": -1.0, "offset": 77.0}[column]
    if form == "csv":
        table.to_csv(tmp_path / "bad.csv", index=False)
    elif form == "jsonl":
        table.to_json(tmp_path / "bad.jsonl", orient="records", lines=True)
    else:
        table.to_parquet(tmp_path / "bad.parquet")
    where = {"csv": f"bad.{form}:6:", "jsonl": f"bad.{form}:5:", "parquet": "row 5:"}[form]
    wrong = {"count": "the label -1 must be 0 or more", "offset": "the offset 77"}[column]
    done = sonline("evaluate", f"bad.{form}", "-m", "m.son", code=3)
    assert where in done.stderr
    assert wrong in done.stderr
    done = sonline("evaluate", f"bad.{form}", "-m", "m.son", "--on-error", "skip", "--json", "-q")
    assert (json.loads(done.stdout)["rows"], json.loads(done.stdout)["skipped"]) == (ROWS - 1, 1)
    for options in ((f"bad.{form}",), ("claims.csv", "--validation", f"bad.{form}")):
        done = sonline("train", *options, *TRAIN, "-o", "n.son", "-q", code=3)
        assert where in done.stderr
        assert wrong in done.stderr


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_converted_rows_keep_their_offsets(sonline, table, tmp_path, form):
    sonline("train", "claims.csv", *TRAIN, "-o", "m.son", "-q", "--no-curves")
    sonline(*("convert", "claims.csv", "--label", "count", "--offset", "offset"), "-o", f"c.{form}")
    offset = ("--offset", "offset", "--loss", "poisson", "--no-curves")
    sonline("train", f"c.{form}", *offset, "-o", "n.son", "-q")
    first, second = (OnlineLearner.load(tmp_path / name) for name in ("m.son", "n.son"))
    assert first.weights() == second.weights()
    for kind in ("svm", "vw"):
        done = sonline(
            *("convert", "claims.csv", "--label", "count", "--offset", "offset"),
            *("-o", f"c.{kind}", "--names", "names.txt")[: 4 if kind == "svm" else 2],
            code=3,
        )
        assert "cannot hold the offset" in done.stderr


def test_the_label_is_no_offset(sonline, table):
    done = sonline("train", "claims.csv", "--label", "count", "--offset", "count", code=2)
    assert "is the column of the label" in done.stderr


def test_classes_have_no_offset(sonline, table):
    done = sonline("train", "claims.csv", "--label", "count", "--offset", "offset", code=3)
    assert "offset needs a loss for numbers" in done.stderr
