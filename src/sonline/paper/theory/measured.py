"""The quantities of a finished stream that the bounds depend on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sonline.errors import InvalidInputError
from sonline.paper.reference.learner import ReferenceLearner
from sonline.paper.reference.losses import Loss, make_loss
from sonline.paper.reference.sketches import Array

RANK_TOLERANCE = 1e-12
"""A gradient raises the rank when more than this share of its energy is outside the span."""


@dataclass(frozen=True)
class Measured:
    """The quantities of a finished stream that the bounds depend on.

    Attributes
    ----------
    rounds, d : int
        ``T`` and the number of features.
    gradient_energy : float
        The sum of the squared norms of the gradients ``g_t = l'(z_t) x_t``.
    spectrum : array of shape (d,)
        Eigenvalues of ``sum ghat ghat'`` with ``ghat_t = sqrt(sigma + eta_t) g_t``, largest first.
    rank : int
        Rank of ``sum g g'``.
    smallest_eigenvalue : float
        ``lambda*``: the smallest nonzero eigenvalue that ``sum_(s<=t) g_s g_s'`` has for any t.
    """

    rounds: int
    d: int
    gradient_energy: float
    spectrum: Array
    rank: int
    smallest_eigenvalue: float


def measure(
    X: ArrayLike,
    y: ArrayLike,
    predictions: ArrayLike,
    loss: str | Loss,
    *,
    sigma: float = 0.0,
    etas: ArrayLike | None = None,
) -> Measured:
    """Compute the quantities of the bounds from rows, labels and a learner's predictions.

    Parameters
    ----------
    X : array of shape (rows, features)
        Rows, in the coordinates in which the learner worked (with its constant feature).
    y, predictions : array of shape (rows,)
        Labels, and predictions made before each update.
    loss : str or Loss
        The loss.
    sigma : float, default=0.0
        ``sigma`` of the to-sketch vectors.
    etas : array of shape (rows,), optional
        ``eta_t``, all 0 by default.

    Returns
    -------
    Measured
        Sums, spectrum and rank.

    Examples
    --------
    >>> measured = measure([[1.0, 0.0], [2.0, 0.0]], [1.0, 1.0], [0.0, 0.0], "squared", sigma=0.25)
    >>> measured.gradient_energy, measured.rank, measured.spectrum.round(12).tolist()
    (5.0, 1, [1.25, 0.0])
    """
    function = make_loss(loss) if isinstance(loss, str) else loss
    rows, labels, made = checked_rows(X, y, predictions, "predictions")
    T, d = rows.shape
    step = np.zeros(T) if etas is None else checked_etas(etas)
    if step.shape != (T,):
        raise InvalidInputError(f"etas must have one entry for each of {T} rows, got {step.shape}")
    slopes = [function.derivative(z, label) for z, label in zip(made, labels, strict=True)]
    g = np.array(slopes)[:, None] * rows
    spectrum = np.zeros(d)
    singular = np.linalg.svd(np.sqrt(sigma + step)[:, None] * g, compute_uv=False)
    spectrum[: len(singular)] = singular**2
    rank, smallest = _smallest_nonzero_eigenvalue(g)
    return Measured(T, d, float(np.sum(g * g)), spectrum, rank, smallest)


def isotropic_tail_cost(
    learner: ReferenceLearner, X: ArrayLike, y: ArrayLike, comparator: ArrayLike
) -> tuple[Array, float]:
    """Let a learner with the isotropic sketch learn; return predictions and cost of the tail.

    The cost is ``sum delta_t |w_t - w|^2``: what round t adds to the tail, times the squared
    distance of the weights that predicted row t from those of the comparator.

    Parameters
    ----------
    learner : ReferenceLearner
        A new one, in the setting of Theorem A: bound, explicit steps, curvature of gradients, one
        alpha; no intercept, scaling or clipping.
    X : array of shape (rows, features)
        Rows.
    y : array of shape (rows,)
        Labels.
    comparator : array of shape (features,)
        The weights ``w``.

    Returns
    -------
    predictions : array of shape (rows,)
        Those made before each update.
    cost : float
        For `isotropic_bound`.

    Examples
    --------
    >>> learner = ReferenceLearner("squared", "isotropic", 1, bound=1.0, intercept=False)
    >>> X = [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    >>> predictions, cost = isotropic_tail_cost(learner, X, [1.0, 1.0, 1.0], [0.5, 1.0, 0.0])
    >>> print(predictions.round(3), round(cost, 3))
    [0.  0.  0.8] 0.315
    """
    fits = (
        learner.sketch_name == "isotropic"
        and math.isfinite(learner.bound)
        and learner.explicit
        and learner.scaling == "none"
        and not (learner.hessian or learner.relative_alpha or learner.clip or learner.intercept)
    )
    if not fits or learner.rounds:
        raise InvalidInputError(
            'Theorem A needs a new learner with sketch="isotropic", a bound, step="explicit", '
            'curvature="gradient", a number as alpha, scaling="none", '
            "clip=False and intercept=False"
        )
    best = np.asarray(comparator, dtype=np.float64)
    predictions, cost, tail, w = [], 0.0, 0.0, np.zeros_like(best)
    for row, label in zip(np.asarray(X, dtype=np.float64), np.asarray(y, float), strict=True):
        if learner.rounds:
            w, _ = learner.sketch.project(learner.w, row, learner.bound)
        predictions.append(learner.learn(row[None, :], [label])[0])
        cost += (learner.sketch.tail - tail) * float((w - best) @ (w - best))
        tail = learner.sketch.tail
    return np.array(predictions), cost


def _smallest_nonzero_eigenvalue(g: Array) -> tuple[int, float]:
    """Return the rank of ``sum g g'`` and its ``lambda*``.

    While the rank stays the same the smallest nonzero eigenvalue can only grow, so it is enough
    to look at the rounds in which the rank does.
    """
    basis, smallest = np.zeros((0, g.shape[1])), math.inf
    for t, row in enumerate(g):
        residual = row - (basis @ row) @ basis
        residual = residual - (basis @ residual) @ basis
        if float(residual @ residual) > RANK_TOLERANCE * float(row @ row):
            basis = np.vstack([basis, residual / np.linalg.norm(residual)])
            singular = np.linalg.svd(g[: t + 1] @ basis.T, compute_uv=False)
            smallest = min(smallest, float(singular[-1]) ** 2)
    return len(basis), smallest


def checked_rows(
    X: ArrayLike, y: ArrayLike, other: ArrayLike | None, name: str
) -> tuple[Array, Array, Array]:
    """Return rows, labels and another number for each row (1 by default), or raise an error."""
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    numbers = np.ones(len(rows)) if other is None else np.asarray(other, float)
    if rows.ndim != 2 or labels.shape != rows.shape[:1] or numbers.shape != rows.shape[:1]:
        raise InvalidInputError(
            f"X must have shape (rows, features), y and {name} (rows,); "
            f"got {rows.shape}, {labels.shape} and {numbers.shape}"
        )
    if not all(np.isfinite(array).all() for array in (rows, labels, numbers)):
        raise InvalidInputError(f"X, y and {name} must be finite; remove such rows first")
    if name == "sample_weight" and (numbers < 0).any():
        raise InvalidInputError("sample_weight must not be negative")
    return rows, labels, numbers


def checked_etas(etas: ArrayLike) -> Array:
    """Return the steps as an array, or raise if the theorems do not allow them."""
    array = np.asarray(etas, dtype=np.float64)
    if array.ndim != 1 or (array < 0).any() or (np.diff(array) > 0).any():
        raise InvalidInputError(
            "etas must be one non-negative number per round that never increases, as the theorems "
            f"assume; got shape {array.shape}"
        )
    return array
