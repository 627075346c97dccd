"""What goes wrong on a cluster changes nothing: killed workers, dead drivers, old checkpoints."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext

from sonline.distributed.spark import SONRegressor, training
from sonline.distributed.spark.learning import Work
from sonline.errors import ParameterError
from sonline.model import Model

pytestmark = pytest.mark.long

BATCHES, ROWS, WIDTH = 6, 200, 5
SCHEMA = "features array<double>, label double"


def same_bits(first, second):
    return same_state(first.model, second.model)


def same_state(first, second):
    left, two = (learner.__getstate__()[1] for learner in (first, second))
    return left.keys() == two.keys() and all(np.array_equal(left[name], two[name]) for name in left)


def rows_of(batches):
    """Make the rows of a partition; the argument only says that there is one."""
    for _ in batches:
        pass
    for batch in range(BATCHES):
        rng = np.random.default_rng([TaskContext.get().partitionId(), batch])
        X = rng.normal(size=(ROWS, WIDTH))
        y = X @ np.arange(WIDTH) + 0.1 * rng.normal(size=ROWS)
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(X)), pa.array(y)], names=["features", "label"]
        )


def rows_but_the_last(batches):
    """Make the rows, but never come to those of partition 2."""
    if TaskContext.get().partitionId() == 2:
        time.sleep(600)
    return rows_of(batches)


def made(spark, partitions, rows=rows_of):
    return spark.range(partitions, numPartitions=partitions).mapInArrow(rows, SCHEMA)


@dataclass(frozen=True)
class Mortal(Work):
    """What executors do; the process of a partition is killed in the middle of it, once."""

    marker: Path

    def learn(self, record_batches):
        return super().learn(self._until_killed(record_batches))

    def _until_killed(self, record_batches):
        for number, batch in enumerate(record_batches):
            yield batch  # and it is learned before the next one is asked for
            if TaskContext.get().partitionId() == 1 and number == 2 and not self.marker.exists():
                self.marker.write_text(f"{batch.num_rows}", encoding="utf-8")
                os.kill(os.getpid(), signal.SIGKILL)


def test_killed_workers_change_nothing(spark, tmp_path, monkeypatch):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", ROWS)
    try:
        whole = SONRegressor().fit(made(spark, 3))
        marker = tmp_path / "killed"
        monkeypatch.setattr(training, "Work", partial(Mortal, marker=marker))
        hurt = SONRegressor().fit(made(spark, 3))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert int(marker.read_text()) == ROWS
    assert same_bits(whole, hurt)
    assert [entry.rows for entry in hurt.rounds_[0].figures] == [BATCHES * ROWS] * 3


def test_checkpoints_are_taken_up_again(spark, tmp_path):
    folder = tmp_path / "checkpoints"
    settings = {"checkpointDir": str(folder), "rounds": 2}
    whole = SONRegressor(rounds=2).fit(made(spark, 3))
    first = SONRegressor(**settings).fit(made(spark, 3))
    assert same_bits(whole, first)
    # As if the driver had died in the second round, and a disk had damaged a file of the first.
    for path in folder.glob("round-2/partition-00001*"):
        path.unlink()
    for path in folder.glob("round-1/partition-00000*.sonline"):
        path.write_bytes(path.read_bytes()[:-7])
    again = SONRegressor(**settings, resume=True).fit(made(spark, 3))
    assert same_bits(whole, again)
    resumed = [[entry.resumed for entry in each.figures] for each in again.rounds_]
    assert resumed == [[False, True, True], [True, False, True]]
    assert again.numFeatures == WIDTH
    assert [each.loss for each in again.rounds_] == [each.loss for each in whole.rounds_]
    # Other rows are other partitions, and other parameters another run.
    shifted = made(spark, 4).where("label > 0")
    other = SONRegressor(**settings, resume=True).fit(shifted)
    assert same_bits(other, SONRegressor(rounds=2).fit(shifted))
    with pytest.raises(ParameterError, match="was left by a run with parameters"):
        SONRegressor(**settings, resume=True, sketchSize=3).fit(made(spark, 3))


BEGINNING = """
import sys
sys.path.insert(0, sys.argv[1])
from conftest import SETTINGS
from pyspark.sql import SparkSession
from sonline.distributed.spark import SONRegressor
from test_faults import made, rows_but_the_last

builder = SparkSession.builder.master(sys.argv[2])
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
builder = builder.config("spark.executor.memory", "512m")
builder = builder.config("spark.executorEnv.PYTHONPATH", sys.argv[1])
spark = builder.getOrCreate()
"""
WHOLE = """
model = SONRegressor().fit(made(spark, 3))
open(sys.argv[3], "wb").write(model.model.to_bytes())
spark.stop()
"""
UNFINISHED = """
SONRegressor(checkpointDir=sys.argv[3]).fit(made(spark, 3, rows_but_the_last))
"""


def driver(script, master, result):
    """Start another process with its own session."""
    folder = str(Path(__file__).parent)
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", BEGINNING + script, folder, master, str(result)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=result.parent,
        env=os.environ
        | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(result.parent / "work"),
        },
        start_new_session=True,
    )


def test_a_driver_that_dies_leaves_checkpoints(spark, tmp_path):
    folder = tmp_path / "checkpoints"
    running = driver(UNFINISHED, "local[2]", folder)
    deadline = time.monotonic() + 300
    while len(list(folder.glob("round-1/*.json"))) < 2:
        assert running.poll() is None, running.stderr.read()[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)  # Java, too
    running.communicate()
    again = SONRegressor(checkpointDir=str(folder), resume=True).fit(made(spark, 3))
    assert [entry.resumed for entry in again.rounds_[0].figures] == [True, True, False]
    assert same_bits(again, SONRegressor().fit(made(spark, 3)))


def test_executors_of_their_own_give_the_same_bits(spark, tmp_path):
    running = driver(WHOLE, "local-cluster[2, 1, 512]", tmp_path / "model")
    _, output = running.communicate()
    assert running.returncode == 0, output[-3000:]
    here = SONRegressor().fit(made(spark, 3))
    there = Model.from_bytes((tmp_path / "model").read_bytes())
    assert same_state(here.model, there)
