"""Several rounds: train on every partition, merge, and start again from the merged model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sonline.distributed.checkpoints import MERGED, Checkpoints
from sonline.distributed.shards import Shard
from sonline.errors import InvalidInputError


class NoRowsError(InvalidInputError):
    """No partition has a row that can be learned."""


@dataclass(frozen=True)
class Task:
    """A partition to train on: ``train(model, *arguments)`` returns a `Shard`.

    The runner may evaluate the arguments first, such as a delayed array.
    """

    number: int
    name: str
    train: Callable[..., Shard]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Round:
    """The work of a runner in one round.

    Parameters
    ----------
    tasks : sequence of Task
        The partitions, in their order.
    model : model
        The model that each partition starts from.
    start : model or None
        The same model if it was trained before; merging counts it once.
    done : mapping of int to Shard
        Shards that are finished already, by number of the partition.
    finished : callable
        Called with each shard as it is finished, and whether the shard holds its model.
    keep : bool
        Whether ``finished`` needs the models.
    """

    tasks: Sequence[Task]
    model: Any
    start: Any
    done: Mapping[int, Shard]
    finished: Callable[[Shard, bool], None]
    keep: bool


class Runner(Protocol):
    """Runs tasks."""

    def run(self, current: Round) -> Shard:
        """Train on the partitions that are not done, and merge all shards in the fixed tree."""


def train_rounds(
    runner: Runner,
    tasks: Sequence[Task],
    model: Any,
    *,
    continuing: bool = False,
    rounds: int = 1,
    checkpoints: Checkpoints | None = None,
    watch: Callable[[int, Shard], None] | None = None,
) -> list[Shard]:
    """Train on partitions with a runner; return the merged shard of each round.

    Parameters
    ----------
    runner : Runner
        The runner.
    tasks : sequence of Task
        The partitions, in their order.
    model : model
        The model that each partition starts from in the first round.
    continuing : bool, default=False
        Whether the model was trained before.
    rounds : int, default=1
        Number of passes over all partitions, each from the merged model of the one before.
    checkpoints : Checkpoints, optional
        Where finished partitions are stored.
    watch : callable, optional
        Called with the number of the round and each shard as it is finished.

    Raises
    ------
    NoRowsError
        If there are no rows at all.
    """
    trained: list[Shard] = []
    for number in range(rounds):
        merged = None if checkpoints is None else checkpoints.load(number, MERGED)
        if merged is None:
            merged = _one_round(runner, tasks, model, continuing, number, checkpoints, watch)
            if checkpoints is not None:
                checkpoints.save(number, MERGED, merged)
        elif watch is not None:
            for part in merged.figures:
                watch(number, Shard(None, [part]))
        if merged.model is None:
            skipped = int(merged.total("skipped"))
            raise NoRowsError(f"there are no rows to learn from ({skipped} bad rows skipped)")
        model, continuing = merged.model, True
        trained.append(merged)
    return trained


def _one_round(  # noqa: PLR0917 - the body of the loop above
    runner: Runner,
    tasks: Sequence[Task],
    model: Any,
    continuing: bool,
    number: int,
    checkpoints: Checkpoints | None,
    watch: Callable[[int, Shard], None] | None,
) -> Shard:
    done: dict[int, Shard] = {}
    for task in tasks:
        shard = None if checkpoints is None else checkpoints.load(number, name_of(task.number))
        if shard is not None:
            done[task.number] = shard
            if watch is not None:
                watch(number, shard)

    def finished(shard: Shard, whole: bool) -> None:
        if checkpoints is not None and whole:
            checkpoints.save(number, name_of(shard.figures[0].partition), shard)
        if watch is not None:
            watch(number, shard)

    start = model if continuing else None
    return runner.run(Round(tasks, model, start, done, finished, keep=checkpoints is not None))


def name_of(number: int) -> str:
    """Return the name of a partition in a folder of checkpoints."""
    return f"partition-{number:05d}"
