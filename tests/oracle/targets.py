"""The labels of one output: range, offset, base rate, typical losses, outliers: targets.hpp."""

from __future__ import annotations

import math

import numpy as np

from oracle.config import Config, Seen
from sonline.paper.reference.sketches import Array

FIRST_LABELS = 16
YOUNG, OUTLIER = 16, 1024
LARGEST_LOSS = 5.0


class TypicalLoss:
    """A mean of losses in which one outlier counts for little."""

    def __init__(self) -> None:
        self.mean = self.count = 0.0

    @property
    def limit(self) -> float:
        return OUTLIER * self.mean if self.count >= YOUNG and self.mean > 0 else math.inf

    def take(self, loss: float) -> None:
        if loss > self.limit:
            loss = self.limit
            self.count = max(self.count / 2, YOUNG)
        self.count += 1
        self.mean += (loss - self.mean) / self.count


class Targets:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.low, self.high = math.inf, -math.inf
        self.offset = self.mean = self.weight = self.unit = 0.0
        self.typical = {"next": TypicalLoss(), "later": TypicalLoss()}

    @property
    def base(self) -> float:
        """The best prediction within the bound that is the same for all rows, less the offset."""
        if not self.config.intercept or self.weight == 0.0:
            return 0.0
        if self.config.loss.binary:
            positive, half = 0.5 * (1 + self.mean) * self.weight, 0.5 * self.unit
            best = math.log((positive + half) / (self.weight - positive + half))
        else:
            best = self.mean - self.offset if self.config.curved else 0.0
        return min(max(best, -self.config.bound), self.config.bound)

    def take(self, y: float, weight: float, seen: Seen) -> None:
        self.low, self.high = min(self.low, y), max(self.high, y)
        self.weight += weight
        self.unit = seen.unit
        self.mean += weight / self.weight * (y - self.mean)
        centred = not self.config.loss.binary and self.config.unit_free and self.config.intercept
        if centred and seen.count <= FIRST_LABELS:
            self.offset += (y - self.offset) / seen.count

    def clipped(self, z: Array) -> Array:
        """With `clip`: to the labels seen, but never beyond the bound."""
        if not self.config.clip:
            return z
        if self.low <= self.high:
            z = np.clip(z, self.low - self.offset, self.high - self.offset)
        return np.clip(z, -self.config.bound, self.config.bound)

    def take_loss(self, z: dict[str, float], y: float) -> float:
        """Take in the losses of both uses; return y, moved towards z if it is an outlier."""
        limit = self.typical["next"].limit
        for use, typical in self.typical.items():
            typical.take(self.config.loss.value(z[use], y))
        loss = self.config.loss.value(z["next"], y)
        if self.config.unit_free and self.config.curved and loss > limit:
            return z["next"] + (y - z["next"]) * math.sqrt(limit / loss)
        return y

    @property
    def pull(self) -> float:
        """The unit of the slope of a loss that grows like ``|y - z|``."""
        linear = not self.config.loss.binary and not self.config.curved
        return 2 * self.typical["next"].mean if self.config.unit_free and linear else 1.0

    def likelihoods(self, use: str, z: Array, y: float) -> Array:
        """Return how likely each prediction made the label. A typical loss of numbers is 1/2."""
        losses = np.array([self.config.loss.value(float(each), y) for each in z])
        if self.config.loss.binary:
            return np.exp(-np.minimum(losses, 30.0))
        unit = 2 * self.typical[use].mean
        excess = (losses - losses.min()) / unit if unit > 0 else np.zeros_like(losses)
        return np.exp(-np.minimum(excess, LARGEST_LOSS))
