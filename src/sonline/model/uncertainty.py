"""Standard deviations of predictions, intervals of numbers and sets of classes.

An interval or a set holds the label as often as it says, on any stream: see
cpp/sonline/intervals.hpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.errors import InvalidInputError, shown
from sonline.model.inspection import Inspection
from sonline.rows import CoreRows, Floats, Rows


def error_rate(name: str, coverage: object) -> float:
    """Return how often a label may be outside, for the part of the labels that is to be inside.

    Examples
    --------
    >>> round(error_rate("interval", 0.9), 3)
    0.1
    """
    valid = isinstance(coverage, Real) and not isinstance(coverage, bool | np.bool_)
    if not valid or not 0 < coverage < 1:  # type: ignore[operator]
        raise InvalidInputError(
            f"{name} must be a number between 0 and 1, the part of the labels that is to be "
            f"inside; got {shown(coverage)}"
        )
    return 1 - float(coverage)  # type: ignore[arg-type]


def around(raw: Floats, sizes: Floats, limit: float) -> Floats:
    """Return the ends of intervals around predictions, in the last dimension.

    Examples
    --------
    >>> import numpy as np
    >>> around(np.array([1.0, 5.0]), np.array([0.5, 1.0]), 2.0)
    array([[0., 2.],
           [3., 7.]])
    """
    radius = np.full_like(sizes, limit) if math.isinf(limit) else limit * sizes
    radius = np.maximum(radius, 0.0)
    return np.stack([raw - radius, raw + radius], axis=-1)


class Uncertainty(Inspection):
    """The part of `Model` that says how far off its predictions may be."""

    only_predicts: bool
    rows: Callable[..., CoreRows]
    predict: Callable[..., Floats]
    offsets: Callable[..., Floats | None]

    def uncertain(self, X: Rows, *, later: bool = True) -> tuple[Floats, Floats]:
        """Return what `predict` returns, and how uncertain each prediction is: xᵀA⁻¹x.

        A is the matrix of the first weight vector, so this is the variance of the prediction in
        units of the variance of the labels about it. It is large for rows unlike those that were
        learned, and for those with features that were rarely seen, or never.
        """
        rows = self.rows(X, add=False)
        with self.core.hold():  # no other thread may add a class
            raw, uncertainties = np.empty((2, self.core.lines(), rows.count))
            rows.call(self.core, "predict", raw, later, uncertainties)
        return raw, uncertainties

    def sized(self, X: Rows, *, later: bool = True) -> tuple[Floats, Floats]:
        """Return what `predict` returns, and the standard deviation of each.

        Of numbers it is that of the label about the prediction, of classes that of the raw
        prediction.
        """
        self._check_sizes_known()
        rows = self.rows(X, add=False)
        with self.core.hold():
            raw, uncertainties, sizes = np.empty((3, self.core.lines(), rows.count))
            rows.call(self.core, "predict", raw, later, uncertainties, sizes)
        return raw, sizes

    def sized_one(self, x: Mapping[Any, Any], later: bool = True) -> tuple[Floats, Floats]:
        """Return what `sized` returns for one row given as a mapping."""
        self._check_sizes_known()
        raw, sizes = self.core.sized_one(x, later)
        return np.array(raw), np.array(sizes)

    def intervals(self, raw: Floats, sizes: Floats, coverage: float, later: bool = True) -> Floats:
        """Return intervals that hold a part of the labels, for what `sized` returned."""
        error = self.check_interval(coverage)
        return around(raw[0], sizes[0], self.core.limits_of_scores(error, later)[0])

    def check_interval(self, coverage: object, name: str = "interval") -> float:
        """Return the error rate of an interval; raise an error if there can be none."""
        error = error_rate(name, coverage)
        if self.table is not None:
            raise InvalidInputError(
                f"{name} is for numbers, and this model has classes: predict_set returns those "
                "that are possible"
            )
        self._check_sizes_known()
        return error

    def predicted(
        self, X: Rows, std: bool, coverage: float | None, offset: Any = None
    ) -> tuple[Floats, ...]:
        """Return raw predictions, and standard deviations and intervals if they are wanted."""
        with self.core.hold():  # predictions and intervals of the same model
            raw, sizes = self.sized(X)
            offsets = self.offsets(offset, raw.shape[1])
            if offsets is not None:
                raw = raw + offsets
            intervals = [] if coverage is None else [self.intervals(raw, sizes, coverage)]
        return raw, *([sizes] if std else []), *intervals

    def sets(self, raw: Floats, coverage: float, later: bool = True) -> NDArray[np.bool_]:
        """Return the classes that are possible, a line for each, for raw predictions.

        The most likely class is always one of them.
        """
        error = error_rate("coverage", coverage)
        if self.table is None:
            raise InvalidInputError(
                "sets are for classes, and this model predicts numbers: predict(X, interval=0.9)"
            )
        limits = self.core.limits_of_scores(error, later)
        margins = np.vstack([-raw, raw]) if self.classes == 2 else raw
        inside: NDArray[np.bool_] = -margins <= limits[: len(margins), np.newaxis]
        inside[margins.argmax(axis=0), np.arange(margins.shape[1])] = True
        return inside[self.table.sorted_numbers]

    def set_one(self, x: Mapping[Any, Any], coverage: float, later: bool = True) -> set[Any]:
        """Return the labels that are possible for one row given as a mapping."""
        with self.core.hold():  # no other thread may add a class
            raw = self.predict(CoreRows("rows", ([x],), 1), later=later)
            if self.table is not None and not self.classes:
                error_rate("coverage", coverage)
                return set()
            inside = self.sets(raw, coverage, later)[:, 0]
            labels = [] if self.table is None else self.table.sorted_labels()
        return {label for label, possible in zip(labels, inside.tolist(), strict=True) if possible}

    def _check_sizes_known(self) -> None:
        if self.only_predicts:
            raise InvalidInputError(
                "this is a compact model, which does not know how uncertain a prediction is; use "
                "the model that it was made from"
            )
        if self.parameters.log_link:
            raise InvalidInputError(
                f"loss={self.parameters.loss!r} predicts means, and has no standard deviations and "
                "intervals: train a model with loss='squared' or 'quantile' for them"
            )
