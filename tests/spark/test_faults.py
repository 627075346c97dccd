"""What goes wrong on a cluster changes nothing: killed workers, dead drivers, old checkpoints."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext

from sonline.distributed.spark import SONRegressor, training
from sonline.distributed.spark.learning import Work, unpacked
from sonline.errors import ParameterError

BATCHES, ROWS, WIDTH = 6, 200, 5
SCHEMA = "features array<double>, label double"


def same_bits(first, second):
    return same_state(first._learner, second._learner)


def same_state(first, second):
    one, two = (learner.__getstate__()[1] for learner in (first, second))
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


def rows_of(batches):
    """Make the rows of a partition; what it is given says only that it is to be there."""
    for _ in batches:
        pass
    for batch in range(BATCHES):
        rng = np.random.default_rng([TaskContext.get().partitionId(), batch])
        X = rng.normal(size=(ROWS, WIDTH))
        y = X @ np.arange(WIDTH) + 0.1 * rng.normal(size=ROWS)
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(X)), pa.array(y)], names=["features", "label"]
        )


def made(spark, partitions):
    return spark.range(partitions, numPartitions=partitions).mapInArrow(rows_of, SCHEMA)


@dataclass(frozen=True)
class Mortal(Work):
    """What executors do; the process of a partition is killed in the middle of it, once."""

    marker: Path

    def learn(self, record_batches):
        return super().learn(self._until_killed(record_batches))

    def _until_killed(self, record_batches):
        for number, batch in enumerate(record_batches):
            yield batch  # and it is learnt before the next one is asked for
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
    assert [one.rows for one in hurt.rounds_[0].figures] == [BATCHES * ROWS] * 3


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
    resumed = [[one.resumed for one in each.figures] for each in again.rounds_]
    assert resumed == [[False, True, True], [True, False, True]]
    assert again.numFeatures == WIDTH
    assert [each.loss for each in again.rounds_] == [each.loss for each in whole.rounds_]
    # Other rows are other partitions, and other parameters another run.
    shifted = made(spark, 4).where("label > 0")
    other = SONRegressor(**settings, resume=True).fit(shifted)
    assert same_bits(other, SONRegressor(rounds=2).fit(shifted))
    with pytest.raises(ParameterError, match="was left by a run with parameters"):
        SONRegressor(**settings, resume=True, sketchSize=3).fit(made(spark, 3))


CLUSTER = """
import sys
sys.path.insert(0, sys.argv[1])
from conftest import SETTINGS
from pyspark.sql import SparkSession
from sonline.distributed.spark import SONRegressor
from sonline.distributed.spark.learning import packed
from test_faults import made

builder = SparkSession.builder.master("local-cluster[2, 1, 512]")
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
builder = builder.config("spark.executor.memory", "512m")
builder = builder.config("spark.executorEnv.PYTHONPATH", sys.argv[1])
spark = builder.getOrCreate()
model = SONRegressor().fit(made(spark, 3))
open(sys.argv[2], "wb").write(packed(model._learner))
spark.stop()
"""


@pytest.mark.slow
def test_executors_of_their_own_give_the_same_bits(spark, tmp_path):
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }
    command = [sys.executable, "-W", "ignore", "-c", CLUSTER, str(Path(__file__).parent)]
    ran = subprocess.run(
        [*command, str(tmp_path / "model")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    here = SONRegressor().fit(made(spark, 3))
    there, _ = unpacked((tmp_path / "model").read_bytes())
    assert same_state(here._learner, there)
