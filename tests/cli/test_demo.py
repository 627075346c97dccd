"""``sonline demo`` as its users run it: in a terminal, in a pipe, by a program."""

import dataclasses
import json
import os
import pty
import signal
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sonline import cli
from sonline.paper.demonstration.comparison import Plan, compare

SONLINE = Path(sysconfig.get_path("scripts"), "sonline")
PNG = b"\x89PNG\r\n\x1a\n"


def demo(folder, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [SONLINE, "demo", "--quick", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_in_a_pipe_it_prints_plain_lines_and_writes_the_picture(tmp_path):
    done = demo(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    for name in ("gradient descent", "AdaGrad", "Oja's sketch", "OnlineLearner()"):
        # Two κ, the table; a quick run may also note the edge of its range.
        lines = [line for line in done.stdout.splitlines() if "edge of its range" not in line]
        assert "\n".join(lines).count(name) == 3
    assert (tmp_path / "sonline-demo.png").read_bytes().startswith(PNG)


def test_in_a_terminal_the_table_fills_while_it_runs(tmp_path):
    main, side = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "30"}
    with subprocess.Popen(
        [SONLINE, "demo", "--quick"],
        cwd=tmp_path,
        stdin=side,
        stdout=side,
        stderr=side,
        env=environment,
    ) as process:
        os.close(side)
        shown = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # the other side is closed: how Linux ends a terminal
                break
            if not piece:
                break
            shown += piece
    os.close(main)
    text = shown.decode()
    assert process.returncode == 0
    assert text.count("learner") > 3  # drawn again and again
    assert "…" in text  # a number that may still fall
    assert "/128" in text  # trials of the quick plan
    assert "\x1b[?25h" in text  # the cursor is shown again at the end


def test_json_has_the_numbers_and_nothing_else(tmp_path):
    done = demo(tmp_path, "--json", "--out", "chart.svg")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["picture"] == "chart.svg"
    assert "<svg" in (tmp_path / "chart.svg").read_text(encoding="utf-8")
    errors = {
        contender["name"]: [result["error"] for result in contender["results"]]
        for contender in report["contenders"]
    }
    assert max(errors["OnlineLearner()"]) <= 0.055
    assert errors["gradient descent"][-1] > 0.2
    assert errors["AdaGrad"][-1] > 0.2
    assert all(contender["microseconds_per_row"] > 0 for contender in report["contenders"])


def test_quiet_prints_the_table_only(tmp_path):
    done = demo(tmp_path, "--quiet")
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    assert len(lines) == 7  # title, head, rule, four learners
    assert lines[0].startswith("Rows predicted wrongly")


def test_the_seed_decides_the_streams():
    def errors(seed):
        plan = dataclasses.replace(Plan.quick(seed), rows=300, steps=(1.0,))
        return [trial.errors for trial in compare(plan)]

    assert errors(1) == errors(1) != errors(2)


@pytest.mark.parametrize("out", ["picture.txt", "no/such/folder/picture.png"])
def test_a_bad_out_is_refused_before_the_work(tmp_path, out):
    done = demo(tmp_path, "--out", out)
    assert done.returncode == cli.WRONG_USAGE
    assert done.stderr.startswith(f"sonline: --out {out}: ")
    assert done.stdout == ""


def test_without_matplotlib_it_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(cli.app, ["demo", "--quick"])
    assert done.exit_code == 0
    assert "sonline[plot]" in done.output
    assert "κ" in done.output
    assert list(tmp_path.iterdir()) == []
    refused = CliRunner().invoke(cli.app, ["demo", "--quick", "--out", "picture.png"])
    assert "sonline[plot]" in str(refused.exception)


def test_ctrl_c_ends_it_at_once(tmp_path):
    with subprocess.Popen(
        [SONLINE, "demo"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline()  # it runs
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == cli.INTERRUPTED
    assert list(tmp_path.iterdir()) == []
