"""What `sonline demo` runs: learners on the ill-conditioned stream of the paper's Fig. 1.

Gradient descent, AdaGrad and Oja's sketch get the best, in hindsight, of all combinations of loss
and step size, at each condition number anew. `OnlineLearner` runs as a user would type it.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.errors import DivergenceError
from sonline.learner import OnlineLearner
from sonline.paper.experiments.streams import ill_conditioned

TUNED_LOSSES = ("squared", "squared_hinge", "logistic")
Setting = Mapping[str, Any]
Stream = tuple[NDArray[np.float64], NDArray[np.float64]]

# The bare algorithms of the paper: no scaling, no intercept (the stream is centred).
BARE: Setting = {"scaling": "none", "intercept": False}


@dataclass(frozen=True)
class Contender:
    """A learner: its fixed parameters, and whether loss and step size are searched for."""

    name: str
    colour: str  # in the picture
    parameters: Setting
    tuned: bool

    def settings(self, steps: tuple[float, ...]) -> list[Setting]:
        """Return every combination of parameters that is tried."""
        if not self.tuned:
            return [self.parameters]
        return [
            {**self.parameters, "loss": loss, "alpha": f"relative:{step:g}"}
            for loss in TUNED_LOSSES
            for step in steps
        ]


CONTENDERS = (
    Contender("gradient descent", "#767676", {**BARE, "sketch": "none"}, tuned=True),
    Contender("AdaGrad", "#b07d00", {**BARE, "sketch": "adagrad"}, tuned=True),
    Contender(
        "Oja's sketch",
        "#2f7fb8",
        {**BARE, "sketch": "oja", "sketch_size": 10, "curvature": "gradient"},
        tuned=True,
    ),
    Contender("OnlineLearner()", "#c43c00", {}, tuned=False),
)


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    kappas: tuple[int, ...]
    seeds: tuple[int, ...]
    steps: tuple[float, ...]  # alpha in units of the mean squared norm of the rows
    rows: int = 10_000
    features: int = 100

    @classmethod
    def whole(cls, seed: int) -> Plan:
        """Return the plan of the demonstration; the paper's figure ends at kappa = 200."""
        steps = tuple(2.0**k for k in range(-8, 5))
        return cls((10, 50, 100, 200, 500, 1000), (seed, seed + 1, seed + 2), steps)

    @classmethod
    def quick(cls, seed: int) -> Plan:
        """Return a plan for seconds: two condition numbers, one seed, every second step size."""
        return cls((10, 1000), (seed,), tuple(2.0**k for k in range(-8, 5, 2)))

    @property
    def trials(self) -> int:
        """How many trials `compare` will yield."""
        return len(self.kappas) * sum(len(c.settings(self.steps)) for c in CONTENDERS)


@dataclass(frozen=True)
class Trial:
    """One contender with one setting at one condition number, over all seeds."""

    contender: Contender
    kappa: int
    setting: Setting
    errors: tuple[float, ...]  # share of rows predicted wrongly, by seed; NaN if it diverged
    seconds_per_row: float  # of processor time

    @property
    def error(self) -> float:
        """The mean over the seeds; infinite if any of them diverged."""
        mean = sum(self.errors) / len(self.errors)
        return math.inf if math.isnan(mean) else mean


@dataclass
class Results:
    """The best trial of each contender at each condition number so far."""

    plan: Plan
    best: dict[tuple[str, int], Trial] = field(default_factory=dict)
    tried: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, trial: Trial) -> None:
        """Take in a trial."""
        key = trial.contender.name, trial.kappa
        self.tried[key] = self.tried.get(key, 0) + 1
        if key not in self.best or trial.error < self.best[key].error:
            self.best[key] = trial

    def error(self, contender: Contender, kappa: int) -> float:
        """Return the lowest error so far; infinite if there is none."""
        trial = self.best.get((contender.name, kappa))
        return math.inf if trial is None else trial.error

    def finished(self, contender: Contender, kappa: int) -> bool:
        """Return whether all settings have been tried there."""
        wanted = len(contender.settings(self.plan.steps))
        return self.tried.get((contender.name, kappa), 0) == wanted

    def at_the_edge(self) -> list[Trial]:
        """Return the best trials that a wider range of step sizes might beat."""
        ends = {f"relative:{step:g}" for step in (self.plan.steps[0], self.plan.steps[-1])}
        return [t for t in self.best.values() if t.contender.tuned and t.setting["alpha"] in ends]

    def microseconds(self, contender: Contender) -> float:
        """Return the time that a row took with the best settings, the median over the kappas."""
        times = [t.seconds_per_row for (name, _), t in self.best.items() if name == contender.name]
        return 1e6 * statistics.median(times)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold."""
        return {
            "rows": self.plan.rows,
            "features": self.plan.features,
            "seeds": list(self.plan.seeds),
            "contenders": [
                {
                    "name": contender.name,
                    "settings_tried": len(contender.settings(self.plan.steps)),
                    "microseconds_per_row": round(self.microseconds(contender), 3),
                    "results": [
                        {
                            "kappa": trial.kappa,
                            "error": _plain(trial.error),
                            "errors": [_plain(error) for error in trial.errors],
                            "parameters": dict(trial.setting),
                        }
                        for (name, _), trial in self.best.items()
                        if name == contender.name
                    ],
                }
                for contender in CONTENDERS
            ],
        }


def _plain(error: float) -> float | None:
    return round(error, 6) if math.isfinite(error) else None


def compare(plan: Plan) -> Iterator[Trial]:
    """Run the plan on all processors; yield the trials in order, each as it ends."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for kappa in plan.kappas:
            streams = [
                ill_conditioned(kappa, plan.rows, plan.features, seed) for seed in plan.seeds
            ]
            for contender in CONTENDERS:
                trial = partial(_try, contender, kappa, streams)
                yield from threads.map(trial, contender.settings(plan.steps))


def _try(contender: Contender, kappa: int, streams: list[Stream], setting: Setting) -> Trial:
    errors, seconds = [], 0.0
    for X, y in streams:
        learner = OnlineLearner(**setting)
        start = time.thread_time()
        try:
            predictions = learner.learn(X, y)
        except DivergenceError:
            errors.append(math.nan)
        else:
            errors.append(float(np.mean((predictions > 0) != (y > 0))))
        seconds += time.thread_time() - start
    rows = sum(len(y) for _, y in streams)
    return Trial(contender, kappa, setting, tuple(errors), seconds / rows)
