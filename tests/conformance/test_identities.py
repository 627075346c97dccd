"""What must hold between sketches, and between a sketch and the matrix of all it has seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import LOW_RANK, Array, learner, orthonormality, stream
from sonline.parameters import LOSSES, SCALINGS

ROUNDS, FEATURES = 600, 10


@pytest.mark.parametrize("sketch", ["fd", "rfd", "isotropic"])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["unit", "emerging"])
def test_large_sketches_are_the_full_matrix(
    kind: str, loss: str, scaling: str, sketch: str
) -> None:
    """With room for every direction nothing is discarded."""
    X, y = stream(kind, loss, ROUNDS, FEATURES)
    changed: dict[str, Any] = {"loss": loss, "scaling": scaling, "bound": 1.5, "alpha": 1.0}
    changed["eta"] = 0.3  # the schedule for convex losses depends on the sketch's size
    small = learner(sketch=sketch, sketch_size=FEATURES + 2, **changed)
    full = learner(sketch="full", **changed)
    np.testing.assert_allclose(small.learn(X, y), full.learn(X, y), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bound", [None, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("growing", [False, True])
def test_full_without_alpha_is_invariant(
    growing: bool, intercept: bool, bound: float | None, loss: str
) -> None:
    """The pseudo-inverse makes predictions on x and on Mx equal, also while the rank grows."""
    if bound is None and LOSSES[loss]["log_link"]:
        bound = 3.0  # without any, steps that are explicit overshoot to means of 1e100
    X, y = stream("unit", loss, ROUNDS, FEATURES)
    if growing:
        X[:200, FEATURES // 2 :] = 0
    M = np.random.default_rng(5).normal(size=(FEATURES, FEATURES))

    def predictions(rows: Array) -> Array:
        model = learner(
            loss=loss,
            sketch="full",
            alpha=0.0,
            bound=bound,
            intercept=intercept,
            scaling="none",
            curvature="gradient",
            eta=0.5,
        )
        return model.learn(rows, y)

    np.testing.assert_allclose(predictions(X), predictions(X @ M.T), rtol=1e-6, atol=1e-6)


def summed(sketch: str, size: int, kind: str = "unit") -> tuple[Any, Array]:
    """Return a learner of the squared loss and the matrix that it sketched: sum of w x x'.

    The labels are 0, so that the weights stay 0 and cannot diverge.
    """
    X, _ = stream(kind, "squared", ROUNDS, FEATURES)
    w = np.random.default_rng(2).uniform(0.5, 2, size=ROUNDS)
    model = learner(
        loss="squared",
        sketch=sketch,
        sketch_size=size,
        scaling="none",
        curvature="hessian",
        alpha=1.0,
        intercept=False,
    )
    model.learn(X, np.zeros(ROUNDS), w)
    assert model.features() == sorted(model.features())  # the columns of the basis are those of X
    return model, (X.T * w) @ X


@pytest.mark.parametrize("kind", ["unit", "raw", "emerging"])
@pytest.mark.parametrize("sketch", ["fd", "rfd", "isotropic"])
def test_eigensystem_of_everything_seen(sketch: str, kind: str) -> None:
    model, total = summed(sketch, FEATURES + 1, kind)
    values = np.linalg.eigvalsh(total)[::-1]
    np.testing.assert_allclose(model.spectrum(), values, rtol=1e-9, atol=1e-12 * values[0])
    V = model.basis()
    np.testing.assert_allclose((V.T * model.spectrum()) @ V, total, atol=1e-11 * values[0])


@pytest.mark.parametrize("kind", ["unit", "raw", "emerging"])
@pytest.mark.parametrize("size", [2, 4, 7])
def test_mass_that_isotropic_discards(size: int, kind: str) -> None:
    model, total = summed("isotropic", size, kind)
    tail = model.stats()["alpha"] - 1.0
    if kind == "emerging":  # the share of each discarded value depends on the features seen then
        remaining = np.trace(total) - model.spectrum().sum()
        assert remaining / FEATURES <= tail <= remaining
        return
    remaining = model.spectrum().sum() + tail * (FEATURES - size)
    np.testing.assert_allclose(remaining, np.trace(total), rtol=1e-9)


@pytest.mark.parametrize("kind", ["unit", "raw", "emerging"])
@pytest.mark.parametrize("size", [2, 4, 7])
def test_mass_that_rfd_shrinks(size: int, kind: str) -> None:
    """Each shrinking takes the same from all m eigenvalues; half of it goes to alpha."""
    model, total = summed("rfd", size, kind)
    shrunk = 2 * (model.stats()["alpha"] - 1.0)
    np.testing.assert_allclose(model.spectrum().sum() + size * shrunk, np.trace(total), rtol=1e-9)
    # The guarantee of Frequent Directions: the missing part is positive, and no larger than that.
    V = model.basis()
    missing = np.linalg.eigvalsh(total - (V.T * model.spectrum()) @ V)
    slack = 1e-9 * np.trace(total)
    assert -slack < missing[0]
    assert missing[-1] < shrunk + slack


@pytest.mark.parametrize("kind", ["unit", "raw", "emerging"])
def test_fd_and_rfd_hold_the_same_directions(kind: str) -> None:
    (fd, _), (rfd, _) = summed("fd", 5, kind), summed("rfd", 5, kind)
    np.testing.assert_allclose(fd.spectrum(), rfd.spectrum(), rtol=1e-12)
    np.testing.assert_array_equal(fd.basis(), rfd.basis())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["unit", "raw", "emerging"])
@pytest.mark.parametrize("sketch", [*LOW_RANK, "none", "adagrad", "full"])
def test_caches_recomputed(sketch: str, kind: str, dtype: str) -> None:
    """Predictions, weights and basis are three ways into one factored state."""
    X, y = stream(kind, "logistic", ROUNDS, FEATURES)
    model = learner(sketch=sketch, dtype=dtype)
    model.learn(X, y)
    digits = 1e-9 if dtype == "float64" else 1e-4
    bias = model.predict(np.zeros((1, FEATURES)))
    np.testing.assert_allclose(model.bias, bias[0], rtol=digits, atol=digits)
    weights = np.array([model.weights()[i] for i in range(FEATURES)])
    scales = np.abs(X).max(axis=0) / 8  # values beyond eight scales are cut
    slopes = (model.predict(np.diag(scales)) - bias) / scales
    size = np.abs(weights).max() + abs(bias[0])
    np.testing.assert_allclose(slopes, weights, rtol=digits, atol=digits * size)
    limits = model._model.core.limits()[1:]
    order = [int(feature) for feature in model.features()]
    cut = X.copy()
    cut[:, order] = np.clip(X[:, order], -limits, limits)
    np.testing.assert_allclose(
        model.predict(X),
        cut @ weights + bias,
        rtol=digits,
        atol=digits * np.abs(cut @ weights).max(),
    )
    V = model.basis()
    assert V.shape == (len(model.spectrum()), FEATURES + 1 if len(V) else V.shape[1])
    assert orthonormality(V) < (1e-8 if dtype == "float64" else 1e-3)
    assert (np.diff(model.spectrum()) <= 0).all()
    assert (model.spectrum() >= 0).all()
