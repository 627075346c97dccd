"""Kernel and oracle side by side: predictions for the next row and later ones, weights, shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.model import Oracle
from sonline.labels import ClassTable
from sonline.model import Model
from sonline.paper.reference.sketches import Array
from sonline.parameters import Parameters


def close(actual: Any, wanted: Any, tolerance: float = 1e-8) -> None:
    """Relative to each number, or to the largest."""
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(
        np.reshape(actual, wanted.shape),
        wanted,
        rtol=tolerance,
        atol=tolerance * max(1.0, np.abs(wanted).max(initial=0.0)),
    )


class Pair:
    """A model and its oracle, which learn the same rows; X may be sparse."""

    def __init__(
        self,
        features: int,
        classes: int | None = None,
        growing: bool = False,
        tolerance: float = 1e-8,
        **parameters: Any,
    ) -> None:
        chosen = Parameters(**{"dtype": "float64", "sketch_size": 4, **parameters})
        table = None if classes is None else ClassTable(tuple(range(classes)), growing)
        self.model, self.oracle = Model(chosen, table), Oracle(chosen, features, classes, growing)
        self.features, self.tolerance = features, tolerance

    def learn(self, X: Any, y: Any, weights: Any = None) -> Array:
        wanted = self.oracle.learn(dense(X), y, weights, table=not hasattr(X, "toarray"))
        close(self.model.learn(X, y, weights).raw, wanted, self.tolerance)
        return wanted

    def check(self, X: Any) -> None:
        """Compare what is for later rows, and the shares of both uses."""
        close(self.model.predict(X), self.oracle.predict(dense(X)), self.tolerance)
        core = self.model.core
        columns = np.array([int(key) for key in core.features()], dtype=int) + 1
        for line in range(max(self.oracle.lines, 1)):
            weights = np.zeros(self.features + 1)
            weights[[0, *columns]] = core.weights(line)
            wanted = self.oracle.weights(line)
            close(weights[-len(wanted) :], wanted, self.tolerance)
            for use in ("next", "later"):
                shares = core.shares(line, use == "later")
                close(shares, self.oracle.shares(line, use), self.tolerance)


def dense(X: Any) -> Array:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)
