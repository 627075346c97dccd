"""sonline train --cluster: files on a real Dask cluster, its faults and its figures."""

import copy
import gzip
import json
import os
import signal
import subprocess
import threading
import time

import numpy as np
import psutil
import pytest
from distributed import LocalCluster

from cli.conftest import SONLINE
from sonline.model import Model
from sonline.read_options import ReadOptions
from sonline.training import RunSettings, Training


def write(path, rows, *, features=10, seed=0, labels=("-1", "1"), names=False):
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(99).normal(size=(features, len(labels)))
    X = rng.normal(size=(rows, features))
    y = (X @ truth).argmax(axis=1)
    with path.open("w") as file:
        for label, row in zip(y, X, strict=True):
            word = "".join(f" {'f' if names else ''}{i}:{v:.3f}" for i, v in enumerate(row))
            file.write(f"{labels[label]} |{word}\n" if names else f"{labels[label]}{word}\n")


def by_itself(path, holdout=0, start=None, **parameters):
    """Train on a file in this process, from a model if there is one."""
    run = Training(
        RunSettings([str(path)], parameters, ReadOptions(on_error="stop"), holdout=holdout),
        model=copy.deepcopy(start),
    )
    run.run()
    return run


def state(path):
    model = Model.load(path)
    arrays = {name: tensor.tobytes() for name, tensor in model.tensors().items()}
    return model.table, model.parameters, arrays


@pytest.mark.long
def test_files_give_the_merged_models(sonline, tmp_path):
    files = [tmp_path / f"part-{n}.svm" for n in range(5)]
    for number, path in enumerate(files):
        write(path, 300, seed=number)
    done = sonline(
        *("train", tmp_path / "part-*.svm", "-o", tmp_path / "all.son"),
        *("--cluster", "local:2", "--json"),
    )
    result = json.loads(done.stdout)
    assert result["rows"] == 1500
    assert result["partitions"] == 5
    assert sum(part["partitions"] for part in result["workers"]) == 5
    assert sum(part["rows"] for part in result["workers"]) == 1500
    first, *others = (by_itself(path) for path in files)
    losses = [run.progress.loss.average for run in (first, *others)]
    assert result["loss"] == pytest.approx(np.mean(losses))
    first.model.merge([run.model for run in others]).save(tmp_path / "by-hand.son")
    assert state(tmp_path / "by-hand.son") == state(tmp_path / "all.son")
    output = sonline("evaluate", "-m", tmp_path / "all.son", files[0], "--json").stdout
    assert json.loads(output)["error"] < 0.1


