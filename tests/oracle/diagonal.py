"""Members with a step per feature, AdaGrad's diagonal, shared by all outputs: diagonal.hpp."""

from __future__ import annotations

import math

import numpy as np

from oracle.config import Config, Seen, phase_of
from sonline.paper.reference.learner import step_ahead
from sonline.paper.reference.sketches import Array


class Diagonal:
    """Weights of each output and member, and one sum of squared gradients G for all."""

    def __init__(self, config: Config, outputs: int, d: int) -> None:
        self.config, self.holds = config, True
        self.W: Array = np.zeros((outputs, len(config.diagonal), d))
        self.G: Array = np.zeros(d)
        # Weights for later rows, if it holds them: those at the end of the last phase "learn".
        self.held: Array = self.W.copy()

    def later(self, row: int) -> Array:
        """Return the weights for later rows, before the row of that number is learned."""
        return self.held if self.holds and phase_of(row) != "learn" else self.W

    def learn(
        self,
        x: Array,
        labels: list[float],
        *,
        output: int,
        weight: float,
        pull: float,
        unit_of_g: float,
        classes: int,
        seen: Seen,
    ) -> None:
        """Take implicit steps; ``output`` is the one that the label of the row belongs to."""
        self.squares = np.zeros(self.W.shape[:2])
        if not self.config.diagonal:
            return
        loss, margins = self.config.loss, self.W @ x
        g = weight * loss.derivative(float(margins[output, 0]), labels[output]) / unit_of_g
        self.G = self.config.kept**2 * self.G + (g * x) ** 2
        root = np.sqrt(self.G)
        direction = np.divide(x, root, out=np.zeros_like(x), where=root > 0.0)
        energy = float(x @ direction)
        unit = math.sqrt(seen.mean_energy / max(0.5 * classes, 1.0))
        longest = seen.longest_move(self.config)
        for k, of_output in enumerate(margins):
            for i, z in enumerate(of_output):
                if energy <= 0.0:
                    continue
                reach = weight * pull * energy / (self.config.diagonal[i] * unit)
                move = step_ahead(loss, float(z), labels[k], reach) - float(z)
                self.squares[k, i] = weight * move**2 / reach
                self.W[k, i] += min(max(move, -longest), longest) / energy * direction
        if phase_of(seen.count) == "learn":
            self.held = self.W.copy()

    def arranged(self, outputs: list[int]) -> None:
        """Continue with other outputs: output i was there output ``outputs[i]``."""
        self.W, self.held = self.W[outputs], self.held[outputs]
