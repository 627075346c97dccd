"""The implicit step: it moves the prediction of a row towards its label and never beyond."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import labels_of
from sonline import OnlineLearner
from sonline.errors import ParameterError
from sonline.parameters import LOSSES, SKETCHES


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_a_step_does_not_overshoot(sketch: str, alpha: float, loss: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 8)) * 30
    y = labels_of(loss, np.sign(X[:, 0] + X[:, 1]))
    model = OnlineLearner(
        loss=loss, sketch=sketch, alpha=alpha, scaling="none", dtype="float64", sketch_size=4
    )
    for x, label in zip(X, y, strict=True):
        before = model.learn(x[None, :], [label])[0]
        after = model.predict(x[None, :])[0]
        towards = label if LOSSES[loss]["binary"] else np.sign(label - before)
        moved = (after - before) * towards
        slack = 1e-6 * (1 + abs(before))
        assert moved >= -slack
        if not LOSSES[loss]["binary"]:
            assert moved <= abs(label - before) + slack


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_values_far_beyond_their_scale_do_not_blow_up(loss: str, sketch: str) -> None:
    """A feature may grow a million times from one row to the next."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)) * 10.0 ** rng.uniform(-6, 6, size=(400, 1))
    model = OnlineLearner(loss=loss, sketch=sketch, alpha="relative:0.01")
    assert np.abs(model.learn(X, np.sign(X[:, 0]))).max() < 1000
    assert np.abs(model.predict(1e6 * X)).max() < 1000


@pytest.mark.parametrize("sketch", SKETCHES)
def test_predict_makes_the_prediction_that_learn_would_return(sketch: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 6)) * 10.0 ** rng.uniform(-4, 4, size=(100, 6))
    model = OnlineLearner(sketch=sketch, alpha="relative:0.1")
    for x in X:
        label = float(np.sign(x[0]))
        predicted = model.predict(x[None, :])[0]
        # A feature that was never seen counts as absent.
        if len(model.features()) == X.shape[1]:
            assert model.learn(x[None, :], [label])[0] == predicted
        else:
            model.learn(x[None, :], [label])


def test_the_paper_step_needs_one_alpha() -> None:
    with pytest.raises(ParameterError, match="step='explicit' needs a number for alpha"):
        OnlineLearner(step="explicit")
    with pytest.raises(ParameterError, match="step must be one of"):
        OnlineLearner(alpha=1.0, step="none")
    OnlineLearner(alpha=1.0, step="explicit")
