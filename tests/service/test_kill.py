"""Killed at any moment: no acknowledged event is lost or learned twice, the bits are the same.

``SONLINE_KILLS=200`` makes it 200 kills; ten in the usual run.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from helpers_service import assert_same_bits, drawn, logged, make, one_pass, to_learn

from sonline.service.settings import Settings

KILLS = int(os.environ.get("SONLINE_KILLS", "10"))
WORKER = Path(__file__).with_name("killed_worker.py")


def killed_run(folder: Path, turn: int, seconds: float) -> list[str]:
    """Return the lines of a worker that is killed some seconds after it was ready."""
    command = [sys.executable, str(WORKER), str(folder), str(turn)]
    environment = {**os.environ, "PYTHONPATH": str(WORKER.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        timer = threading.Timer(seconds, worker.send_signal, [signal.SIGKILL])
        timer.start()
        text = worker.stdout.read().decode()
        timer.join()
    return text[: text.rfind("\n") + 1].splitlines()


def test_killed_at_random_points(tmp_path):
    chance = np.random.default_rng(int(os.environ.get("SONLINE_SEED", "0")))
    acknowledged: list[str] = []
    for turn in range(KILLS):
        acknowledged += killed_run(tmp_path, turn, chance.uniform(0.0, 0.5))
    _, _, _, ids = logged(tmp_path)
    assert len(acknowledged) > KILLS
    assert len(ids) == len({*ids})  # none twice
    assert {line.partition(" ")[2] for line in acknowledged} <= {*ids}  # none lost
    engine = make(tmp_path, settings=Settings(snapshot_events=2000))
    model = engine.versions[1].model
    assert model.stats()["rounds"] == len(ids)
    assert_same_bits(model, one_pass(tmp_path))
    assert model.progress.loss.rows == len(ids)
    engine.close()


def test_without_any_snapshot_the_whole_log_is_replayed(tmp_path):
    engine = make(tmp_path)
    rows = [{name: row[name] for name in ("x", "y")} for row in drawn(2000)]
    for _ in range(5):
        engine.learn(to_learn(rows)).result()
    while engine.lag:
        time.sleep(0.01)
    again = make(tmp_path)  # as after a kill: the first engine wrote no snapshot
    assert again.to_replay == 10_000
    assert_same_bits(again.versions[1].model, engine.versions[1].model)
    again.close()
