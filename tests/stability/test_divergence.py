"""A sample of the campaign of `benchmarks.divergence`: no run fails, few are bad."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.divergence import BAD, GRID, cases, run
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor

from sonline import SONRegressor

EVERY = 113  # prime, so that the sample has every value of every axis


def test_no_run_of_a_sample_runs_away() -> None:
    chosen = list(cases(EVERY))
    assert len(chosen) > 200
    for name, values in GRID.items():
        assert {case[name] for case in chosen} == set(values)
    ratios = {str(case): run(case) for case in chosen}
    # Means are exponentials: rows far beyond all others may be refused, with an error that says so.
    means = ("poisson", "gamma", "tweedie")
    refused = [case for case, ratio in ratios.items() if math.isinf(ratio)]
    assert [case for case in refused if not any(f"'{loss}'" in case for loss in means)] == []
    assert len(refused) < 0.02 * len(chosen)
    bad = [case for case, ratio in ratios.items() if ratio > BAD]
    assert len(bad) < 0.1 * len(chosen), bad  # of all runs it is one in twenty


def test_the_campaign_is_large_enough() -> None:
    assert math.prod(map(len, GRID.values())) >= 20_000


@pytest.mark.parametrize("rare", [False, True])
def test_the_recipe_of_the_guide_for_counts(rare: bool) -> None:
    """Rows of the test are four times as far out; many predictions were negative or enormous."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4)) * np.where(np.arange(6000) < 3000, 1.0, 4.0)[:, np.newaxis]
    mean = np.exp(np.clip(X @ [0.8, -0.5, 0.3, 0.0] - 5.0 * rare, -9.0, 5.0))
    counts = rng.poisson(mean).astype(float)
    known, later = counts[:3000], counts[3000:]
    raw = SONRegressor(clip=True, random_state=0)
    logs = TransformedTargetRegressor(clone(raw), func=np.log1p, inverse_func=np.expm1)
    for model in (raw, logs):
        predicted = model.fit(X[:3000], known).predict(X[3000:])
        assert predicted.min() >= 0
        assert predicted.max() <= known.max() * (1 + 1e-9)
        errors = (np.mean((guess - later) ** 2) for guess in (predicted, known.mean()))
        assert next(errors) < next(errors)
