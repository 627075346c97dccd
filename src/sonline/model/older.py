"""Files of fd and rfd in their first layout, in which rows of an epoch were columns of the blocks.

A feature had w̄ and N columns z. Events, `fold` and `generation`, that it had not caught up with
were applied when it was read next (cpp/sonline/sketch/lazy.hpp). Here they are applied at once, and
the learner continues from what it knew.
"""

from __future__ import annotations

import numpy as np

from sonline.merging.state import FIRST_SQUARE
from sonline.parameters import Parameters
from sonline.persistence import Tensors
from sonline.rows import Floats

SPECIAL = ("sketch.", "blocks")


def knowledge_of(parameters: Parameters, state: Tensors) -> Tensors:
    """Return the knowledge of a learner, as `_core.Model.set_knowledge` takes it."""
    rank, columns = int(state["sketch.rank"]), int(state["sketch.columns"])
    most = state["sketch.intercept"].size - 1  # N
    blocks = state["blocks"].astype(np.float64)
    w, Z = blocks[:, 0].copy(), blocks[:, 1 : 1 + most].copy()
    if most > 0:
        _catch_up(state, w, Z)
    w[0] += state["sketch.intercept"][0]
    Z[0] += state["sketch.intercept"][1:]
    used = Z[:, :columns]
    scales = blocks[:, 1 + most :]
    squares, counts = np.ones(w.size), np.zeros(w.size)
    if parameters.counts_rows:
        squares, counts = scales[:, 0].copy(), scales[:, 1].copy()
    elif parameters.scaling == "gradient":
        squares = FIRST_SQUARE + scales[:, 0]
    kept = {name: array for name, array in state.items() if not name.startswith(SPECIAL)}
    return kept | {
        "weights": (w + used @ state["sketch.b"][:columns])[np.newaxis],
        "directions": np.ascontiguousarray(state["sketch.F"][:rank, :columns] @ used.T),
        "ev": state["sketch.ev"][:rank],
        "tail": state["sketch.tail"],
        "capacity": np.array(len(state["sketch.F"]), dtype=np.int64),
        "squares": squares,
        "counts": counts,
    }


def _catch_up(state: Tensors, w: Floats, Z: Floats) -> None:
    """Apply the events that features have missed."""
    events, folds_of = state["sketch.events"], state["sketch.events_fold"]
    most, size = Z.shape[1], len(state["sketch.F"])  # columns, and those that a map fills
    width = -(-(1 + size) // 4) * 4
    folds = state["sketch.folds"].reshape(-1, -(-most // 4) * 4)[:, :most]
    maps = state["sketch.maps"].reshape(-1, most, width)
    now, last = folds[folds_of[-1]], int(events[-1])
    for event in np.unique(state["sketch.tags"]):
        slots = np.flatnonzero(state["sketch.tags"] == event)
        then, first = folds[folds_of[event]], int(events[event])
        if first == last:
            w[slots] += Z[slots] @ (now - then)
            continue
        w[slots] -= Z[slots] @ then
        for number in range(first, last):
            moved = Z[slots] @ maps[number]
            w[slots] += moved[:, 0]
            Z[slots] = np.pad(moved[:, 1 : 1 + size], ((0, 0), (0, most - size)))
        w[slots] += Z[slots] @ now
