"""`sonline train` reports the error of the frozen model next to the progressive error."""

import json

import numpy as np

from cli.conftest import svmlight


def lines(labels: np.ndarray) -> str:
    """Return rows of noise, which tell nothing about the labels."""
    values = np.random.default_rng(0).integers(1, 9, size=(labels.size, 12)).tolist()
    rows = (" ".join(f"{i}:{value}.25" for i, value in enumerate(row, 1)) for row in values)
    return "".join(f"{label} {row}\n" for label, row in zip(labels.tolist(), rows, strict=True))


def test_frozen_measures_are_near_the_progressive_ones_on_shuffled_rows(sonline, tmp_path):
    (tmp_path / "a.svm").write_text(svmlight(60_000))
    done = sonline("train", "a.svm", "--json")
    report = json.loads(done.stdout)
    assert "warning" not in done.stderr
    assert abs(report["frozen_error"] - report["error"]) < 0.02
    assert abs(report["frozen_loss"] - report["loss"]) < 0.05
    shown = f"(on {report['frozen_rows']:,} rows, before learning them)"
    assert shown in sonline("train", "a.svm").stdout
    assert 1000 < report["frozen_rows"] < 10_000


def test_labels_in_runs_give_a_warning(sonline, tmp_path):
    runs = np.repeat(np.where(np.arange(400) % 2 == 0, 1, -1), 200)
    (tmp_path / "runs.svm").write_text(lines(runs))
    done = sonline("train", "runs.svm")
    assert "warning: the error is 0.0" in done.stderr
    assert "if the model is frozen" in done.stderr
    assert "warning" not in sonline("train", "runs.svm", "--quiet").stderr


def test_small_files_have_no_frozen_measures(sonline, tmp_path):
    for rows in (50, 4000):  # the second has a batch with few rows at its end
        (tmp_path / "a.svm").write_text(svmlight(rows))
        assert "frozen" not in sonline("train", "a.svm").stdout
