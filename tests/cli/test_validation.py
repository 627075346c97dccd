"""Validation after each pass, and options from a file."""

import json
import re

import pytest

from cli.conftest import svmlight, tensors


def test_the_model_is_that_of_the_best_pass(sonline, tmp_path):
    # Few rows, many features: later passes fit the noise.
    lines = svmlight(300, features=200).splitlines(keepends=True)
    (tmp_path / "train.svm").write_text("".join(lines[:100]))
    (tmp_path / "test.svm").write_text("".join(lines[100:]))
    command = ["train", "train.svm", "--validation", "test.svm", "--passes", 30]
    report = json.loads(sonline(*command, "-o", "m.son", "--patience", 2, "--json").stdout)
    losses = [summary["validation_loss"] for summary in report["passes"]]
    best = losses.index(min(losses)) + 1
    assert report["best_pass"] == best
    assert len(losses) == best + 2 < 30
    sonline("train", "train.svm", "-o", "n.son", "-q", "--passes", best)
    assert tensors(tmp_path / "m.son") == tensors(tmp_path / "n.son")
    evaluation = json.loads(sonline("evaluate", "test.svm", "-m", "m.son", "--json").stdout)
    assert evaluation["loss"] == min(losses)
    assert evaluation["error"] == report["passes"][best - 1]["validation_error"]
    shown = sonline(*command).stdout
    assert "the best pass" in shown
    failed = sonline(*command, "-o", "m.son", "--resume", code=2)
    assert "--validation" in failed.stderr


def test_a_run_with_validation_resumes(sonline, tmp_path):
    lines = svmlight(300, features=200).splitlines(keepends=True)
    (tmp_path / "train.svm").write_text("".join(lines[:100]))
    (tmp_path / "test.svm").write_text("".join(lines[100:]))
    command = ["train", "train.svm", "--validation", "test.svm", "--passes", 12, "--json"]
    command += ["--alpha", 8]
    whole = json.loads(sonline(*command, "-o", "whole.son").stdout)
    assert 1 < whole["best_pass"] < len(whole["passes"])
    saved = ["--checkpoint", "c.son", "--checkpoint-every", 60, "-o", "parts.son"]
    for limit in (150, whole["best_pass"] * 100 + 30):
        # What a killed run leaves is its checkpoint, and the best model beside it.
        sonline(*command, *saved, "--limit", limit, "--resume")
        (tmp_path / "parts.son").unlink()
    parts = json.loads(sonline(*command, *saved, "--resume").stdout)
    for name in ("passes", "best_pass", "loss", "rows"):
        assert parts[name] == whole[name]
    assert tensors(tmp_path / "parts.son") == tensors(tmp_path / "whole.son")
    other = ["train", "train.svm", "--validation", "train.svm", "--passes", 12, "--alpha", 8]
    failed = sonline(*other, *saved, "--resume", code=2)
    assert "validation" in failed.stderr


def test_options_from_a_file(sonline, tmp_path):
    (tmp_path / "d.svm").write_text(svmlight(200))
    (tmp_path / "run.toml").write_text(
        'passes = 2\nsketch-size = 5\nclasses = "binary"\nintercept = false\n'
    )
    sonline(
        "train", "d.svm", "-o", "a.son", "--config", "run.toml", "-q", "--save-config", "b.toml"
    )
    options = ["--passes", 2, "--sketch-size", 5, "--classes", "binary", "--no-intercept"]
    sonline("train", "d.svm", "-o", "b.son", "-q", *options)
    assert tensors(tmp_path / "a.son") == tensors(tmp_path / "b.son")
    # The command line goes first.
    sonline("train", "d.svm", "-o", "c.son", "--config", "run.toml", "--passes", 1, "-q")
    assert tensors(tmp_path / "c.son") != tensors(tmp_path / "b.son")
    # What was saved gives the same model again.
    sonline("train", "-o", "d.son", "--config", "b.toml", "d.svm")
    assert tensors(tmp_path / "d.son") == tensors(tmp_path / "a.son")
    # A word for an option that may be repeated.
    (tmp_path / "run.toml").write_text('class-weight = "1=2"\n')
    sonline("train", "d.svm", "-o", "e.son", "--config", "run.toml", "-q")
    sonline("train", "d.svm", "-o", "f.son", "--class-weight", "1=2", "-q")
    assert tensors(tmp_path / "e.son") == tensors(tmp_path / "f.son")
    (tmp_path / "run.toml").write_text("beauty = 3\n")
    failed = sonline("train", "d.svm", "--config", "run.toml", code=2)
    assert "no option --beauty" in failed.stderr
    (tmp_path / "run.toml").write_text("passes =\n")
    assert "not TOML" in sonline("train", "d.svm", "--config", "run.toml", code=2).stderr


@pytest.mark.parametrize("kind", ["vw", "csv", "jsonl"])
def test_features_by_name_are_validated_after_each_pass(sonline, tmp_path, kind):
    (tmp_path / "d.svm").write_text(svmlight(300))
    sonline("convert", "d.svm", "-o", f"d.{kind}", "-q")
    losses = []
    for name in ("d.svm", f"d.{kind}"):
        done = sonline("train", name, "--validation", name, "--passes", 3, "--json")
        losses.append([summary["validation_loss"] for summary in json.loads(done.stdout)["passes"]])
    assert len(losses[0]) == 3
    assert losses[0] == losses[1]


def test_lines_of_many_passes_keep_their_numbers_apart(sonline, tmp_path):
    (tmp_path / "d.svm").write_text(svmlight(40))
    command = ["train", "d.svm", "--validation", "d.svm", "--passes", 12, "--holdout", 5]
    shown = sonline(*command, "--patience", 12).stdout
    for what in ("loss", "held out", "validation"):
        actual = re.findall(rf"^{what} pass (\d+) +\d\.\d", shown, re.MULTILINE)
        assert actual == [str(turn) for turn in range(1, 13)]
