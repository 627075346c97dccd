"""Throughput of training on one and two cores of a local Spark: figures of docs/spark.md.

    python -m benchmarks.spark [--rows 400000] [--repeats 5]

Each number of cores has a process and a session of its own, held to so many processors. It is
warm: everything is imported, and the data frame of vectors is in memory. Prints a JSON document
for each case.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.data import Shape, generated, texts

SHAPE = Shape(64, 50_000)
FILES = 8
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
}


def written(folder: Path, rows: int) -> None:
    lines = texts(generated(SHAPE, rows))[0].splitlines(keepends=True)
    for number in range(FILES):
        Path(folder, f"part-{number}.svm").write_bytes(b"".join(lines[number::FILES]))


def processor_seconds() -> float:
    """Return what this process, Java and all workers have used so far, also those that ended."""
    import psutil  # noqa: PLC0415 - comes with Dask

    me = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in [me, *me.children(recursive=True)])


def measured(folder: Path, cores: int, repeats: int) -> Iterator[dict[str, Any]]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import

    from sonline.distributed.spark import SONClassifier  # noqa: PLC0415

    # A task is a thread of Java and a process of Python: one core is one processor for both.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    # One file is one partition, whatever the number of cores.
    for name in ("openCostInBytes", "maxPartitionBytes"):
        spark.conf.set(f"spark.sql.files.{name}", str(1 << 30))
    lines = spark.read.text(str(folder))
    vectors = (
        spark.read.format("libsvm").option("numFeatures", SHAPE.features + 1).load(str(folder))
    )
    vectors = vectors.coalesce(FILES).cache()
    vectors.count()
    classes = [-1, 1]
    cases = {
        "lines": (SONClassifier(featuresCol="value", format="svmlight", classes=classes), lines),
        "vectors": (SONClassifier(classes=classes), vectors),
    }
    for case, (estimator, frame) in cases.items():
        each, used = [], []
        for _ in range(repeats + 1):
            before, start = processor_seconds(), time.perf_counter()
            model = estimator.fit(frame)
            each.append(time.perf_counter() - start)
            used.append(processor_seconds() - before)
        shard = model.rounds_[0]
        yield {
            "case": case,
            "cores": cores,
            "partitions": len(shard.figures),
            "rows": shard.total("rows"),
            "seconds": [round(one, 3) for one in each[1:]],  # the first one warms up
            "rows_per_second": round(shard.total("rows") / min(each[1:])),
            "processor_seconds": [round(one, 3) for one in used[1:]],
            "seconds_in_tasks": round(shard.total("seconds"), 3),
            "bytes_per_partition": shard.total("bytes") / len(shard.figures),
            "load": [round(one, 1) for one in os.getloadavg()],
        }
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cores:
        for result in measured(options.folder, options.cores, options.repeats):
            print(json.dumps(result), flush=True)
        return
    with TemporaryDirectory() as folder:
        written(Path(folder), options.rows)
        for cores in (1, 2):
            command = [sys.executable, "-m", "benchmarks.spark", "--cores", str(cores)]
            command += ["--repeats", str(options.repeats), "--folder", folder]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
