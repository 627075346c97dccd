"""The labels of one output: range, offset, base rate, typical losses, outliers: targets.hpp."""

from __future__ import annotations

import math

import numpy as np

from oracle.config import Config, Seen
from sonline.paper.reference.sketches import Array

FIRST_LABELS = 16
FIRST_POSITIVES = 32
YOUNG, OUTLIER = 16, 1024
LARGEST_LOSS = 5.0


class TypicalLoss:
    """A mean of losses in which one outlier counts for little."""

    def __init__(self) -> None:
        self.mean = self.count = 0.0

    @property
    def limit(self) -> float:
        return OUTLIER * self.mean if self.count >= YOUNG and self.mean > 0 else math.inf

    def take(self, loss: float, kept: float) -> None:
        self.count *= kept
        if loss > self.limit:
            loss = self.limit
            self.count = max(self.count / 2, YOUNG)
        self.count += 1
        self.mean += (loss - self.mean) / self.count

    def take_rare(self, loss: float) -> None:
        """With a log link: a row adds at most as much as all rows before it."""
        self.count += 1
        self.mean += (min(loss, self.count * max(self.mean, 1.0)) - self.mean) / self.count

    @property
    def cautious_mean(self) -> float:
        """The mean, as if some rows of loss 1/2 had come first."""
        return (self.mean * self.count + 0.5 * YOUNG) / (self.count + YOUNG)


