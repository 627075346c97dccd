"""Spark jobs, and a clear error if an executor lacks a package."""

from __future__ import annotations

import re

from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row

from sonline.errors import InvalidInputError


def collected(frame: DataFrame) -> list[Row]:
    """Return the rows of a frame."""
    try:
        return frame.collect()
    except PythonException as error:
        missing = re.search(r"No module named '(\w+)", str(error))
        if missing and missing[1] in ("sonline", "pyarrow", "numpy", "scipy", "safetensors"):
            raise InvalidInputError(
                f"the executors' Python has no {missing[1]}: install sonline[spark] there, or name "
                "the Python that has it in PYSPARK_PYTHON (before the session starts) or in "
                "spark.pyspark.python"
            ) from error
        raise
