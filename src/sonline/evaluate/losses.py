"""Losses and mistakes of predictions, the same for all faces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sonline import _core
from sonline.errors import InvalidInputError
from sonline.parameters import LOSSES, Parameters
from sonline.rows import Floats, contiguous


def losses(
    loss: str, labels: ArrayLike, predictions: ArrayLike, quantile: float = Parameters.quantile
) -> Floats:
    """Return the loss of each raw prediction.

    Examples
    --------
    >>> from sonline.evaluate import losses
    >>> losses("squared", [1.0, 2.0], [0.0, 2.0]).tolist()
    [0.5, 0.0]
    """
    if loss not in LOSSES:
        raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}")
    y, z, _ = checked(labels, predictions, None)
    out = np.empty(z.size)
    _core.Loss(loss, quantile).values(z, y, out)
    return out


def measures(
    parameters: Parameters, raw: Floats, targets: NDArray[Any], classes: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the loss of each row, and whether its class was predicted wrongly.

    Parameters
    ----------
    parameters : Parameters
        Parameters of the learner.
    raw : array of shape (outputs, rows)
        Raw predictions: one output for numbers and two classes, otherwise one per class.
    targets : array
        The targets of regression, or class numbers.
    classes : int
        Number of classes; 0 for regression, where no row counts as wrong. With more than two, the
        loss is the mean over "this class or not".

    Examples
    --------
    >>> import numpy as np
    >>> from sonline.evaluate import measures
    >>> from sonline.parameters import Parameters
    >>> raw = np.array([[2.0, -1.0], [-1.0, 0.5], [-1.0, 0.25]])
    >>> loss, wrong = measures(Parameters(loss="hinge"), raw, np.array([0, 2]), 3)
    >>> loss.tolist(), wrong.tolist()
    ([0.0, 0.75], [False, True])
    """
    loss = parameters.core_loss
    values = np.empty(targets.size)
    if not classes:
        loss.values(contiguous(raw[0]), targets, values)
        return values, np.zeros(targets.size, np.bool_)
    if classes == 2:
        second = targets == 1
        loss.values(contiguous(raw[0]), 2.0 * second - 1.0, values)
        return values, (raw[0] > 0) != second
    total = np.zeros(targets.size)
    for number, line in enumerate(raw):
        signs = 2.0 * (targets == number) - 1.0
        loss.values(contiguous(line), signs, values)
        total += values
    return total / raw.shape[0], raw.argmax(axis=0) != targets


def checked(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats, Floats | None]:
    """Return labels, predictions and weights as vectors of one length."""
    y = contiguous(labels, np.float64)
    z = contiguous(predictions, np.float64)
    w = None if weights is None else contiguous(weights, np.float64)
    for name, array in (("predictions", z), ("weights", w)):
        if array is not None and (array.shape != y.shape or y.ndim != 1):
            raise InvalidInputError(
                f"{name} and labels must be vectors of one length, got shapes {array.shape} and "
                f"{y.shape}"
            )
    return y, z, w
