"""The learners that are measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.data import Rows
from benchmarks.measure import Contender, timed
from sonline import OnlineLearner


@dataclass(frozen=True)
class Learner:
    """One weight vector and raw features, as in the paper, unless stated otherwise."""

    sketch: str
    size: int = 0
    scaling: str = "none"
    alpha: str = "relative:0.1"

    @property
    def name(self) -> str:
        if self == DEFAULT:
            return f"default settings (isotropic, m = {self.size}, rms, auto)"
        return f"{self.sketch}, m = {self.size}" if self.size else self.sketch

    @property
    def about(self) -> dict[str, Any]:
        return asdict(self)

    def new(self) -> OnlineLearner:
        return OnlineLearner(
            sketch=self.sketch,
            sketch_size=self.size,
            scaling=self.scaling,
            alpha=self.alpha,
            dtype="float32",
        )

    def epoch(self, rows: Rows) -> Contender:
        """Return one pass of a new learner over the rows."""
        run = timed(lambda learner: learner.learn(rows.X, rows.y), self.new)
        return Contender(self.name, run, rows.X.nnz, about=self.about)

    def after(self, warm: Rows, rows: Rows) -> Contender:
        """Return passes of one learner that has seen the rows `warm` before."""
        learner = self.new()
        learner.learn(warm.X, warm.y)
        run = timed(lambda: learner.learn(rows.X, rows.y))
        return Contender(self.name, run, rows.X.nnz, about=self.about)


NONE = Learner("none")
ADAGRAD = Learner("adagrad")
OJA = Learner("oja", 10)
ISOTROPIC = Learner("isotropic", 10)
FD = Learner("fd", 10)
RFD = Learner("rfd", 10)
DEFAULT = Learner("isotropic", 10, "rms", "auto")
