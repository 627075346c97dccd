import pickle
import threading
from collections import UserDict

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sonline import OnlineLearner, SONClassifier
from sonline.errors import DivergenceError, InvalidInputError
from sonline.labels import ClassTable
from sonline.model import Model, probabilities
from sonline.model.predictions import probabilities_one
from sonline.parameters import LOSSES, SKETCHES, Parameters

BINARY = [name for name, info in LOSSES.items() if info["binary"]]


def stream(classes=4, n=300, d=8, seed=0):
    """Rows of a multiclass problem; class k does not come before row 20 k."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    W = rng.normal(size=(d, classes))
    y = (X @ W).argmax(axis=1)
    for k in range(1, classes):
        y[: 20 * k] = np.minimum(y[: 20 * k], k - 1)
    return X, y


def model_of(parameters, classes, growing):
    return Model(parameters, ClassTable(tuple(range(classes)), growing))


def state_of(learner):
    document, tensors = learner.__getstate__()
    return document, {name: (a.dtype, a.shape, a.tobytes()) for name, a in tensors.items()}


@pytest.mark.parametrize("loss", BINARY)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_emerging_classes_are_as_if_declared_at_the_start(sketch, loss):
    X, y = stream()
    parameters = Parameters(sketch=sketch, loss=loss, sketch_size=3, alpha="relative:4")
    declared = model_of(parameters, 4, growing=False)
    declared.learn(X, y)
    emerging = model_of(parameters, 0, growing=True)
    for start in range(0, len(y), 7):
        rows = slice(start, start + 7)
        emerging.learn(X[rows], y[rows])
    order = list(emerging.table.labels)
    np.testing.assert_array_equal(emerging.predict(X), declared.predict(X)[order])
    np.testing.assert_array_equal(emerging.weights(), declared.weights()[order])


@given(cuts=st.lists(st.integers(0, 300), max_size=4))
def test_how_rows_are_cut_does_not_show_in_the_progressive_loss(cuts):
    """The loss of a row counts the classes known by then, wherever a batch begins."""
    X, y = stream()
    whole, parts = (model_of(Parameters(), 0, growing=True) for _ in range(2))
    whole.update_progress(whole.learn(X, y))
    ends = [0, *sorted(cuts), len(y)]
    for a, b in zip(ends, ends[1:], strict=False):  # noqa: RUF007 - may hold empty batches
        parts.update_progress(parts.learn(X[a:b], y[a:b]))
    assert parts.progress.as_dict() == whole.progress.as_dict()
    assert state_of(parts) == state_of(whole)


@given(
    classes=st.integers(2, 5),
    threads=st.integers(1, 8),
    growing=st.booleans(),
    cuts=st.lists(st.integers(0, 300), max_size=3),
)
def test_threads_and_batches_do_not_matter(classes, threads, growing, cuts):
    X, y = stream(classes)
    learner = model_of(Parameters(), classes, growing)
    many = model_of(Parameters(), classes, growing)
    before = learner.learn(X, y).raw
    ends = [0, *sorted(cuts), len(y)]
    parts = [
        many.learn(X[a:b], y[a:b], threads=threads).raw
        for a, b in zip(ends, ends[1:], strict=False)  # noqa: RUF007 - may hold empty batches
    ]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), before)
    assert state_of(many) == state_of(learner)


def test_many_threads_on_a_large_batch():
    rng = np.random.default_rng(0)
    X = sp.random(4000, 200, density=0.2, format="csr", random_state=0)
    y = rng.integers(0, 7, 4000)
    first, many = (model_of(Parameters(), 7, growing=False) for _ in range(2))
    np.testing.assert_array_equal(many.learn(X, y, threads=4).raw, first.learn(X, y).raw)
    np.testing.assert_array_equal(many.predict(X), first.predict(X))
    assert state_of(many) == state_of(first)


def test_two_classes_are_one_online_learner():
    X, y = stream(2)
    w = np.linspace(0, 2, len(y))
    pair, single = model_of(Parameters(), 2, growing=False), OnlineLearner()
    np.testing.assert_array_equal(pair.learn(X, y, w).raw[0], single.learn(X, 2.0 * y - 1, w))
    assert pair.features() == single.features()
    np.testing.assert_array_equal(pair.weights()[0, 1:], list(single.weights().values()))


def test_rows_by_name_are_read_once_for_all():
    X, y = stream()
    rows = [{f"f{j}": v for j, v in enumerate(row) if v} for row in X.tolist()]
    batch, loop = (model_of(Parameters(), 4, growing=True) for _ in range(2))
    batch.learn(rows, y)
    for row, code in zip(rows, y.tolist(), strict=True):
        loop.learn_one(row, code, 1.0)
    assert state_of(batch) == state_of(loop)
    margins = batch.predict(rows)
    for i, row in enumerate(rows):
        assert loop.predict_one(row) == margins[:, i].tolist()


@pytest.mark.parametrize("classes", [0, 1, 2, 3, 5])
def test_pickles_continue_bit_for_bit(classes):
    X, y = stream(max(classes, 1))
    learner = model_of(Parameters(), classes, growing=True)
    rows = [{f"f{j}": v for j, v in enumerate(row)} for row in X.tolist()]
    learner.learn(rows[:200], y[:200]) if classes else None
    twin = pickle.loads(pickle.dumps(learner))
    assert state_of(twin) == state_of(learner)
    for each in (twin, learner):
        each.learn(rows[200:], np.where(np.arange(len(y) - 200) == 9, classes, y[200:]))
    np.testing.assert_array_equal(twin.predict(rows), learner.predict(rows))


def test_a_bad_batch_changes_nothing():
    X, y = stream()
    learner = model_of(Parameters(), 4, growing=False)
    learner.learn(X[:100], y[:100])
    before = state_of(learner)
    bad = X[100:].copy()
    bad[50, 3] = np.nan
    with pytest.raises(InvalidInputError, match="X, row 50: feature 3: NaN"):
        learner.learn(bad, y[100:])
    with pytest.raises(InvalidInputError, match="200 rows, y has 199"):
        learner.learn(X[100:], y[101:])
    rows = sp.csr_array(X[100:])
    rows.indices[17] = 8
    with pytest.raises(InvalidInputError, match=r"X, row .*: feature index 8, .*only 8 columns"):
        learner.learn(learner.rows(rows, add=True), y[100:])
    for row in ({"new": 1.0, "worse": float("inf")}, {"new": 1.0, "large": 1e39}, {"a": []}):
        with pytest.raises(InvalidInputError):
            learner.learn_one(row, 0, 1.0)
        with pytest.raises(InvalidInputError, match="row 1"):
            learner.learn([{"good": 1.0}, row], np.array([0, 1]))
    assert state_of(learner) == before


class TestMappings:
    """The reader remembers keys by object and by hash; none of that may show."""

    def test_keys_that_come_and_go(self):
        rng = np.random.default_rng(1)
        names = [f"f{j}" for j in range(6)]
        remembering, plain = OnlineLearner(), OnlineLearner()
        for i in range(300):
            chosen = rng.permutation(6)[: rng.integers(0, 7)]
            row = {names[j]: float(rng.normal()) for j in chosen}
            # New objects for the names each time, and a detour through another mapping.
            copied = UserDict({str(name.encode(), "ascii"): value for name, value in row.items()})
            y = 1 if i % 3 else -1
            assert remembering.predict_one(row) == plain.predict_one(copied)
            assert remembering.learn_one(row, y) == plain.learn_one(copied, y)
        assert remembering.weights() == plain.weights()

    def test_an_address_that_comes_to_mean_another_name(self):
        learner = OnlineLearner()
        expected = OnlineLearner()
        for i in range(200):
            # Freed strings give their address to the next ones.
            name = f"x{i % 3}"
            learner.learn_one({str(name.encode(), "ascii"): 1.0}, 1 if i % 3 else -1)
            expected.learn([{name: 1.0}], [1 if i % 3 else -1])
        assert learner.weights() == expected.weights()

    def test_texts_that_have_no_hash_yet(self):
        """The keys of a dict have one, those that another kind of mapping creates do not."""

        class Making(UserDict):
            def items(self):
                return [(str(name.encode(), "utf-8"), value) for name, value in self.data.items()]

        names = ["alpha", "bravo", "über", "\u0101bcd", "alph"]
        made, plain = OnlineLearner(), OnlineLearner()
        for i in range(100):
            row = {names[(i * k) % 5]: 1.0 + k for k in range(1, 4)}
            assert made.learn_one(Making(row), 1) == plain.learn([row], [1])[0]
        assert made.weights() == plain.weights()

    def test_text_and_integers(self):
        learner = OnlineLearner()
        for _ in range(3):
            learner.learn_one({"colour": "red", 7: 2, "size": np.float32(1.5), "on": True}, 1)
        assert learner.features() == ["colour=red", 7, "size", "on"]

    def test_a_value_that_calls_back_is_refused(self):
        learner = OnlineLearner()

        class Calling:
            def __float__(self):
                learner.predict_one({"a": 1.0})
                return 1.0

        with pytest.raises(InvalidInputError, match="expected a number"):
            learner.learn_one({"a": Calling()}, 1)
        assert learner.features() == []

    def test_threads_wait_for_each_other(self):
        learner = OnlineLearner()

        rows = [UserDict(a=1.0, b=float(i)) for i in range(200)]

        def work():
            for row in rows:
                learner.learn_one(row, 1)
                learner.learn([row, row], [1, -1])

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=300)
        assert learner.stats()["rounds"] == 4 * 200 * 3


def test_learners_stay_in_step_when_one_cannot_learn_a_row(tmp_path):
    """It leaves the row out; the features of the row are known all the same."""
    parameters = Parameters(
        sketch="none", alpha=1e-25, step="explicit", scaling="none", intercept=False
    )
    by_row, by_name = (Model(parameters, ClassTable((0, 1, 2))) for _ in range(2))
    X = np.eye(4)
    X[:, 0] = 1
    X[1] = [1e10, 1e15, 0, 0]  # too large a step for the learners of 0 and 1, which are wrong
    with pytest.raises(DivergenceError, match=r"row 1: .* class number 0 has left this row out"):
        by_row.learn(X, [0, 1, 2, 0])
    for row, number in zip(X, [0, 1, 2, 0], strict=True):
        x = {f"f{position}": value for position, value in enumerate(row) if value}
        if number == 1:
            with pytest.raises(DivergenceError, match="left this row out"):
                by_name.learn_one(x, number, 1.0)
        else:
            by_name.learn_one(x, number, 1.0)
    for model in (by_row, by_name):
        assert model.stats()["rounds"] == 4
        assert model.limits()[0].size == 5
        model.save(tmp_path / "model")
        loaded = Model.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.weights(), model.weights())
    np.testing.assert_array_equal(by_row.weights(), by_name.weights())


@pytest.mark.parametrize("scaling", ["auto", "rms", "gradient", "none"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("hash_bits", [None, 5])
def test_rows_prepared_for_all_classes_are_those_of_each_class(scaling, dtype, hash_bits):
    """Batches of several rows share slots and scales; single rows do not."""
    rng = np.random.default_rng(5)
    X = sp.random(240, 400, 0.03, "csr", random_state=6)
    X.data *= rng.lognormal(0, 3, X.nnz)  # long tails raise limits
    X.indices[: X.indptr[30]] = rng.integers(0, 20, X.indptr[30])  # unsorted and repeated
    X.has_sorted_indices = X.has_canonical_format = False
    y, weights = rng.integers(0, 5, 240), rng.choice([0.0, 0.5, 1.0, 3.0], 240)
    parameters = Parameters(scaling=scaling, dtype=dtype, hash_bits=hash_bits)
    whole, single, mixed = (model_of(parameters, 3, growing=True) for _ in range(3))
    raw = whole.learn(X, y, weights).raw
    for row in range(240):
        single.learn(X[row], y[row : row + 1], weights[row : row + 1])
    for start, end in ((0, 50), (50, 51), (51, 53), (53, 200)):
        mixed.learn(X[start:end], y[start:end], weights[start:end])
        if start == 50:
            mixed = pickle.loads(pickle.dumps(mixed))
    mixed.learn(X[200:], y[200:], weights[200:])
    assert np.isfinite(raw).all()
    assert state_of(single) == state_of(whole)
    assert state_of(mixed) == state_of(whole)


@pytest.mark.parametrize("odd", [0, 1, 2, 3])
def test_a_learner_that_left_a_row_out_has_its_own_scales(odd):
    """The others go on sharing theirs."""
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(60, 6)), rng.integers(0, 4, 60)
    parameters = Parameters(sketch="none", alpha=1e-25, step="explicit", loss="squared_hinge")
    together, apart = (model_of(parameters, 4, growing=False) for _ in range(2))
    X[20], y[20] = 1e17, odd

    def learn(model, rows):
        try:
            model.learn(X[rows], y[rows])
        except DivergenceError:
            return 1
        return 0

    failed = learn(together, slice(0, 30)) + learn(together, slice(30, 60))
    failed_apart = sum(learn(apart, slice(row, row + 1)) for row in range(60))
    assert failed
    assert failed_apart
    assert state_of(together) == state_of(apart)


@pytest.mark.parametrize("classes", [1, 2, 3, 30])
def test_probabilities_of_one_row_are_those_of_many(classes):
    """One row is computed without arrays."""
    rng = np.random.default_rng(classes)
    sizes = [0.0, 1e-300, 1e-9, 1.0, 30.0, 800.0, 1e300]
    raw = rng.choice([-1.0, 1.0], (1 if classes == 2 else classes, 200)) * rng.choice(
        sizes, (1 if classes == 2 else classes, 200)
    )
    many = probabilities(raw, classes)
    for margins, wanted in zip(raw.T.tolist(), many.T, strict=True):
        chances = probabilities_one(margins, classes)
        assert sum(chances) == pytest.approx(1.0, rel=1e-14)
        np.testing.assert_allclose(chances, wanted, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("first", [2**53, 2**63])
@pytest.mark.parametrize("form", ["{1},{0}\n", '{{"label": {0}, "size": {1}}}\n'])
def test_long_whole_numbers_in_files_stay_different_classes(tmp_path, first, form):
    labels = [first + 1, first, 3] * 2
    path = tmp_path / "rows"
    head = "" if "{{" in form else "size,label\n"
    path.write_text(head + "".join(form.format(label, i) for i, label in enumerate(labels)))
    model = SONClassifier(random_state=0).fit_stream(path, format="jsonl" if not head else "csv")
    assert model.classes_.tolist() == [3, first, first + 1]
    model.save(tmp_path / "m.son")
    assert SONClassifier.load(tmp_path / "m.son").classes_.tolist() == [3, first, first + 1]
