"""Tasks on a Dask cluster, or on the local scheduler of Dask."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from uuid import uuid4

import dask
from dask.delayed import delayed
from distributed import Client, as_completed, get_client, get_worker

from sonline.distributed.rounds import Round
from sonline.distributed.shards import Shard, merge_shards
from sonline.merging import merge_tree


def worker_name() -> str:
    """Return the name of this worker."""
    try:
        return str(get_worker().name)
    except ValueError:  # not on a cluster
        return "local"


def client_in_use(client: Client | None = None) -> Client | None:
    """Return this client, or the current one of Dask; None without a cluster."""
    if client is not None:
        return client
    try:
        return get_client()
    except ValueError:
        return None


class DaskRunner:
    """Trains and merges with Dask.

    The graph has a fixed shape: which worker is first, last or dead does not change the result.
    If a worker dies, others repeat its tasks.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; by default the one in use, or else Dask's local scheduler.
    """

    def __init__(self, client: Client | None = None) -> None:
        self.client = client_in_use(client)

    def run(self, current: Round) -> Shard:
        """Train the partitions that are not done, and merge all in the fixed tree."""
        sent = _literal(current.model)
        origin = None if current.start is None else sent
        merge = delayed(merge_shards, pure=False)
        shards = [
            _literal(current.done[task.number])
            if task.number in current.done
            # A new name each time: drivers that share a scheduler must not share tasks.
            else delayed(task.train, pure=False)(
                sent, *task.arguments, dask_key_name=f"sonline-train-{task.number}-{uuid4().hex}"
            )
            for task in current.tasks
        ]
        root = merge_tree(shards, lambda some: merge(list(some), origin))
        new = [task.number not in current.done for task in current.tasks]
        new_shards = list(itertools.compress(shards, new))
        if self.client is not None:
            return self._on_cluster(self.client, root, new_shards, current)
        result: Shard
        result, *models = dask.compute(root, *(new_shards if current.keep else []))
        fresh = [part for part in result.figures if part.partition not in current.done]
        for shard in models if current.keep else [Shard(None, [part]) for part in fresh]:
            current.finished(shard, current.keep)
        return result

    @staticmethod
    def _on_cluster(client: Client, root: Any, new_shards: Sequence[Any], current: Round) -> Shard:
        figures = delayed(attrgetter("figures"), pure=False)  # small, unlike models
        wanted = new_shards if current.keep else [figures(shard) for shard in new_shards]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
            merged, *futures = client.compute([root, *wanted])
        try:
            for future in as_completed(futures, loop=client.loop):
                result = future.result()
                current.finished(result if current.keep else Shard(None, result), current.keep)
                future.release()  # it may be large
            whole: Shard = merged.result()
        finally:
            # Not client.cancel: it also cancels dependent tasks, and the scheduler drops a client
            # that cancels tasks that it did not submit, such as the merges in between.
            for future in [merged, *futures]:
                future.release()
        return whole


def _literal(value: Any) -> Any:
    """Return a value as a node of the graph: sent once, and kept by the scheduler.

    Scattered data would be lost with the workers that hold it.
    """
    return delayed(value, pure=False, traverse=False)
