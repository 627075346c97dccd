"""The example for Spark in the gallery runs; the documentation shows it without running it."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_frame.py"


@pytest.mark.long
def test_example_runs(spark: SparkSession) -> None:
    names = runpy.run_path(str(EXAMPLE))
    assert names["spark"] is spark  # the session of these tests
    assert names["accuracy"] > 0.7
