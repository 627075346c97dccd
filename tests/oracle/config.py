"""The parameters of a model, as the oracle reads them, and the rows that it has learned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from sonline.paper.reference import Loss, make_loss
from sonline.parameters import Parameters

Member = tuple[float, float, str]


@dataclass(frozen=True)
class Config:
    """What `sonline.parameters.Parameters` say, in the words of the core's headers."""

    loss: Loss
    sketch: str
    size: int
    oja_step: float | str
    members: tuple[Member, ...]
    diagonal: tuple[float, ...]
    hat_members: tuple[Member, ...]  # those over rows with hats
    curves: str  # "on", "off" or "auto"
    pairs: bool
    relative: bool
    bound: float
    clip: bool
    unit_free: bool
    hessian: bool
    sigma: float
    eta: float
    eta_convex: bool
    every: int | Literal["auto"]
    scaling: str
    intercept: bool
    kept: float  # what a row counts in the next one

    @classmethod
    def of(cls, parameters: Parameters) -> Config:
        core = parameters.for_core()
        return cls(
            loss=make_loss(
                *(core[name] for name in ("loss", "quantile", "power", "delta", "epsilon"))
            ),
            sketch=core["sketch"],
            size=core["sketch_size"],
            oja_step="scale-free" if core["scale_free"] else core["oja_step"],
            members=tuple(core["members"]),
            diagonal=tuple(core["diagonal"]),
            hat_members=tuple(core["curved"]),
            curves=core["curves"],
            pairs=core["pairs"],
            relative=core["relative"],
            bound=core["bound"],
            clip=core["clip"],
            unit_free=core["unit_free"],
            hessian=core["hessian"],
            sigma=core["sigma"],
            eta=core["eta"],
            eta_convex=core["eta_convex"],
            every=core["sketch_every"] or "auto",
            scaling=core["scaling"],
            intercept=core["intercept"],
            kept=2 ** (-1 / core["half_life"]) if core["half_life"] else 1.0,
        )

    @property
    def curved(self) -> bool:
        """Whether the loss has a second derivative."""
        return self.loss.second_derivative is not None

    @property
    def log_link(self) -> bool:
        """Whether predictions are logarithms of numbers that are not negative."""
        return self.loss.power is not None

    @property
    def blended(self) -> bool:
        return len(self.members) + len(self.diagonal) > 1


@dataclass(frozen=True)
class Seen:
    """The rows that a model has learned."""

    count: int = 0
    mean_energy: float = 0.0
    features: int = 0
    weights: float = 0.0
    squares: float = 0.0  # of the weights
    rows: float = 0.0  # what is left of them

    def with_row(self, mean_energy: float, features: int, weight: float, kept: float) -> Seen:
        return replace(
            self,
            count=self.count + 1,
            mean_energy=mean_energy,
            features=features,
            weights=kept * self.weights + weight,
            squares=kept * self.squares + weight**2,
            rows=kept * self.rows + 1,
        )

    @property
    def unit(self) -> float:
        """The weight of one effective row."""
        return self.squares / self.weights if self.squares > 0 else 1.0

    @property
    def effective(self) -> float:
        """How many rows of equal weight tell as much (Kish)."""
        return self.weights / self.unit

    def longest_move(self, config: Config) -> float:
        """Return how far a step may move a prediction: one row makes no blend sure of a class."""
        return 3 * self.effective if config.blended and config.loss.binary else math.inf


def phase_of(row: int) -> str:
    """Return "learn", "wait" or "judge": rows come in cycles of three blocks.

    A block has a sixth of the rows so far, but at least one and at most 211.
    """
    start, block = 0, 1
    while row >= start + 3 * block:
        start += 3 * block
        block = min(max(start // 6, 1), 211)
    return ("learn", "wait", "judge")[(row - start) // block]
