"""Learning from a query of Structured Streaming, each batch exactly once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from sonline import persistence
from sonline.distributed.rounds import NoRowsError
from sonline.distributed.spark.estimators import SONClassifier, SONRegressor
from sonline.distributed.spark.models import SONClassificationModel, SONRegressionModel
from sonline.errors import ModelFileError, ParameterError
from sonline.model import Model

# Spark sets it for the jobs of a query; a query that restarts from its checkpoint keeps it.
QUERY = "sql.streaming.queryId"
BATCH = {"query": str, "number": persistence.COUNT}


class BatchLearner:
    """Trains a model on the batches of a streaming query, and saves it after each.

    After the driver has died, Spark may deliver a batch again. The model file holds the number of
    its last batch and is replaced atomically, so every batch is learned exactly once.

    Parameters
    ----------
    estimator : SONClassifier or SONRegressor
        How to learn. A classifier needs ``classes``: the first batch may not have them all.
    path : path-like
        The model file, on the driver's disk. If it exists, training continues from it.
    start : SONClassificationModel or SONRegressionModel, optional
        The model to continue from if there is no file yet.

    Attributes
    ----------
    model : SONClassificationModel or SONRegressionModel
        The model so far; None before the first row.

    Examples
    --------
    >>> from sonline.distributed.spark import BatchLearner, SONClassifier
    >>> learner = BatchLearner(SONClassifier(classes=[0, 1]), "clicks.son")
    >>> query = stream.writeStream.foreachBatch(learner).start()  # doctest: +SKIP
    """

    def __init__(
        self,
        estimator: SONClassifier | SONRegressor,
        path: str | os.PathLike[str],
        start: SONClassificationModel | SONRegressionModel | None = None,
    ) -> None:
        self._estimator: Any = estimator
        self._path = Path(path)
        classifies = isinstance(estimator, SONClassifier)
        self._kind: Any = SONClassificationModel if classifies else SONRegressionModel
        self.model: Any = start
        self._last: dict[str, Any] = {}
        if self._path.exists():
            self._load()
        elif start is None and classifies and not estimator.chosen("classes"):
            raise ParameterError(
                "name all classes, classes=[...]: the first batch of a stream may not have them all"
            )

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Learn a batch, unless it has been learned already."""
        query = frame.sparkSession.sparkContext.getLocalProperty(QUERY) or ""
        if self._last.get("query") == query and number <= self._last["number"]:
            return
        try:
            if self.model is None:
                model = self._estimator.fit(frame)
            else:
                model = self._estimator.fitFrom(frame, self.model)
        except NoRowsError:  # an empty batch, or bad rows that are skipped
            return
        last = {"query": query, "number": number}
        model.model.save(self._path, {**model.model.face, "batch": last})
        self.model, self._last = model, last

    def _load(self) -> None:
        model = Model.load(self._path)
        with persistence.reading(self._path):
            batch = model.face.pop("batch", None)
            if batch is None:
                raise ModelFileError(
                    "was not written by a streaming query; pass it as start, and another path"
                )
            persistence.check("face.batch", batch, BATCH)
            self._last = batch
            self.model = self._estimator._copyValues(self._kind.fromModel(model))  # noqa: SLF001
