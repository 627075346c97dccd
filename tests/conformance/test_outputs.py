"""Several outputs over shared inputs: the kernel against the oracle."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from oracle.comparison import Pair, close
from oracle.learner import OracleLearner
from sonline.labels import ClassTable
from sonline.model import Model
from sonline.parameters import CLASSIFICATION_LOSSES, Parameters

ROWS, FEATURES = 260, 8
LATER = 20  # rows at the end that are only predicted


def stream(
    kind: str, classes: int, rows: int = ROWS, seed: int = 0
) -> tuple[sp.csr_array, np.ndarray]:
    """Return rows and the numbers of their classes; "wide" rows have ten of 300 features."""
    rng = np.random.default_rng(seed)
    features = 300 if kind == "wide" else FEATURES
    X = rng.normal(size=(rows, features)) * np.linspace(0.3, 3, features)
    if kind == "sparse":
        X *= rng.random(X.shape) < 0.4
    if kind == "offset":
        X += 50 * (np.arange(features) % 2)
    if kind == "wide":
        # Rows share features: with equal ones apart, rounding decides which direction is dropped.
        chances = rng.random(X.shape) * np.arange(1, features + 1) ** 0.75
        X *= chances.argsort(axis=1).argsort(axis=1) < 10
    scores = (X - X.mean(axis=0)) @ rng.normal(size=(features, classes))
    return sp.csr_array(X), (scores + rng.normal(size=scores.shape)).argmax(axis=1)


def some_weights(rows: int) -> np.ndarray:
    return np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], size=rows)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", ["dense", "sparse", "offset", "wide"])
@pytest.mark.parametrize("classes", [3, 4, 5])
@pytest.mark.parametrize("loss", CLASSIFICATION_LOSSES)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"sketch": "oja", "scaling": "rms", "bound": 1.5},
        {"sketch": "none", "scaling": "none"},
        {"intercept": False, "sketch_every": 3},
        {"clip": True},
    ],
    ids=str,
)
def test_kernel_equals_oracle(parameters, loss, classes, kind):
    X, y = stream(kind, classes)
    pair = Pair(X.shape[1], classes, loss=loss, **parameters)
    pair.learn(X[:-LATER], y[:-LATER], some_weights(ROWS - LATER))
    pair.check(X[-LATER:])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["dense", "wide"])
@pytest.mark.parametrize("classes", [2, 4])
def test_single_precision(classes, kind):
    X, y = stream(kind, classes)
    pair = Pair(X.shape[1], classes, tolerance=2e-3, dtype="float32")
    pair.learn(X[:-LATER], y[:-LATER])
    pair.check(X[-LATER:])


def grown(rows: int = 400) -> np.ndarray:
    """Labels of classes that emerge one after another."""
    rng = np.random.default_rng(2)
    return np.concatenate(
        [np.append(k, rng.integers(0, k + 1, size=rows // 4 - 1)) for k in range(4)]
    )


# Parts that end before a class emerges, within the warm-up, and after it.
PARTS = {
    "late": [10, 60, 100, 101, 150, 200, 300, 310, 400],
    "in the warm-up": [3, 100, 200, 300, 400],
    "at once": [400],
}


@pytest.mark.parametrize("kind", ["dense", "wide"])
@pytest.mark.parametrize("parts", PARTS)
def test_classes_that_emerge(parts, kind):
    X, y = stream(kind, 4, 400)[0], grown()
    if parts == "in the warm-up":
        y[[1, 5, 8]] = [1, 2, 3]
    pair = Pair(X.shape[1], 0, growing=True)
    for first, end in zip([0, *PARTS[parts]], PARTS[parts], strict=False):
        codes = y[first:end]
        known = pair.oracle.classes
        new = [code for code in dict.fromkeys(codes.tolist()) if code >= known]
        assert new == sorted(new)  # the table numbers classes as they emerge
        pair.learn(X[first:end], codes)
        pair.check(X[:LATER])


@pytest.mark.parametrize("kind", ["dense", "wide"])
def test_classes_that_emerge_are_as_if_declared(kind):
    X, y = stream(kind, 4, 400)[0], grown()
    chosen = Parameters(dtype="float64")
    model, declared = (
        Model(chosen, ClassTable(labels, growing=True)) for labels in ((), tuple(range(4)))
    )
    for first, end in zip([0, *PARTS["late"]], PARTS["late"], strict=False):
        model.learn(X[first:end], y[first:end])
    declared.learn(X, y)
    close(model.predict(X), declared.predict(X))


def test_a_growing_model_goes_on_as_if_it_had_not_been_saved():
    X, y = stream("dense", 4, 400)[0], grown()
    model = Model(Parameters(), ClassTable((), growing=True))
    for first, end in zip([0, *PARTS["late"]], PARTS["late"], strict=False):
        loaded = pickle.loads(pickle.dumps(model))
        model.learn(X[first:end], y[first:end])
        loaded.learn(X[first:end], y[first:end])
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_wide_rows_drop_their_sketches_at_the_third_class():
    X, y = stream("wide", 5)
    y[:100] %= 2
    y[100] = 4
    pair = Pair(X.shape[1], 5)
    pair.learn(X[:100], y[:100])
    assert len(pair.model.core.spectrum()) > 0
    pair.learn(X[100:101], y[100:101])
    assert len(pair.model.core.spectrum()) == 0
    pair.learn(X[101:], y[101:])
    pair.check(X)


@pytest.mark.parametrize("sketch", ["adagrad", "fd", "full", "oja"])
@pytest.mark.parametrize("scaling", ["auto", "gradient"])
def test_one_weight_vector_for_each_class(sketch, scaling):
    X, y = stream("sparse", 3)
    shared = {"sketch": sketch, "scaling": scaling, "alpha": "relative:2", "sketch_size": 4}
    model = Model(Parameters(dtype="float64", **shared), ClassTable((0, 1, 2)))
    learned, later = model.learn(X, y).raw, model.predict(X)
    for k in range(3):
        oracle = OracleLearner(step="implicit", curvature="auto", oja_step="scale-free", **shared)
        labels = np.where(y == k, 1.0, -1.0)
        close(learned[k], oracle.learn(X.toarray(), labels))
        close(later[k], oracle.predict(X.toarray()))
