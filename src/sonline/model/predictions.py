"""The result of learning a batch, and probabilities of raw predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.labels import Codes
from sonline.rows import Floats


@dataclass
class LearnResult:
    """Raw predictions made before each row was learned, a line per output, and the targets.

    ``targets`` are numbers, or numbers of classes. ``class_counts`` has pairs: from which row on,
    how many classes the model had. ``fresh`` is true if a regression had learned no row before the
    first of these, so that it could only predict 0.
    """

    raw: Floats
    targets: NDArray[Any]
    class_counts: Sequence[tuple[int, int]]
    fresh: bool = False

    def __len__(self) -> int:
        return int(self.targets.size)

    def counted(self, weights: Floats | None) -> Floats | None:
        """Return the weights of the rows in measures: the very first row of a regression has 0.

        Examples
        --------
        >>> import numpy as np
        >>> from sonline.model import LearnResult
        >>> LearnResult(np.zeros((1, 2)), np.array([7.0, 8.0]), [(0, 0)], True).counted(None)
        array([0., 1.])
        """
        if not self.fresh:
            return weights
        counted = np.ones(len(self)) if weights is None else weights.copy()
        counted[:1] = 0.0
        return counted

    def head(self, rows: int) -> LearnResult:
        """Return the result of the first rows."""
        counts = [(first, classes) for first, classes in self.class_counts if first <= rows]
        return LearnResult(self.raw[:, :rows], self.targets[:rows], counts, self.fresh)

    def parts(self) -> Iterator[tuple[slice, Floats, int]]:
        """Yield rows with the same number of classes, their raw predictions, and that number."""
        ends = [first for first, _ in self.class_counts[1:]] + [len(self)]
        for (first, classes), end in zip(self.class_counts, ends, strict=True):
            rows = slice(first, end)
            if end > first:
                yield rows, self._outputs(classes)[:, rows], classes

    def _outputs(self, classes: int) -> Floats:
        """Return the lines of a model with only the first ``classes`` classes."""
        last = self.class_counts[-1][1]
        if classes == 1 and last == 2:
            return -self.raw  # the only output of two classes is that of the second one
        if classes == 2 and last > 2:
            return self.raw[1:2]
        return self.raw[: max(classes, 1)]


def class_counts(codes: Codes, known: int, classes: int) -> list[tuple[int, int]]:
    """Return from which row on there are how many classes; new ones come in their order."""
    counts = [(0, known)]
    for number in range(known, classes):
        row = int(np.argmax(codes == number))
        if row == counts[-1][0]:
            counts.pop()
        counts.append((row, number + 1))
    return counts


def probabilities(margins: Floats, classes: int) -> Floats:
    """Return the probability of each class, a line per class, for raw predictions, one per output.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.model import probabilities
    >>> probabilities(np.array([[0.0, np.log(3.0)]]), 2).round(2).tolist()
    [[0.5, 0.25], [0.5, 0.75]]
    """
    if classes == 2:
        return np.vstack([sigmoid(-margins), sigmoid(margins)])
    scores = share_score(margins)
    chances = np.exp(scores - scores.max(axis=0))
    return np.asarray(chances / chances.sum(axis=0))


def probabilities_one(
    margins: Sequence[float], classes: int, exp: Callable[[float], float] = math.exp
) -> list[float]:
    """Return `probabilities` of one row, without arrays, which would take most of the time.

    For two classes they have the same bits with ``exp=np.exp``, which is slower.

    Examples
    --------
    >>> from sonline.model.predictions import probabilities_one
    >>> probabilities_one([0.0], 2)
    [0.5, 0.5]
    """
    if classes == 2:
        small = float(exp(-abs(margins[0])))
        larger, smaller = 1 / (1 + small), small / (1 + small)
        return [smaller, larger] if margins[0] >= 0 else [larger, smaller]
    scores = [(z + min(z, 0.0) - math.log1p(math.exp(-abs(z)))) / 2 for z in margins]
    top = max(scores, default=0.0)
    chances = [math.exp(score - top) for score in scores]
    total = sum(chances)
    return [chance / total for chance in chances]


def share_score(margins: Floats) -> Floats:
    """Return what a softmax turns into the probabilities of more than two classes.

    The odds of "this class or not" (a softmax of the raw predictions) are too sure where classes
    overlap, and their probabilities divided by the sum not sure enough where one class is clear.
    This is the geometric mean of the two.
    """
    return np.asarray((margins - np.logaddexp(0.0, -margins)) / 2)


def sigmoid(z: Floats) -> Floats:
    """Return ``1 / (1 + exp(-z))``, for any z without overflow."""
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1 + small))
