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


def test_classes_have_no_offset(sonline, table):
    done = sonline("train", "claims.csv", "--label", "count", "--offset", "offset", code=3)
    assert "offset needs a loss for numbers" in done.stderr
