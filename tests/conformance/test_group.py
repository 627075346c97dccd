"""Classes that share a sketch: the kernel against the reference."""

import numpy as np
import pytest
import scipy.sparse as sp

from sonline import _core
from sonline.labels import ClassTable
from sonline.model import Model
from sonline.paper.reference import ReferenceClass
from sonline.parameters import Parameters

FEATURES, CLASSES, ROWS = 600, 3, 180


def stream(rows: int, seed: int = 0, offset: float = 0.0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return wide rows with correlated features, frequent ones and rare ones.

    With an offset, 50 of them are in all rows and far from 0.
    """
    rng = np.random.default_rng(seed)
    often = rng.permutation(1 / np.arange(1, FEATURES + 1) ** 0.5)
    present = rng.random((rows, FEATURES)) < often
    present[:, :50] |= offset > 0
    hidden = rng.normal(size=(rows, 5))
    X = (
        offset * (np.arange(FEATURES) < 50)
        + (hidden @ rng.normal(size=(5, FEATURES)) + rng.normal(size=(rows, FEATURES))) * present
    )
    noise = rng.normal(size=(rows, CLASSES))
    y = (X @ rng.normal(size=(FEATURES, CLASSES)) / 3 + hidden[:, :CLASSES] + noise).argmax(axis=1)
    return sp.csr_matrix(X), y


@pytest.mark.parametrize(
    ("loss", "parameters", "offset"),
    [
        ("logistic", {}, 0.0),
        ("logistic", {}, 30.0),
        ("logistic", {"scaling": "none", "sketch_every": 3}, 0.0),
        ("squared_hinge", {"scaling": "rms", "intercept": False}, 0.0),
    ],
)
def test_kernel_equals_reference(loss, parameters, offset):
    X, y = stream(ROWS, offset=offset)
    weights = np.random.default_rng(1).integers(0, 4, y.size) / 2 if parameters else None
    chosen = Parameters(loss=loss, dtype="float64", sketch_size=4, **parameters)
    model = Model(chosen, ClassTable(tuple(range(CLASSES))))
    learned = model.learn(X, y, weights).raw
    assert _core.Classes.form(model.learners) == "shared"
    assert np.any(model.centres() != 0) == (offset > 0)
    later = stream(20, seed=5, offset=offset)[0]
    for k in (0, 2):
        reference = ReferenceClass(
            list(chosen.experts),
            sketch_size=4,
            loss=loss,
            scaling=chosen.scaling,
            intercept=chosen.intercept,
            curvature="auto",
            eta=None,
            sketch_every=chosen.sketch_every,
        )
        expected = reference.learn(X.toarray(), np.where(y == k, 1.0, -1.0), weights)
        # Before rows are known to be wide, each class answers by itself.
        np.testing.assert_allclose(learned[k, 60:], expected[60:], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(
            model.predict(later)[k], reference.predict(later.toarray()), rtol=1e-7, atol=1e-7
        )