@pytest.mark.long
def test_a_cluster_that_runs_is_used_by_its_address(sonline, tmp_path):
    files = [tmp_path / f"part-{n}.svm" for n in range(3)]
    for number, path in enumerate(files):
        write(path, 100, seed=number)
        path.with_suffix(".svm.gz").write_bytes(gzip.compress(path.read_bytes()))
    with LocalCluster(
        n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        where = ("--cluster", cluster.scheduler_address)
        train = ("train", "part-*.svm.gz", "-o", "all.son", *where, "--passes", "2", "--json")
        result = json.loads(sonline(*train).stdout)
        assert len(cluster.scheduler_info["workers"]) == 1  # it is not ours to close
    assert [summary["rows"] for summary in result["passes"]] == [300, 300]
    assert result["passes"][1]["loss"] < result["passes"][0]["loss"]
    first, *others = (by_itself(path) for path in files)
    start = first.model.merge([run.model for run in others])
    again = [by_itself(path, start=start).model for path in files]
    again[0].merge(again[1:], start=start).save(tmp_path / "by-hand.son")
    assert state(tmp_path / "by-hand.son") == state(tmp_path / "all.son")


@pytest.mark.long
def test_names_and_classes_are_combined_and_bad_rows_reported(sonline, tmp_path):
    write(tmp_path / "a.vw", 200, labels=("1", "2", "3"), names=True)
    write(tmp_path / "b.vw", 200, seed=1, labels=("3", "1", "4"), names=True)
    lines = (tmp_path / "b.vw").read_text().splitlines()
    lines[6] = "1 | f0:many"
    (tmp_path / "b.vw").write_text("\n".join(lines) + "\n")
    train = ("train", tmp_path / "a.vw", tmp_path / "b.vw", "--cluster", "local:1")
    more = ("--classes", "multi", "-o", tmp_path / "m.son")
    done = sonline(*train, *more, code=3)
    assert "b.vw:7:" in done.stderr
    assert "partition 1" in done.stderr
    bad = tmp_path / "bad"
    done = sonline(*train, *more, "--on-error", "skip", "--bad-rows", bad, "--passes", "2")
    assert bad.read_text() == "1 | f0:many\n"
    assert "bad rows skipped" in done.stderr
    assert "worker" in done.stdout
    model = Model.load(tmp_path / "m.son")
    assert sorted(model.table.labels) == [1, 2, 3, 4]
    assert set(model.features()) == {f"f{i}" for i in range(10)}


@pytest.mark.long
def test_rows_are_held_out_in_every_file(sonline, tmp_path):
    files = [tmp_path / f"part-{n}.svm" for n in range(2)]
    for number, path in enumerate(files):
        write(path, 100 * (number + 1), seed=number)
    done = sonline(
        *("train", *files, "-o", tmp_path / "m.son", "--cluster", "local:1"),
        *("--holdout", "4", "--json"),
    )
    result = json.loads(done.stdout)
    each = [by_itself(path, holdout=4) for path in files]
    for name in ("loss", "error", "holdout_loss", "holdout_error"):
        part = "held" if name.startswith("holdout") else "progress"
        curves = [getattr(getattr(entry, part), name.split("_")[-1]) for entry in each]
        wanted = sum(c.total for c in curves) / sum(c.weight for c in curves)
        assert result[name] == pytest.approx(wanted)
    assert [entry.held.loss.rows for entry in each] == [25, 50]
    model = Model.load(tmp_path / "m.son")
    assert model.stats()["rounds"] == 225
    assert result["rows"] == 300


@pytest.mark.long
def test_a_driver_that_dies_leaves_checkpoints(sonline, tmp_path):
    """The last file is a pipe that nobody fills until the driver has been killed."""
    files = [tmp_path / f"part-{number}.svm" for number in range(3)]
    for number, path in enumerate(files):
        write(path, 20, seed=number)
    write(tmp_path / "last.svm", 20, seed=3)
    pipe = tmp_path / "part-3.svm"
    os.mkfifo(pipe)
    train = [
        *("train", str(tmp_path / "part-*.svm"), "--cluster", "local:2"),
        *("--checkpoint", str(tmp_path / "kept")),
    ]
    driver = subprocess.Popen(
        [SONLINE, *train, "-o", str(tmp_path / "m.son")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    folder = tmp_path / "kept" / "round-1"
    deadline = time.monotonic() + 300
    while not list(folder.glob("partition-*.json")):
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGKILL)  # the workers, too
    # Ends when no process has that pipe any more: a dying worker would still read from it.
    driver.communicate()
    left = sorted(path.name for path in folder.glob("partition-*.json"))
    assert "partition-00003.json" not in left
    assert not (tmp_path / "m.son").exists()
    text = (tmp_path / "last.svm").read_text()
    filling = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)
    filling.start()  # waits until a worker reads
    done = sonline(*train, "--resume", "-o", tmp_path / "m.son", "--json")
    filling.join()
    by = {part["worker"]: part["partitions"] for part in json.loads(done.stdout)["workers"]}
    assert by["checkpoints"] == len(left)
    first, *others = (by_itself(path).model for path in [*files, tmp_path / "last.svm"])
    first.merge(others).save(tmp_path / "undisturbed.son")
    assert state(tmp_path / "m.son") == state(tmp_path / "undisturbed.son")


def when_read(pipe, process):
    """Open a pipe to write when a process, or one that it started, has opened it to read."""
    deadline = time.monotonic() + 300
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.long
def test_a_killed_worker_has_a_successor_however_long_that_takes(tmp_path):
    """The only worker dies in the middle of a pipe; by default, Dask would not wait for another."""
    for number in range(2):
        write(tmp_path / f"{number}.svm", 20, seed=number)
    os.mkfifo(tmp_path / "pipe.svm")
    driver = subprocess.Popen(
        [SONLINE, "train", "0.svm", "pipe.svm", "-o", "m.son", "--cluster", "local:1", "-q"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        env=os.environ | {"DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1ms"},
        start_new_session=True,
    )
    try:
        writing = when_read(tmp_path / "pipe.svm", driver)
        processes = psutil.Process(driver.pid).children()
        (worker,) = [
            process for process in processes if "spawn_main" in " ".join(process.cmdline())
        ]
        worker.kill()
        worker.wait(timeout=120)
        os.close(writing)
        text = (tmp_path / "1.svm").read_text()
        filling = threading.Thread(
            target=(tmp_path / "pipe.svm").write_text, args=(text,), daemon=True
        )
        filling.start()
        _, output = driver.communicate(timeout=300)
    finally:
        if driver.returncode is None:
            os.killpg(driver.pid, signal.SIGKILL)
    assert driver.returncode == 0, output
    first, second = (by_itself(tmp_path / f"{number}.svm").model for number in range(2))
    first.merge([second]).save(tmp_path / "undisturbed.son")
    assert state(tmp_path / "m.son") == state(tmp_path / "undisturbed.son")


@pytest.mark.long
def test_four_killed_workers_do_not_end_a_run(tmp_path):
    """All files are handed out at once: each death makes all of them suspicious to Dask."""
    for number in range(3):
        write(tmp_path / f"{number}.svm", 20, seed=number)
    os.mkfifo(tmp_path / "pipe.svm")
    driver = subprocess.Popen(
        [
            SONLINE,
            "train",
            "0.svm",
            "pipe.svm",
            "2.svm",
            "-o",
            "m.son",
            "--cluster",
            "local:1",
            "-q",
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        for _ in range(4):
            writing = when_read(tmp_path / "pipe.svm", driver)
            (worker,) = [
                process
                for process in psutil.Process(driver.pid).children()
                if "spawn_main" in " ".join(process.cmdline())
            ]
            worker.kill()
            worker.wait(timeout=120)
            os.close(writing)
        text = (tmp_path / "1.svm").read_text()
        filling = threading.Thread(
            target=(tmp_path / "pipe.svm").write_text, args=(text,), daemon=True
        )
        filling.start()
        _, output = driver.communicate(timeout=300)
    finally:
        if driver.returncode is None:
            os.killpg(driver.pid, signal.SIGKILL)
    assert driver.returncode == 0, output
    first, *others = (by_itself(tmp_path / f"{number}.svm").model for number in range(3))
    first.merge(others).save(tmp_path / "undisturbed.son")
    assert state(tmp_path / "m.son") == state(tmp_path / "undisturbed.son")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cluster", "spark://host"], "local or local:N"),
        (["--cluster", "local:0"], "at least one worker"),
        (["--cluster", "local", "--limit", "5"], "--limit cannot be used"),
        (["--cluster", "local", "--predictions", "p"], "'sonline predict'"),
        (["--cluster", "local", "--checkpoint-every", "9"], "--checkpoint-every"),
        (["--cluster", "local", "--resume"], "needs --checkpoint FOLDER"),
    ],
)
def test_invalid_options_are_refused(sonline, tmp_path, words, message):
    write(tmp_path / "a.svm", 5)
    done = sonline("train", tmp_path / "a.svm", "-o", tmp_path / "m.son", *words, code=2)
    assert message in done.stderr
