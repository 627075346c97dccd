"""Features with a large offset (years, kelvin, latitudes) are centred after the first rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from oracle.comparison import Pair
from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.persistence import read

FIRST_ROWS = 32
COLUMNS = 14


def table(rows=400, offset=50.0, seed=0, columns=COLUMNS):
    """Return rows of which every second column has an offset, and a linear target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) * np.linspace(0.5, 3, columns)
    weights = rng.normal(size=columns)
    target = X @ weights + 0.1 * rng.normal(size=rows)
    X[:, ::2] += offset * np.linspace(0.5, 3, columns)[::2]
    return X, target


def centres(learner) -> np.ndarray:
    return learner._model.centres()[1:]


@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge", "quantile"])
@pytest.mark.parametrize("kind", ["table", "one unit", "zeros", "weights"])
def test_kernel_equals_oracle(loss, kind):
    X, y = table()
    if kind == "one unit":
        X /= np.linspace(0.5, 3, COLUMNS)
        X[:, ::2] -= 45  # all within a factor of 4
    if kind == "zeros":  # absent, later, where it was always there
        X[40::7, 0] = 0
        X[45::9, 2] = 0
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], size=y.size)
    weights = weights if kind == "weights" else None
    classes = 2 if loss in ("logistic", "hinge") else None
    pair = Pair(COLUMNS, classes, loss=loss)
    pair.learn(X, (y > 0).astype(int) if classes else y, weights)
    chosen = pair.model.centres()[1:]
    assert np.count_nonzero(chosen) == COLUMNS // 2
    np.testing.assert_array_equal(chosen, pair.oracle.inputs.centres[1:])
    pair.check(X)


@pytest.mark.parametrize("columns", [14, 30])
def test_an_offset_does_not_matter(columns):
    """Without centres the errors are three to ten times as large."""
    plain, target = table(4000, offset=0.0, columns=columns)
    shifted, _ = table(4000, offset=50.0, columns=columns)
    for y, loss in ((np.sign(target), "logistic"), (target, "squared")):

        def error(X, y=y, loss=loss):
            learner = OnlineLearner(loss=loss)
            learner.learn(X[:3000], y[:3000])
            predicted = learner.predict(X[3000:])
            return np.mean(np.sign(predicted) != y[3000:] if loss == "logistic"
                           else (predicted - y[3000:]) ** 2)  # fmt: skip

        assert error(shifted) <= 1.3 * error(plain) + 0.005


def test_time_stamps_keep_their_digits():
    """Seconds since 1970 have no digits left for hours in float32."""
    rng = np.random.default_rng(0)
    hours = rng.uniform(0, 1000, size=3000)
    y = hours / 500 - 1
    learner = OnlineLearner(loss="squared")
    learner.learn(1.7e9 + 3600 * hours[:, None], y)
    assert centres(learner)[0] != 0
    later = learner.predict(1.7e9 + 3600 * np.array([[100.0], [900.0]]))
    np.testing.assert_allclose(later, [-0.8, 0.8], atol=0.02)


def test_small_tables_are_centred_only_if_hardly_anything_varies():
    for offset, expected in ((10.0, 0), (100.0, 2)):
        X, y = table(offset=offset, columns=4)
        learner = OnlineLearner(loss="squared")
        learner.learn(X, y)
        assert np.count_nonzero(centres(learner)) == expected


@pytest.mark.parametrize("column", ["constant", "in order", "sometimes absent", "no offset"])
def test_columns_that_are_not_centred(column):
    X, y = table()
    X[:, 0] = {
        "constant": np.full(len(X), 7.3),
        "in order": 1000 + np.arange(len(X)) * 0.1,
        "sometimes absent": X[:, 0] * (np.arange(len(X)) % 10 > 0),
        "no offset": X[:, 1],
    }[column]
    learner = OnlineLearner(loss="squared")
    learner.learn(X, y)
    assert centres(learner)[0] == 0
    assert np.count_nonzero(centres(learner)) == COLUMNS // 2 - 1


@pytest.mark.parametrize(
    "parameters", [{"intercept": False}, {"scaling": "rms"}, {"hash_bits": 10}], ids=str
)
def test_learners_without_centres(parameters):
    X, y = table()
    learner = OnlineLearner(loss="squared", **parameters)
    learner.learn(X, y)
    assert not centres(learner).any()


def test_batches_rows_and_formats_give_the_same_bits():
    X, y = table(120)
    X[40::5, 0] = 0
    whole, split, sparse, rows = (OnlineLearner(loss="squared", curves=True) for _ in range(4))
    expected = whole.learn(X, y)
    parts = np.split(np.arange(len(y)), [1, 5, 31, 32, 33, 60])
    np.testing.assert_array_equal(np.r_[tuple(split.learn(X[i], y[i]) for i in parts)], expected)
    np.testing.assert_array_equal(sparse.learn(sp.csr_matrix(X), y), expected)
    # Keys in another order, and zeros that are left out or not.
    order = np.random.default_rng(0).permutation(COLUMNS)
    for x, label, prediction in zip(X, y, expected, strict=True):
        assert rows.learn_one({int(j): float(x[j]) for j in order}, label) == pytest.approx(
            prediction, rel=1e-4, abs=1e-4
        )
    np.testing.assert_array_equal(sparse.predict(sp.csr_matrix(X)), whole.predict(X))


