"""Outputs that cannot be written: a full disk, a reader that has gone."""

import os
import subprocess

import pytest

from cli.conftest import SONLINE, small_disk, svmlight, tensors


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(svmlight(3000))
    return path


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["train", "data.svm", "-o", "n.son", "--predictions", "p.txt"], "p.txt"),
        (["predict", "data.svm", "-m", "m.son", "-o", "p.txt"], "p.txt"),
        (["convert", "data.svm", "-o", "a.vw"], "a.vw"),
        (["convert", "data.svm", "-o", "a.csv.gz"], "a.csv.gz"),
        (["vw", "-t", "-d", "data.vw", "-i", "v.son", "-p", "p.txt"], "p.txt"),
    ],
)
def test_a_full_disk_is_said_with_the_file(sonline, data, tmp_path, command, name):
    sonline("train", data, "-o", "m.son", "-q")
    if command[0] == "vw":
        sonline("convert", data, "-o", "data.vw", "-q")
        sonline("vw", "data.vw", "-f", "v.son", "--quiet")
    failed = sonline(*command, code=3, **small_disk(20_000))
    assert name in failed.stderr.splitlines()[-1]
    assert "Traceback" not in failed.stderr
    assert not list(tmp_path.glob(".*.part"))


def first_line(folder, *command):
    """Read one line and close the pipe."""
    with subprocess.Popen(
        [SONLINE, *map(str, command)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        line = process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    return line, errors, process.returncode


def test_a_reader_that_has_seen_enough(sonline, data, tmp_path):
    data.write_text(svmlight(1000) * 40)  # more than a pipe holds
    sonline("train", data, "-o", "m.son", "-q")
    for command in (
        ["predict", data, "-m", "m.son", "-q"],
        ["convert", data, "--to", "vw", "-o", "-", "-q"],
    ):
        line, errors, code = first_line(tmp_path, *command)
        assert line
        assert (errors, code) == ("", 0)
    # Training goes on: the model is what is wanted in the end.
    line, errors, code = first_line(tmp_path, "train", data, "-o", "n.son", "--predictions", "-")
    assert (line, code) == ("0.0\n", 0)
    assert "nobody reads predictions any more" in errors
    assert tensors(tmp_path / "n.son") == tensors(tmp_path / "m.son")


def test_training_goes_on_when_nobody_watches(data, tmp_path):
    data.write_text(svmlight(1000) * 4)
    reading, writing = os.pipe()
    os.close(reading)
    command = [SONLINE, "train", data, "-o", "m.son"]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writing, text=True, check=False
    )
    os.close(writing)
    assert done.returncode == 0
    assert "rows            4,000" in done.stdout
    assert (tmp_path / "m.son").stat().st_size > 0
