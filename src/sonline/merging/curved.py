"""The members over curved rows of several learners, merged.

The curve of a column becomes the mean of the learners' curves, by the rows that each has learned:
with the same rows each, the merged prediction is the mean of their predictions, and its loss, being
convex, at most the mean of their losses. A⁻¹ does not decide here, as it does for the other members
(`precision`): a learner whose knots lie elsewhere knows nothing of the hats between them. Sketches
are added up as they are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sonline.merging.curves import HEIGHT, Union, read_curves
from sonline.merging.features import Positions, State
from sonline.merging.stack import Stack, cut
from sonline.merging.state import Knowledge
from sonline.parameters import CURVED, Parameters
from sonline.rows import Floats


class CurvedLearners:
    """Learners of which some have curves.

    Their states, and what `read` made of them, come with the positions of their features. If
    ``started``, the last one is what the others continued from. Knowledge is copied: merging the
    other members changes it.
    """

    def __init__(
        self,
        states: Sequence[State],
        knowledge: Sequence[Knowledge],
        positions: Sequence[Positions],
        started: bool,
    ) -> None:
        self._started = started
        self._states, self._positions = states, positions
        self._curves = [read_curves(state) for state in states]
        self._scales = [np.sqrt(learner.effective) for learner in knowledge]
        self._centres = [learner.centres.copy() for learner in knowledge]
        for state, learner in zip(states, knowledge, strict=True):
            if not state["curves"]:
                _add_share(learner)  # as much as it had if it began now

    def merged(self, parameters: Parameters, total: Knowledge) -> State:
        """Return the fields of the merged learner; ``total`` is all else that it knows."""
        having = [number for number, state in enumerate(self._states) if state["curves"]]
        union = Union(
            [(self._curves[i], self._positions[i], self._centres[i]) for i in having],
            total.keys.size,
            total.centres,
        )
        root = np.sqrt(total.effective)
        weights = {i: self._weights(i, union, total, root) for i in having}
        last = len(self._states) - 1
        start = last if self._started and last in having else None
        first = np.zeros((len(CURVED), union.slots)) if start is None else weights[start]
        before = 0.0 if start is None else float(self._states[start]["rounds"])
        mean, rows, energy = np.zeros_like(first), 0.0, 0.0
        for i in having:
            if i != start:
                new = max(float(self._states[i]["rounds"]) - before, 1e-9)
                mean += new * (weights[i] - first)
                energy += new * float(self._states[i]["curves.mean_energy"])
                rows += new
        sketch = self._sketch(parameters, union, total, root, start)
        waiting: dict[int, Floats] = {}
        for curves, positions in zip(self._curves, self._positions, strict=True):
            for number, values in curves.waiting.items():
                waiting.setdefault(int(positions[number]), values)
        return (
            union.state(energy / rows, waiting) | sketch | {"curved.weights": first + mean / rows}
        )

    def _weights(self, i: int, union: Union, total: Knowledge, root: Floats) -> Floats:
        """Return the weights of a learner by the features of the union, in the merged scales."""
        state, positions, size = self._states[i], self._positions[i], total.keys.size
        shifts = self._centres[i] - total.centres
        own = state["curved.weights"].astype(np.float64)
        weights, constants = union.weights(self._curves[i], positions, shifts, own)
        raw = np.divide(
            weights[:, :size],
            self._scales[i],
            out=np.zeros((len(weights), size)),
            where=self._scales[i] > 0,
        )
        raw[:, 0] -= raw @ shifts
        raw[:, 0] += float(state["label.offset"]) - total.numbers["label.offset"]
        raw[:, 0] += HEIGHT * constants
        weights[:, :size] = raw * root
        return weights

    def _sketch(
        self,
        parameters: Parameters,
        union: Union,
        total: Knowledge,
        root: Floats,
        start: int | None,
    ) -> State:
        """Return the sketch of the sum; each learner has counted the common start."""
        having = [i for i, state in enumerate(self._states) if state["curves"] and i != start]
        stacked, values = [], []
        order = [*having, *([] if start is None else [start])]
        for i in order:
            shifts = self._centres[i] - total.centres
            V = union.directions(
                self._curves[i],
                self._positions[i],
                shifts,
                self._states[i]["curved.directions"].astype(np.float64),
            )
            size = total.keys.size
            per_root = np.divide(1.0, root, out=np.zeros(size), where=root > 0)
            constant = V[:, :1] * self._scales[i][0]
            V[:, :size] *= self._scales[i] * per_root
            V[:, :size] += constant * shifts * per_root
            stacked.append(V)
            values.append(self._states[i]["curved.ev"].astype(np.float64))
        tails = [float(self._states[i]["curved.tail"]) for i in order]
        first = 0.0 if start is None else tails[-1]
        tail = first + sum(tails[number] - first for number in range(len(having)))
        capacity = int(self._states[having[0]]["curved.capacity"])
        models = [replace(total, ev=ev) for ev in values]
        merged = replace(
            total,
            keys=np.zeros(union.slots, total.keys.dtype),
            numbers=total.numbers | {"tail": max(tail, first), "capacity": float(capacity)},
        )
        factors = np.ones(len(order))
        if start is not None:
            factors[-1] = 1.0 - len(having)
        merged = cut(parameters, merged, Stack(np.concatenate(stacked), models), factors)
        return {
            "curved.directions": np.ascontiguousarray(merged.V),
            "curved.ev": merged.ev,
            "curved.tail": np.array(merged.tail),
            "curved.capacity": np.array(capacity, dtype=np.int64),
        }


def _add_share(learner: Knowledge) -> None:
    """Give the members over curved rows an equal share."""
    for name in ("next.members", "later.members"):
        shares, more = learner.shares[name], len(CURVED)
        part = more / (shares.size + more)
        learner.shares[name] = np.concatenate([shares * (1 - part), np.full(more, part / more)])
    for name in ("next.factors", "later.factors"):
        learner.shares[name] = np.append(learner.shares[name], np.ones(len(CURVED)))
