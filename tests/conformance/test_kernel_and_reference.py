"""The native kernel agrees with the reference to eight digits over 2,000 rounds.

All names come from the registries: a new loss or sketch is tested here without a line.

The comparison needs dynamics that do not magnify rounding errors by themselves, so alpha is not
small: twice the mean squared norm of the rows, and fifty times for raw rows, whose norms differ by
1e6. Labels are of size 1 and so is the absolute tolerance's unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import KINDS, LOW_RANK, orthonormality, raw, reference_parameters, stream
from oracle.learner import OracleLearner
from sonline import OnlineLearner
from sonline.parameters import LOSSES, SCALE_FREE, SCALINGS, SKETCHES

ROUNDS, FEATURES = 2000, 12
TOLERANCE = 1e-8
ALPHA = {
    "unit": "relative:2", "raw": "relative:50", "emerging": "relative:2", "growing": "relative:20"
}  # fmt: skip


def compare(kind: str, weights: bool = False, **changed: Any) -> None:
    parameters = reference_parameters(**{"alpha": ALPHA[kind], **changed})
    X, y = stream(kind, parameters["loss"], ROUNDS, FEATURES)
    w = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], size=ROUNDS) if weights else None
    kernel = OnlineLearner(**parameters, dtype="float64")
    oracle = OracleLearner(**parameters)
    predictions, wanted = raw(kernel, kernel.learn(X, y, w)), oracle.learn(X, y, w)
    np.testing.assert_allclose(predictions, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(
        raw(kernel, kernel.predict(X[:50])), oracle.predict(X[:50]), rtol=TOLERANCE, atol=TOLERANCE
    )
    compare_state(kernel, oracle)


def compare_state(kernel: OnlineLearner, oracle: OracleLearner) -> None:
    assert kernel.stats()["rounds"] == oracle.rounds
    assert kernel.stats()["features"] == oracle.inputs.features
    np.testing.assert_allclose(kernel.stats()["alpha"], oracle.alpha, rtol=TOLERANCE)
    raw = oracle.raw_weights
    actual = np.zeros_like(raw)
    shift = int(oracle.intercept)
    for feature, weight in kernel.weights().items():
        actual[int(feature) + shift] = weight
    if shift:
        actual[0] = kernel.bias
    np.testing.assert_allclose(actual, raw, rtol=TOLERANCE, atol=TOLERANCE * np.abs(raw).max())

    if kernel.params["sketch"] not in LOW_RANK:
        return
    values = np.sort(oracle.ev)[::-1]
    spectrum = kernel.spectrum()
    assert len(spectrum) == len(values)
    np.testing.assert_allclose(spectrum, values, rtol=1e-7, atol=TOLERANCE * values.max(initial=0))
    # The eigenvectors one by one may be ill determined; the matrix that they make is not.
    basis = np.zeros((len(spectrum), len(raw)))
    order = [int(feature) + shift for feature in kernel.features()]
    basis[:, ([0] if shift else []) + order] = kernel.basis()
    assert orthonormality(basis) < TOLERANCE
    np.testing.assert_allclose(
        (basis.T * spectrum) @ basis,
        (oracle.V.T * oracle.ev) @ oracle.V,
        atol=1e-7 * values.max(initial=0),
    )


@pytest.mark.one_in(8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bound", [None, 1.0])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_every_combination(
    sketch: str, loss: str, scaling: str, bound: float | None, kind: str
) -> None:
    compare(kind, sketch=sketch, loss=loss, scaling=scaling, bound=bound)


VARIANTS: dict[str, dict[str, Any]] = {
    "gradient curvature": {"curvature": "gradient"},
    "hessian curvature": {"curvature": "hessian", "loss": "squared_hinge"},
    "sigma and eta": {"curvature": "gradient", "sigma": 0.3, "eta": 0.2},
    "convex eta": {"curvature": "gradient", "eta": "convex", "bound": 2.0},
    "clip": {"clip": True, "loss": "squared"},
    "clip and bound": {"clip": True, "loss": "squared", "bound": 0.7},
    "no intercept": {"intercept": False},
    "weights": {"weights": True},
    "weights and gradient scaling": {"weights": True, "scaling": "gradient", "bound": 1.0},
    "plain alpha": {"alpha": 3.0, "scaling": "none", "kind": "unit"},
    "quantile 0.9": {"loss": "quantile", "quantile": 0.9, "eta": 0.5},
    "explicit step": {"step": "explicit"},
    "explicit step, squared, rms": {"step": "explicit", "loss": "squared", "scaling": "rms"},
    "explicit step, gradient": {"step": "explicit", "scaling": "gradient", "bound": 1.0},
    "one direction": {"sketch_size": 1},
    "two directions": {"sketch_size": 2},
    "more directions than features": {"sketch_size": 20},
    "no sketch": {"sketch_size": 0},
    "half-life": {"half_life": 60, "weights": True},
    "half-life, squared": {"half_life": 40, "loss": "squared", "scaling": "none", "alpha": 3.0},
    "half-life, gradient curvature": {"half_life": 100, "curvature": "gradient", "bound": 1.0},
    "half-life, rms, explicit": {"half_life": 30.5, "scaling": "rms", "step": "explicit"},
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", ["unit", "emerging"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_every_option(sketch: str, variant: str, kind: str) -> None:
    changed = {"loss": "logistic", "kind": kind, **VARIANTS[variant]}
    compare(sketch=sketch, **changed)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("step", [1.0, 0.5, 3.0, SCALE_FREE])
def test_oja_steps(step: float | str, loss: str, scaling: str, kind: str) -> None:
    compare(kind, sketch="oja", oja_step=step, loss=loss, scaling=scaling)


@pytest.mark.parametrize("step", [1.0, 0.5, 3.0, SCALE_FREE])
def test_oja_steps_that_forget(step: float | str) -> None:
    compare("emerging", sketch="oja", oja_step=step, loss="squared", half_life=50)
