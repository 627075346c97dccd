"""Tasks on a Dask cluster, or on whatever scheduler Dask has been told to use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import dask
from dask.delayed import delayed
from distributed import Client, as_completed, get_client, get_worker

from sonline.distributed.rounds import Task
from sonline.distributed.shards import Shard, figures_of, merge_shards
from sonline.merging import merge_tree


def worker_name() -> str:
    """Return who is working here."""
    try:
        return str(get_worker().name)
    except ValueError:  # not on a cluster
        return "local"


def client_in_use(client: Client | None = None) -> Client | None:
    """Return the client that was named, or the one that Dask would use; None without a cluster."""
    if client is not None:
        return client
    try:
        return get_client()
    except ValueError:
        return None


class DaskEngine:
    """Trains and merges with Dask.

    The graph has a fixed shape: the worker that is first, last or dead changes who does what, not
    what is done. What a lost worker had finished is done again by another one.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; by default the one in use, or else Dask's local scheduler.
    """

    def __init__(self, client: Client | None = None) -> None:
        self.client = client_in_use(client)

    def round(  # noqa: PLR0917 - as of Engine
        self,
        tasks: Sequence[Task],
        model: Any,
        start: Any,
        done: Mapping[int, Shard],
        finished: Callable[[Shard, bool], None],
        keep: bool,
    ) -> Shard:
        """Train each task with ``model``, unless it is done, and merge in the fixed tree."""
        sent = _literal(model)
        origin = None if start is None else sent if start is model else _literal(start)
        merge = delayed(merge_shards, pure=False)
        shards = [
            _literal(done[task.number])
            if task.number in done
            # A new name each time: drivers that share a scheduler must not share tasks.
            else delayed(task.train, pure=False)(
                sent, *task.arguments, dask_key_name=f"sonline-train-{task.number}-{uuid4().hex}"
            )
            for task in tasks
        ]
        root = merge_tree(shards, lambda some: merge(list(some), origin))
        fresh = [
            shard for shard, task in zip(shards, tasks, strict=True) if task.number not in done
        ]
        if self.client is None:
            results = dask.compute(root, *fresh) if keep else dask.compute(root)
            whole: Shard = results[0]
            for shard in results[1:] or [Shard(None, [one]) for one in whole.figures]:
                finished(shard, keep)
            return whole
        return self._on_cluster(root, fresh, finished, keep)

    def _on_cluster(
        self,
        root: Any,
        fresh: Sequence[Any],
        finished: Callable[[Shard, bool], None],
        keep: bool,
    ) -> Shard:
        assert self.client is not None  # noqa: S101 - checked by the caller
        wanted = list(fresh) if keep else [delayed(figures_of, pure=False)(one) for one in fresh]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
            merged, *each = self.client.compute([root, *wanted])
        try:
            for future in as_completed(each):
                found = future.result()
                finished(found if keep else Shard(None, found), keep)
                future.release()
            whole: Shard = merged.result()
        except BaseException:
            self.client.cancel([merged, *each])
            raise
        return whole


def _literal(value: Any) -> Any:
    """Return a value as a node of the graph: sent once, and kept by the scheduler.

    Scattered data would be lost with the workers that hold it.
    """
    return delayed(value, pure=False, traverse=False)
