"""Ctrl-C in sonline train --cluster, which a terminal sends to the workers as well."""

import os
import signal
import subprocess
import time

import pytest

from cli.conftest import SONLINE, svmlight

CLUSTER = ("--cluster", "local:2", "--checkpoint", "kept")


@pytest.mark.long
def test_ctrl_c_keeps_finished_files_and_says_how_to_continue(tmp_path):
    for number in range(2):
        (tmp_path / f"part-{number}.svm").write_text(svmlight(50, seed=number))
    os.mkfifo(tmp_path / "part-2.svm")  # which nobody fills
    driver = subprocess.Popen(
        [SONLINE, "train", "part-*.svm", "-o", "m.son", *CLUSTER],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("kept/round-1/partition-*.json")):
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGINT)
    _, output = driver.communicate(timeout=300)  # ends when no process has this pipe any more
    assert driver.returncode == 130
    assert output.endswith(
        "interrupted; finished files are saved in kept: repeat the command with --resume\n"
    )
    assert "Traceback" not in output
