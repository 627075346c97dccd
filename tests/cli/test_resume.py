"""A run that was killed at any moment ends, when resumed, with the same bits.

A longer campaign: SONLINE_KILLS=1000 pytest tests/cli/test_resume.py
"""

import gzip
import os
import random
import signal
import subprocess
import time

import pytest

from cli.conftest import SONLINE, identity, small_disk, svmlight
from sonline.parameters import Parameters

KILLS = int(os.environ.get("SONLINE_KILLS", "20"))
SCENARIOS = {
    "plain": ["--features", "name", "--sketch-size", "25"],
    "gzip, passes": ["--holdout", "7", "--passes", "2", "--sketch-size", "10"],
}


def start(arguments, folder):
    return subprocess.Popen(
        [SONLINE, "train", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(process):
    error = process.communicate()[1].decode()
    assert process.returncode == 0, error


def kill_once(arguments, folder, rng):
    """Run until it has got somewhere, then kill it; whether it was killed before its end."""
    checkpoint = folder / "part.son"
    before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
    process = start(arguments, folder)
    while process.poll() is None:
        now = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        if now != before:
            break
        time.sleep(0.002)
    time.sleep(rng.choice([0, rng.uniform(0, 0.01), rng.uniform(0, 0.2)]))
    process.send_signal(signal.SIGKILL)
    error = process.communicate()[1].decode()
    assert process.returncode in (0, -signal.SIGKILL), error
    return process.returncode != 0


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_random_and_resumed_it_ends_with_the_same_bits(scenario, tmp_path):
    text = svmlight(4000, features=300).encode() * 8
    name = "data.svm.gz" if "gzip" in scenario else "data.svm"
    (tmp_path / name).write_bytes(gzip.compress(text, 1) if "gzip" in scenario else text)
    common = [name, *SCENARIOS[scenario], "--on-error", "skip"]
    whole = start([*common, "-o", "whole.son", "--predictions", "whole.txt"], tmp_path)
    finish(whole)
    rng = random.Random(scenario)  # noqa: S311 - when to kill
    kills = 0
    arguments = [*common, "-o", "again.son", "--predictions", "again.txt"]
    arguments += ["--checkpoint", "part.son", "--checkpoint-every", "1", "--resume"]
    while kills < KILLS // 2:
        for old in ("part.son", "again.son", "again.txt"):
            (tmp_path / old).unlink(missing_ok=True)
        while kill_once(arguments, tmp_path, rng):
            kills += 1
            if kills >= KILLS // 2:
                finish(start(arguments, tmp_path))
                break
        assert identity(tmp_path / "again.son") == identity(tmp_path / "whole.son")
        assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    assert kills >= KILLS // 2


def test_a_full_disk_leaves_a_checkpoint_that_resumes(sonline, tmp_path):
    rows = [
        f"{1 if n % 3 else -1} | {' '.join(f'w{n * k % 9973}' for k in range(1, 9))}\n"
        for n in range(30000)
    ]
    (tmp_path / "data.vw").write_text("".join(rows))
    sonline("train", "data.vw", "-o", "whole.son", "-q")
    size = (tmp_path / "whole.son").stat().st_size
    arguments = ["train", "data.vw", "-o", "again.son", "-q", "--checkpoint", "part.son"]
    arguments += ["--checkpoint-every", "1", "--resume"]
    sonline("train", "data.vw", "-o", "part.son", "-q", "--limit", 300)
    failed = sonline(*arguments, code=3, **small_disk(size * 95 // 100))
    assert "cannot write" in failed.stderr or "File too large" in failed.stderr
    assert not list(tmp_path.glob(".*.part"))
    sonline(*arguments)
    assert identity(tmp_path / "again.son") == identity(tmp_path / "whole.son")


def test_resume_refuses_another_question(sonline, tmp_path):
    (tmp_path / "a.svm").write_text(svmlight(100))
    (tmp_path / "b.svm").write_text(svmlight(100))
    sonline("train", "a.svm", "-o", "m.son", "-q")
    assert "files" in sonline("train", "b.svm", "-o", "m.son", "--resume", code=2).stderr
    done = sonline("train", "a.svm", "-o", "m.son", "--resume", "--sketch-size", 3, code=2)
    assert f"sketch_size={Parameters().sketch_size}" in done.stderr


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_tables_resume_within_a_file(sonline, tmp_path, kind):
    (tmp_path / "a.svm").write_text(svmlight(1000))
    sonline("convert", "a.svm", "-o", f"a.{kind}", "-q")
    sonline("train", f"a.{kind}", "-o", "whole.son", "-q")
    sonline("train", f"a.{kind}", "-o", "again.son", "-q", "--limit", 437)
    sonline("train", f"a.{kind}", "-o", "again.son", "-q", "--resume")
    assert identity(tmp_path / "again.son") == identity(tmp_path / "whole.son")


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_end_a_process_save_the_model(tmp_path, sonline, end):
    with subprocess.Popen(
        [SONLINE, "train", "-", "-o", "m.son", "--classes", "binary", "--format", "svmlight"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        bufsize=0,
        # Whoever runs the tests may ignore signals (nohup), and programs inherit that.
        preexec_fn=lambda: signal.signal(end, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    ) as process:
        process.stdin.write(svmlight(10).encode())
        # A slow pipe: the first rows are learned, and shown, as they come.
        while (line := process.stderr.readline()) and line.split()[3:4] != [b"8"]:
            pass
        process.send_signal(end)
        error = process.stderr.read().decode()
        assert process.wait(60) == 128 + end, error
        assert "interrupted after 10 rows; saved in m.son" in error
        assert "rows        10" in sonline("inspect", "m.son").stdout


@pytest.mark.parametrize("change", ["shorter", "other", "longer"])
def test_resume_looks_whether_the_file_is_the_same(sonline, tmp_path, change):
    data = tmp_path / "a.svm"
    text = svmlight(300)
    data.write_text(text)
    sonline("train", "a.svm", "-o", "m.son", "-q", "--limit", 200)
    lines = text.splitlines(keepends=True)
    if change == "longer":
        data.write_text(text + lines[0])
        sonline("train", "a.svm", "-o", "m.son", "-q", "--resume")
        assert "rows        301" in sonline("inspect", "m.son").stdout
        return
    data.write_text("".join(lines[:100]) if change == "shorter" else svmlight(400, seed=1))
    failed = sonline("train", "a.svm", "-o", "m.son", "--resume", code=2)
    assert "a.svm is not the file" in failed.stderr
