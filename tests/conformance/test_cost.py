"""No data makes a row cost more than its own non-zeros ask for.

Counted, not timed: a row touches its own features, and sweeps over all features happen only when
the non-zeros read since the last one have paid for it (docs/design.md).
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.hostile import LOSSES, SETTINGS, STREAMS, labels_for, stream

from sonline import OnlineLearner

ROWS, FEATURES = 3000, 20_000


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("sketch", SETTINGS)
def test_features_touched_by_a_row(sketch: str, name: str) -> None:
    X, y = stream(name, ROWS, FEATURES)
    for loss in LOSSES.values():
        model = OnlineLearner(**SETTINGS[sketch] | loss)
        labels, touched, sweeps = labels_for(loss, y), 0, 0
        for start in range(0, ROWS, 100):  # a sweep touches the features seen so far
            part = slice(start, start + 100)
            assert np.isfinite(model.learn(X[part], labels[part])).all()
            stats = model.stats()
            touched += (stats["sweeps"] - sweeps) * stats["features"]
            sweeps = stats["sweeps"]
        assert stats["caught_up"] <= X.nnz + ROWS
        # A sweep is paid for by eight non-zeros a feature (one where scales shrink: rows that are
        # nearly in the span strain the directions), or by events that fill as much memory as the
        # blocks; then at most every other row begins a generation.
        paid = X.nnz if name == "shrinking scale" else X.nnz / 8
        assert touched <= paid + 80 * stats["generations"]


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("sketch", SETTINGS)
def test_labels_that_are_huge_or_far_from_zero(sketch: str, offset: float) -> None:
    X, _ = stream("Gaussian", ROWS, FEATURES)
    labels = offset + 1e6 * np.random.default_rng(0).standard_cauchy(ROWS)
    model = OnlineLearner(**SETTINGS[sketch], loss="squared")
    model.learn(X, labels)
    stats = model.stats()
    assert stats["sweeps"] * stats["features"] <= X.nnz / 8 + 80 * stats["generations"]