class Targets:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.low, self.high = math.inf, -math.inf
        self.offset = self.mean = self.weight = self.unit = 0.0
        self.positives = 0  # labels above 0
        self.gap = 0.0
        self.typical = {"next": TypicalLoss(), "later": TypicalLoss()}
        self.typical_base = TypicalLoss()

    @property
    def base(self) -> float:
        """The best prediction within the bound that is the same for all rows, less the offset."""
        if not self.config.intercept or self.weight == 0.0:
            return 0.0
        if self.config.log_link:
            best = self.log_of_mean - self.offset
        elif self.config.loss.binary:
            best = math.log((1 + self.mean) * self.weight + self.unit)
            best -= math.log((1 - self.mean) * self.weight + self.unit)
        else:
            best = 0.0  # the offset: an outlier does not move it
        return min(max(best, -self.config.bound), self.config.bound)

    @property
    def log_of_mean(self) -> float:
        of_zeros = 0.5 * self.unit / (self.weight + 0.5 * self.unit)
        return math.log(self.mean if self.mean > 0 else of_zeros)

    def take(self, y: float, weight: float, seen: Seen) -> None:
        self.low, self.high = min(self.low, y), max(self.high, y)
        self.weight = self.config.kept * self.weight + weight
        self.unit = seen.unit
        self.mean += weight / self.weight * (y - self.mean)
        centred = not self.config.loss.binary and self.config.unit_free and self.config.intercept
        if centred and self.config.log_link:
            if self.positives < FIRST_POSITIVES:
                self.offset = self.log_of_mean
        elif centred and seen.count <= FIRST_LABELS:
            self.offset += (y - self.offset) / seen.count
        self.positives += y > 0

    def less_offset(self, y: float) -> float:
        return y * math.exp(-self.offset) if self.config.log_link else y - self.offset

    def clipped(self, z: Array) -> Array:
        """With `clip`: to the labels seen, but never beyond the bound."""
        if not self.config.clip:
            return z
        if self.low <= self.high:
            ends = np.array([self.low, self.high])
            if self.config.log_link:
                ends = np.log(np.maximum(ends, 1e-300))
            z = np.clip(z, *(ends - self.offset))
        return np.clip(z, -self.config.bound, self.config.bound)

    def _cost(self, z: float, y: float) -> float:
        if self.config.loss.scale is not None:  # huber: errors are cut
            return 0.5 * self.config.loss.derivative(z, y) ** 2
        return self.config.loss.value(z, y)

    def take_loss(self, z: dict[str, float], y: float, rows: float) -> float:
        """Take in the losses of both uses; return y, moved towards z if it is an outlier."""
        if self.config.log_link:  # half of Pearson's statistic
            power = self.config.loss.power
            for use, typical in self.typical.items():
                label = y * math.exp(-power * z[use] / 2) if y else 0.0
                mean = math.exp((1 - power / 2) * z[use])
                typical.take_rare(rows * 0.5 * (label - mean) ** 2)
            return y
        if self.config.loss.scale is not None and self.config.unit_free:
            mean = self.typical["next"].mean
            cut = math.sqrt(2 * mean) if mean > 0 else 1e150
            self.config.loss.scale[0] = cut * math.sqrt(1 + 1 / self.config.loss.delta**2)
        limit = self.typical["next"].limit
        size = max(abs(self.low - self.offset), abs(self.high - self.offset), 1e-300)
        least = self.config.loss.value(1e-6 * size, 0.0) if self.config.kept < 1 else 0.0
        for use, typical in self.typical.items():
            typical.take(max(self._cost(z[use], y), least), self.config.kept)
        if self.config.loss.name == "quantile":
            self._keep_level(z, y)
        if self.config.curved:
            of_base = self._cost(self.base, y)
            self.typical_base.take(max(of_base, least), self.config.kept)
        loss = self._cost(z["next"], y)
        if self.config.unit_free and self.config.curved and loss > limit:
            return z["next"] + (y - z["next"]) * math.sqrt(limit / loss)
        return y

    def _keep_level(self, z: dict[str, float], y: float) -> None:
        """Of a quantile: move the gap until as many labels are below as it says."""
        if not (self.config.unit_free and self.config.intercept):
            return
        level = -self.config.loss.derivative(0.0, 1.0)
        width = self.typical["later"].mean / (4 * (level * (1 - level)) ** 2)
        rate = max(1 / (self.weight / self.unit + 16), 1 / 200)
        below = np.mean([y < z[use] + self.gap for use in ("next", "later")])
        self.gap += rate * width * (level - below)

    @property
    def pull(self) -> float:
        """The unit of the slope of a loss that grows like ``|y - z|``."""
        linear = not self.config.loss.binary and not self.config.curved
        return 2 * self.typical["next"].mean if self.config.unit_free and linear else 1.0

    @property
    def unit_of_losses(self) -> float:
        """What makes slopes of losses for calibration, where labels have a unit."""
        unit = 1.0 if self.config.loss.binary else 2 * self.typical_base.mean
        return 1 / unit if unit > 0 else 0.0

    @property
    def largest_slope(self) -> float:
        """Of an error, which may be an outlier."""
        mean = self.typical["next"].mean
        return math.inf if self.config.loss.binary else math.sqrt(4 * LARGEST_LOSS * mean)

    @property
    def unit_of_alpha(self) -> float:
        if not (self.config.log_link and self.config.unit_free):
            return 1.0
        return 2 * self.typical["next"].cautious_mean

    @property
    def unit_of_gradients(self) -> float:
        """The unit of gradients, where labels have one that must not matter."""
        mean = self.typical["next"].mean
        has_unit = not self.config.loss.binary and self.config.curved and mean > 0
        has_unit &= not self.config.log_link
        return math.sqrt(2 * mean) if has_unit else 1.0

    def balance(self, squares: float, variance: float, rows: float) -> None:
        """Keep the mean prediction that of the labels: steps, and blends, are of logarithms."""
        if not (self.config.log_link and self.config.unit_free) or self.positives < FIRST_POSITIVES:
            return
        power = self.config.loss.power
        seen = self.weight * math.exp((2 - power) * self.base)
        self.offset -= min(max(0.5 * (3 - 2 * power) * squares / seen, -0.1), 0.1)
        rate = 16 * rows / (self.weight / self.unit + 16)
        self.gap += min(rate, 0.5) * (0.5 * variance - self.gap)

    def likelihoods(self, use: str, z: Array, y: float) -> Array:
        """Return how likely each prediction made the label. A typical loss of numbers is 1/2."""
        losses = np.array([self.config.loss.value(float(each), y) for each in z])
        if self.config.loss.binary:
            return np.exp(-np.minimum(losses, 30.0))
        typical = self.typical[use]
        unit = 2 * (typical.cautious_mean if self.config.log_link else typical.mean)
        excess = (losses - losses.min()) / unit if unit > 0 else np.zeros_like(losses)
        return np.exp(-np.minimum(excess, LARGEST_LOSS))
