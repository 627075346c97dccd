"""Training over the partitions of a data frame, and merging their models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.storagelevel import StorageLevel

from sonline.distributed.checkpoints import Checkpoints
from sonline.distributed.rounds import Round, train_rounds
from sonline.distributed.shards import Figures, Shard
from sonline.distributed.spark.jobs import collected
from sonline.distributed.spark.learning import Work, raise_again
from sonline.distributed.spark.params import SONParams
from sonline.distributed.spark.rows import Layout, check_features, check_width
from sonline.distributed.watching import watching
from sonline.errors import InvalidInputError
from sonline.merging import FAN_IN, check_same_parameters, groups
from sonline.model import Model
from sonline.parameters import Parameters

RESULT = "partition int, figures string, width int, error string, model binary"
NODE = "position int, model binary"
ON_DRIVER = 1 << 26  # models up to this many bytes are merged on the driver


def train(
    params: SONParams,
    parameters: Parameters,
    frame: DataFrame,
    layout: Layout,
    start: Any = None,
) -> tuple[Model, list[Shard], int]:
    """Train on the partitions of a prepared frame and merge, for each round.

    Partitions continue from the fitted model ``start``, if there is one. Returns the model, the
    figures of each round, and the size of the vectors (-1 without).
    """
    if start is None:
        model = Model(parameters, layout.table)
        model.reading = replace(model.reading, columns=dict(layout.options.columns))
    else:
        model = start.copyOfModel()
    check_same_parameters(parameters, [model.parameters])
    check_features(model, layout.options.features == "name")
    checkpoints = None
    folder = params.chosen("checkpointDir")
    if folder is not None:
        usual = replace(layout, options=replace(layout.options, on_error=""))
        description: dict[str, Any] = {
            "parameters": parameters.as_dict(),
            "columns": asdict(usual),
        }
        if start is not None:
            description["start"] = hashlib.blake2b(model.to_bytes(), digest_size=16).hexdigest()
        resume = params.getOrDefault("resume")
        checkpoints = Checkpoints(folder, type(model), description, resume)
    rounds = params.getOrDefault("rounds")
    # A job returns all results at its end; meanwhile Spark shows its own progress bar.
    with _persisted(frame, rounds) as data, watching(params.getOrDefault("verbose"), 0) as watch:
        runner = SparkRunner(data, layout, checkpoints)
        # The executors handle partitions and their checkpoints.
        trained = train_rounds(
            runner, [], model, continuing=start is not None, rounds=rounds, watch=watch
        )
    if start is not None:
        check_width(start.width, runner.width, "the model to continue and the rows differ")
    return trained[-1].model, trained, runner.width


@contextmanager
def _persisted(frame: DataFrame, rounds: int) -> Iterator[DataFrame]:
    """Persist a frame that is read several times."""
    if rounds == 1 or frame.storageLevel != StorageLevel.NONE:
        yield frame
        return
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()


class SparkRunner:
    """Trains on the partitions of a data frame with the columns of a layout, and merges."""

    def __init__(
        self,
        data: DataFrame,
        layout: Layout,
        checkpoints: Checkpoints | None,
    ) -> None:
        self._data = data
        self._layout = layout
        self._checkpoints = checkpoints
        self._round = 0
        self.width = -1  # of the vectors; -1 where there are none

    def run(self, current: Round) -> Shard:
        """Train each partition and merge in the fixed tree."""
        work = Work(self._layout, current.model, self._checkpoints, self._round)
        self._round += 1
        shards = self._data.mapInArrow(work.learn, RESULT).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            rows = sorted(collected(shards.drop("model")), key=lambda row: row["partition"])
            for row in rows:
                if row["error"]:
                    raise_again(row["error"])
            self.width = _one_width(rows)
            figures = [Figures.from_dict(json.loads(row["figures"])) for row in rows]
            for part in figures:
                current.finished(Shard(None, [part]), False)
            filled = [part for part in figures if part.rows]
            return Shard(_merged(shards, filled, current.start), figures)
        finally:
            shards.unpersist()


def _one_width(rows: Sequence[Row]) -> int:
    with_width = [row for row in rows if row["width"] >= 0]
    if not with_width:
        return -1
    first = with_width[0]
    for row in with_width:
        if row["width"] != first["width"]:
            raise InvalidInputError(
                f"the vectors of partition {row['partition']} have the size {row['width']}, those "
                f"of partition {first['partition']} {first['width']}; all must have one size"
            )
    return int(first["width"])


def _merged(shards: DataFrame, filled: Sequence[Figures], start: Any) -> Model | None:
    """Merge the models of the partitions, in the tree that `OnlineLearner.merge` has.

    Small ones on the driver; large ones level by level on the executors, until few are left. The
    shape depends on the numbers of the partitions only.
    """
    if not filled:
        return None
    positions = {part.partition: position for position, part in enumerate(filled)}
    models = shards.where(F.col("model").isNotNull())
    number = F.col("partition")
    if any(partition != position for partition, position in positions.items()):
        pairs = [F.lit(end) for pair in positions.items() for end in pair]
        number = F.element_at(F.create_map(*pairs), number)
    level = models.select(number.alias("position"), "model")
    count, size = len(filled), sum(part.bytes for part in filled)
    while size > ON_DRIVER and count > 1:
        node = F.floor(F.col("position") / FAN_IN).cast("int")
        level = level.groupBy(node.alias("node")).applyInArrow(_node(start), NODE)
        nodes = len(groups(range(count)))
        count, size = nodes, size * nodes // count
    rows = sorted(collected(level), key=lambda row: row["position"])
    return merge_packed([bytes(row["model"]) for row in rows], start)


def _node(start: Any) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return a function that merges the models of one node of the tree, on an executor."""

    def merge(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        rows = sorted(zip(*table.select(["position", "model"]).to_pydict().values(), strict=True))
        merged = merge_packed([model for _, model in rows], start).to_bytes()
        columns = [pa.array([key[0].as_py()], "int32"), pa.array([merged], "binary")]
        return pa.Table.from_arrays(columns, ["position", "model"])

    return merge


def merge_packed(models: Sequence[bytes], start: Model | None) -> Model:
    """Return the merged model of several."""
    first, *others = (Model.from_bytes(model) for model in models)
    return first.merge(others, start) if others else first
