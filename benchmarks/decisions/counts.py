"""Counts and amounts: one pass beside `glum`, which sees all rows as often as it likes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_tweedie_deviance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sonline import OnlineLearner

LEARNED, FRESH = 100_000, 50_000  # rows
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # rows, labels, offsets


@dataclass(frozen=True)
class Target:
    """A generated stream of counts or amounts, and the power of its variance."""

    name: str
    loss: str
    power: float
    draw: Callable[[np.random.Generator, int], Drawn] = field(repr=False)


def policies(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of an insurer, the logarithm of the true mean, and exposures.

    Three numbers, two of them correlated, and a weight for each of 10 regions and 30 models.
    """
    numbers = rng.normal(size=(rows, 3))
    numbers[:, 1] += numbers[:, 0]
    parts = [numbers @ [0.3, -0.2, 0.1]]
    columns = [numbers * [10, 1000, 0.1] + [50, 0, 3]]
    weights = np.random.default_rng(3)  # the same for all rows
    for kinds in (10, 30):
        frequent = 1 / np.arange(1, kinds + 1)
        which = rng.choice(kinds, size=rows, p=frequent / frequent.sum())
        parts.append(0.4 * weights.normal(size=kinds)[which])
        columns.append(np.eye(kinds)[which][:, 1:])  # the first one is the usual case
    return np.hstack(columns), np.sum(parts, axis=0), rng.uniform(0.05, 1, rows)


def claims(rng: np.random.Generator, rows: int) -> Drawn:
    X, z, exposure = policies(rng, rows)
    return X, rng.poisson(0.1 * np.exp(z) * exposure).astype(float), np.log(exposure)


def rare_events(rng: np.random.Generator, rows: int) -> Drawn:
    X = rng.normal(size=(rows, 5))
    mean = np.exp(X @ [0.8, -0.5, 0.3, 0, 0])
    return X, rng.poisson(0.01 * mean / np.exp(0.49)).astype(float), None


def sizes(rng: np.random.Generator, rows: int) -> Drawn:
    X, z, _ = policies(rng, rows)
    return X, rng.gamma(0.7, 1000 * np.exp(z) / 0.7), None


def yearly_amounts(rng: np.random.Generator, rows: int) -> Drawn:
    X, z, exposure = policies(rng, rows)
    events = rng.poisson(0.08 * exposure)
    amounts = rng.gamma(np.maximum(events, 1) * 1.0, 1000 * np.exp(z))
    return X, np.where(events > 0, amounts, 0.0), np.log(exposure)


def log_normal(rng: np.random.Generator, rows: int) -> Drawn:
    X = rng.normal(size=(rows, 5))
    return X, np.exp(X @ [0.5, -0.3, 0.2, 0, 0] + 3 * rng.normal(size=rows)), None


TARGETS = (
    Target("claims with exposure", "poisson", 1.0, claims),
    Target("events, 99 % zeros", "poisson", 1.0, rare_events),
    Target("sizes of claims", "gamma", 2.0, sizes),
    Target("yearly amounts, 95 % zeros", "tweedie", 1.5, yearly_amounts),
    Target("log-normal, σ = 3", "gamma", 2.0, log_normal),
)


def run() -> dict[str, Any]:
    return {"results": [compared(target) for target in TARGETS]}


def compared(target: Target) -> dict[str, Any]:
    """Return what one pass, the batch solution and ridge regression predict."""
    X, y, offset = target.draw(np.random.default_rng(1), LEARNED + FRESH)
    learned, fresh = slice(LEARNED), slice(LEARNED, None)
    result: dict[str, Any] = {
        "stream": target.name,
        "loss": target.loss,
        "zeros": float(np.mean(y == 0)),
        "contenders": {},
    }
    for name, make in CONTENDERS.items():
        start = time.process_time()
        predict = make(target, X[learned], y[learned], None if offset is None else offset[learned])
        seconds = time.process_time() - start
        means = predict(X, offset)
        result["contenders"][name] = {
            "seconds": seconds,
            "negative": float(np.mean(means < 0)),
            "mean": float(means[learned].mean() / y[learned].mean()),
            "lift": lift(means[fresh], y[fresh], offset if offset is None else offset[fresh]),
            "learned": deviance(target, y[learned], means[learned]),
            "fresh": deviance(target, y[fresh], means[fresh]),
        }
    return result


def deviance(target: Target, y: np.ndarray, means: np.ndarray) -> float | None:
    """Return the mean deviance; None if a mean is not positive, for then it is infinite."""
    if (means <= 0).any():
        return None
    return float(mean_tweedie_deviance(y, means, power=target.power))


def lift(means: np.ndarray, y: np.ndarray, offset: np.ndarray | None) -> float:
    """Return how much more there is in the tenth of the rows with the largest rates."""
    rates = means if offset is None else means / np.exp(offset)
    top = np.argsort(-rates, kind="stable")[: len(y) // 10]
    exposure = np.ones(len(y)) if offset is None else np.exp(offset)
    return float(y[top].sum() / exposure[top].sum() / (y.sum() / exposure.sum()))


Predict = Callable[[np.ndarray, "np.ndarray | None"], np.ndarray]
Make = Callable[[Target, np.ndarray, np.ndarray, "np.ndarray | None"], Predict]


def _one_pass(**settings: Any) -> Make:
    def make(target: Target, X: np.ndarray, y: np.ndarray, offset: np.ndarray | None) -> Predict:
        learner = OnlineLearner(loss=target.loss, **settings)
        learner.learn(X, y, offset=offset)
        return lambda X, offset: np.asarray(learner.predict(X, offset=offset))

    return make


def _glum(target: Target, X: np.ndarray, y: np.ndarray, offset: np.ndarray | None) -> Predict:
    from glum import GeneralizedLinearRegressor, TweedieDistribution  # noqa: PLC0415 - optional

    scaler = StandardScaler().fit(X)  # the solution is the same, and found sooner
    family = TweedieDistribution(target.power)
    model = GeneralizedLinearRegressor(family=family, link="log", alpha=0, gradient_tol=1e-7)
    model.fit(scaler.transform(X), y, offset=offset)
    return lambda X, offset: np.asarray(model.predict(scaler.transform(X), offset=offset))


def _ridge(_: Target, X: np.ndarray, y: np.ndarray, offset: np.ndarray | None) -> Predict:
    """Predicts rates; with an exposure, they are weighted by it."""
    exposure = np.ones(len(y)) if offset is None else np.exp(offset)
    model = make_pipeline(StandardScaler(), Ridge()).fit(
        X, y / exposure, ridge__sample_weight=exposure
    )

    def predict(X: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
        return np.asarray(model.predict(X)) * (1 if offset is None else np.exp(offset))

    return predict


def _squared(_: Target, X: np.ndarray, y: np.ndarray, offset: np.ndarray | None) -> Predict:
    """What one gets without a loss for such numbers."""
    learner = OnlineLearner(loss="squared")
    exposure = np.ones(len(y)) if offset is None else np.exp(offset)
    learner.learn(X, y / exposure, sample_weight=exposure)
    return lambda X, offset: (
        np.asarray(learner.predict(X)) * (1 if offset is None else np.exp(offset))
    )


CONTENDERS: dict[str, Make] = {
    "one pass": _one_pass(),
    "one pass, `curves=False`": _one_pass(curves=False),
    "glum": _glum,
    "ridge": _ridge,
    "squared loss": _squared,
}
