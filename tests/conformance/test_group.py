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


def stream(rows: int, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return wide rows with correlated features, frequent ones and rare ones."""
    rng = np.random.default_rng(seed)
    often = rng.permutation(1 / np.arange(1, FEATURES + 1) ** 0.5)
    present = rng.random((rows, FEATURES)) < often
    hidden = rng.normal(size=(rows, 5))
    X = (hidden @ rng.normal(size=(5, FEATURES)) + rng.normal(size=(rows, FEATURES))) * present
    noise = rng.normal(size=(rows, CLASSES))
    y = (X @ rng.normal(size=(FEATURES, CLASSES)) / 3 + hidden[:, :CLASSES] + noise).argmax(axis=1)
    return sp.csr_matrix(X), y


@pytest.mark.parametrize(
    ("loss", "parameters", "weighted"),
    [
        ("logistic", {}, False),
        ("logistic", {"scaling": "none", "sketch_every": 3}, True),
        ("squared_hinge", {"scaling": "rms", "intercept": False}, False),
    ],
)
def test_kernel_equals_reference(loss, parameters, weighted):
    X, y = stream(ROWS)
    weights = np.random.default_rng(1).integers(0, 4, y.size) / 2 if weighted else None
    chosen = Parameters(loss=loss, dtype="float64", sketch_size=4, **parameters)
    model = Model(chosen, ClassTable(tuple(range(CLASSES))))
    learned = model.learn(X, y, weights).raw
    assert _core.Classes.form(model.learners) == "shared"
    later = stream(20, seed=5)[0]
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
