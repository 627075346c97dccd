"""Curves of several learners (cpp/sonline/curves.hpp) in one basis: hats on the knots of all.

A learner has hats on its own knots, coarse ones and finer ones. The function of a column that its
weights stand for is piecewise linear, so the hats on the union of the knots can have it exactly:
the weight of a hat is the value of the function at its knot. Directions go the other way: they
judge functions by the learner's own features, so one of the union is first taken at its knots.

With more than `KNOTS` knots, those with few rows around them are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sonline.merging.features import Positions, State
from sonline.merging.pairs import Pairs, UnitedPairs, read_pairs
from sonline.rows import Floats

KNOTS = 128  # of a merged column
HEIGHT = 2.0  # of hats, as in curves.hpp
MOST_DEPTH = 3
COUNTS = ("own", "pieces", "waiting", "depths", "parts", "kept", "hats")
NUMBERS = ("ends", "rows", "lows", "steps", "values")


@dataclass
class Column:
    """A column of one learner: its knots, and the value of each of its hats there."""

    knots: Floats
    rows: Floats  # of the pieces, one more
    depths: NDArray[np.intp]
    slots: NDArray[np.intp]  # of the hats
    heights: Floats  # knots x hats

    def values(self, at: Floats) -> Floats:
        """Return the hats at some values, a row for each."""
        values = [np.interp(at, self.knots, hat) for hat in self.heights.T]
        return np.array(values).reshape(len(values), -1).T

    @property
    def inverse(self) -> Floats:
        """Weights of the hats from the values of a function at the knots, without the knot 0."""
        inner = self.heights[self.knots != 0]
        return np.asarray(np.linalg.inv(inner))


@dataclass
class Curves:
    """The curves of one learner; columns are known by their positions among its features."""

    own: NDArray[np.intp]
    columns: dict[int, Column]
    waiting: dict[int, Floats]
    pairs: Pairs


def read_curves(state: State) -> Curves:
    """Return the curves of a state; it may have none."""
    size = state["features"].size
    if not state["curves"]:
        return Curves(np.arange(size), {}, {}, Pairs())
    counts = {name: state[f"curves.{name}"].astype(np.intp) for name in COUNTS}
    numbers = {name: state[f"curves.{name}"].astype(np.float64) for name in NUMBERS}
    columns, waiting = {}, {}
    end = piece = part = value = 0
    for number, (pieces, kept) in enumerate(zip(counts["pieces"], counts["waiting"], strict=True)):
        if kept:
            waiting[number] = numbers["values"][value : value + kept]
            value += kept
        if not pieces:
            continue
        knots = numbers["ends"][end : end + pieces - 1]
        own = slice(piece, piece + pieces)
        ends = part + np.cumsum(counts["parts"][own])
        slots = np.unique(counts["hats"][part : ends[-1]])
        heights = np.zeros((knots.size, slots.size))
        for knot in range(knots.size):  # the left end of the piece after it
            inside = slice(ends[knot], ends[knot + 1])
            heights[knot, np.searchsorted(slots, counts["hats"][inside])] = numbers["lows"][inside]
        columns[number] = Column(knots, numbers["rows"][own], counts["depths"][own], slots, heights)
        value += int(counts["kept"][own].sum())
        end, piece, part = end + pieces - 1, piece + pieces, int(ends[-1])
    return Curves(counts["own"], columns, waiting, read_pairs(state))


class Union:
    """The hats of several learners on the union of their knots, behind ``size`` features."""

    def __init__(
        self,
        learners: Sequence[tuple[Curves, Positions, Floats]],
        size: int,
        centres: Floats,
    ) -> None:
        """Each learner comes with the positions of its features, and with its centres there."""
        self.size, self.centres = size, centres
        found: dict[int, list[tuple[Column, float]]] = {}
        for curves, positions, own_centres in learners:
            for number, column in curves.columns.items():
                at = int(positions[number])
                found.setdefault(at, []).append((column, own_centres[at] - centres[at]))
        self.columns: dict[int, tuple[Floats, Floats, NDArray[np.intp]]] = {
            at: _united(found[at]) for at in sorted(found)
        }
        self.first: dict[int, int] = {}  # where the hats of a column begin
        for at, (knots, _, _) in self.columns.items():
            self.first[at] = size
            size += knots.size - 1
        self.pairs = UnitedPairs(
            [(curves.pairs, positions, own) for curves, positions, own in learners], centres, size
        )
        self.slots = self.pairs.slots

    def hats(self, at: int) -> tuple[Floats, slice]:
        """Return the knots of a column that have hats, and where these are."""
        knots = self.columns[at][0]
        return knots[knots != 0], slice(self.first[at], self.first[at] + knots.size - 1)

    def weights(
        self, curves: Curves, positions: Positions, shifts: Floats, w: Floats
    ) -> tuple[Floats, Floats]:
        """Return weights of a learner, a row for each vector, by the features of the union.

        ``shifts`` are its centres less those of the union. Constants are what its curves are at the
        centres of the union, where hats of the union are 0.
        """
        out, constants = np.zeros((len(w), self.slots)), np.zeros(len(w))
        out[:, positions] = w[:, curves.own]
        for number, column in curves.columns.items():
            at = int(positions[number])
            knots, hats = self.hats(at)
            own = w[:, column.slots]
            zero = own @ column.values(np.array([-shifts[at]])).T
            out[:, hats] = own @ column.values(knots - shifts[at]).T - zero
            constants += zero[:, 0]
        columns, rest = self.pairs.weights(curves.pairs, positions, shifts, w, out)
        constants += rest
        for at, sides in columns.items():
            if at in self.columns:
                knots, hats = self.hats(at)
                heights = self.pairs.merged.sides[at].heights(np.append(knots, 0.0))
                out[:, hats] += sides @ (heights[:-1] - heights[-1]).T
                constants += sides @ heights[-1]
        return out, constants

    def directions(self, curves: Curves, positions: Positions, shifts: Floats, v: Floats) -> Floats:
        """Return directions of a learner, by the features of the union."""
        out = np.zeros((len(v), self.slots))
        if not len(v):
            return out
        out[:, positions] = v[:, curves.own]
        for number, column in curves.columns.items():
            at = int(positions[number])
            _, hats = self.hats(at)
            all_knots = self.columns[at][0]
            unit = np.eye(all_knots.size)[all_knots != 0]
            taken = column.knots[column.knots != 0] + shifts[at]
            functions = np.array([np.interp(taken, all_knots, hat) for hat in unit]).T
            functions -= np.array([np.interp(shifts[at], all_knots, hat) for hat in unit])
            out[:, hats] = v[:, column.slots] @ column.inverse @ functions
        self.pairs.directions(curves.pairs, positions, shifts, v, out)
        return out

    def state(self, mean_energy: float, waiting: dict[int, Floats]) -> State:
        """Return the fields of the core."""
        fields: dict[str, list[float]] = {name: [] for name in (*COUNTS, *NUMBERS)}
        fields["own"] = list(range(self.size))
        last = max([*self.columns, *waiting], default=-1)
        for at in range(last + 1):
            kept = [] if at in self.columns else list(waiting.get(at, []))
            fields["waiting"].append(len(kept))
            fields["values"] += kept
            if at not in self.columns:
                fields["pieces"].append(0)
                continue
            knots, rows, depths = self.columns[at]
            slots = np.cumsum(knots != 0) - 1 + self.first[at]
            fields["pieces"].append(rows.size)
            fields["ends"] += knots.tolist()
            fields["rows"] += np.floor(rows).tolist()
            fields["depths"] += depths.tolist()
            fields["kept"] += [0] * rows.size
            for piece in range(rows.size):
                inner = 0 < piece < knots.size
                lines = [(piece - 1, 1.0, -1.0 if inner else 0.0)] if piece else []
                if piece < knots.size:
                    lines.append((piece, 0.0 if inner else 1.0, 1.0 if inner else 0.0))
                lines = [line for line in lines if knots[line[0]] != 0]
                fields["parts"].append(len(lines))
                fields["hats"] += [int(slots[knot]) for knot, _, _ in lines]
                fields["lows"] += [low for _, low, _ in lines]
                fields["steps"] += [step for _, _, step in lines]
        state: State = {f"curves.{name}": np.array(fields[name], np.uint64) for name in COUNTS}
        state |= {f"curves.{name}": np.array(fields[name], np.float64) for name in NUMBERS}
        state |= self.pairs.state()
        state["curves.mean_energy"] = np.array(mean_energy)
        state["curves"] = np.array(1, np.int64)
        return state


def _united(columns: Sequence[tuple[Column, float]]) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Return knots, rows and depths of a column; each comes with its shift."""
    knots = _distinct(np.concatenate([column.knots + shift for column, shift in columns]))
    rows, depths = _spread(knots, columns)
    while knots.size > KNOTS:
        around = rows[1:] + rows[:-1]
        around[[0, -1]] = np.inf
        around[knots == 0] = np.inf
        knots = np.delete(knots, np.argmin(around))
        rows, depths = _spread(knots, columns)
    return knots, rows, depths


def _distinct(knots: Floats) -> Floats:
    """Return ascending knots, 0 among them, that are not too close for the core."""
    kept = [0.0]
    for knot in sorted(knots, key=abs):
        if all(abs(knot - other) > 2e-9 * max(abs(knot), abs(other)) for other in kept):
            kept.append(float(knot))
    return np.array(sorted(kept))


def _spread(
    knots: Floats, columns: Sequence[tuple[Column, float]]
) -> tuple[Floats, NDArray[np.intp]]:
    """Return the rows of the pieces between knots, and how often they have been divided."""
    rows, depths = np.zeros(knots.size + 1), np.zeros(knots.size + 1, np.intp)
    middles = np.concatenate([knots[:1] - 1, (knots[1:] + knots[:-1]) / 2, knots[-1:] + 1])
    for column, shift in columns:
        owner = np.searchsorted(column.knots + shift, middles, side="right")
        share = np.bincount(owner, minlength=column.rows.size)
        rows += column.rows[owner] / share[owner]
        depths = np.maximum(depths, column.depths[owner])
    return rows, np.minimum(depths, MOST_DEPTH)
