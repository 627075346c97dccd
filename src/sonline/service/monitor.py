"""Progressive metrics of a version: means over the last events, baselines and calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.evaluate import measures
from sonline.model import LearnResult, Model
from sonline.rows import Floats

WINDOW = 2000  # events
BINS = 10  # of probabilities
_FADE = 10_000  # events after which the calibration has forgotten two thirds


class Monitor:
    """Means over the last events: loss, error, and two baselines.

    The baselines predict the previous label, and the most common label so far (for numbers: their
    mean so far).

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.model import LearnResult, Model
    >>> from sonline.parameters import Parameters
    >>> model, monitor = Model.for_labels(Parameters()), Monitor()
    >>> monitor.update(model, LearnResult(np.array([[1.0, -1.0]]), np.array([1, 1]), [(0, 2)]))
    >>> monitor.values()["error"]
    0.5
    """

    def __init__(self) -> None:
        self.events = 0
        self._counted = 0  # events in the means
        self._ring = np.zeros((4, WINDOW))  # loss, error, last label, prior
        self._last: float | int | None = None
        self._counts: dict[int, int] = {}  # events of each class
        self._best: int | None = None  # the most common class so far
        self._sum = 0.0
        self._bins = np.zeros((3, BINS))  # events, sum of probabilities, how often it was right

    def update(self, model: Model, learned: LearnResult) -> None:
        """Add predictions and labels."""
        if not len(learned):
            return
        loss, wrong = model.measures(learned)
        last, prior = self._baselines(model, learned.targets)
        lines = np.stack([loss, loss if wrong is None else wrong, last, prior])
        lines = lines[:, int(learned.fresh) :]  # a model without labels has nothing to predict from
        self._counted += lines.shape[1]
        lines = lines[:, -WINDOW:]
        self._ring[:, (self._counted - lines.shape[1] + np.arange(lines.shape[1])) % WINDOW] = lines
        self.events += len(learned)
        if model.probabilistic and model.classes > 1:
            self._calibrate(model, learned)

    def _baselines(self, model: Model, targets: NDArray[Any]) -> tuple[Floats, Floats]:
        before = np.concatenate([[targets[0] if self._last is None else self._last], targets[:-1]])
        self._last = targets[-1].item()
        if model.table is None:
            sums = np.cumsum(np.concatenate([[self._sum], targets]))
            self._sum = float(sums[-1])
            known = self.events + np.arange(targets.size)
            means = np.where(known > 0, sums[:-1] / np.maximum(known, 1), targets[0])
            if model.parameters.log_link:  # a prediction of 0 would be infinitely wrong
                least = np.maximum(0.01 * means, 1e-100)
                before, means = (np.log(np.maximum(guess, least)) for guess in (before, means))
            last, prior = (
                measures(model.parameters, guess[np.newaxis], targets, 0)[0]
                for guess in (before, means)
            )
            return last, prior
        most_common = self._most_common(targets)
        return (before != targets).astype(float), (most_common != targets).astype(float)

    def _most_common(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Return the most common class before each event, and count the classes."""
        counts, best = self._counts, self._best
        guesses = []
        for code in targets.astype(np.int64).tolist():
            if best is None:
                best = code
            guesses.append(best)
            counts[code] = counts.get(code, 0) + 1
            if counts[code] > counts.get(best, 0):
                best = code
        self._best = best
        return np.array(guesses)

    def _calibrate(self, model: Model, learned: LearnResult) -> None:
        shares = model.probabilities(learned.raw)
        if model.classes == 2:
            confidence, right = shares[1], learned.targets == 1
        else:
            confidence, right = shares.max(axis=0), shares.argmax(axis=0) == learned.targets
        bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
        self._bins *= np.exp(-len(learned) / _FADE)
        for line, values in enumerate((np.ones(confidence.size), confidence, right.astype(float))):
            self._bins[line] += np.bincount(bins, values, minlength=BINS)

    def values(self) -> dict[str, Any]:
        """Return the means over the window; None before the first event."""
        filled = min(self._counted, WINDOW)
        means: list[float | None] = [None] * 4
        if filled:
            means = [float(mean) for mean in self._ring[:, :filled].mean(axis=1)]
        return dict(zip(("loss", "error", "last_label", "prior"), means, strict=True))

    def calibration(self) -> list[list[float]]:
        """Return, for each bin with events: probability, how often it was right, and how many."""
        count, confidence, right = self._bins
        return [
            [
                float(confidence[bin_] / count[bin_]),
                float(right[bin_] / count[bin_]),
                float(count[bin_]),
            ]
            for bin_ in range(BINS)
            if count[bin_] > 1e-9
        ]
