"""Losses as pure scalar functions of the raw prediction ``z`` and the label ``y``.

The paper asks two things of a loss on ``|z| <= C``: a slope of at most ``L`` (Assumption 1) and a
curvature ``sigma`` (Assumption 2), in scalar form: for all ``|a|, |b| <= C``

    l(b) >= l(a) + l'(a)(b - a) + sigma/2 * (l'(a)(b - a))**2.

Regression losses assume ``|y| <= C`` there, as the paper does; the others have ``y`` in {-1, +1}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Loss:
    """A loss and what it guarantees.

    Parameters
    ----------
    name : str
        Its name, as in ``OnlineLearner(loss=...)``.
    value, derivative : callable
        ``l(z, y)`` and ``l'(z, y)`` (a subgradient at a kink).
    second_derivative : callable or None
        ``l''(z, y)``; None where the loss is piecewise linear.
    lipschitz : callable
        ``L(C)``: the largest ``|l'|`` on ``|z| <= C``.
    sigma : callable
        ``sigma(C)``: a curvature that Assumption 2 holds with.
    binary : bool
        Whether the label must be -1 or +1.

    Examples
    --------
    >>> squared = make_loss("squared")
    >>> squared.value(3.0, 1.0), squared.derivative(3.0, 1.0), squared.sigma(1.0)
    (2.0, 2.0, 0.25)
    """

    name: str
    value: Callable[[float, float], float]
    derivative: Callable[[float, float], float]
    second_derivative: Callable[[float, float], float] | None
    lipschitz: Callable[[float], float]
    sigma: Callable[[float], float]
    binary: bool


def _exp_concave_sigma(bound: float, lipschitz: float, exp_concavity: float) -> float:
    """Hazan, Agarwal and Kale (2007), Lemma 3: sigma = 1/2 min(1/(4 G D), a), G D = L * 2C."""
    return 0.5 * min(1.0 / (8.0 * bound * lipschitz), exp_concavity)


def _one_minus_p(margin: float) -> float:
    """``1/(1 + exp(margin))`` without overflow: the probability of the wrong label."""
    if margin >= 0.0:
        e = math.exp(-margin)
        return e / (1.0 + e)
    return 1.0 / (1.0 + math.exp(margin))


def _logistic_value(z: float, y: float) -> float:
    margin = y * z
    return max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))


def _logistic_curvature(z: float, y: float) -> float:
    e = math.exp(-abs(z))
    return e / (1.0 + e) ** 2


def _quantile_slope(level: float, z: float, y: float) -> float:
    if z == y:
        return 0.0  # a subgradient: a perfect prediction changes nothing
    return 1.0 - level if z > y else -level


_LOSSES: dict[str, Callable[[float], Loss]] = {
    # Half the paper's loss, so its 1/(8C^2) becomes 1/(4C^2): l'' = 1 >= sigma l'^2, |l'| <= 2C.
    "squared": lambda _: Loss(
        name="squared",
        value=lambda z, y: 0.5 * (z - y) ** 2,
        derivative=lambda z, y: z - y,
        second_derivative=lambda z, y: 1.0,
        lipschitz=lambda bound: 2.0 * bound,
        sigma=lambda bound: 1.0 / (4.0 * bound * bound),
        binary=False,
    ),
    "logistic": lambda _: Loss(
        name="logistic",
        value=_logistic_value,
        derivative=lambda z, y: -y * _one_minus_p(y * z),
        second_derivative=_logistic_curvature,
        lipschitz=lambda bound: _one_minus_p(-bound),
        # l''/l'^2 = exp(yz) >= exp(-C)
        sigma=lambda bound: _exp_concave_sigma(bound, _one_minus_p(-bound), math.exp(-bound)),
        binary=True,
    ),
    "hinge": lambda _: Loss(
        name="hinge",
        value=lambda z, y: max(0.0, 1.0 - y * z),
        derivative=lambda z, y: -y if y * z < 1.0 else 0.0,
        second_derivative=None,
        lipschitz=lambda bound: 1.0,
        sigma=lambda bound: 0.0,
        binary=True,
    ),
    "squared_hinge": lambda _: Loss(
        name="squared_hinge",
        value=lambda z, y: 0.5 * max(0.0, 1.0 - y * z) ** 2,
        derivative=lambda z, y: -y * max(0.0, 1.0 - y * z),
        second_derivative=lambda z, y: 1.0 if y * z < 1.0 else 0.0,
        lipschitz=lambda bound: 1.0 + bound,
        # l''/l'^2 = 1/(1 - yz)^2 >= 1/(1 + C)^2
        sigma=lambda bound: _exp_concave_sigma(bound, 1.0 + bound, (1.0 + bound) ** -2),
        binary=True,
    ),
    "quantile": lambda level: Loss(
        name="quantile",
        value=lambda z, y: max(level * (y - z), (level - 1.0) * (y - z)),
        derivative=partial(_quantile_slope, level),
        second_derivative=None,
        lipschitz=lambda bound: max(level, 1.0 - level),
        sigma=lambda bound: 0.0,
        binary=False,
    ),
}
LOSSES = tuple(_LOSSES)


def make_loss(name: str, quantile: float = 0.5) -> Loss:
    """Return the loss of that name.

    Parameters
    ----------
    name : {"squared", "logistic", "hinge", "squared_hinge", "quantile"}
        Which loss.
    quantile : float, default=0.5
        The level of the quantile loss; the others ignore it.

    Returns
    -------
    Loss
        The loss.

    Examples
    --------
    >>> make_loss("quantile", quantile=0.9).value(0.0, 2.0)
    1.8
    """
    if not 0.0 < quantile < 1.0:
        raise ValueError(f"quantile must lie strictly between 0 and 1, got {quantile!r}")
    if name not in _LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {name!r}")
    return _LOSSES[name](quantile)
