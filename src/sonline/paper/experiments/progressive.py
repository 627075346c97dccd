"""Many learners over one reading of the rows, in parallel."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sonline import OnlineLearner
from sonline.errors import DivergenceError
from sonline.paper.datasets.contents import Floats
from sonline.paper.experiments.conventions import Rows, make

BATCH = 1 << 14


@dataclass
class Run:
    """A learner on its way through the rows.

    Attributes
    ----------
    mistakes : list of int
        Mistakes up to each of the marks.
    diverged : bool
        Whether its numbers left the finite range; it is not shown further rows then.
    """

    learner: OnlineLearner
    mistakes: list[int]
    diverged: bool = False

    @property
    def total(self) -> float:
        """Mistakes on all rows; infinite if it diverged."""
        return float("inf") if self.diverged else float(self.mistakes[-1])


def run(
    X: Rows, y: Floats, settings: Sequence[Mapping[str, Any]], marks: Sequence[int] = ()
) -> list[Run]:
    """Show the rows to one learner for each of the settings, all at once.

    Each batch of rows goes to all learners before the next one is cut, and the learners share the
    processors: the native kernel releases the interpreter's lock.

    Parameters
    ----------
    X, y
        Rows and labels, -1 and +1.
    settings : sequence of mappings
        Parameters of `sonline.OnlineLearner`, all of them named.
    marks : sequence of int
        Numbers of rows after which mistakes are counted, besides the last.
    """
    rows = X.shape[0]
    runs = [Run(make(each), []) for each in settings]
    wrong = [0] * len(runs)
    ends = sorted({*(mark for mark in marks if 0 < mark <= rows), rows})

    def learn(index: int, part: Rows, labels: Floats) -> None:
        if runs[index].diverged:
            return
        try:
            predictions = runs[index].learner.learn(part, labels)
        except DivergenceError:
            runs[index].diverged = True
        else:
            wrong[index] += int(np.count_nonzero((predictions > 0) != (labels > 0)))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start, end in _batches(ends):
            part, labels = X[start:end], y[start:end]
            list(pool.map(lambda i, p=part, t=labels: learn(i, p, t), range(len(runs))))
            if end in ends:
                for each, count in zip(runs, wrong, strict=True):
                    each.mistakes.append(count)
    return runs


def _batches(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield beginnings and ends of batches so that each of the ends is one."""
    start = 0
    for stop in ends:
        while start < stop:
            end = min(start + BATCH, stop)
            yield start, end
            start = end
