"""How much each member counts, for the next row and for later rows: mixture.hpp."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oracle.config import Config
from sonline.paper.reference.sketches import Array

LEAST, FIXED_SHARE, FOLLOWER = 1e-300, 1e-3, 0.1
CALIBRATION_ROWS, LARGEST_FACTOR = 100.0, 100.0
FIRST_CURVATURE = 20.0  # of shifts
STEP_OF_SHIFT = {"next": 1.0, "later": 0.1}
PRIOR = {  # for each use: nothing for members of the other, less for followers of the last rows
    "next": {"both": 1.0, "next": FOLLOWER, "later": 0.0},
    "later": {"both": 1.0, "next": 0.0, "later": FOLLOWER},
}
RATE = {"next": 1.0, "later": 0.5}
RATE_OF_FACTORS = {"next": 1.0, "later": 0.03}
Likelihoods = Callable[[str, Array], Array]  # of some predictions
Derivatives = Callable[[Array], tuple[Array, Array]]  # slope and curvature of the loss there


def updated(shares: Array, prior: Array, likelihoods: Array, rows: float) -> Array:
    """Exponential weights with a fixed share, for a row that counts as so many."""
    best = max(likelihoods[shares > 0].max(), LEAST)
    factors = np.maximum(likelihoods / best, LEAST) ** rows
    mixed = FIXED_SHARE * min(rows, 1.0)
    return np.asarray((1 - mixed) * shares * factors / (shares @ factors) + mixed * prior)


def forgotten(shares: Array, prior: Array, kept: float) -> Array:
    """Let what rows have made of the prior count ``kept`` times as much."""
    ratio = np.divide(shares, prior, out=np.zeros_like(shares), where=prior > 0)
    left = prior * ratio**kept
    return np.asarray(left / left.sum())


class Mixture:
    """Shares of members and the factors that calibrate their predictions, for each use."""

    def __init__(self, config: Config) -> None:
        uses = [use for _, _, use in (*config.members, *config.hat_members)]
        self.uses = ("next", "later") if set(uses) - {"both"} else ("next",)
        diagonal = len(config.diagonal)
        # Members that are judged in the third phase only.
        self.sleepers = np.array([use == "later" for use in uses] + diagonal * [True], dtype=bool)
        self.prior: dict[str, Array] = {}
        for use in self.uses:
            each = np.array([PRIOR[use][name] for name in uses] + diagonal * [1.0])
            self.prior[use] = each / each.sum()
        self.shares = dict(self.prior)
        self.factors = {use: np.ones(len(uses) + diagonal) for use in self.uses}
        self.calibrates = config.loss.binary or (config.curved and not config.log_link)
        self.shifts = config.loss.binary and config.intercept
        self.shift = dict.fromkeys(self.uses, 0.0)
        self.curvature = dict.fromkeys(self.uses, 0.0)
        self.kept = config.kept

    @property
    def trivial(self) -> bool:
        return len(self.sleepers) == 1

    def _use(self, use: str) -> str:
        return use if use in self.uses else "next"

    def share(self, use: str) -> Array:
        return self.shares[self._use(use)]

    def parts(self, use: str) -> Array:
        """Return how much of each member is in the prediction; the rest is the base rate."""
        use = self._use(use)
        return np.ones(1) if self.trivial else self.shares[use] * self.factors[use]

    def constant(self, use: str, base: float) -> float:
        """Return what of the prediction does not depend on members."""
        use = self._use(use)
        if self.trivial:
            return 0.0
        return float(self.shares[use] @ (1 - self.factors[use])) * base + self.shift[use]

    def learn(
        self,
        margins: dict[str, Array],
        base: float,
        phase: str,
        rows: float,
        *,
        likelihoods_of: Likelihoods,
        derivatives_of: Derivatives,
    ) -> None:
        """Take in a row that counts as so many, with what members predicted for each use."""
        if self.trivial:
            return
        for use in self.uses:
            counted = RATE[use] * rows
            if self.shifts:
                z = self.parts(use) @ margins[use] + self.constant(use, base)
                slopes, curvatures = derivatives_of(np.array([z]))
                self.curvature[use] = self.kept * self.curvature[use] + counted * curvatures[0]
                step = STEP_OF_SHIFT[use] * counted * slopes[0]
                step /= FIRST_CURVATURE + 0.5 * self.curvature[use]
                self.shift[use] -= min(max(step, -1.0), 1.0)
            sleeping = self.sleepers & (use == "later" and phase != "judge")
            reach = margins[use] - base
            z = base + self.factors[use] * reach
            if self.calibrates:
                slope, curvature = derivatives_of(z)
                many = RATE_OF_FACTORS[use] * rows
                step = many * slope * reach / (CALIBRATION_ROWS + many * curvature * reach**2)
                factors = np.clip(self.factors[use] - step, 0.0, LARGEST_FACTOR)
                self.factors[use] = np.where(sleeping, self.factors[use], factors)
            fits = likelihoods_of(use, z)
            self.shares[use] = forgotten(self.shares[use], self.prior[use], self.kept)
            if sleeping.any():  # they keep their share
                awake = np.where(sleeping, 0.0, self.shares[use])
                fits[sleeping] = awake @ fits / awake.sum()
            self.shares[use] = updated(self.shares[use], self.prior[use], fits, counted)

    def keep_last(self, config: Config) -> None:
        """Go on with the members that have a step per feature."""
        last = slice(-len(config.diagonal), None)
        shares, factors = self.shares["next"][last], self.factors["next"][last]
        shift, curvature = self.shift["next"], self.curvature["next"]
        self.__init__(config)  # type: ignore[misc]
        self.shares = {"next": shares / shares.sum()}
        self.factors = {"next": factors}
        if not self.trivial:
            self.shift, self.curvature = {"next": shift}, {"next": curvature}
