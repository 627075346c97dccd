"""The best weights in hindsight, with a certificate, and the regret to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import ArrayLike

from sonline.errors import InvalidInputError
from sonline.paper.reference.losses import Loss, make_loss
from sonline.paper.reference.sketches import Array
from sonline.paper.theory.measured import checked_rows

RANK_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Comparator:
    """The best weights in hindsight within the bound.

    Attributes
    ----------
    weights : array of shape (features,)
        Those of smallest norm, if several weights predict the same.
    predictions : array of shape (rows,)
        ``X @ weights``, all within the bound.
    loss : float
        The summed loss of those predictions.
    gap : float
        A certificate from duality: no weights within the bound have a loss below ``loss - gap``.
    """

    weights: Array
    predictions: Array
    loss: float
    gap: float


def best_comparator(
    X: ArrayLike,
    y: ArrayLike,
    loss: str | Loss,
    bound: float,
    *,
    sample_weight: ArrayLike | None = None,
    tolerance: float = 1e-8,
) -> Comparator:
    """Minimise the summed loss over all weights with ``|w.x_t| <= bound`` on every row.

    Losses with a second derivative are minimised by Newton's method on a logarithmic barrier,
    the others by linear programmes over cutting planes. In either case the gap is
    computed afterwards from a dual point: for every ``v`` with ``X'v = 0``, the sum over the rows
    of ``min {l_t(z) + v_t z : |z| <= C}`` is a lower bound on what any weights can reach.

    Parameters
    ----------
    X : array of shape (rows, features)
        The rows of the finished stream.
    y : array of shape (rows,)
        Their labels.
    loss : str or Loss
        The name of a loss, or any convex loss.
    bound : float
        ``C``.
    sample_weight : array of shape (rows,), optional
        Weights of the rows, 1 by default.
    tolerance : float, default=1e-8
        The largest gap that is accepted, relative to ``1 + loss``.

    Returns
    -------
    Comparator
        Weights, predictions, loss and gap.

    Raises
    ------
    sonline.errors.InvalidInputError
        If an argument cannot be used.
    ArithmeticError
        If the gap cannot be brought below the tolerance.

    Examples
    --------
    The mean of the labels is 1, which a bound of 0.5 does not allow:

    >>> best = best_comparator([[1.0], [1.0]], [0.0, 2.0], "squared", bound=0.5)
    >>> print(best.weights.round(6), round(best.loss, 6), best.gap < 1e-7)
    [0.5] 1.25 True
    """
    rows, labels, weight = checked_rows(X, y, sample_weight, "sample_weight")
    if not 0.0 < bound < math.inf:
        raise InvalidInputError(f"bound must be a positive finite number, got {bound!r}")
    problem = _Problem(make_loss(loss) if isinstance(loss, str) else loss, labels, weight, bound)

    # In an orthonormal basis of the column space the problem does not depend on the coordinates
    # of the features, and its conditioning not on theirs.
    U, singular, Vt = np.linalg.svd(rows, full_matrices=False)
    rank = int(np.sum(singular > RANK_TOLERANCE * singular.max(initial=0.0)))
    U, singular, Vt = U[:, :rank], singular[:rank], Vt[:rank]
    if rank == 0:
        q, dual = np.zeros(0), -weight * problem.slope(np.zeros(len(rows)), labels)
    elif problem.loss.second_derivative is not None:
        q, dual = _barrier(problem, U, tolerance)
    else:
        q, dual = _cutting_planes(problem, U, tolerance)

    weights = (q / singular) @ Vt
    predictions = rows @ weights
    largest = float(np.abs(predictions).max(initial=0.0))
    if largest > bound:  # by rounding or by the tolerance of the solver
        weights, predictions = weights * (bound / largest), predictions * (bound / largest)
        predictions = np.clip(predictions, -bound, bound)
    total = problem.total(predictions)
    gap = total - problem.lower_bound(dual - U @ (U.T @ dual))
    if not gap <= tolerance * (1.0 + abs(total)):
        raise ArithmeticError(
            f"the best comparator was found only up to {gap:.1e} of its loss {total:.6g}; "
            f"allow that with tolerance, now {tolerance!r}"
        )
    return Comparator(weights, predictions, total, max(gap, 0.0))


def regret(
    predictions: ArrayLike,
    comparator_predictions: ArrayLike,
    y: ArrayLike,
    loss: str | Loss,
    *,
    sample_weight: ArrayLike | None = None,
) -> Array:
    """Return the regret after every round: losses so far minus those of the comparator.

    Parameters
    ----------
    predictions : array of shape (rows,)
        What the learner predicted before each update.
    comparator_predictions : array of shape (rows,)
        What the comparator predicts.
    y : array of shape (rows,)
        Labels.
    loss : str or Loss
        The loss.
    sample_weight : array of shape (rows,), optional
        Weights of the rows, 1 by default.

    Returns
    -------
    array of shape (rows,)
        ``R_1(w), ..., R_T(w)``.

    Examples
    --------
    >>> print(regret([0.0, 0.5], [1.0, 1.0], [1.0, 1.0], "squared"))
    [0.5   0.625]
    """
    made = np.asarray(predictions, dtype=np.float64)
    other = np.asarray(comparator_predictions, dtype=np.float64)
    _, labels, weight = checked_rows(made[:, None], y, sample_weight, "sample_weight")
    if other.shape != made.shape:
        raise InvalidInputError(
            f"comparator_predictions must have shape {made.shape} like predictions, "
            f"got {other.shape}"
        )
    value = _over_rows((make_loss(loss) if isinstance(loss, str) else loss).value)
    return np.cumsum(weight * (value(made, labels) - value(other, labels)))


def _over_rows(function: Callable[[float, float], float]) -> Callable[[Array, Array], Array]:
    """Apply a scalar function of prediction and label to arrays."""
    return lambda z, y: np.array([function(a, b) for a, b in zip(z, y, strict=True)], float)


class _Problem:
    """Minimise ``sum weight_t l(z_t, y_t)`` over the predictions ``|z_t| <= bound``."""

    def __init__(self, loss: Loss, y: Array, weight: Array, bound: float) -> None:
        self.loss, self.y, self.weight, self.bound = loss, y, weight, bound
        self.value, self.slope = _over_rows(loss.value), _over_rows(loss.derivative)

    def total(self, z: Array) -> float:
        return float(self.weight @ self.value(z, self.y))

    def lower_bound(self, dual: Array) -> float:
        """Return ``sum min {weight l(z) + dual z : |z| <= C}``, the minima by bisection."""
        low, high = np.full_like(self.y, -self.bound), np.full_like(self.y, self.bound)
        for _ in range(64):
            middle = 0.5 * (low + high)
            rising = self.weight * self.slope(middle, self.y) + dual > 0.0
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        candidates = [low, high, np.full_like(low, -self.bound), np.full_like(low, self.bound)]
        values = [self.weight * self.value(z, self.y) + dual * z for z in candidates]
        return float(np.min(values, axis=0).sum())


def _barrier(problem: _Problem, U: Array, tolerance: float) -> tuple[Array, Array]:
    """Follow the central path of ``sum l_t - mu sum ln(C^2 - z_t^2)``; return primal and dual."""
    C2, y, weight = problem.bound**2, problem.y, problem.weight
    second = problem.loss.second_derivative
    curvature = _over_rows(second if second is not None else lambda z, y: 0.0)

    def objective(z: Array, mu: float) -> float:
        room = C2 - z * z
        if (room <= 0.0).any():
            return math.inf
        return problem.total(z) - mu * float(np.log(room).sum())

    q = np.zeros(U.shape[1])
    mu = max(1.0, problem.total(U @ q)) / len(y)
    smallest = 1e-15 * mu  # beyond this the rounding of C^2 - z^2 takes over
    best_bound, best_dual = -math.inf, np.zeros(len(y))
    while True:
        for _ in range(100):
            z = U @ q
            room = C2 - z * z
            slope = weight * problem.slope(z, y) + mu * 2.0 * z / room
            bend = weight * curvature(z, y) + mu * 2.0 * (C2 + z * z) / room**2
            direction = np.linalg.solve((U.T * bend) @ U, -(U.T @ slope))
            decrement = -float((U.T @ slope) @ direction)
            if decrement <= 1e-9 * mu:
                break
            size, before = 1.0, objective(z, mu)
            # Close to the centre the decrease drowns in rounding: there only stay inside.
            needed = 0.25 * decrement if decrement > 1e-3 * mu else -math.inf
            while (
                size > 1e-12
                and not objective(U @ (q + size * direction), mu) < before - size * needed
            ):
                size *= 0.5
            q = q + size * direction
        # The slopes after the next Newton step would balance: U' dual = 0 up to rounding.
        dual = -(slope + bend * (U @ direction))
        lower, total = problem.lower_bound(dual - U @ (U.T @ dual)), problem.total(U @ q)
        if lower > best_bound:
            best_bound, best_dual = lower, dual
        if total - best_bound <= 0.5 * tolerance * (1.0 + abs(total)) or mu < smallest:
            return q, best_dual
        mu *= 0.2


def _cutting_planes(problem: _Problem, U: Array, tolerance: float) -> tuple[Array, Array]:
    """Minimise a growing set of tangents ``s_t >= l_t(a) + l_t'(a)(z - a)`` by linear programmes.

    The variables are (q, z, s) with ``z = Uq`` and ``|z| <= C``. For a loss of two straight pieces
    the tangents at the two ends are the loss, so one programme is enough.
    """
    T, r = U.shape
    C, y = problem.bound, problem.y
    identity, nothing = scipy.sparse.identity(T), scipy.sparse.csr_matrix((T, T))
    equal = _stacked([[scipy.sparse.csr_matrix(U), -identity, nothing]])
    cost = np.concatenate([np.zeros(r + T), problem.weight])
    limits = [(None, None)] * r + [(-C, C)] * T + [(None, None)] * T
    touch = [np.full(T, -C), np.full(T, C)]  # where the tangents touch
    while True:
        slopes = [problem.slope(at, y) for at in touch]
        none = scipy.sparse.csr_matrix((T, r))
        tangents = _stacked([[none, scipy.sparse.diags(a), -identity] for a in slopes])
        offsets = [a * at - problem.value(at, y) for a, at in zip(slopes, touch, strict=True)]
        result: Any = scipy.optimize.linprog(
            cost, tangents, np.concatenate(offsets), equal, np.zeros(T), limits, method="highs"
        )
        if result.status != 0:
            raise ArithmeticError(f"the linear programme was not solved: {result.message}")
        q = np.asarray(result.x[:r])
        z = np.clip(U @ q, -C, C)
        below = problem.total(z) - float(result.fun)
        if below <= 0.1 * tolerance * (1.0 + abs(result.fun)) or len(touch) >= 100:
            return q, np.asarray(result.eqlin.marginals)
        touch.append(z)


def _stacked(blocks: list[list[Any]]) -> Any:  # the stubs of SciPy know no sparse programmes
    return scipy.sparse.bmat(blocks, format="csr")
