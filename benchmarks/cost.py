"""What a row costs: sketch size x non-zeros x features, each feature seen before (not timed).

The time is that of `OnlineLearner.learn`, rebases and the checks of the input included.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import data
from benchmarks.data import Shape
from benchmarks.learners import ADAGRAD, NONE, Learner
from benchmarks.learning import NANO, UNIT
from benchmarks.measure import Result, take_turns
from benchmarks.settings import Settings

SECTION = "cost"
SIZES = (5, 10, 20, 40)
NONZEROS = (10, 100, 1000)
FEATURES = (1_000, 10_000, 100_000, 1_000_000)
LEAST_ROWS = 4_000  # so that rare rebases show up in their true share


def measure(settings: Settings) -> Iterator[Result]:
    sizes = (10,) if settings.quick else SIZES
    learners = [NONE, ADAGRAD, *(Learner(s, m) for s in ("oja", "isotropic") for m in sizes)]
    learners += [Learner("fd", 10), Learner("rfd", 10)]
    for nonzeros in NONZEROS:
        for features in settings.some(FEATURES):
            shape = Shape(nonzeros, features)
            rows = data.generated(shape, max(settings.size(100_000) // nonzeros, LEAST_ROWS))
            warm = data.every_feature(features)
            contenders = [learner.after(warm, rows) for learner in learners]
            yield from take_turns(
                SECTION,
                f"{nonzeros} non-zeros, {features:,} features",
                UNIT,
                contenders,
                min(settings.rounds, 3),
                seconds=NANO,
                cores=1,
                rows=rows.X.shape[0],
                **shape.about,
            )
        data.generated.cache_clear()
