"""Selective sampling: which rows are worth a label.

The prediction z of a row has the variance u = xᵀA⁻¹x. Where z² is large beside u the label would
hardly change the sign of later predictions of such rows, so it is asked for with a small chance
only, which finds out when that is no longer true (Cesa-Bianchi, Gentile & Zaniboni 2006; Orabona &
Cesa-Bianchi 2011). A feature that was never seen makes u very large, but its weight would move the
prediction only so far, and most rows of a text have one: u counts up to a limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.errors import InvalidInputError, ParameterError
from sonline.model.face import Face
from sonline.model.model import Model
from sonline.rows import Floats, Rows

FIRST_ROWS = 32  # all of them are asked for
CAUTION, EXPLORE = 0.3, 0.01
LIMIT, LIMIT_ROWS = 1.0, 1000  # of u: LIMIT · (1 + LIMIT_ROWS / t)


class Asking(Face):
    """`wants_label` and `wants_labels`, for a face of a classifier."""

    def wants_label(
        self, x: Mapping[Any, Any], *, caution: float = CAUTION, explore: float = EXPLORE
    ) -> bool:
        """Return whether the label of a row is worth asking for; changes nothing.

        Parameters
        ----------
        x : mapping
            From feature to number or text.
        caution : float, default=0.3
            How unsure the sign of a prediction must be: ``z**2 <= caution * u * ln t``, u the
            variance of the prediction z, but at most ``1 + 1000 / t``, and t the rows learned so
            far. More asks for more labels.
        explore : float, default=0.01
            The share of the other rows whose labels are asked for as well.
        """
        model = self.model
        raw, variances = model.core.uncertain_one(self._mapping(x), False)
        each, spread = np.array([raw, variances])[:, :, np.newaxis]
        return bool(worth(model, each, spread, caution, explore)[0])

    def wants_labels(
        self, X: Rows, *, caution: float = CAUTION, explore: float = EXPLORE
    ) -> NDArray[np.bool_]:
        """Return for each row whether its label is worth asking for; changes nothing.

        Parameters
        ----------
        X : array, sparse matrix, data frame or sequence of mappings
            The rows, which the model has not learned yet.
        caution, explore : float
            See `wants_label`.

        Examples
        --------
        >>> import numpy as np
        >>> from sonline import OnlineLearner
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 5))
        >>> y = np.where(X @ [1, -2, 0, 0, 3] > 0, 1, -1)
        >>> learner = OnlineLearner()
        >>> asked = 0
        >>> for rows, labels in zip(np.split(X, 500), np.split(y, 500)):
        ...     wanted = learner.wants_labels(rows)
        ...     _ = learner.learn(rows[wanted], labels[wanted])
        ...     asked += wanted.sum()
        >>> bool(asked < 500), bool(np.mean(np.sign(learner.predict(X)) == y) > 0.98)
        (True, True)
        """
        return wanted(self.model, self._rows(X), caution, explore)


def wanted(
    model: Model, X: Rows, caution: float = CAUTION, explore: float = EXPLORE
) -> NDArray[np.bool_]:
    """Return for each row whether its label is worth asking a model for; changes nothing."""
    rows = model.rows(X, add=False)
    with model.core.hold():  # no other thread may add a class
        return worth(model, *model.uncertain(rows, later=False), caution, explore)


def worth(
    model: Model, raw: Floats, variances: Floats, caution: float, explore: float
) -> NDArray[np.bool_]:
    """Return for each row whether its label is worth asking for.

    With several classes, z is the difference of the two largest predictions.
    """
    if model.table is None:
        raise ParameterError("wants_label needs classes: this model predicts numbers")
    if model.only_predicts:
        raise InvalidInputError(
            "this is a compact model, which does not know how uncertain a prediction is; use the "
            "model that it was made from"
        )
    if not isinstance(caution, Real) or not 0 < caution < math.inf:
        raise ParameterError(f"caution must be a number > 0, got {caution!r}")
    if not isinstance(explore, Real) or not 0 <= explore <= 1:
        raise ParameterError(f"explore must be between 0 and 1, got {explore!r}")
    rows, count = int(model.stats()["rounds"]), raw.shape[1]
    if rows < FIRST_ROWS or model.classes < 2:
        return np.ones(count, dtype=np.bool_)
    variances = np.minimum(variances, LIMIT * (1 + LIMIT_ROWS / rows))
    if len(raw) > 1:
        best = np.argsort(-raw, axis=0, kind="stable")[:2]
        first, second = np.take_along_axis(raw, best, axis=0)
        margins, spread = first - second, np.take_along_axis(variances, best, axis=0).sum(axis=0)
    else:
        margins, spread = raw[0], variances[0]
    unsure = margins**2 <= caution * spread * math.log(rows + 1)
    draws = _draws(margins, spread, rows, model.parameters.seed)
    return np.asarray(unsure | (draws < explore), dtype=np.bool_)


def _draws(margins: Floats, spread: Floats, rows: int, seed: int) -> Floats:
    """Return numbers in [0, 1) that look random and depend on the row, the model and the seed.

    So a question has the same answer each time, until the model learns something.
    """
    bits = margins.view(np.uint64) if margins.flags.c_contiguous else margins.copy().view(np.uint64)
    keys = bits ^ np.ascontiguousarray(spread).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys = keys + np.uint64((rows * 0xD6E8FEB86659FD93 + seed) % 2**64)
    for _ in range(2):
        keys = (keys ^ (keys >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    keys = keys ^ (keys >> np.uint64(32))
    return np.asarray((keys >> np.uint64(11)) / 2.0**53)
