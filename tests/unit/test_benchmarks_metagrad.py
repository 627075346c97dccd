"""The benchmark in MetaGrad's protocol: rows, contenders and the table."""

import bz2

import numpy as np
import pytest
from benchmarks import metagrad


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 2, 4)
    lines = "".join(
        f"{label} " + " ".join(f"{i + 1}:{v:.6f}" for i, v in enumerate(x)) + "\n"
        for x, label in zip(X, y, strict=True)
    )
    (tmp_path / "breast-cancer.svm").write_text(lines)
    (tmp_path / "heart_scale.bz2").write_bytes(bz2.compress(lines.encode()))
    return tmp_path


def test_rows_are_those_of_the_protocol(folder):
    path = metagrad.find(folder, "heart_scale")
    X, y = metagrad.load(path, "heart_scale", None)
    raw, _ = metagrad.load_svmlight_file(str(path))
    rows = np.column_stack([np.ones(60), raw.toarray()[:, :2]])  # without the last feature
    np.random.seed(metagrad.SEED)  # noqa: NPY002 - as their code does
    np.random.shuffle(rows)  # noqa: NPY002
    assert (rows == X).all()
    assert set(y) == {-1.0, 1.0}
    # rows in their own units are scaled
    other = metagrad.find(folder, "breast-cancer_scale")
    assert other.name == "breast-cancer.svm"
    X, _ = metagrad.load(other, "breast-cancer_scale", None)
    assert np.allclose([X[:, 1:].min(), X[:, 1:].max()], [-1.0, 1.0])
    assert metagrad.find(folder, "w8a") is None


@pytest.mark.parametrize("loss", metagrad.LOSSES)
def test_comparator_and_slopes(loss):
    rng = np.random.default_rng(1)
    X, noise = rng.normal(size=(200, 3)), rng.normal(size=200)
    y = X @ [1.0, -2.0, 0.5] + noise
    if loss in {"hinge", "logistic"}:
        y = np.where(y > 0, 1.0, -1.0)
    value, slope, _ = metagrad.LOSSES[loss]
    best = metagrad.best_weights(X, y, loss)
    total = value(X @ best, y).sum()
    others = best + 0.05 * rng.normal(size=(200, 3))
    assert all(value(X @ w, y).sum() >= total - 0.01 for w in others)
    z, step = np.array([0.3]), 1e-6
    by_difference = (value(z + step, y[:1]) - value(z - step, y[:1])) / (2 * step)
    assert slope(0.3, y[0]) == pytest.approx(by_difference[0], abs=1e-6)


def test_metagrad_is_that_of_the_formulas():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3))
    best = np.array([1.0, -1.0, 0.5])
    learner = metagrad.MetaGrad(best, bound=100.0)
    for x in X:
        z = learner.predict(x)
        slope = float(np.tanh(z - x @ best))
        W, H, steps, w = learner.W.copy(), learner.H.copy(), learner.steps, learner.w.copy()
        learner.learn(x, slope)
        for e, eta in enumerate(2.0**steps):
            g = slope * x
            A = np.linalg.inv(H[e]) + 2 * eta**2 * np.outer(g, g)
            expected = W[e] - np.linalg.solve(A, (eta + 2 * eta**2 * g @ (W[e] - w)) * g)
            assert np.allclose(learner.H[e], np.linalg.inv(A))
            assert np.allclose(learner.W[e], expected)
            assert abs(eta * (w - W[e]) @ g) <= 0.5
    assert steps.size > 2


def test_the_command_writes_a_table(folder, monkeypatch, tmp_path):
    out = tmp_path / "table.md"
    monkeypatch.setattr("sys.argv", ["metagrad", "--data-dir", str(folder), "--out", str(out)])
    metagrad.main()
    text = out.read_text()
    assert text.count("| heart | 60 | 3 |") == 2
    assert "w8a" in text.splitlines()[-1]
    monkeypatch.setattr("sys.argv", ["metagrad", "--data-dir", str(folder), "--only", "w8a"])
    with pytest.raises(SystemExit, match="has none of the sets: w8a"):
        metagrad.main()
