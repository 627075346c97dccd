"""The search for the best step size: the cell behind most figures and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sonline.paper.experiments.cells import Cell, Source
from sonline.paper.experiments.conventions import STEPS, Method
from sonline.paper.experiments.progressive import run


def search_cell(
    source: Source, method: Method, alphas: Sequence[float | str] = (), every: int = 0
) -> Cell:
    """Return the cell of a method with several alphas at once, by default those of `STEPS`.

    Mistakes are counted at the end, and after each ``every`` rows unless it is 0.
    """
    alphas = alphas or [1 / step for step in STEPS]

    def compute() -> dict[str, Any]:
        rows = source.rows()
        count = int(rows.y.size)
        marks = [*range(every, count, every), count] if every else [count]
        runs = run(rows.X, rows.y, [method.settings(alpha) for alpha in alphas], marks)
        mistakes = [None if each.diverged else each.mistakes for each in runs]
        return {"marks": marks, "mistakes": mistakes, "note": rows.note}

    key = {
        "what": "search",
        **source.key,
        "settings": method.settings(0.0),
        "alphas": list(alphas),
        "every": every,
    }
    return Cell(key, f"{source.label} {method.label}", compute)


@dataclass(frozen=True)
class Best:
    """The best run of a search."""

    rows: int
    mistakes: float
    step: float  # or what else was searched for

    @property
    def rate(self) -> float:
        """Share of mistakes; NaN if all runs diverged."""
        return self.mistakes / self.rows if math.isfinite(self.mistakes) else math.nan


def best(value: dict[str, Any], steps: Sequence[float] = STEPS) -> Best:
    """Return the best run of a cell, that of the first step among equals."""
    counts = [math.inf if m is None else m[-1] for m in value["mistakes"]]
    least = min(range(len(counts)), key=counts.__getitem__)
    return Best(value["marks"][-1], counts[least], steps[least])
