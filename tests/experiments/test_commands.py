"""The commands, through their own apps."""

import json

import pytest
from typer.testing import CliRunner

from sonline.errors import ParameterError
from sonline.paper.commands import datasets as datasets_command
from sonline.paper.commands import reproduce as reproduce_command

runner = CliRunner()


@pytest.fixture(autouse=True)
def no_other_folders(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("SONLINE_DATA", raising=False)
    monkeypatch.setenv("SONLINE_CACHE", str(tmp_path / "cache"))


def test_reproduce_writes_the_report_and_names_its_files(tmp_path):
    (tmp_path / "splice.svm").write_text(
        "".join(f"{s} 1:{i}\n" for i in range(1, 9) for s in (1, -1))
    )
    out = tmp_path / "out"
    result = runner.invoke(
        reproduce_command.app,
        ["fig-splice", "table-fd-oja", "--data-dir", str(tmp_path), "--out", str(out)],
    )
    assert result.exit_code == 0, result.output
    assert f"{out / 'report.html'}" in result.stdout
    assert (out / "fig-splice.csv").exists()
    assert "Missing data sets, left out: australian" in result.stderr


def test_an_interrupted_reproduction_says_how_to_continue(tmp_path, monkeypatch):
    """Progress goes to a log line by line, where there is no terminal."""
    monkeypatch.setattr(reproduce_command, "LOG_SECONDS", 0.0)
    calls = iter(range(2))

    def some_cells(*_args, **_settings):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return [0.5] * 3

    monkeypatch.setattr("sonline.paper.experiments.eigenvalues.eigenvalue_errors", some_cells)
    result = runner.invoke(reproduce_command.app, ["fig2", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "1 of 12 done, now fig2 kappa=100 seed=1 eigenvalues Oja" in result.stderr
    assert f"interrupted: 2 results are in {tmp_path}; run the same command" in result.stderr
    assert len(list((tmp_path / "cells").iterdir())) == 2


def test_reproduce_names_the_experiments_when_one_is_unknown():
    result = runner.invoke(reproduce_command.app, ["fig9"])
    assert isinstance(result.exception, ParameterError)
    assert "fig1, fig2, fig3, fig-splice, table-error" in str(result.exception)


def test_datasets_are_listed_with_their_files(tmp_path):
    (tmp_path / "heart.svm").write_text("+1 1:1\n-1 1:2\n")
    shown = runner.invoke(datasets_command.app, ["list", "--data-dir", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "breast-cancer" in shown.stdout
    result = runner.invoke(datasets_command.app, ["list", "--json", "--data-dir", str(tmp_path)])
    listed = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert len(listed) == 23
    assert listed["heart"]["file"] == str(tmp_path / "heart.svm")
    assert listed["rcv1"]["file"] is None
    assert listed["a9a"]["urls"][1].endswith("/binary/a9a.t")


def test_fetch_checks_all_names_first():
    result = runner.invoke(datasets_command.app, ["fetch", "heart", "hart"])
    assert isinstance(result.exception, ParameterError)
