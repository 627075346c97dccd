"""`Shard`: a model trained on a partition, with its figures; how shards are merged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sonline.evaluate import Progress


@dataclass
class Figures:
    """Figures of the training on a partition.

    Parameters
    ----------
    partition : int
        Number of the partition.
    name : str
        Name of its file, or "partition 3".
    worker : str
        Name of the worker.
    rows, skipped : int
        Rows learned, and bad rows left out.
    weight, loss, wrong : float
        Sums of the weights of the rows, and of the losses and mistakes of the predictions made
        before each row was learned. ``wrong`` is NaN for regression.
    held_weight, held_loss, held_wrong : float
        The same for rows that were held out.
    seconds : float
        Duration.
    bytes : int
        Size of the model's arrays, which are sent to merge it.
    resumed : bool
        Whether it comes from a checkpoint.
    bad : str
        The text of the bad rows, if it is kept.
    """

    partition: int
    name: str
    worker: str = ""
    rows: int = 0
    skipped: int = 0
    weight: float = 0.0
    loss: float = 0.0
    wrong: float = math.nan
    held_weight: float = 0.0
    held_loss: float = 0.0
    held_wrong: float = math.nan
    seconds: float = 0.0
    bytes: int = 0
    resumed: bool = False
    bad: str = ""

    def take(self, now: Progress, before: Progress, classes: bool) -> None:
        """Set loss and mistakes to the difference between two states of a model's measures."""
        self.weight = now.loss.weight - before.loss.weight
        self.loss = now.loss.total - before.loss.total
        self.wrong = now.error.total - before.error.total if classes else math.nan

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as values that JSON can hold."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Figures:
        """Make figures from the result of `as_dict`."""
        values: dict[str, Any] = {k: math.nan if v is None else v for k, v in plain.items()}
        return cls(**values)


@dataclass
class Shard:
    """A model, and the figures of the partitions that it was trained on.

    ``model`` is anything with ``merge(others, start=...)``; None if there were no rows.
    """

    model: Any
    figures: list[Figures] = field(default_factory=list)

    def total(self, name: str) -> float:
        """Return the sum of a figure over the partitions that had rows."""
        return float(
            sum(getattr(part, name) for part in self.figures if part.rows or name == "skipped")
        )

    @property
    def loss(self) -> float:
        """Mean loss of the predictions made before each row was learned in its partition."""
        return self._mean("loss", "weight")

    @property
    def error(self) -> float:
        """Share of wrong classes among these predictions; NaN for regression."""
        return self._mean("wrong", "weight")

    @property
    def held_loss(self) -> float:
        """Mean loss of the predictions for rows held out; NaN if there were none."""
        return self._mean("held_loss", "held_weight")

    @property
    def held_error(self) -> float:
        """Share of wrong classes among those; NaN for regression."""
        return self._mean("held_wrong", "held_weight")

    def _mean(self, name: str, weight: str) -> float:
        total = self.total(weight)
        return self.total(name) / total if total else math.nan


def merge_shards(shards: Sequence[Shard], start: Any = None) -> Shard:
    """Merge several shards into one: a node of the tree.

    Parameters
    ----------
    shards : sequence of Shard
        In the order of their partitions.
    start : model, optional
        The model that all of them started from, if it was trained before.
    """
    figures = [part for shard in shards for part in shard.figures]
    models = [shard.model for shard in shards if shard.model is not None]
    if not models:
        return Shard(None, figures)
    first, *others = models
    return Shard(first.merge(others, start=start) if others else first, figures)


def moved_bytes(model: Any) -> int:
    """Return the size of a model's arrays, which are sent to merge it."""
    return int(sum(tensor.nbytes for tensor in model.tensors().values()))
