"""The example for Spark in the gallery runs; the documentation shows it without running it."""

import runpy
from pathlib import Path

from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_frame.py"


def test_example_runs(spark: SparkSession) -> None:
    names = runpy.run_path(str(EXAMPLE))
    assert names["spark"] is spark  # the session of these tests
    assert names["accuracy"] > 0.7
