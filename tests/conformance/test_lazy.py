"""Generations, folds and sweeps do not show, however often they happen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import KINDS, LOW_RANK, orthonormality, reference_parameters, stream
from oracle.learner import OracleLearner
from oracle.model import Oracle
from sonline import OnlineLearner, _core
from sonline.parameters import Parameters

ROUNDS, FEATURES = 600, 12
FORCED = {"condition": 1.05, "cancellation": 1e-4}


def forced(parameters: Parameters) -> OnlineLearner:
    """Return a learner whose sketch folds, or begins a generation, in nearly every row."""
    model = OnlineLearner(**parameters.as_dict())
    classes = 2 if parameters.binary else None
    core = _core.Model(parameters.for_core() | FORCED, parameters.dtype == "float32", classes)
    model._model._set_core(core)
    model._take(model._model)
    return model


def rows(kind: str, loss: str) -> tuple[Any, Any]:
    return stream(kind, loss, ROUNDS, FEATURES)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scaling", ["none", "rms", "auto", "gradient"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("sketch", LOW_RANK)
def test_forced_upkeep(sketch: str, loss: str, scaling: str, kind: str) -> None:
    alpha = "relative:50" if kind == "raw" else "relative:2"
    shared = reference_parameters(sketch=sketch, loss=loss, scaling=scaling, alpha=alpha)
    X, y = rows(kind, loss)
    model = forced(Parameters(**shared, dtype="float64"))
    np.testing.assert_allclose(
        model.learn(X, y), OracleLearner(**shared).learn(X, y), rtol=1e-8, atol=1e-8
    )
    stats = model.stats()
    least = ROUNDS / 8
    assert stats["folds"] + stats["generations"] > least
    assert orthonormality(model.basis()) < 1e-10


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_forced_upkeep_of_several_members(loss: str) -> None:
    parameters = Parameters(loss=loss, sketch_size=5, scaling="rms", dtype="float64")
    X, y = rows("emerging", loss)
    binary = parameters.binary
    model = forced(parameters)
    oracle = Oracle(parameters, FEATURES, 2 if binary else None)
    wanted = oracle.learn(X, (y > 0).astype(int) if binary else y)[0]
    np.testing.assert_allclose(model.learn(X, y), wanted, rtol=1e-8, atol=1e-8)
    stats = model.stats()
    assert stats["folds"] + stats["generations"] > ROUNDS / 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sketch", LOW_RANK)
def test_features_that_missed_thousands_of_generations(sketch: str, dtype: str) -> None:
    """Catching up late gives a feature the same values as catching up at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 40))
    X[:, 20:] *= rng.random((4000, 20)) < 0.003  # rare features
    y = np.sign(X @ rng.normal(size=40))
    parameters = Parameters(sketch=sketch, alpha="relative:1", sketch_size=4, dtype=dtype)
    lazy = forced(parameters)
    plain = OnlineLearner(**parameters.as_dict())
    digits = 1e-8 if dtype == "float64" else 2e-3
    np.testing.assert_allclose(lazy.learn(X, y), plain.learn(X, y), rtol=digits, atol=digits)
    assert orthonormality(lazy.basis()) < (1e-10 if dtype == "float64" else 1e-4)
