"""A method on a data set with several step sizes at once: the cell behind most tables."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sonline.paper.experiments.cells import Cell, Setup
from sonline.paper.experiments.conventions import STEPS, Method
from sonline.paper.experiments.progressive import run


def steps_cell(setup: Setup, name: str, method: Method, steps: Sequence[float] = STEPS) -> Cell:
    """Return the cell of a method on the rows behind the paper's numbers."""

    def compute() -> dict[str, Any]:
        rows = setup.rows(name)
        started = time.perf_counter()
        runs = run(rows.X, rows.y, [method.settings(1 / step) for step in steps])
        return {
            "rows": int(rows.y.size),
            "mistakes": [None if each.diverged else int(each.total) for each in runs],
            "seconds": time.perf_counter() - started,
            "note": rows.note,
        }

    key = {
        "what": "steps",
        **setup.key(name),
        "settings": method.settings(0.0),
        "steps": list(steps),
    }
    return Cell(key, f"{name} {method.label}", compute)


@dataclass(frozen=True)
class Best:
    """The best of several step sizes."""

    rows: int
    mistakes: float
    step: float

    @property
    def rate(self) -> float:
        """Share of mistakes; NaN if all runs diverged."""
        return self.mistakes / self.rows if math.isfinite(self.mistakes) else math.nan


def best(value: dict[str, Any], steps: Sequence[float] = STEPS) -> Best:
    """Return the best of a cell's runs, the smallest step among equals."""
    counts = [math.inf if m is None else m for m in value["mistakes"]]
    least = min(range(len(counts)), key=counts.__getitem__)
    return Best(value["rows"], counts[least], steps[least])
