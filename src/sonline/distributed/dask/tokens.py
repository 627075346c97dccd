"""A name for the data of a run that is the same in another process."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from dask._task_spec import Alias, GraphNode, Task, convert_legacy_graph
from dask.base import tokenize

Tokens = dict[Hashable, str]


def token_of(values: Iterable[Any]) -> str:
    """Return a token of delayed values, from their functions, arguments and data.

    Dask's own tokens of delayed values are random, so a restarted driver would not recognise its
    data. Here a task is named by its function and its inputs, not by its key.
    """
    delayed = list(values)
    graph: dict[Hashable, Any] = {}
    for value in delayed:
        graph.update(value.__dask_graph__())
    keys = [key for value in delayed for key in value.__dask_keys__()]
    named = _named(convert_legacy_graph(graph), keys, {})
    return str(tokenize([named[key] for key in keys]))


def _named(graph: Mapping[Hashable, GraphNode], keys: list[Hashable], tokens: Tokens) -> Tokens:
    """Return the tokens of tasks, and of all that they need."""
    names = dict(tokens)
    waiting = list(keys)
    while waiting:
        key = waiting[-1]
        node = graph.get(key)
        missing = [] if node is None or key in names else [*(node.dependencies - names.keys())]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if key not in names:
            names[key] = str(tokenize(key)) if node is None else _name(node, names)
    return names


def _name(node: GraphNode, names: Tokens) -> str:
    if isinstance(node, Alias):
        return names[node.target]
    if isinstance(node, Task) and node.has_subgraph():
        inner, last, arguments = node.args[:3]
        return _named(inner, [last], {key: names[key] for key in arguments})[last]
    return str(tokenize(node.substitute({key: names[key] for key in node.dependencies})))
