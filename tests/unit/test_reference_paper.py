import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonline.paper.reference import (
    LOSSES,
    DiagonalAdaptation,
    EpochFrequentDirections,
    FrequentDirections,
    FullMatrix,
    Isotropic,
    LowRank,
    Oja,
    OnlineNewton,
    PaperFrequentDirections,
    PaperOja,
    SketchedOnlineNewton,
    SparseFrequentDirections,
    SparseOja,
    SparseOjaSketch,
    make_loss,
    orthonormalise,
    run,
)

seeds = st.integers(0, 2**32 - 1)


def stream(seed, T=240, d=15, density=0.4, scale=1.0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(T, d)) * (rng.random((T, d)) < density)
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=T) > 0, 1.0, -1.0)
    return X, y


def start(seed, m, d):
    return orthonormalise(np.random.default_rng(seed).normal(size=(m, d)))


def worst(a, b):
    return np.abs(a - b).max() / max(1.0, np.abs(a).max())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bound", [0.5, 2.0])
def test_son_with_the_whole_matrix_is_online_newton(loss, bound):
    X, y = stream(0)
    d = X.shape[1]
    loss = make_loss(loss)
    eta = {"eta": lambda t: 0.1 / math.sqrt(t)}
    exact = run(OnlineNewton(d, 0.8, loss, bound, **eta), X, y)
    for sketch in (
        FullMatrix(d, 0.8),
        FrequentDirections(d, 0.8, d + 1),
        PaperFrequentDirections(d, 0.8, d + 1),
        Isotropic(d, 0.8, d),
    ):
        predictions = run(SketchedOnlineNewton(sketch, loss, bound, **eta), X, y)
        assert worst(exact, predictions) < 1e-9
    assert np.abs(exact).max() <= bound * (1 + 1e-12)


def test_son_without_a_sketch_is_projected_gradient_descent():
    X, y = stream(1)
    loss, alpha, bound = make_loss("squared"), 20.0, 0.7
    w, expected = np.zeros(X.shape[1]), []
    for x, label in zip(X, y, strict=True):
        z = w @ x
        if abs(z) > bound:
            w = w - (z - math.copysign(bound, z)) / (x @ x) * x
        expected.append(w @ x)
        w = w - (w @ x - label) / alpha * x
    predictions = run(SketchedOnlineNewton(LowRank(X.shape[1], alpha), loss, bound), X, y)
    assert worst(np.array(expected), predictions) < 1e-13


STEPS = {
    "1/t": lambda t: 1.0 / t,
    "2/t": lambda t: min(2.0 / t, 1.0),
    "diagonal": lambda t: np.array([1.5, 1.0, 0.7, 0.2]) / (t + 1),
}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("bound", [0.6, math.inf])
def test_sparse_oja_is_dense_oja(steps, loss, bound):
    X, y = stream(2)
    V0 = start(3, 4, X.shape[1])
    loss = make_loss(loss)
    son = SketchedOnlineNewton(PaperOja(6.0, V0, STEPS[steps]), loss, bound, sigma=0.25)
    sparse = SparseOja(SparseOjaSketch(6.0, V0, STEPS[steps]), loss, bound, sigma=0.25)
    dense_predictions, sparse_predictions = run(son, X, y), run(sparse, X, y)
    assert worst(dense_predictions, sparse_predictions) < 1e-11
    assert worst(son.w, sparse.w) < 1e-11
    assert np.abs(sparse.sketch.F @ sparse.sketch.Z - son.sketch.V).max() < 1e-9


def test_sparse_oja_needs_its_rebases():
    X, y = stream(4, T=2000, scale=8.0)
    V0 = start(5, 4, X.shape[1])
    loss, alpha = make_loss("logistic"), 2000.0
    dense = run(SketchedOnlineNewton(PaperOja(alpha, V0), loss, 5.0, sigma=1.0), X, y)
    sparse = SparseOja(SparseOjaSketch(alpha, V0), loss, 5.0, sigma=1.0)
    assert worst(dense, run(sparse, X, y)) < 1e-12
    assert sparse.rebases > 3
    as_printed = SparseOja(SparseOjaSketch(alpha, V0), loss, 5.0, sigma=1.0, growth_limit=math.inf)
    # All rows of Z turn the same way until Decompose finds fewer than m directions.
    with pytest.raises(ValueError, match="shapes"):
        run(as_printed, X, y)


@pytest.mark.parametrize("tail_share", [0.0, 0.5])
@pytest.mark.parametrize("m", [1, 2, 3, 6])
@pytest.mark.parametrize("bound", [0.6, math.inf])
def test_sparse_fd_is_epoch_fd(m, tail_share, bound):
    X, y = stream(6)
    d, loss = X.shape[1], make_loss("logistic")
    dense = SketchedOnlineNewton(
        EpochFrequentDirections(d, 2.0, m, tail_share=tail_share), loss, bound, sigma=0.5
    )
    sparse = SparseFrequentDirections(d, 2.0, m, loss, bound, sigma=0.5, tail_share=tail_share)
    assert worst(run(dense, X, y), run(sparse, X, y)) < 1e-9
    assert worst(dense.w, sparse.w) < 1e-9
    assert sparse.epochs == len(X) // m
    if m > 1:  # with m = 1 there is nothing left after a shrink, and nothing to rebase
        assert 0 < sparse.rebases < sparse.epochs


