"""Pairs of several learners (cpp/sonline/pairs.hpp) on common sides.

With the same sides, as in models with a common start, that is exact. Else the sides of numbers are
their means, a map becomes the nearest one (least squares at some values of each side) and, as
medians differ, a part of the curves. The merged model has the pairs of all learners, those that
most of them have first; where a learner has none, its map is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from sonline.merging.features import Positions, State
from sonline.rows import Floats
from sonline.rows.sides import Sides

MERGED = 128  # pairs, and the last column that may be in one, as in pairs.hpp
COLUMNS = 64
STEPS = 8  # from the median to an end
PREFIX = "curves.pairs."
COUNTS = ("columns", "few", "counts", "of", "first", "candidates", "codes")
NUMBERS = ("points", "rows", "sums")

Cells: TypeAlias = dict[tuple[int, int], slice]  # the features of each pair


@dataclass
class Pairs:
    """The pairs of one learner; columns are known by their positions among its features."""

    sides: dict[int, Sides] = field(default_factory=dict)
    cells: Cells = field(default_factory=dict)
    rows: dict[tuple[int, int], Floats] = field(default_factory=dict)
    slots: int = 0  # behind the last of the features
    stage: int = -1  # there are none

    @property
    def counts(self) -> Floats:
        """The rows of all pairs, by feature."""
        counts = np.zeros((1, self.slots))
        for pair, cells in self.cells.items():
            counts[:, cells] = self.rows[pair].reshape(1, -1)
        return counts

    def shape(self, a: int, b: int) -> tuple[int, int]:
        """Return how many sides both columns have."""
        return self.sides[a].corners.size, self.sides[b].corners.size


def read_pairs(state: State) -> Pairs:
    """Return the pairs of a state; it may have none."""
    pairs = Pairs()
    if f"{PREFIX}stage" not in state:
        return pairs
    counts = {name: state[PREFIX + name].astype(np.intp) for name in COUNTS}
    pairs.stage = int(state[f"{PREFIX}stage"])
    points = np.split(state[f"{PREFIX}points"].astype(np.float64), np.cumsum(counts["counts"]))
    for column, few, own in zip(counts["columns"], counts["few"], points, strict=False):
        pairs.sides[int(column)] = Sides(own, bool(few))
    at = 0
    for (a, b), first in zip(counts["of"].reshape(-1, 2).tolist(), counts["first"], strict=True):
        shape = pairs.shape(a, b)
        size = shape[0] * shape[1]
        pairs.cells[a, b] = slice(int(first), int(first) + size)
        pairs.slots = max(pairs.slots, int(first) + size)
        rows = state[f"{PREFIX}rows"][at : at + size].astype(np.float64)
        pairs.rows[a, b] = rows.reshape(shape)
        at += size
    return pairs


class UnitedPairs:
    """The pairs of several learners, whose features begin at ``slot``."""

    def __init__(
        self, learners: Sequence[tuple[Pairs, Positions, Floats]], centres: Floats, slot: int
    ) -> None:
        """Each learner comes with the positions of its features, and with its centres there."""
        self.merged = Pairs()
        found: Counter[tuple[int, int]] = Counter()
        known: dict[int, list[Sides]] = {}
        for pairs, positions, own_centres in learners:
            self.merged.stage = max(self.merged.stage, pairs.stage)
            for column, own in pairs.sides.items():
                at = int(positions[column])
                shifted = Sides(own.points + own_centres[at] - centres[at], own.few)
                if at <= COLUMNS:
                    known.setdefault(at, []).append(shifted)
            for pair in pairs.cells:
                a, b = sorted(int(positions[column]) for column in pair)
                found[a, b] += b <= COLUMNS
        self.merged.sides = {at: _mean(all_sides) for at, all_sides in known.items()}
        for (a, b), count in found.most_common(MERGED):
            if count:
                shape = self.merged.shape(a, b)
                self.merged.cells[a, b] = slice(slot, slot + shape[0] * shape[1])
                self.merged.rows[a, b] = np.zeros(shape)
                slot += shape[0] * shape[1]
        self.slots = slot
        for pairs, positions, own_centres in learners:
            for pair, maps, sides in self._shared(pairs, positions, own_centres - centres):
                of_a, of_b = (
                    self.merged.sides[at].heights(side.corners) > 0
                    for at, side in zip(pair, sides, strict=True)
                )
                self.merged.rows[pair] += of_a.T @ maps(pairs.counts)[0] @ of_b

    def _shared(
        self, pairs: Pairs, positions: Positions, shifts: Floats
    ) -> Iterator[tuple[tuple[int, int], Callable[[Floats], Floats], list[Sides]]]:
        """Yield each merged pair that a learner has, how to read its maps, and its sides."""
        for own, cells in pairs.cells.items():
            shape = pairs.shape(*own)
            columns = sorted(own, key=lambda column: positions[column])
            a, b = (int(positions[column]) for column in columns)
            if (a, b) not in self.merged.cells:
                continue

            def maps(
                w: Floats,
                cells: slice = cells,
                shape: tuple[int, int] = shape,
                turned: bool = columns[0] != own[0],
            ) -> Floats:
                as_maps = w[:, cells].reshape(len(w), *shape)
                return as_maps.transpose(0, 2, 1) if turned else as_maps

            sides = [
                Sides(pairs.sides[column].points + shifts[at], pairs.sides[column].few)
                for column, at in zip(columns, (a, b), strict=True)
            ]
            yield (a, b), maps, sides

    def weights(
        self, pairs: Pairs, positions: Positions, shifts: Floats, w: Floats, out: Floats
    ) -> tuple[dict[int, Floats], Floats]:
        """Write the weights of a learner to those of the merged pairs, and return the rest.

        ``shifts`` are its centres less the merged ones. The rest is what its maps are beside merged
        ones, whose medians are others: for each column weights of its sides, and constants.
        """
        columns: dict[int, Floats] = {}
        constants = np.zeros(len(w))
        for pair, maps, sides in self._shared(pairs, positions, shifts):
            (level_a, a), (level_b, b) = (
                _as_sums(side, self.merged.sides[at]) for at, side in zip(pair, sides, strict=True)
            )
            values = maps(w)
            out[:, self.merged.cells[pair]] = (a @ values @ b.T).reshape(len(w), -1)
            at, other = pair
            columns[at] = columns.get(at, 0.0) + (values @ level_b) @ a.T
            columns[other] = columns.get(other, 0.0) + (level_a @ values) @ b.T
            constants += level_a @ values @ level_b
        return columns, constants

    def directions(
        self, pairs: Pairs, positions: Positions, shifts: Floats, v: Floats, out: Floats
    ) -> None:
        """Write directions of a learner, which judge merged features by its own."""
        for pair, maps, sides in self._shared(pairs, positions, shifts):
            a, b = (
                _as_sums(self.merged.sides[at], side)[1]
                for at, side in zip(pair, sides, strict=True)
            )
            out[:, self.merged.cells[pair]] = (a.T @ maps(v) @ b).reshape(len(v), -1)

    def state(self) -> State:
        """Return the fields of the core; none if no learner had pairs."""
        if self.merged.stage < 0:
            return {}
        merged = self.merged
        columns = sorted(merged.sides)
        sides = [merged.sides[column] for column in columns]
        fields: dict[str, Sequence[float]] = {
            "columns": columns,
            "few": [side.few for side in sides],
            "counts": [side.points.size for side in sides],
            "points": np.concatenate([np.zeros(0), *(side.points for side in sides)]).tolist(),
            "of": [column for pair in merged.cells for column in pair],
            "first": [cells.start for cells in merged.cells.values()],
            "rows": [count for rows in merged.rows.values() for count in rows.ravel()],
            "candidates": [],
            "codes": [],
            "sums": [],
        }
        state: State = {PREFIX + name: np.array(fields[name], np.uint64) for name in COUNTS}
        state |= {PREFIX + name: np.array(fields[name], np.float64) for name in NUMBERS}
        state[f"{PREFIX}stage"] = np.array(merged.stage, np.int64)
        state[f"{PREFIX}seen"] = np.array(0, np.int64)
        return state


def _mean(sides: Sequence[Sides]) -> Sides:
    """Return the sides of a merged column: those of the first learner, or their mean if numbers."""
    first = sides[0]
    if any(side.few != first.few for side in sides) or first.few:
        return first
    return Sides(first.points + np.mean([s.points - first.points for s in sides], axis=0), False)


def _as_sums(source: Sides, target: Sides) -> tuple[Floats, Floats]:
    """Return the features of a column as constants and sums of others, by least squares."""
    values = target.points
    if not target.few:
        low, middle, high = target.points
        steps = np.arange(STEPS + 1) / STEPS
        values = np.concatenate([middle + steps * (end - middle) for end in (low, high)])
    known = target.heights(values)
    if not target.few:
        known = np.column_stack([np.ones(values.size), known])
    sums = np.asarray(np.linalg.lstsq(known, source.heights(values), rcond=None)[0], np.float64)
    if target.few:
        sums = np.vstack([np.zeros(sums.shape[1]), sums])
    sums[np.abs(sums) < 1e-12] = 0.0
    return sums[0], sums[1:]
