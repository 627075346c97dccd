"""The frame of the command line: names, help, exit codes."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import sonline
from sonline import cli, errors

SONLINE = Path(sysconfig.get_path("scripts"), "sonline")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SONLINE, *arguments], capture_output=True, text=True, check=False)


def load(name: str):
    group = typer.main.get_command(cli.app)
    with group.make_context("sonline", [name]) as context:
        return group.resolve_command(context, [name])[1]


def test_help_lists_every_command_and_exit_code():
    shown = run("--help")
    assert shown.returncode == 0
    words = " ".join(shown.stdout.replace("│", " ").split())
    for name, summary in cli.COMMANDS.items():
        assert f"{name} {summary}" in words
    for code, meaning in cli.EXIT_CODES.items():
        assert f"{code} {meaning}" in words


def test_help_does_not_wait_for_numpy():
    code = (
        "import sys, sonline.cli; sys.exit(' '.join({'numpy', 'scipy', 'rich'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_training_waits_for_nothing_that_it_does_not_use():
    code = (
        "import sys, sonline.cli.train; sonline.OnlineLearner().learn([[1.0]], [1]); "
        "sys.exit(' '.join({'scipy', 'sklearn', 'pandas', 'pyarrow'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_an_example(name):
    command = load(name)
    assert command.help.startswith(cli.COMMANDS[name])
    for path in [[name, sub] for sub in getattr(command, "commands", {})] or [[name]]:
        shown = CliRunner().invoke(cli.app, [*path, "--help"])
        assert shown.exit_code == 0
        assert f"Example: sonline {' '.join(path)}" in " ".join(shown.output.split())


@pytest.mark.parametrize("name", sorted(set(cli.COMMANDS) - {"vw"}))  # where --json reads JSON
def test_every_command_has_json_and_quiet(name):
    command = load(name)
    for sub in getattr(command, "commands", {name: command}).values():
        options = {word for parameter in sub.params for word in parameter.opts}
        assert {"--json", "--quiet"} <= options


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_shows_no_value_for_flags(name):
    command = load(name)
    for sub in getattr(command, "commands", {name: command}).values():
        flags = [option for option in sub.params if getattr(option, "is_flag", False)]
        assert {option.metavar for option in flags} <= {""}
        for option in set(sub.params) - set(flags):
            assert option.metavar != ""


def test_no_arguments_show_the_help_and_count_as_wrong_usage():
    shown = run()
    assert shown.returncode == cli.WRONG_USAGE
    assert "Usage: sonline" in shown.stdout + shown.stderr


def test_version():
    assert run("--version").stdout == f"sonline {sonline.__version__}\n"


def test_an_unknown_command_is_refused_with_a_suggestion():
    done = run("demmo")
    assert done.returncode == cli.WRONG_USAGE
    assert "demo" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ParameterError("x"), 2),
        (errors.InvalidInputError("x"), 3),
        (errors.DataFormatError("x"), 3),
        (FileNotFoundError("x"), 3),
        (errors.ModelFileError("x"), 4),
        (errors.DivergenceError("x"), 5),
        (errors.SonlineError("x"), 1),
    ],
)
def test_errors_have_their_exit_codes(error, code):
    assert cli.exit_code(error) == code
    assert code in cli.EXIT_CODES


def test_the_module_is_the_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "sonline", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("sonline ")


def test_help_whose_reader_has_seen_enough_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [SONLINE, "train", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_that_knows_ascii_only(sonline, tmp_path):
    (tmp_path / "m.vw").write_text("1 | größe\n-1 | klein\n" * 5)
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    sonline("train", "m.vw", "-o", "m.son", env=ascii_only)
    done = sonline("inspect", "m.son", env=ascii_only)
    assert "klein" in done.stdout
    failed = sonline("train", "größe.vw", env=ascii_only, code=3)
    assert "gr\\xf6\\xdfe.vw" in failed.stderr


def run_without(package, folder, *command):
    """Run a command as if a package were not installed."""
    (folder / "sitecustomize.py").write_text(
        "import importlib.util as u\nfound = u.find_spec\n"
        f"u.find_spec = lambda n, *a: None if n == {package!r} else found(n, *a)\n"
    )
    return subprocess.run(
        [SONLINE, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        timeout=60,
    )


def test_reproduce_asks_for_matplotlib_first(tmp_path):
    done = run_without("matplotlib", tmp_path, "reproduce", "fig1")
    assert done.returncode == 2
    assert "sonline[plot]" in done.stderr


@pytest.mark.parametrize("wrong", [["--loss", "nope"], ["--nope"]])
def test_wrong_usage_is_an_object_with_json(wrong):
    failed = run("train", "a.svm", "--json", *wrong)
    assert failed.returncode == 2
    error = json.loads(failed.stderr)["error"]
    assert (error["type"], error["exit_code"]) == ("ParameterError", 2)
    assert "nope" in error["message"]


def test_a_missing_extra_is_one_line(tmp_path):
    done = run_without("httpx", tmp_path, "client", "show", "clicks")
    assert done.returncode == 2
    assert done.stderr == 'sonline: httpx is missing: pip install "sonline[serve]"\n'