def test_a_feature_that_occurs_twice_is_centred_once():
    X, y = table(100)
    learner = OnlineLearner(loss="squared", dtype="float64")
    learner.learn(X, y)
    row = X[0].copy()
    halves = sp.csr_matrix(
        (np.r_[row[0] / 2, row], np.r_[0, 0:COLUMNS], [0, COLUMNS + 1]), shape=(1, COLUMNS)
    )
    halves.data[1] -= row[0] / 2
    np.testing.assert_allclose(learner.predict(halves), learner.predict(row[None]), rtol=1e-10)


@pytest.mark.parametrize("rows", [0, 1, 17, 31, 32, 33, 70])
def test_saved_at_any_row_it_continues_to_the_same_bits(tmp_path, rows):
    X, y = table(120)
    learner = OnlineLearner(loss="squared")
    learner.learn(X[:rows], y[:rows])
    learner.save(tmp_path / "model.son")
    loaded = OnlineLearner.load(tmp_path / "model.son")
    np.testing.assert_array_equal(
        loaded.learn(X[rows:], y[rows:]), learner.learn(X[rows:], y[rows:])
    )
    np.testing.assert_array_equal(loaded.predict(X), learner.predict(X))
    np.testing.assert_array_equal(centres(loaded), centres(learner))
    assert centres(loaded).any()


def test_the_first_rows_leave_the_file_when_they_are_over(tmp_path):
    X, y = table(FIRST_ROWS)
    for rows, kept in ((FIRST_ROWS - 1, True), (FIRST_ROWS, False)):
        learner = OnlineLearner(loss="squared")
        learner.learn(X[:rows], y[:rows])
        learner.save(tmp_path / "model.son")
        _, tensors = read(tmp_path / "model.son")
        assert any("warm_up.labels" in name for name in tensors) == kept


def test_several_classes_are_centred_alike():
    X, y = table(300)
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    whole, split = SONClassifier(curves=False), SONClassifier(curves=False)
    whole.partial_fit(X, labels, classes=[0, 1, 2])
    for part in np.split(np.arange(300), [10, 32, 50]):
        split.partial_fit(X[part], labels[part], classes=[0, 1, 2])
    assert np.count_nonzero(whole.value_centres()) == COLUMNS // 2
    np.testing.assert_array_equal(split.decision_function(X), whole.decision_function(X))
    raw = X @ whole.coef_.T + whole.intercept_
    np.testing.assert_allclose(raw, whole.decision_function(X), rtol=1e-3, atol=1e-2)


def test_explain_one_counts_distances_from_the_centre():
    X, y = table(500)
    learner = OnlineLearner(loss="squared")
    learner.learn(X, y)
    row = dict(enumerate(X[7].tolist()))
    for x in (row, {key: value for key, value in row.items() if key not in (0, 1)}):
        parts = learner.explain_one(x)
        assert sum(parts.values()) == pytest.approx(learner.predict_one(x), rel=1e-3, abs=1e-3)
    assert abs(learner.explain_one(row)["(intercept)"]) < 20  # the offsets would add hundreds


@pytest.mark.parametrize("sketch", ["isotropic", "fd", "full", "none", "adagrad", "oja"])
def test_learners_with_other_centres_are_merged(sketch):
    X, y = table(2000)
    parts = [OnlineLearner(loss="squared", sketch=sketch, alpha="relative:0.01") for _ in range(2)]
    for part, learner in enumerate(parts):
        learner.learn(X[part:1600:2], y[part:1600:2])
    assert (centres(parts[0]) != centres(parts[1])).any()
    merged = parts[0].merge(parts[1:])
    assert np.count_nonzero(centres(merged)) == COLUMNS // 2

    def error(learner):
        return np.mean((learner.predict(X[1600:]) - y[1600:]) ** 2) / y.var()

    assert error(merged) <= 1.2 * max(error(learner) for learner in parts)


def test_a_centred_and_an_uncentred_learner_are_merged():
    X, y = table(2000)
    few, many = OnlineLearner(loss="squared"), OnlineLearner(loss="squared")
    few.learn(X[:20], y[:20])  # too few to be centred
    many.learn(X[20:1600], y[20:1600])
    merged = many.merge([few])
    assert not centres(merged).any()
    error = np.mean((merged.predict(X[1600:]) - y[1600:]) ** 2) / y.var()
    assert error < 0.05
    merged.learn(X[1600:], y[1600:])


def test_compact_models_predict_the_same():
    X, y = table(600)
    model = SONRegressor().fit(X, y)
    np.testing.assert_allclose(model.compact().predict(X), model.predict(X), rtol=1e-4, atol=1e-3)


def test_onnx_keeps_the_digits():
    runtime = pytest.importorskip("onnxruntime")
    X, y = table(600, offset=1000.0)
    model = SONRegressor().fit(X, y)
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    exported = session.run(None, {"X": X.astype(np.float32)})[0]
    np.testing.assert_allclose(exported, model.predict(X), rtol=1e-3, atol=0.05)


def test_rows_that_diverge_with_centres_leave_the_model_as_it_is():
    rng = np.random.default_rng(0)
    X, y = table(64)
    X *= 1e15
    learner = OnlineLearner(loss="squared")
    learner.learn(X, y * 1e10 + rng.normal(size=64))
    assert np.isfinite(learner.predict(X)).all()
