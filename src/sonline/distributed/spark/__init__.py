"""Sketched Online Newton on Apache Spark: estimators for `pyspark.ml`.

Each partition of a data frame trains a model on its executor; then the models are merged.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sonline.errors import require

if TYPE_CHECKING:
    from sonline.distributed.spark.estimators import SONClassifier, SONRegressor
    from sonline.distributed.spark.models import SONClassificationModel, SONRegressionModel
    from sonline.distributed.spark.streaming import BatchLearner

__all__ = [
    "BatchLearner",
    "SONClassificationModel",
    "SONClassifier",
    "SONRegressionModel",
    "SONRegressor",
]

# Imported at first use: executors need none of them.
_LAZY = {
    "BatchLearner": "sonline.distributed.spark.streaming",
    "SONClassifier": "sonline.distributed.spark.estimators",
    "SONRegressor": "sonline.distributed.spark.estimators",
    "SONClassificationModel": "sonline.distributed.spark.models",
    "SONRegressionModel": "sonline.distributed.spark.models",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("pyspark", "spark")
    _refuse_old_spark()
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def _refuse_old_spark() -> None:
    """Raise an error if this version of Spark has no Arrow functions."""
    version: str = import_module("pyspark").__version__
    if tuple(int(number) for number in version.split(".")[:2]) < (4, 1):
        raise ImportError(
            f"sonline.distributed.spark needs Spark 4.1 or newer, pyspark is {version}; elsewhere "
            "train with sonline train or OnlineLearner on each partition, and merge"
        )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