def test_sparse_fd_update_leaves_the_weights_alone():
    # The paper's weight line uses G after SketchUpdate has emptied it: w would jump.
    X, y = stream(7, T=64)
    method = SparseFrequentDirections(X.shape[1], 2.0, 4, make_loss("squared"), 3.0)
    run(method, X, y)
    ghat = np.random.default_rng(8).normal(size=(40, X.shape[1]))
    for row in ghat:
        before = method.w
        method.update(row)
        assert worst(before, method.w) < 1e-11


def test_sparse_fd_survives_rows_without_gradient():
    X = np.zeros((12, 5))
    X[7, 2] = 1.0
    method = SparseFrequentDirections(5, 1.0, 3, make_loss("squared"), 2.0)
    predictions = run(method, X, np.ones(12))
    assert (predictions == 0.0).all()
    assert method.w[2] > 0.0


@pytest.mark.parametrize("loss", LOSSES)
# Not where a loss has a kink: 1 for the hinge, 0.9 for errors of 0.1 that do not count.
@pytest.mark.parametrize("bound", [0.8, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_alpha_zero_is_invariant(loss, bound, seed):
    X, y = stream(10 + seed, T=150, d=6, density=0.7)
    M = np.random.default_rng(seed).normal(size=(6, 6))
    loss, eta = make_loss(loss), {"eta": lambda t: 0.5 / math.sqrt(t)}
    y = y if loss.power is None else np.exp(0.5 * y)  # labels of means are above 0
    here = run(OnlineNewton(6, 0.0, loss, bound, **eta), X, y)
    there = run(OnlineNewton(6, 0.0, loss, bound, **eta), X @ M.T, y)
    assert np.abs(here - there).max() < 1e-6
    assert np.abs(here).max() <= bound * (1 + 1e-9)


def test_alpha_zero_as_printed_is_not_invariant():
    X, y = stream(20, T=60, d=6, density=1.0)
    M = np.random.default_rng(0).normal(size=(6, 6))
    args = (6, 0.0, make_loss("squared"), 2.0)
    here = run(OnlineNewton(*args, as_printed=True), X, y)
    there = run(OnlineNewton(*args, as_printed=True), X @ M.T, y)
    assert np.abs(here - there).max() > 0.1


def test_alpha_positive_is_not_invariant():
    X, y = stream(21, T=100, d=6)
    M = np.random.default_rng(0).normal(size=(6, 6))
    args = (6, 1.0, make_loss("squared"), 2.0)
    difference = run(OnlineNewton(*args), X, y) - run(OnlineNewton(*args), X @ M.T, y)
    assert np.abs(difference).max() > 0.01


@given(seed=seeds, rank=st.integers(0, 4), bound=st.floats(0.05, 3.0), printed=st.booleans())
def test_general_projection_is_a_minimiser(seed, rank, bound, printed):
    rng = np.random.default_rng(seed)
    d = 4
    method = OnlineNewton(d, 0.0, make_loss("squared"), bound, sigma=1.0, as_printed=printed)
    root = rng.normal(size=(rank, d))
    method.A = root.T @ root
    u, x = 3.0 * rng.normal(size=d), rng.normal(size=d)
    method.w = u
    z = method.predict(x)
    assert abs(z) <= bound * (1 + 1e-6)
    distance = (method.w - u) @ method.A @ (method.w - u)
    if rank < d:  # some direction is free, and x (in general) has a share in it
        assert distance < 1e-12
    else:
        excess = max(abs(u @ x) - bound, 0.0)
        expected = excess**2 / (x @ np.linalg.solve(method.A, x))
        assert distance == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_diagonal_adaptation_of_the_text_and_of_the_experiments():
    X, y = stream(22, T=300)
    d, loss = X.shape[1], make_loss("squared")
    D, w_text = np.full(d, 0.1), np.zeros(d)
    expected_text = []
    for x, label in zip(X, y, strict=True):
        scaled = x / np.sqrt(D)
        expected_text.append(w_text @ scaled)
        slope = w_text @ scaled - label
        w_text = w_text - slope / 50.0 * scaled
        D = D + (slope * x) ** 2
    text = DiagonalAdaptation(
        SketchedOnlineNewton(LowRank(d, 50.0), loss, math.inf), as_in_text=True
    )
    assert worst(np.array(expected_text), run(text, X, y)) < 1e-12

    D, w_experiments = np.full(d, 0.1), np.zeros(d)
    expected = []
    for x, label in zip(X, y, strict=True):
        z = w_experiments @ (x / np.sqrt(D))
        expected.append(z)
        D = D + ((z - label) * x) ** 2
        w_experiments = w_experiments - (z - label) / 50.0 * (x / np.sqrt(D))
    experiments = DiagonalAdaptation(SketchedOnlineNewton(LowRank(d, 50.0), loss, math.inf))
    assert worst(np.array(expected), run(experiments, X, y)) < 1e-12
    assert np.abs(np.array(expected) - np.array(expected_text)).max() > 1e-3


def test_diagonal_adaptation_is_invariant_to_the_scale_of_features_once_it_has_seen_them():
    X, y = stream(23, T=200, density=1.0)
    d = X.shape[1]
    loss = make_loss("squared")
    scales = np.logspace(2, 4, d)  # large against the 0.1 that D starts with

    def predictions(data):
        method = SketchedOnlineNewton(Oja(d, 50.0, 3), loss, 1.0)
        return run(DiagonalAdaptation(method), data, y)

    assert np.abs(predictions(X * scales) - predictions(X * scales[::-1])).max() < 0.05
