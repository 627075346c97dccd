"""Hat functions of columns, for dense rows: curves.hpp.

Every hat is written down as the points of a piecewise linear function, which is constant beyond the
first and the last of them; the kernel has the lines of each piece instead.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from oracle.pairs import Pairs
from sonline.paper.reference.sketches import Array

KEPT, EACH, INTERVALS, MOST_DEPTH, HEIGHT = 32, 8, 4, 3, 2.0
COLUMNS, CLOSE = 256, 1e-9
ROOM = 64  # hats that the vectors here have room for, by column
PAIRS = 600  # features of pairs


@dataclass
class Piece:
    """What is between two knots."""

    left: float
    right: float
    rows: float = 0.0
    depth: int = 0
    values: list[float] = field(default_factory=list)


@dataclass
class Column:
    values: list[float] = field(default_factory=list)  # before it has knots
    pieces: list[Piece] = field(default_factory=list)
    hats: list[tuple[int, list[float], list[float]]] = field(default_factory=list)

    def wait(self, value: float) -> bool:
        if len(self.values) > 2 or value not in self.values:
            self.values.append(value)
            return len(self.values) >= KEPT
        return False

    def piece(self, value: float) -> Piece:
        return next(p for p in self.pieces if p.left <= value < p.right or p.right == math.inf)


class Curves:
    """The hats of a stream with ``d`` columns, of which the first is the constant feature."""

    def __init__(self, d: int, pairs: bool = False) -> None:
        self.d, self.room = d, d * (1 + ROOM) + PAIRS * pairs
        self.pairs = Pairs() if pairs else None
        self.columns = [Column() for _ in range(d)]
        self.hats = 0
        self.on = False
        self.mean_energy = 0.0

    def start(self, rows: Array) -> None:
        """Choose the first knots by the first rows (less their centres)."""
        for j, column in enumerate(self.columns[1:], 1):
            for value in rows[:, j][rows[:, j] != 0].tolist():
                column.wait(value)
            if 2 * len(column.values) >= len(rows) and self._draw(column):
                self.on = True
        self._open_stage()
        for column in self.columns:
            column.values = []

    @property
    def depth(self) -> int:
        curved = sum(bool(column.pieces) for column in self.columns)
        return 3 if curved <= 8 else 2 if curved <= 16 else 1 if curved <= 32 else 0

    def expand(self, row: Array, x: Array) -> Array:
        """Return a row with its hats; ``x`` is the scaled one."""
        wide: Array = np.zeros(self.room)
        wide[: self.d] = x
        for j, column in enumerate(self.columns):
            for number, xs, ys in column.hats:
                if row[j] != 0:
                    wide[self.d + number] = HEIGHT * np.interp(row[j], xs, ys)
        for number, value in self.pairs.features(row) if self.pairs else []:
            wide[self.d + number] = value
        return wide

    def commit(self, row: Array, code: int) -> None:
        """Take in the values of a row that was learned, whose label has this code."""
        for j, column in enumerate(self.columns[1 : COLUMNS + 1], 1):
            value = float(row[j])
            if value == 0:
                continue
            if column.pieces:
                self._see(column, value)
            elif column.wait(value):
                values = column.values
                column_is_drawn = self._draw(column)
                column.values = []
                for earlier in values if column_is_drawn else []:
                    self._see(column, earlier)
        if self.pairs and self.pairs.see(row, code):
            self.hats = self.pairs.add(self.hats)
            self._open_stage()

    def _open_stage(self) -> None:
        if self.pairs is None:
            return
        for j, column in enumerate(self.columns[1 : COLUMNS + 1], 1):
            if 0 < len(column.values) <= 2:
                self.pairs.draw(j, column.values)
        self.pairs.open_stage()

    def _hat(self, column: Column, points: list[tuple[float, float]]) -> None:
        column.hats.append((self.hats, [x for x, _ in points], [y for _, y in points]))
        self.hats += 1

    def _draw(self, column: Column) -> bool:
        values = sorted(column.values)
        knots = distinct(values)
        if len(knots) < 3:
            return False
        if len(knots) > EACH:
            chosen = [values[i * (len(values) - 1) // INTERVALS] for i in range(INTERVALS + 1)]
            knots = distinct(chosen)
        knots = sorted([*knots, 0.0])
        for knot in knots:
            if knot != 0:
                self._hat(column, [(other, float(other == knot)) for other in knots])
        if self.pairs is not None:
            self.pairs.draw(self.columns.index(column), values)
        ends = [-math.inf, *knots, math.inf]
        column.pieces = [Piece(a, b) for a, b in itertools.pairwise(ends)]
        return True

    def _see(self, column: Column, value: float) -> None:
        piece = column.piece(value)
        piece.rows += 1
        if piece.depth >= self.depth or value == piece.left:
            return
        if len(piece.values) < KEPT:
            piece.values.append(value)
        if len(piece.values) == KEPT and piece.rows >= KEPT * 2**piece.depth:
            self._divide(column, piece)

    def _divide(self, column: Column, piece: Piece) -> None:
        values, piece.values = sorted(piece.values), []
        middle = values[len(values) // 2]
        if not (apart(piece.left, middle) and apart(middle, piece.right)):
            piece.depth = MOST_DEPTH
            return
        points = [(piece.left, 0.0), (middle, 1.0), (piece.right, 0.0)]
        self._hat(column, [point for point in points if math.isfinite(point[0])])
        above = sum(value >= middle for value in values)
        right = Piece(middle, piece.right, piece.rows * above // len(values), piece.depth + 1)
        piece.right, piece.depth, piece.rows = middle, piece.depth + 1, piece.rows - right.rows
        piece.values = [value for value in values if value < middle]
        right.values = [value for value in values if value > middle]
        column.pieces.insert(column.pieces.index(piece) + 1, right)


def apart(left: float, right: float) -> bool:
    if math.isinf(left) or math.isinf(right):
        return True
    return right - left > CLOSE * max(abs(left), abs(right))


def distinct(values: list[float]) -> list[float]:
    knots: list[float] = []
    for value in values:
        if not knots or apart(knots[-1], value):
            knots.append(value)
    return knots
