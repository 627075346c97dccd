"""One output of a model, a number or how likely one class is: output.hpp."""

from __future__ import annotations

import copy
import math
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

    def __init__(self, config: Config, d: int, target: int, room: int = 0) -> None:
        self.config, self.target = config, target
        self.sign = 1.0
        self.members: Members | None = Members(config, d)
        self.curved: Members | None = None  # over rows with hats, of so many features
        if config.hat_members:
            self.curved = Members(replace(config, members=config.hat_members), room)
        self.mixture = Mixture(config)
        self.targets = Targets(config)
        # Of scaling="gradient": D, and the mean squared norm of the rows that it scales.
        self.squares: Array = np.full(d, FIRST_SQUARE)
        self.mean_energy = 0.0

    def mirror(self, target: int) -> None:
        """Stand for the opposite class from now on."""
        self.target, self.sign = target, -self.sign

    def hold_nothing(self) -> None:
        """Judge the members with a step per feature on every row."""
        self.mixture.sleepers[len(self.config.members) :] = False

    def drop_sketch(self) -> None:
        if self.members is None:
            return
        self.members = self.curved = None
        self.config = replace(self.config, members=(), hat_members=())
        self.mixture.keep_last(self.config)

    def label(self, y: float) -> float:
        if self.target == NUMBER:
            return y
        return self.sign if int(y) == self.target else -self.sign

    def _adapted(self, x: Array) -> Array:
        return x / np.sqrt(self.squares) if self.config.scaling == "gradient" else x

    def _of_output(self, seen: Seen) -> Seen:
        adapted = self.config.scaling == "gradient"
        return replace(seen, mean_energy=self.mean_energy) if adapted else seen

    def _in_units(self, seen: Seen) -> Seen:
        """Return the rows seen, for alpha in its unit."""
        return replace(seen, mean_energy=seen.mean_energy * self.targets.unit_of_alpha)

    def predict(self, x: Array, hats: Array, diagonal: dict[str, Array]) -> dict[str, Array]:
        """Return what the members predict, for each use; ``hats`` is the row with hats."""
        own = self.members.predict(self._adapted(x)) if self.members else np.zeros(0)
        if self.curved:
            own = np.append(own, self.curved.predict(hats))
        return {use: np.append(own, diagonal[use] @ x) for use in USES}

    def begin(
        self, x: Array, hats: Array, diagonal: dict[str, Array], before: Seen, of_hats: Seen
    ) -> dict[str, Array]:
        """Return the same for a row that is learned next."""
        own = np.zeros(0)
        if self.members:
            own = self.members.begin(self._adapted(x), self._of_output(before))
        if self.curved:
            own = np.append(own, self.curved.begin(hats, of_hats))
        return {use: np.append(own, diagonal[use] @ x) for use in USES}

    def _blended(self, margins: dict[str, Array], use: str) -> float:
        z = float(self.mixture.parts(use) @ margins[use])
        z += self.mixture.constant(use, self.targets.base)
        return min(max(z, -self.config.bound), self.config.bound)

    def answer(self, margins: dict[str, Array], use: str) -> float:
        z = self._blended(margins, use)
        z = float(self.targets.clipped(np.array(z + self.targets.gap)))
        return self.sign * (self.targets.offset + z)

    def take_label(
        self, margins: dict[str, Array], y: float, weight: float, seen: Seen
    ) -> tuple[float, float]:
        """Take in a label; return the one to learn, and the base rate before it."""
        base = self.targets.base
        blends = {use: np.array(self._blended(margins, use)) for use in USES}
        self.targets.take(y, weight, seen)
        if self.config.loss.binary:
            return y, base
        y = self.targets.less_offset(y)
        if self.config.blended or self.config.unit_free:
            clipped = {use: float(self.targets.clipped(z)) for use, z in blends.items()}
            y = self.targets.take_loss(clipped, y, weight / seen.unit)
        return y, base

    def learn(
        self,
        x: Array,
        hats: Array,
        margins: dict[str, Array],
        y: float,
        base: float,
        *,
        weight: float,
        times: int,
        seen: Seen,
        of_hats: Seen,
        squares: Array,
    ) -> None:
        """Learn a row from what `take_label` returned; ``squares`` are those of the diagonal."""
        steps = []
        sketched = len(self.config.members) + len(self.config.hat_members)
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
            steps.append(
                self.members.learn(
                    self._adapted(x),
                    margins["next"][:own],
                    y,
                    weight=weight,
                    pull=self.targets.pull,
                    times=times,
                    seen=self._in_units(self._of_output(seen)),
                )
            )
        if self.curved is not None:
            steps.append(
                self.curved.learn(
                    hats,
                    margins["next"][len(self.config.members) : sketched],
                    y,
                    weight=weight,
                    pull=self.targets.pull,
                    times=times,
                    seen=self._in_units(of_hats),
                )
            )

        def likelihoods_of(use: str, z: Array) -> Array:
            return self.targets.likelihoods(use, self.targets.clipped(z), y)

        def derivatives_of(z: Array) -> tuple[Array, Array]:
            loss, at = self.config.loss, [float(clipped) for clipped in self.targets.clipped(z)]
            bend = loss.second_derivative or (lambda z, y: 0.0)
            slopes = [loss.derivative(each, y) for each in at]
            unit, largest = self.targets.unit_of_losses, self.targets.largest_slope
            slopes = np.clip(slopes, -largest, largest)
            return unit * slopes, unit * np.array([bend(each, y) for each in at])

        rows = weight / seen.unit
        self.mixture.learn(
            margins,
            base,
            phase_of(seen.count),
            rows,
            likelihoods_of=likelihoods_of,
            derivatives_of=derivatives_of,
        )
        if not self.mixture.trivial:
            share = self.mixture.share("later")
            z = float(share @ margins["later"])
            variance = float(share @ np.clip(margins["later"] - z, -1, 1) ** 2)
            squares = np.concatenate([*steps, squares])
            rows *= math.exp(z - base)
            self.targets.balance(float(share @ squares), variance, rows)

    def weights(self, diagonal: Array) -> Array:
        """Return the weights for later rows of the scaled features, without the base rate."""
        own = np.zeros((0, diagonal.shape[1])) if self.members is None else self.members.W
        if self.config.scaling == "gradient":
            own = own / np.sqrt(self.squares)
        if self.curved is not None:
            own = np.vstack([own, self.curved.W[:, : diagonal.shape[1]]])
        return np.asarray(self.sign * (self.mixture.parts("later") @ np.vstack([own, diagonal])))

    @property
    def constant(self) -> float:
        """What is added to the weight of the constant feature."""
        constant = self.mixture.constant("later", self.targets.base)
        return self.sign * (constant + self.targets.offset + self.targets.gap)

    def copy(self) -> Output:
        return copy.deepcopy(self)
