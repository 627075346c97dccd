"""`sonline predict --active`: which labels are worth asking for."""

import json

import numpy as np
import pandas as pd
import pytest

from sonline import OnlineLearner


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=500), "word": rng.choice(["x", "y"], 500)})
    frame["label"] = (frame["a"] > 0).astype(int)
    frame["id"] = [f"r{number}" for number in range(500)]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return frame


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_answers_are_those_of_the_library(sonline, table, tmp_path, suffix):
    table.to_parquet(tmp_path / "rows.parquet")
    sonline("train", "rows.csv", "--ignore", "id", "-o", "m.son", "-q")
    learner = OnlineLearner.load(tmp_path / "m.son")
    wanted = learner.wants_labels(table[["a", "word"]]).tolist()
    assert 0 < sum(wanted) < 250
    tagged = ("predict", f"rows.{suffix}", "-m", "m.son", "--active", "--tag", "id", "-q")
    lines = [line.split() for line in sonline(*tagged).stdout.splitlines()]
    assert [line[1:] for line in lines] == [
        [f"{want:d}", f"r{number}"] for number, want in enumerate(wanted)
    ]
    plain = sonline("predict", f"rows.{suffix}", "-m", "m.son", "-q").stdout.split()
    assert [line[0] for line in lines] == plain
    objects = sonline(*tagged, "--json").stdout.splitlines()
    assert [json.loads(line)["wants_label"] for line in objects] == wanted


def test_numbers_are_not_asked_for(sonline, table):
    sonline("train", "rows.csv", "--ignore", "id", "--loss", "squared", "-o", "m.son", "-q")
    done = sonline("predict", "rows.csv", "-m", "m.son", "--active", code=2)
    assert "--active needs a model of classes" in done.stderr
