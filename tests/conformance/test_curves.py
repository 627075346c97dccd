"""The kernel with curves and the NumPy twin of it: every prediction, the shares, the weights."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from oracle.comparison import Pair
from oracle.curves import Curves

Floats = NDArray[np.float64]
NUMBERS = ({}, {"loss": "squared"})


def table(rows: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Columns of several kinds, and a target that is not linear in them."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(size=rows),
            rng.integers(0, 6, rows),  # few values
            rng.integers(0, 2, rows),  # no curve
            rng.normal(2000.0, 3.0, rows),  # with a centre
            rng.exponential(size=rows) * (rng.random(rows) < 0.3),  # mostly absent
            np.round(rng.normal(size=rows), 1),
        ]
    )
    y = np.abs(X[:, 0]) + (X[:, 1] == 3) + np.sin(X[:, 3]) + np.sqrt(X[:, 4]) - X[:, 2]
    return X, y + 0.1 * rng.normal(size=rows)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", ["squared", "quantile"])
def test_numbers(loss: str, seed: int) -> None:
    X, y = table(700, seed)
    pair = Pair(6, loss=loss, tolerance=1e-6)
    pair.learn(X, y)
    assert pair.oracle.curves.on
    assert max(piece.depth for column in pair.oracle.curves.columns for piece in column.pieces) > 1
    pair.check(X[:20] * 1.5)


@pytest.mark.parametrize("classes", [2, 4])
def test_classes(classes: int) -> None:
    X, y = table(500)
    codes = np.digitize(y, np.quantile(y, np.linspace(0, 1, classes + 1)[1:-1]))
    pair = Pair(6, classes, tolerance=1e-6)
    pair.learn(X, codes, np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], 500))
    assert pair.oracle.curves.on
    pair.check(X[:20])


def test_a_class_that_emerges() -> None:
    X, y = table(400)
    pair = Pair(6, 0, growing=True, tolerance=1e-6)
    codes = np.digitize(y, np.quantile(y, [0.3, 0.6, 0.9]))
    codes[:80] = np.minimum(codes[:80], 1)
    pair.learn(X[:60], codes[:60])
    pair.learn(X[60:], codes[60:])
    assert pair.oracle.curves.on
    pair.check(X[:20])


def test_with_a_bound_and_clipped() -> None:
    X, y = table(300)
    for parameters in ({"bound": 2.0}, {"clip": True}):
        pair = Pair(6, loss="squared", tolerance=1e-6, **parameters)
        pair.learn(X, y)
        pair.check(X[:20])


def test_late_and_constant_columns() -> None:
    X, y = table(600)
    X[:200, 0] = 0.0
    X[:300, 5] = 1.0
    pair = Pair(6, loss="squared", tolerance=1e-6)
    pair.learn(X, y)
    assert all(pair.oracle.curves.columns[1 + j].pieces for j in (0, 4, 5))
    pair.check(X[:20])


@pytest.mark.parametrize("columns", [6, 12])
@pytest.mark.parametrize("classes", [None, 2, 3])
def test_pairs(classes: int | None, columns: int) -> None:
    X, y = table(800)
    rng = np.random.default_rng(1)
    X = np.hstack([X, rng.normal(size=(800, columns - 6))])
    X[:100, -1] = 0
    y = y + 2 * X[:, 0] * X[:, -1]
    if classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, classes + 1)[1:-1]))
    pair = Pair(columns, classes, curves="pairs", tolerance=1e-6, **NUMBERS[classes is None])
    pair.learn(X, y)
    pairs = pair.oracle.curves.pairs
    assert pairs is not None
    known = {frozenset(pair.features) for pair in pair.model.pairs(None if classes != 3 else 0)}
    assert known == {frozenset((a - 1, b - 1)) for a, b, _ in pairs.pairs}
    assert len(known) == 15 if columns == 6 else 8 < len(known) <= 24
    pair.check(X[:20] * 1.5)


def test_rows_that_are_no_table_have_none() -> None:
    X, y = table(100)
    pair = Pair(6, loss="squared", tolerance=1e-6)
    pair.learn(X[:20], y[:20])
    pair.learn(sp.csr_matrix(X[20:25]), y[20:25])
    pair.learn(X[25:], y[25:])
    assert not pair.oracle.curves.on
    pair.check(X[:20])


def test_hats_of_the_oracle_are_hats() -> None:
    rng = np.random.default_rng(0)
    curves = Curves(2)
    first = np.column_stack([np.ones(32), rng.normal(size=32)])
    curves.start(first)
    for value in rng.normal(size=400):
        curves.commit(np.array([1.0, value]), 0)
    column = curves.columns[1]
    base = [hat for hat in column.hats if len(hat[1]) > 3]
    for value in np.linspace(-3, 3, 61):
        heights = [np.interp(value, xs, ys) for _, xs, ys in base]
        near = np.interp(value, *zip(*[(x, float(x != 0)) for x in base[0][1]], strict=True))
        assert sum(heights) == pytest.approx(near)
