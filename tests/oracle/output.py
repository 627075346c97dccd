"""One output of a model, a number or how likely one class is: output.hpp."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from oracle.config import Config, Seen, phase_of
from oracle.members import Members
from oracle.mixture import Mixture
from oracle.targets import Targets
from sonline.paper.reference.sketches import Array

NEVER, NUMBER = -1, -2  # targets other than a class
USES = ("next", "later")
FIRST_SQUARE = 0.1


class Output:
    """Members over a sketch, mixed with those that have a step per feature.

    ``diagonal`` are the weights of the latter for each use, in all methods.
    """

    def __init__(self, config: Config, d: int, target: int, held: bool) -> None:
        self.config, self.target, self.held = config, target, held
        self.sign = 1.0
        self.members: Members | None = Members(config, d)
        self.mixture = Mixture(config, held)
        self.targets = Targets(config)
        # Of scaling="gradient": D, and the mean squared norm of the rows that it scales.
        self.squares: Array = np.full(d, FIRST_SQUARE)
        self.mean_energy = 0.0

    def mirror(self, target: int) -> None:
        """Stand for the opposite class from now on."""
        self.target, self.sign = target, -self.sign

    def drop_sketch(self) -> None:
        if self.members is None:
            return
        self.members = None
        self.config = replace(self.config, members=())
        self.mixture.keep_last(self.config, self.held)

    def label(self, y: float) -> float:
        if self.target == NUMBER:
            return y
        return self.sign if int(y) == self.target else -self.sign

    def _adapted(self, x: Array) -> Array:
        return x / np.sqrt(self.squares) if self.config.scaling == "gradient" else x

    def _of_output(self, seen: Seen) -> Seen:
        adapted = self.config.scaling == "gradient"
        return replace(seen, mean_energy=self.mean_energy) if adapted else seen

    def predict(self, x: Array, diagonal: dict[str, Array]) -> dict[str, Array]:
        """Return what the members predict, for each use."""
        own = self.members.predict(self._adapted(x)) if self.members else np.zeros(0)
        return {use: np.append(own, diagonal[use] @ x) for use in USES}

    def begin(self, x: Array, diagonal: dict[str, Array], before: Seen) -> dict[str, Array]:
        """Return the same for a row that is learned next."""
        own = np.zeros(0)
        if self.members:
            own = self.members.begin(self._adapted(x), self._of_output(before))
        return {use: np.append(own, diagonal[use] @ x) for use in USES}

    def _blended(self, margins: dict[str, Array], use: str) -> float:
        z = float(self.mixture.share(use) @ margins[use])
        return min(max(z, -self.config.bound), self.config.bound)

    def answer(self, margins: dict[str, Array], use: str) -> float:
        base = self.targets.base
        z = self._blended(margins, use)
        if not self.mixture.trivial:
            z = base + self.mixture.factor(use) * (z - base)
        return self.sign * (self.targets.offset + float(self.targets.clipped(np.array(z))))

    def take_label(
        self, margins: dict[str, Array], y: float, weight: float, seen: Seen
    ) -> tuple[float, float]:
        """Take in a label; return the one to learn, and the base rate before it."""
        base = self.targets.base
        self.targets.take(y, weight, seen)
        y -= self.targets.offset
        if not self.config.loss.binary and (self.config.blended or self.config.unit_free):
            blends = {use: np.array(self._blended(margins, use)) for use in USES}
            clipped = {use: float(self.targets.clipped(z)) for use, z in blends.items()}
            y = self.targets.take_loss(clipped, y)
        return y, base

    def learn(
        self,
        x: Array,
        margins: dict[str, Array],
        y: float,
        base: float,
        *,
        weight: float,
        times: int,
        seen: Seen,
    ) -> None:
        """Learn a row from what `take_label` returned."""
        unclipped = {use: margins[use][len(self.config.members) :] for use in USES}
        margins = {use: self.targets.clipped(margins[use]) for use in USES}
        if self.members is not None:
            own = len(self.members.W)
            if self.config.scaling == "gradient":  # changes the scales and with them the margins
                g = weight * self.config.loss.derivative(float(margins["next"][0]), y)
                self.squares = self.squares + (g * x) ** 2
                scaled = self._adapted(x)
                self.mean_energy += (float(scaled @ scaled) - self.mean_energy) / seen.count
                again = self.targets.clipped(self.members.W @ scaled)
                margins = {use: np.append(again, margins[use][own:]) for use in USES}
            self.members.learn(
                self._adapted(x),
                margins["next"][:own],
                y,
                weight=weight,
                pull=self.targets.pull,
                times=times,
                seen=self._of_output(seen),
            )
        # Members with a step per feature are judged where they are, also with `clip`.
        judged = {
            use: np.append(margins[use][: len(self.config.members)], unclipped[use]) for use in USES
        }

        def likelihoods_of(use: str, z: Array | None) -> Array:
            at = judged[use] if z is None else self.targets.clipped(z)
            return self.targets.likelihoods(use, at, y)

        rows = weight / seen.unit
        self.mixture.learn(margins, base, phase_of(seen.count), rows, likelihoods_of)

    def weights(self, diagonal: Array) -> Array:
        """Return the weights for later rows of the scaled features, without the base rate."""
        own = np.zeros((0, diagonal.shape[1])) if self.members is None else self.members.W
        if self.config.scaling == "gradient":
            own = own / np.sqrt(self.squares)
        w = self.mixture.share("later") @ np.vstack([own, diagonal])
        return np.asarray(self.sign * self.mixture.factor("later") * w)

    @property
    def constant(self) -> float:
        """What is added to the weight of the constant feature."""
        shrunk = (1 - self.mixture.factor("later")) * self.targets.base
        return self.sign * (shrunk + self.targets.offset)

    def copy(self) -> Output:
        return copy.deepcopy(self)
