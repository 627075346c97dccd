"""The conventions of the paper's experiments against a loop in NumPy that spells them out."""

import numpy as np
import pytest
import scipy.sparse as sp

from sonline.paper import datasets
from sonline.paper.experiments.conventions import make, published_rows
from sonline.paper.experiments.eigenvalues import eigenvalue_errors
from sonline.paper.experiments.progressive import BATCH, run
from sonline.paper.experiments.searches import best
from sonline.paper.experiments.table_error import METHODS

ADAGRAD, PLAIN, DIAGONAL = METHODS[4], METHODS[0], METHODS[2]


def spelled_out(X: np.ndarray, y: np.ndarray, alpha: float, kind: str) -> np.ndarray:
    """Return clipped predictions of the three methods without sketch, as Vowpal Wabbit learns."""
    rows = np.hstack([X, np.ones((len(X), 1))])
    w = np.zeros(rows.shape[1])
    squares = np.full(rows.shape[1], 0.1 if kind == "diagonal" else 0.0)
    predictions = []
    for x, label in zip(rows, y, strict=True):
        scale = np.sqrt(squares) if kind == "diagonal" else 1.0
        z = np.clip(w @ (x / scale), -1, 1)
        predictions.append(z)
        g = z - label
        if g == 0:
            continue
        squares += (g * x) ** 2
        if kind == "plain":
            w -= g * x / alpha
        else:  # AdaGrad, or a step in features divided by the new scale
            root = np.sqrt(squares)
            w -= np.divide(g * x, alpha * root, out=np.zeros_like(w), where=root > 0)
    return np.array(predictions)


@pytest.mark.parametrize(
    ("method", "kind"), [(PLAIN, "plain"), (DIAGONAL, "diagonal"), (ADAGRAD, "adagrad")]
)
@pytest.mark.parametrize("alpha", [0.25, 4.0])
def test_learners_predict_as_the_paper_s_implementation(method, kind, alpha):
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(300, 6)) * rng.random((300, 6))
    y = np.sort(np.where(rng.random(300) > 0.3, 1.0, -1.0))  # sorted: the range matters most then
    settings = {**method.settings(alpha), "dtype": "float64"}
    predictions = make(settings).learn(X, y)
    np.testing.assert_allclose(predictions, spelled_out(X, y, alpha, kind), atol=1e-9)


def test_telling_the_labels_changes_nothing_else():
    for method in METHODS:
        learner = make(method.settings(1.0))
        assert learner.bias == 0.0
        assert learner.weights() == {}
        assert learner.learn([[1.0, 2.0, 3.0]], [1.0]).tolist() == [0.0]


def test_many_learners_at_once_are_each_alone():
    rng = np.random.default_rng(1)
    X = sp.random(2 * BATCH + 77, 30, density=0.2, random_state=1, format="csr")
    y = np.where(X @ rng.standard_normal(30) > 0, 1.0, -1.0)
    settings = [m.settings(alpha) for m in METHODS for alpha in (0.5, 2.0)]
    together = run(X, y, settings)
    for each, runs in zip(settings, together, strict=True):
        z = make(each).learn(X, y)
        assert runs.mistakes == [np.count_nonzero((z > 0) != (y > 0))]


def test_mistakes_are_counted_at_the_marks():
    X = np.array([[1.0], [1.0], [-1.0], [1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    [only] = run(X, y, [PLAIN.settings(4.0)], marks=[1, 3])
    assert only.mistakes == [1, 1, 2]  # 0 counts as -1; the last row contradicts the others
    assert only.total == 2


def test_a_learner_that_diverges_is_left_out_and_counts_as_the_worst():
    rng = np.random.default_rng(2)
    X, y = 1e3 * rng.standard_normal((3000, 5)), np.where(rng.random(3000) > 0.5, 1.0, -1.0)
    wild = {**PLAIN.settings(1e-6), "clip": False}
    first, second = run(X, y, [wild, ADAGRAD.settings(1.0)])
    assert first.diverged
    assert first.total == float("inf")
    assert not second.diverged
    actual = best({"marks": [3000], "mistakes": [None, [7], [7]]}, [1, 2, 3])
    assert (actual.mistakes, actual.step) == (7, 2)
    assert np.isnan(best({"marks": [9], "mistakes": [None]}, [1]).rate)


def test_a_sketch_of_everything_has_the_exact_eigenvalues():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((400, 5)), np.where(rng.random(400) > 0.5, 1.0, -1.0)
    for scaling in ("none", "gradient"):
        settings = {
            **METHODS[1].settings(1.0),
            "sketch": "isotropic",
            "dtype": "float64",
            "scaling": scaling,
        }
        errors = eigenvalue_errors(X, y, settings, [1, 3, 100, 400])
        assert max(errors) < 1e-6


def test_the_rows_behind_the_rates_of_forest_cover_are_scaled(tmp_path):
    (tmp_path / "covtype.svm").write_text("1 1:2 2:10\n2 1:4\n2 1:5 2:-20\n")
    rows = published_rows(datasets.load("covtype", tmp_path))
    np.testing.assert_array_equal(
        rows.X.toarray()[:, :3], [[0, 1, 0], [0.666667, 0.666667, 0], [1, 0, 0]]
    )
    assert rows.y.tolist() == [1, -1, -1]
    assert "LIBSVM" in rows.note
