"""A sample of the campaign of `benchmarks.divergence`: no run fails, few are bad."""

from __future__ import annotations

import math

from benchmarks.divergence import BAD, GRID, cases, run

EVERY = 113  # prime, so that the sample has every value of every axis


def test_no_run_of_a_sample_runs_away() -> None:
    chosen = list(cases(EVERY))
    assert len(chosen) > 200
    for name, values in GRID.items():
        assert {case[name] for case in chosen} == set(values)
    ratios = {str(case): run(case) for case in chosen}
    assert [case for case, ratio in ratios.items() if math.isinf(ratio)] == []
    bad = [case for case, ratio in ratios.items() if ratio > BAD]
    assert len(bad) < 0.1 * len(chosen), bad  # of all runs it is one in twenty


def test_the_campaign_is_large_enough() -> None:
    assert math.prod(map(len, GRID.values())) >= 20_000
