"""Losses as pure scalar functions of the raw prediction ``z`` and the label ``y``.

The paper asks two things of a loss on ``|z| <= C``: a slope of at most ``L`` (Assumption 1) and a
curvature ``sigma`` (Assumption 2), in scalar form: for all ``|a|, |b| <= C``

    l(b) >= l(a) + l'(a)(b - a) + sigma/2 * (l'(a)(b - a))**2.

Regression losses assume ``|y| <= C`` there, as the paper does; the others have ``y`` in {-1, +1}.
Those of means (poisson, gamma, tweedie) have ``y >= 0``, and ``z`` is the logarithm of the mean.
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
    power : float or None
        For a loss of means: the variance of a label grows like its mean to this power.
    scale : list of one float, or None
        Of the huber loss: what delta is relative to. A learner may change it.
    delta : float or None
        Of the huber loss.
    positive : bool
        Whether the label must be above 0.

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
    power: float | None = None
    scale: list[float] | None = None
    delta: float | None = None
    positive: bool = False


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


def _exp(x: float) -> float:
    """Return ``exp(x)``, but beyond 708 that of 708, as the core does."""
    return math.exp(min(max(x, -708.0), 708.0))


def _log_link(name: str, power: float) -> Loss:
    """Return half the deviance of a mean ``exp(z)``."""

    def parts(z: float, y: float) -> tuple[float, float]:
        return _exp((2 - power) * z), y * _exp((1 - power) * z)

    def value(z: float, y: float) -> float:
        a, b = parts(z, y)
        if power == 1:
            return a - y + (y * (math.log(y) - z) if y > 0 else 0.0)
        if power == 2:
            return b - 1 - (math.log(y) - z)
        least = float(y ** (2 - power)) / ((power - 1) * (2 - power))
        return a / (2 - power) + b / (power - 1) - least

    def bend(z: float, y: float) -> float:
        a, b = parts(z, y)
        return (2 - power) * a + (power - 1) * b

    def lipschitz(bound: float) -> float:
        least = math.exp((power - 2) * bound)
        return max(math.exp((2 - power) * bound), bound * math.exp((power - 1) * bound) - least)

    def sigma(bound: float) -> float:
        least = (2 - power) * math.exp((power - 2) * bound)  # of the second derivative
        L = lipschitz(bound)
        return _exp_concave_sigma(bound, L, least / L**2) if power < 2 else 0.0

    return Loss(
        name=name,
        value=value,
        derivative=lambda z, y: parts(z, y)[0] - parts(z, y)[1],
        second_derivative=bend,
        lipschitz=lipschitz,
        sigma=sigma,
        binary=False,
        power=power,
        positive=power == 2,
    )


def _huber(delta: float) -> Loss:
    scale = [1.0]

    def end() -> float:
        return delta * scale[0]

    def value(z: float, y: float) -> float:
        size = abs(z - y)
        return 0.5 * size**2 if size <= end() else end() * (size - 0.5 * end())

    return Loss(
        name="huber",
        value=value,
        derivative=lambda z, y: min(max(z - y, -end()), end()),
        second_derivative=lambda z, y: 1.0 if abs(z - y) <= end() else 0.0,
        lipschitz=lambda bound: min(end(), 2 * bound),
        sigma=lambda bound: 1.0 / (4.0 * bound * bound) if 2 * bound <= end() else 0.0,
        binary=False,
        scale=scale,
        delta=delta,
    )


def _expectile(level: float) -> Loss:
    def side(z: float, y: float) -> float:
        return 2.0 * (level if y > z else 1.0 - level)

    most, least = 2.0 * max(level, 1.0 - level), 2.0 * min(level, 1.0 - level)
    return Loss(
        name="expectile",
        value=lambda z, y: 0.5 * side(z, y) * (z - y) ** 2,
        derivative=lambda z, y: side(z, y) * (z - y),
        second_derivative=side,
        lipschitz=lambda bound: most * 2.0 * bound,
        sigma=lambda bound: least / (most * 2.0 * bound) ** 2,
        binary=False,
    )


def _epsilon_insensitive(epsilon: float) -> Loss:
    return Loss(
        name="epsilon_insensitive",
        value=lambda z, y: max(0.0, abs(z - y) - epsilon),
        derivative=lambda z, y: math.copysign(1.0, z - y) if abs(z - y) > epsilon else 0.0,
        second_derivative=None,
        lipschitz=lambda bound: 1.0 if 2 * bound > epsilon else 0.0,
        sigma=lambda bound: 0.0,
        binary=False,
    )


# Each is made of the parameters of all.
_LOSSES: dict[str, Callable[..., Loss]] = {
    # Half the paper's loss, so its 1/(8C^2) becomes 1/(4C^2): l'' = 1 >= sigma l'^2, |l'| <= 2C.
    "squared": lambda **_: Loss(
        name="squared",
        value=lambda z, y: 0.5 * (z - y) ** 2,
        derivative=lambda z, y: z - y,
        second_derivative=lambda z, y: 1.0,
        lipschitz=lambda bound: 2.0 * bound,
        sigma=lambda bound: 1.0 / (4.0 * bound * bound),
        binary=False,
    ),
    "logistic": lambda **_: Loss(
        name="logistic",
        value=_logistic_value,
        derivative=lambda z, y: -y * _one_minus_p(y * z),
        second_derivative=_logistic_curvature,
        lipschitz=lambda bound: _one_minus_p(-bound),
        # l''/l'^2 = exp(yz) >= exp(-C)
        sigma=lambda bound: _exp_concave_sigma(bound, _one_minus_p(-bound), math.exp(-bound)),
        binary=True,
    ),
    "hinge": lambda **_: Loss(
        name="hinge",
        value=lambda z, y: max(0.0, 1.0 - y * z),
        derivative=lambda z, y: -y if y * z < 1.0 else 0.0,
        second_derivative=None,
        lipschitz=lambda bound: 1.0,
        sigma=lambda bound: 0.0,
        binary=True,
    ),
    "squared_hinge": lambda **_: Loss(
        name="squared_hinge",
        value=lambda z, y: 0.5 * max(0.0, 1.0 - y * z) ** 2,
        derivative=lambda z, y: -y * max(0.0, 1.0 - y * z),
        # A bound of 1 puts predictions exactly there: rounding must not decide.
        second_derivative=lambda z, y: 1.0 if y * z < 1.0 - 1e-9 else 0.0,
        lipschitz=lambda bound: 1.0 + bound,
        # l''/l'^2 = 1/(1 - yz)^2 >= 1/(1 + C)^2
        sigma=lambda bound: _exp_concave_sigma(bound, 1.0 + bound, (1.0 + bound) ** -2),
        binary=True,
    ),
    "quantile": lambda quantile, **_: Loss(
        name="quantile",
        value=lambda z, y: max(quantile * (y - z), (quantile - 1.0) * (y - z)),
        derivative=partial(_quantile_slope, quantile),
        second_derivative=None,
        lipschitz=lambda bound: max(quantile, 1.0 - quantile),
        sigma=lambda bound: 0.0,
        binary=False,
    ),
    "poisson": lambda **_: _log_link("poisson", 1.0),
    "gamma": lambda **_: _log_link("gamma", 2.0),
    "tweedie": lambda power, **_: _log_link("tweedie", power),
    "huber": lambda delta, **_: _huber(delta),
    "expectile": lambda quantile, **_: _expectile(quantile),
    "epsilon_insensitive": lambda epsilon, **_: _epsilon_insensitive(epsilon),
}
LOSSES = tuple(_LOSSES)


def make_loss(
    name: str,
    quantile: float = 0.5,
    power: float = 1.5,
    delta: float = 1.345,
    epsilon: float = 0.1,
) -> Loss:
    """Return the loss of that name.

    Parameters
    ----------
    name : str
        Which loss: one of `LOSSES`.
    quantile : float, default=0.5
        The level of the quantile and the expectile loss; the others ignore it.
    power : float, default=1.5
        Of the tweedie loss: the variance of a label grows like its mean to this power.
    delta : float, default=1.345
        Of the huber loss: where its slope stops growing.
    epsilon : float, default=0.1
        Of the epsilon-insensitive loss: the size of errors that do not count.

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
    return _LOSSES[name](quantile=quantile, power=power, delta=delta, epsilon=epsilon)
