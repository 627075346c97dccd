"""How much each member counts, for the next row and for later rows: mixture.hpp."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from oracle.config import Config
from sonline.paper.reference.sketches import Array

SMALLEST_FACTOR, FIXED_SHARE, FOLLOWER = math.exp(-5), 1e-3, 0.1
FACTORS: Array = np.array([1.0, 0.5, 0.25, 0.1])
FACTOR_PRIOR: Array = np.array([0.99, 0.01 / 3, 0.01 / 3, 0.01 / 3])
PRIOR = {  # for each use: nothing for members of the other, less for those that are judged rarely
    "next": {"both": 1.0, "next": 1.0, "later": 0.0},
    "later": {"both": 1.0, "next": 0.0, "later": FOLLOWER},
}
RATE = {"next": 1.0, "later": 0.5}
Likelihoods = Callable[[str, Array | None], Array]  # of some predictions, or of the members'


def updated(shares: Array, prior: Array, likelihoods: Array, rows: float) -> Array:
    """Exponential weights with a fixed share, for a row that counts as so many."""
    factors = np.maximum(likelihoods / likelihoods.max(), SMALLEST_FACTOR) ** rows
    mixed = FIXED_SHARE * min(rows, 1.0)
    return np.asarray((1 - mixed) * shares * factors / (shares @ factors) + mixed * prior)


class Mixture:
    """Shares of members and of the factors that shrink their prediction, for each use.

    ``held`` says that the members with a step per feature have weights for later rows.
    """

    def __init__(self, config: Config, held: bool) -> None:
        uses = [use for _, _, use in config.members]
        self.uses = ("next", "later") if set(uses) - {"both"} else ("next",)
        diagonal = len(config.diagonal)
        # Members that are judged in the third phase only.
        self.sleepers = np.array([use == "later" for use in uses] + diagonal * [held], dtype=bool)
        self.prior: dict[str, Array] = {}
        for use in self.uses:
            each = np.array([PRIOR[use][name] for name in uses] + diagonal * [1.0])
            self.prior[use] = each / each.sum()
        self.shares = dict(self.prior)
        self.factors = dict.fromkeys(self.uses, FACTOR_PRIOR)

    @property
    def trivial(self) -> bool:
        return len(self.sleepers) == 1

    def _use(self, use: str) -> str:
        return use if use in self.uses else "next"

    def share(self, use: str) -> Array:
        return self.shares[self._use(use)]

    def factor(self, use: str) -> float:
        return 1.0 if self.trivial else float(self.factors[self._use(use)] @ FACTORS)

    def learn(
        self,
        margins: dict[str, Array],
        base: float,
        phase: str,
        rows: float,
        likelihoods_of: Likelihoods,
    ) -> None:
        """Take in a row that counts as so many, with what members predicted for each use."""
        if self.trivial:
            return
        for use in self.uses:
            counted = RATE[use] * rows
            z = float(self.shares[use] @ margins[use])
            fits = likelihoods_of(use, base + FACTORS * (z - base))
            self.factors[use] = updated(self.factors[use], FACTOR_PRIOR, fits, counted)
            fits = likelihoods_of(use, None)
            if use == "later" and phase != "judge":  # sleeping members keep their share
                awake = np.where(self.sleepers, 0.0, self.shares[use])
                fits[self.sleepers] = awake @ fits / awake.sum()
            self.shares[use] = updated(self.shares[use], self.prior[use], fits, counted)

    def keep_last(self, config: Config, held: bool) -> None:
        """Go on with the members that have a step per feature."""
        shares, factors = self.shares["next"][-len(config.diagonal) :], self.factors["next"]
        self.__init__(config, held)  # type: ignore[misc]
        self.shares = {"next": shares / shares.sum()}
        self.factors = {"next": factors}
