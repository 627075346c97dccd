"""Pairs of columns, for dense rows: pairs.hpp.

The kernel adds up products of halves; here the rows of a stage are kept, and least squares say how
much better both columns tell a code with their product than without.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from sonline.paper.reference.sketches import Array

LEVEL, HEIGHT, FEW, MOST, PER_STAGE = 0.7, 2.0, 8, 32, 8
STAGES, FIRST_STAGE, CODES, CHANCE, COLUMNS = 5, 32, 32, 2.0, 64


@dataclass
class Sides:
    points: list[float]
    few: bool

    @property
    def count(self) -> int:
        return len(self.points) if self.few else 2

    def place(self, value: float) -> tuple[int, float]:
        """Return the side of a value, and how much it counts there."""
        if value == 0:
            return 0, 0.0
        if self.few:
            near = sum(value >= (a + b) / 2 for a, b in itertools.pairwise(self.points))
            return near, LEVEL
        low, middle, high = self.points
        side = int(value >= middle)
        return side, min(abs(value - middle) / (high - middle if side else middle - low), 1.0)

    def half(self, value: float) -> float:
        side, height = self.place(value)
        return 1.0 if height and side >= self.count / 2 - 0.5 else -1.0


class Pairs:
    def __init__(self) -> None:
        self.sides: dict[int, Sides] = {}
        self.pairs: list[tuple[int, int, int]] = []  # columns, and the first feature
        self.stage = 0
        self.candidates: list[int] = []
        self.rows: list[tuple[list[float], int]] = []  # of the stage: halves and codes
        self.count = 0

    def draw(self, column: int, values: list[float]) -> None:
        points = sorted(set(values))
        if column > COLUMNS or column in self.sides:
            return
        if len(points) <= FEW:
            self.sides[column] = Sides(points, few=True)
        else:
            middle = points[len(points) // 2]
            self.sides[column] = Sides([points[0], middle, points[-1]], few=False)

    def open_stage(self) -> None:
        self.rows, self.count = [], 0
        self.codes: dict[int, int] = {}  # in the order of the rows
        self.candidates = sorted(self.sides) if len(self.sides) > 1 else []

    def features(self, row: Array) -> list[tuple[int, float]]:
        """Return the features of a row that are not 0, with their values."""
        features = []
        for a, b, first in self.pairs:
            (side_a, x), (side_b, z) = (self.sides[k].place(float(row[k])) for k in (a, b))
            features.append((first + side_a * self.sides[b].count + side_b, HEIGHT * x * z))
        return features

    def see(self, row: Array, code: int) -> bool:
        """Take in a row; whether the stage ends."""
        if self.stage >= STAGES or len(self.pairs) >= MOST:
            return False
        number = self.codes.setdefault(code, len(self.codes))
        if number < CODES:
            halves = [self.sides[column].half(float(row[column])) for column in self.candidates]
            self.rows.append((halves, number))
        self.count += 1
        return self.count >= FIRST_STAGE * 4**self.stage

    def add(self, first: int) -> int:
        """End the stage; return the number of the next feature."""
        halves = np.array([row for row, _ in self.rows])
        codes = np.array([code for _, code in self.rows])
        both = list(itertools.combinations(range(len(self.candidates)), 2))
        fit = len(both) <= MOST
        found = []
        for i, j in both:
            a, b = self.candidates[i], self.candidates[j]
            gain = gained(halves[:, i], halves[:, j], codes)
            if (fit or gain > CHANCE) and (a, b) not in [pair[:2] for pair in self.pairs]:
                found.append((gain, a, b))
        found.sort(key=lambda one: -one[0])
        room = min(MOST if fit else PER_STAGE, MOST - len(self.pairs))
        for _, a, b in found[:room]:
            self.pairs.append((a, b, first))
            first += self.sides[a].count * self.sides[b].count
        self.stage += 1
        return first


def gained(a: Array, b: Array, codes: Array) -> float:
    """Return the variance that the product explains, in units of what it explains by chance."""
    main = np.column_stack([np.ones(a.size), a, b])
    known = np.cov(np.vstack([a, b]), bias=True)
    if np.linalg.det(known) <= 1e-6:
        return 0.0
    product = a * b
    left = product - main @ np.linalg.lstsq(main, product, rcond=None)[0]
    if np.mean(left**2) <= 0.01:
        return 0.0
    explained = variance = 0.0
    for code in sorted(set(codes.tolist())):
        is_code = (codes == code).astype(float)
        rest = is_code - main @ np.linalg.lstsq(main, is_code, rcond=None)[0]
        explained += float(left @ rest) ** 2 / float(left @ left) / a.size
        variance += float(np.var(is_code))
    return a.size * explained / variance if variance > 0 else 0.0
