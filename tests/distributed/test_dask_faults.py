"""Dask when something goes wrong: killed workers, interrupts, checkpoints of other runs."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import dask
import numpy as np
import pytest
from distributed import secede
from helpers_dask import ROWS, arrays, by_hand, slowly, state

from sonline.distributed.dask import SONClassifier
from sonline.errors import ParameterError


def until(holds):
    """Wait for something that takes a message or two, on a machine that may be busy."""
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_killed_worker_changes_no_bit(client, data, tmp_path):
    X, y, _ = data
    marker = tmp_path / "pid"
    parts = [slice(first, first + ROWS) for first in range(0, len(X), ROWS)]
    rows = [
        dask.delayed(slowly)(X[part], str(marker) if number == 3 else None)
        for number, part in enumerate(parts)
    ]
    labels = [dask.delayed(y[part]) for part in parts]
    with ThreadPoolExecutor(1) as pool:
        fitting = pool.submit(
            lambda: SONClassifier(max_iter=2).fit(rows, labels, classes=np.unique(y), client=client)
        )
        until(lambda: fitting.done() or (marker.exists() and marker.read_text(encoding="utf-8")))
        assert not fitting.done()
        victim = int(marker.read_text(encoding="utf-8"))
        assert victim in client.run(os.getpid).values()
        os.kill(victim, signal.SIGKILL)
        model = fitting.result()
    assert victim not in client.run(os.getpid).values()
    undisturbed = SONClassifier(max_iter=2).fit(*arrays(X, y))
    assert state(model) == state(undisturbed)


def broken(values, marker, folder):
    """Return the values; as long as there is a file, fail when two partitions are finished."""
    if marker is not None and Path(marker).exists():
        secede()  # the worker continues with others
        until(lambda: len(list(Path(folder, "round-1").glob("*.json"))) >= 2)
        raise OSError("the disk is not there")
    return values


def lengthy(values, folder):
    """Return the values, but not before it is allowed."""
    Path(folder, uuid4().hex).touch()
    until(lambda: Path(folder, "go").exists())
    return values


def test_an_interrupted_fit_leaves_the_cluster_free(client, data, tmp_path):
    """As with Ctrl-C: tasks that have not started are cancelled, and the client can be used."""
    X, y, _ = data
    parts = [slice(first, first + ROWS) for first in range(0, len(X), ROWS)]
    rows = [dask.delayed(lengthy)(X[part], str(tmp_path)) for part in parts]
    labels = [dask.delayed(y[part]) for part in parts]

    def interrupt():
        until(lambda: any(tmp_path.iterdir()))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def still_to_do(dask_worker):
        # A task that nobody wants any more is "cancelled" until it comes to its end.
        return [task.key for task in dask_worker.state.tasks.values() if task.state != "cancelled"]

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(interrupt)
            with pytest.raises(KeyboardInterrupt):
                SONClassifier().fit(rows, labels, classes=np.unique(y))
    finally:
        signal.signal(signal.SIGINT, before)
    until(lambda: not client.futures and not ours(client))
    until(lambda: not any(client.run(still_to_do).values()))
    (tmp_path / "go").touch()
    assert state(SONClassifier().fit(*arrays(X, y))) == state(by_hand(X, y))
    assert len(list(tmp_path.iterdir())) <= 1 + 2  # one for each worker and "go"


def ours(client):
    """Return the scheduler's tasks that are a fit's."""
    return client.run_on_scheduler(
        lambda dask_scheduler: [key for key in dask_scheduler.tasks if "sonline" in str(key)]
    )


def test_finished_partitions_are_used_again(client, data, tmp_path, caplog):
    X, y, _ = data
    marker, folder = tmp_path / "broken", tmp_path / "checkpoints"
    marker.touch()
    parts = [slice(first, first + ROWS) for first in range(0, len(X), ROWS)]
    rows = [
        dask.delayed(broken)(X[part], str(marker) if number == 5 else None, str(folder))
        for number, part in enumerate(parts)
    ]
    labels = [dask.delayed(y[part]) for part in parts]
    model = SONClassifier(max_iter=2)
    arguments = {"classes": np.unique(y), "checkpoint": folder, "resume": True}
    with caplog.at_level("ERROR"), pytest.raises(OSError, match="disk"):
        model.fit(rows, labels, **arguments)
    until(lambda: not client.futures and not ours(client))  # the remaining tasks are not run
    assert "register-client" not in caplog.text  # the connection has not been lost
    assert not hasattr(model, "classes_")
    left = {path.name for path in (folder / "round-1").glob("*.json")}
    assert left <= {f"partition-{number:05d}.json" for number in range(5)}
    assert len(left) >= 2
    damaged = min(left).replace("json", "sonline")  # which counts for nothing
    (folder / "round-1" / damaged).write_bytes(b"damaged")
    marker.unlink()
    model.fit(rows, labels, **arguments)
    resumed = [entry.resumed for entry in model.rounds_[0].figures]
    assert resumed.count(True) == len(left) - 1
    assert state(model) == state(SONClassifier(max_iter=2).fit(*arrays(X, y)))
    model.fit(rows, labels, **arguments)
    assert all(entry.resumed for shard in model.rounds_ for entry in shard.figures)
    with pytest.raises(ParameterError, match="rounds 2, this run has 3"):
        SONClassifier(max_iter=3).fit(rows, labels, **arguments)
