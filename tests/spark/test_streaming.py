"""Training continues from a fitted model, and from batch to batch of a stream."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from sonline import OnlineLearner
from sonline.distributed.spark import BatchLearner, SONClassifier, SONRegressor
from sonline.errors import InvalidInputError, ModelFileError, ParameterError

PARTS = 2


def rows(seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).normal(size=(count, 3))
    return X, X @ [1.0, -2.0, 0.5]


def frame_of(spark: SparkSession, seed: int) -> DataFrame:
    X, y = rows(seed)
    table = [(x.tolist(), float(label)) for x, label in zip(X, y, strict=True)]
    made = spark.sparkContext.parallelize(table, PARTS)
    return spark.createDataFrame(made, "features array<double>, label double")


def continued(start: OnlineLearner | None, seed: int) -> OnlineLearner:
    """Return the merge of learners that went on from the same start, a partition each."""
    X, y = rows(seed)
    shards = []
    for part in np.array_split(np.arange(len(y)), PARTS):
        learner = OnlineLearner(loss="squared") if start is None else start.merge([])
        learner.learn(X[part], y[part])
        shards.append(learner)
    return shards[0].merge(shards[1:], start)


def test_fit_continues_from_a_model(spark: SparkSession) -> None:
    estimator = SONRegressor()
    first = estimator.fit(frame_of(spark, 0))
    before = first.model.to_bytes()
    second = estimator.fitFrom(frame_of(spark, 1), first)
    expected = continued(continued(None, 0), 1)
    X, _ = rows(2)
    assert np.array_equal(second.model.predict(X)[0], expected.predict(X))
    assert second.model.stats()["rounds"] == 120
    assert first.model.to_bytes() == before
    with pytest.raises(ParameterError, match="alpha"):
        SONRegressor(alpha=1.0).fitFrom(frame_of(spark, 1), first)
    with pytest.raises(InvalidInputError, match="start must be a SONClassificationModel"):
        SONClassifier().fitFrom(frame_of(spark, 1), first)  # type: ignore[arg-type]
    wider = spark.createDataFrame([([1.0] * 4, 1.0)], "features array<double>, label double")
    with pytest.raises(InvalidInputError, match="differ in the size of their vectors: 3 and 4"):
        estimator.fitFrom(wider, first)


class Query:
    """A stream of files in which each file is a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.calls: list[int] = []
        (folder / "in").mkdir()

    def add(self, number: int) -> None:
        path = self.folder / "new"
        X, y = rows(number)
        lines = [
            f"{int(label > 0)} " + " ".join(f"{j}:{float(x[j])!r}" for j in range(3))
            for x, label in zip(X, y, strict=True)
        ]
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        path.rename(self.folder / "in" / f"{number}.svm")

    def run(self, learner: BatchLearner, checkpoint: str = "state") -> None:
        """Learn all available batches, like a driver that has just started."""

        def recorded(frame: DataFrame, number: int) -> None:
            self.calls.append(number)
            learner(frame, number)

        stream = self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.folder / "in"))
        query = (
            stream.writeStream.foreachBatch(recorded)
            .option("checkpointLocation", str(self.folder / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)


def estimator(**more: Any) -> SONClassifier:
    return SONClassifier(featuresCol="value", format="svmlight", **more)


def test_each_batch_of_a_stream_is_learned_once(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "model"
    query = Query(spark, tmp_path)
    query.add(0)
    query.add(1)
    with pytest.raises(ParameterError, match="name all classes"):
        BatchLearner(estimator(), file)
    learner = BatchLearner(estimator(classes=[0, 1]), file)
    query.run(learner)
    assert learner.model.model.stats()["rounds"] == 120
    once = file.read_bytes()
    # The model was saved, and the driver died before Spark noted the end of the batch.
    for left in (tmp_path / "state" / "commits").glob("*1*"):
        left.unlink()
    again = BatchLearner(estimator(), file)
    query.run(again)
    assert query.calls == [0, 1, 1]
    assert file.read_bytes() == once
    query.add(2)
    query.run(again)
    assert again.model.model.stats()["rounds"] == 180
    X, y = rows(3)
    assert np.mean((again.model.model.predict(X)[0] > 0) == (y > 0)) > 0.9
    # Another query counts its batches from 0: they are other ones.
    shutil.rmtree(tmp_path / "in")
    (tmp_path / "in").mkdir()
    query.add(4)
    query.run(again, "other state")
    assert again.model.model.stats()["rounds"] == 240
    again.model.saveModel(str(tmp_path / "plain"))
    with pytest.raises(ModelFileError, match="was not written by a streaming query"):
        BatchLearner(estimator(), tmp_path / "plain")
