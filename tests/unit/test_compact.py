"""Compact models: they predict as before, are small, and do not learn."""

import numpy as np
import pytest
import scipy.sparse as sp

import sonline
from helpers import labels_of
from sonline import OnlineLearner, SONClassifier
from sonline.errors import DivergenceError, InvalidInputError
from sonline.merging import outputs_of
from sonline.model.merge import core_with
from sonline.parameters import LOSSES, SKETCHES


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_predictions_stay(sketch, loss, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12)) * 10.0 ** rng.integers(-2, 3, 12)
    y = labels_of(loss, np.sign(X @ rng.normal(size=12)))
    learner = OnlineLearner(sketch=sketch, loss=loss, dtype="float64", sketch_size=4)
    learner.learn(X, y)
    small = learner.compact()
    new = np.vstack([X[:50], 1e6 * X[:2]])  # values far beyond the usual are cut as before
    wanted = learner.predict(new)
    np.testing.assert_allclose(small.predict(new), wanted, rtol=1e-9, atol=1e-9)
    assert small.features() == learner.features()
    small.save(tmp_path / "small.son")
    loaded = sonline.load(tmp_path / "small.son")
    np.testing.assert_array_equal(loaded.predict(new), small.predict(new))
    before = loaded.model.tensors()["0.blocks"].tobytes()
    for call in (
        lambda: loaded.learn(X, y),
        lambda: loaded.learn_one({0: 1.0}, 1),
        lambda: loaded.merge([small]),
    ):
        with pytest.raises(InvalidInputError, match="compact model, which only predicts"):
            call()
    assert loaded.model.tensors()["0.blocks"].tobytes() == before


@pytest.mark.parametrize("curves", [True, "auto", "pairs"])
def test_curves_that_were_asked_for(curves):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    learner = OnlineLearner(loss="squared", curves=curves, dtype="float64")
    learner.learn(X, X[:, 0] ** 2)
    np.testing.assert_allclose(learner.compact().predict(X), learner.predict(X), rtol=1e-9)


def test_many_classes_of_wide_rows(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random(600, 4000, density=0.02, format="csr", random_state=0)
    y = rng.integers(0, 12, 600)
    model = SONClassifier(discover_classes=True, shuffle=False).fit(X, y)
    small = model.compact()
    np.testing.assert_allclose(
        small.decision_function(X), model.decision_function(X), rtol=1e-3, atol=1e-4
    )
    assert (small.predict(X) == model.predict(X)).all()
    with pytest.raises(InvalidInputError, match="only predicts"):
        small.partial_fit(X, y)
    small.save(tmp_path / "small.son")
    model.save(tmp_path / "model.son")
    sizes = [(tmp_path / name).stat().st_size for name in ("small.son", "model.son")]
    assert sizes[0] < sizes[1]  # without sketches there is little to leave out
    assert (sonline.load(tmp_path / "small.son").predict(X) == model.predict(X)).all()


def test_bounds_of_a_blend_are_refused():
    learner = OnlineLearner(bound=1.0)
    learner.learn(np.eye(3), [1, -1, 1])
    with pytest.raises(InvalidInputError, match="bounded and then blended"):
        learner.compact()
    OnlineLearner(bound=1.0, alpha=1.0).compact()


def test_weights_that_do_not_fit_their_type():
    """Found by fuzzing: an error about the state of a compact model is one of sonline."""
    model = OnlineLearner(sketch="oja").model
    model.learn(np.eye(4), [1, -1, 1, 1])
    known = model.core.knowledge()
    known["0.weights"] = np.full_like(known["0.weights"], np.inf)
    with pytest.raises(DivergenceError, match="do not fit float32: field"):
        core_with(model.parameters, model.table, outputs_of(known))
