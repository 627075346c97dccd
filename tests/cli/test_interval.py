"""``sonline predict --interval``."""

import json

import numpy as np
import pytest

from sonline import OnlineLearner


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    rows = [f"{a:.4f},{2 * a + b:.4f}" for a, b in zip(x, rng.normal(size=500), strict=True)]
    path = tmp_path / "table.csv"
    path.write_text("x,label\n" + "\n".join(rows) + "\n")
    return path


def test_intervals_are_printed(sonline, table, tmp_path):
    sonline("train", table, "--loss", "squared", "-o", "m.son", "-q")
    printed = sonline("predict", table, "-m", "m.son", "--interval", "0.8", "-q").stdout
    lines = np.array([line.split() for line in printed.splitlines()], float)
    learner = OnlineLearner.load(tmp_path / "m.son")
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    raw, ends = learner.predict([{"x": x} for x in rows[:, 0].tolist()], interval=0.8)
    np.testing.assert_array_equal(lines, np.column_stack([raw, ends]))
    assert 0.7 < np.mean((lines[:, 1] <= rows[:, 1]) & (rows[:, 1] <= lines[:, 2])) < 0.9
    printed = sonline("predict", table, "-m", "m.son", "--interval", "0.8", "--json", "-q").stdout
    first = json.loads(printed.splitlines()[0])
    assert [first["raw"], first["low"], first["high"]] == lines[0].tolist()


def test_intervals_move_with_the_offset(sonline, table, tmp_path):
    shifted = tmp_path / "shifted.csv"
    _, *rows = table.read_text().splitlines()
    shifted.write_text("x,label,shift\n" + "".join(f"{row},100\n" for row in rows))
    sonline("train", table, "--loss", "squared", "-o", "m.son", "-q")
    sonline("train", shifted, "--loss", "squared", "--offset", "shift", "-o", "s.son", "-q")
    asked = ("predict", shifted, "-m", "s.son", "-q")
    plain = np.array(sonline(*asked).stdout.split(), float)
    lines = [line.split() for line in sonline(*asked, "--interval", "0.8").stdout.splitlines()]
    z, low, high = np.array(lines, float).T
    np.testing.assert_array_equal(z, plain)
    assert ((low < z) & (z < high)).all()


def test_an_interval_must_be_a_part_and_of_numbers(sonline, table):
    sonline("train", table, "--loss", "squared", "-o", "m.son", "-q")
    failed = sonline("predict", table, "-m", "m.son", "--interval", "90", code=2)
    assert "--interval must be a number between 0 and 1" in failed.stderr
    table.write_text("x,label\n" + "1,1\n0,0\n" * 20)
    sonline("train", table, "-o", "c.son", "-q")
    failed = sonline("predict", table, "-m", "c.son", "--interval", "0.9", code=2)
    assert "--interval is for numbers" in failed.stderr
