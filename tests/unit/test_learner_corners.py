"""Unusual input that is fine: empty, zero, tiny, huge, far, doubled, and sketches of odd sizes."""

from __future__ import annotations

import copy
import math
import pickle
import re
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import LOW_RANK, learner, orthonormality, state_of, stream
from sonline import OnlineLearner
from sonline.errors import DivergenceError, InvalidInputError, SonlineError
from sonline.parameters import DTYPES, LOSSES, SCALINGS, SKETCHES

ALPHAS = (1.0, "relative:0.1", "auto")


def assert_sound(model: OnlineLearner) -> None:
    """Everything is finite, the basis orthonormal, and the state can be restored."""
    assert np.isfinite([model.bias, *model.weights().values()]).all()
    assert np.isfinite(model.spectrum()).all()
    assert (model.spectrum() >= 0).all()
    assert orthonormality(model.basis()) < (1e-3 if model.params["dtype"] == "float32" else 1e-8)
    for name, array in model.__getstate__()[1].items():
        assert np.isfinite(array).all(), name
    assert state_of(pickle.loads(pickle.dumps(model))) == state_of(model)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_rows_without_features(sketch: str, alpha: float | str, intercept: bool) -> None:
    """Zeros, nothing stored, stored zeros and empty mappings: also as the first row ever."""
    empty = sp.csr_matrix((2, 3))
    stored_zeros = sp.csr_matrix((np.zeros(2), np.array([0, 2]), np.array([0, 1, 2])))
    states = []
    for rows in (np.zeros((2, 3)), empty, stored_zeros, [{}, {"a": 0.0}]):
        model = learner(sketch=sketch, alpha=alpha, intercept=intercept)
        model.learn(rows, [1, -1])
        assert model.features() == []
        assert model.stats()["rounds"] == 2
        states.append({k: v for k, v in state_of(model).items() if k != "names.bytes"})
        model.learn(np.eye(3), [1, -1, 1])
        model.learn(rows, [1, -1])
        assert_sound(model)
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("sketch", SKETCHES)
def test_no_rows_at_all(sketch: str) -> None:
    model = learner(sketch=sketch)
    before = state_of(model)
    for rows in (np.zeros((0, 5)), np.zeros((0, 0)), sp.csr_matrix((0, 4))):
        assert model.learn(rows, []).shape == (0,)
        assert model.predict(rows).shape == (0,)
    assert model.learn(np.zeros((1, 0)), [1.0]).shape == (1,)
    assert model.predict(np.zeros((1, 0))).shape == (1,)
    fresh = learner(sketch=sketch)
    assert state_of(fresh) == before
    assert fresh.predict_one({}) == 0.0
    assert fresh.weights() == {}
    assert fresh.spectrum().shape == (0,)


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix])
def test_duplicates_are_summed_and_order_does_not_matter(form: Any) -> None:
    columns = np.array([3, 0, 3, 1, 1, 0])
    values = np.array([1.0, 2.0, 0.5, -1.0, 1.0, 4.0])
    rows = np.array([0, 0, 0, 0, 0, 1])
    doubled = sp.coo_matrix((values, (rows, columns)), shape=(2, 5))
    summed = doubled.toarray()  # 2, 0, 0, 1.5, 0
    if form is sp.csr_matrix:  # as it is, without SciPy adding anything up
        X: Any = sp.csr_matrix((values, columns, np.array([0, 5, 6])), shape=(2, 5))
        assert not X.has_canonical_format
    else:
        X = form(doubled)
    first, other = learner(), learner()
    np.testing.assert_allclose(first.learn(X, [1, -1]), other.learn(summed, [1, -1]), rtol=1e-15)
    np.testing.assert_allclose(first.predict(X), other.predict(summed), rtol=1e-14)
    np.testing.assert_allclose(first.predict(summed), other.predict(summed), rtol=1e-14)


@pytest.mark.parametrize("sketch", SKETCHES)
def test_far_indices(sketch: str) -> None:
    """An index of 2^62 costs no more than any other."""
    far = [2**62, 2**31, 2**32 + 1, 10**15, 0, 2**63 - 2]
    near, model = learner(sketch=sketch), learner(sketch=sketch)
    X, y = stream("emerging", "logistic", 200, len(far))
    matrix = sp.csr_matrix(X)
    indices = np.array(far, dtype=np.int64)[matrix.indices]
    spread = sp.csr_matrix((X.shape[0], 2**63 - 1))
    spread.indices, spread.indptr = indices, matrix.indptr.astype(np.int64)
    spread.data = matrix.data
    # Not sorted any more, which changes nothing: features are added up in the order they come.
    np.testing.assert_allclose(model.learn(spread, y), near.learn(X, y), rtol=1e-9, atol=1e-9)
    assert set(model.features()) == set(far)
    assert model.stats()["bytes"] < 2_000_000


def test_memory_includes_the_growing_parts_of_a_sketch():
    X, y = np.random.default_rng(0).normal(size=(40, 200)), np.tile([0, 1], 20)

    def held(sketch):
        model = OnlineLearner(sketch=sketch, sketch_size=5, alpha=1.0, scaling="none")
        model.learn(X, y)
        return model.stats()["bytes"]

    assert held("full") - held("none") > 200 * 200 * 8  # at least the matrix
    assert held("fd") > held("oja")  # the rows of the epoch


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sketch", [name for name in SKETCHES if name != "full"])
def test_rows_with_very_many_features(sketch: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 100_000)), np.array([1.0, -1, 1, 1, -1, -1])
    model = learner(sketch=sketch, dtype=dtype)
    model.learn(X, y)
    assert len(model.features()) == 100_000
    assert_sound(model)


def test_full_says_how_many_features_it_takes() -> None:
    with pytest.raises(SonlineError, match=r"sketch='full' holds at most \d+ features"):
        learner(sketch="full").learn(np.ones((1, 100_000)), [1.0])


@pytest.mark.parametrize("size", [0, 1, 2, 3, 50, pytest.param(1024, marks=pytest.mark.long)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_sketches_of_any_size(sketch: str, dtype: str, size: int) -> None:
    """No directions, one, as many as features, and far more of them than features."""
    X, y = stream("unit", "logistic", 700, 3)
    model = learner(sketch=sketch, dtype=dtype, sketch_size=size, alpha="relative:1")
    model.learn(X, y)
    assert_sound(model)
    if sketch in LOW_RANK:
        assert len(model.spectrum()) <= min(size, 4)
        if size == 0 and sketch != "isotropic":  # gradient descent; isotropic has its tail
            plain = learner(sketch="none", dtype=dtype, alpha="relative:1")
            plain.learn(X, y)
            np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-4, atol=1e-5)


@pytest.mark.one_in(5)
@pytest.mark.filterwarnings("ignore:all values of .* are so small")
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_absurd_scales(
    sketch: str, dtype: str, loss: str, scaling: str, alpha: float | str
) -> None:
    """Rows of 1e-300 or 1e100 are learned from or refused, but leave no infinity behind."""
    X, y = stream("unit", loss, 100, 6)
    small = (1e-40, 1e-30, 1e-20) if dtype == "float32" else (1e-300, 1e-160, 1e-100, 1e-30)
    large = (1e17,) if dtype == "float32" else (1e30, 1e76, 1e100, 1e149)
    for scale in (*small, *large):
        half = X.copy()
        half[:, ::2] *= scale
        for rows in (X * scale, half):
            model = learner(
                sketch=sketch, dtype=dtype, loss=loss, scaling=scaling, alpha=alpha, bound=1.0
            )
            try:
                predictions = model.learn(rows, y)
            except DivergenceError as error:
                row = int(re.match(r"row (\d+): ", str(error))[1])
                twin = learner(**model.params)
                twin.learn(rows[:row], y[:row])
                assert state_of(twin) == state_of(model)
                continue
            assert np.isfinite(predictions).all()
            assert_sound(model)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("label", [1e-300, 1e100, 1e149, -1e150])
@pytest.mark.parametrize("weight", [1e-300, 1.0, 1e5, 1e9])
@pytest.mark.parametrize("loss", [name for name, info in LOSSES.items() if not info["binary"]])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_absurd_labels_and_weights(sketch: str, loss: str, weight: float, label: float) -> None:
    for alpha in ALPHAS:
        model = learner(sketch=sketch, loss=loss, alpha=alpha)
        rows, labels = np.eye(4), np.array([label, 0.0, -label, label])
        weights = [weight, 1.0, weight, 1.0]
        if LOSSES[loss]["log_link"]:
            with pytest.raises(InvalidInputError, match=r"label .* must be (0 or more|above 0)"):
                model.learn(rows, labels, weights)
            labels = np.abs(labels)
            labels[1] = 1.0 if LOSSES[loss]["positive"] else 0.0
        try:
            predictions = model.learn(rows, labels, weights)
        except DivergenceError as error:
            assert "row " in str(error)  # noqa: PT017 - either way is right
            continue
        assert np.isfinite(predictions).all()
        assert_sound(model)


def test_after_divergence_the_learner_is_as_before_the_row() -> None:
    """Plain gradient descent with far too large a step."""
    model = learner(sketch="none", loss="squared", alpha=1e-6, scaling="none", step="explicit")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    with pytest.raises(DivergenceError, match=r"row \d+: .* Use step='implicit'") as caught:
        model.learn(X, X[:, 0])
    row = int(re.match(r"row (\d+): ", str(caught.value))[1])
    assert f"the {row} rows before it were learned" in str(caught.value)
    twin = learner(**model.params)
    twin.learn(X[:row], X[:row, 0])
    assert state_of(twin) == state_of(model)
    assert np.isfinite(model.predict(1e-6 * X)).all()
    assert state_of(pickle.loads(pickle.dumps(model))) == state_of(model)


def test_texts_as_values() -> None:
    """A text value is part of the name of its feature."""
    model = learner()
    model.learn_one({"colour": "red", "size": 2.0, 7: "x"}, 1)
    assert model.features() == ["colour=red", "size", "7=x"]
    nothing = model.predict_one({})
    assert model.predict_one({"colour": "blue"}) == nothing == pytest.approx(model.bias, rel=1e-12)


def test_a_mapping_need_not_be_a_dict() -> None:
    from types import MappingProxyType  # noqa: PLC0415 - used here only

    first, other = learner(), learner()
    row = {"a": 1.0, 3: -2.0, np.int64(5): np.float32(0.5), True: 1}
    for _ in range(3):
        assert first.learn_one(row, 1) == other.learn_one(MappingProxyType(row), 1)
    assert first.features() == ["a", 3, 5, 1]
    assert state_of(first) == state_of(other)


def test_names_are_compared_by_text_and_not_by_address() -> None:
    rng = np.random.default_rng(0)
    vocabulary = [f"word {n}" for n in range(400)]
    same, fresh = learner(), learner()
    for _ in range(1500):
        chosen = rng.choice(400, rng.integers(1, 12), replace=False).tolist()
        y = float(rng.choice([-1, 1]))
        before = same.learn_one({vocabulary[n]: 1.0 + n % 3 for n in chosen}, y)
        # These live for one row only, so that others come to lie at their addresses.
        assert fresh.learn_one({f"word {n}": 1.0 + n % 3 for n in chosen}, y) == before
    assert state_of(same) == state_of(fresh)
    copied = copy.deepcopy(same)  # with its own memory
    row = dict.fromkeys(reversed(vocabulary), 1.0)
    assert copied.predict_one(row) == fresh.predict_one(row)


@pytest.mark.parametrize("scaling", ["none", "rms"])
@pytest.mark.parametrize("sketch", ["adagrad", "none", "oja"])
def test_one_wide_row_does_not_slow_those_that_follow(sketch: str, scaling: str) -> None:
    """Once scratch space for as many non-zeros was filled with zeros in every other row."""
    rows, y = np.ones((1000, 3)), np.resize([1.0, -1.0], 1000)
    seconds = []
    for features in (3, 500_000):
        model = OnlineLearner(sketch=sketch, scaling=scaling, alpha=1.0)
        model.learn(np.ones((1, features)), [1.0])
        times = []
        for _ in range(5):
            start = time.process_time()
            model.learn(rows, y)
            times.append(time.process_time() - start)
        seconds.append(min(times))
    assert seconds[1] < 20 * seconds[0]  # it was 200 times and more


KEYS = [f"feature {number}" for number in range(6)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_whose_keys_are_remembered_are_learned_as_all_others(dtype, seed):
    rng = np.random.default_rng(seed)
    one, many = (OnlineLearner(dtype=dtype, sketch_size=2) for _ in range(2))

    def row():
        keys = list(KEYS[: rng.integers(4, 7)] if rng.random() < 0.1 else KEYS)
        if rng.random() < 0.1:
            rng.shuffle(keys)
        if rng.random() < 0.1:
            keys = ["".join(list(key)) for key in keys]  # equal, and not the same objects
        if rng.random() < 0.05:
            keys.append(f"new {rng.integers(100)}")
        values = [float(value) for value in rng.normal(size=len(keys))]
        if rng.random() < 0.1:
            values[0] = [0.0, 0, 3][rng.integers(3)]
        return dict(zip(keys, values, strict=True))

    for number in range(400):
        x, y = row(), float(rng.choice([-1, 1]))
        chance = rng.random()
        if chance < 0.05:
            for model in (one, many):
                with pytest.raises(InvalidInputError, match="feature 2"):
                    model.learn_one(x | {"feature 2": math.inf}, y)
        if chance < 0.3:
            assert one.predict_one(x) == many.predict([x])[0], number
        weight = 0.0 if chance > 0.97 else 1.0
        assert one.learn_one(x, y, weight) == many.learn([x], [y], [weight])[0], number
    assert one.weights() == many.weights()


@pytest.mark.parametrize("loss", ["squared", "quantile"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clipped_predictions_stay_finite_where_their_squares_are_not(loss, dtype):
    """Weights of 1e100 and a value of 1e100: the loss is that of the clipped prediction."""
    small, large = (1e-15, 1e15) if dtype == "float32" else (1e-100, 1e100)
    learner = OnlineLearner(loss=loss, clip=True, intercept=False, scaling="none", dtype=dtype)
    rows = [(small, 1.0), (small, 2.0), (small, 1.5), (large, 1.0), (small, 1.0), (small, 2.0)]
    for value, label in rows:
        assert 0 <= learner.learn([[value]], [label])[0] <= 2
    assert 1 <= learner.predict([[small]])[0] <= 2


@pytest.mark.parametrize("sketch", ["isotropic", "oja", "fd", "rfd"])
@pytest.mark.parametrize("exponent", [-400, -250, 250, 400])
def test_units_that_are_powers_of_two_change_no_bit(sketch, exponent):
    """Products of eigenvalues and squares of values are beyond the range of numbers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20)) * np.geomspace(1, 30, 20)
    y = np.where(X @ rng.normal(size=20) > 0, 1.0, -1.0)
    one, other = (
        OnlineLearner(
            sketch=sketch,
            sketch_size=6,
            alpha="relative:1",
            scaling="none",
            intercept=False,
            dtype="float64",
        )
        for _ in range(2)
    )
    np.testing.assert_array_equal(other.learn(X * 2.0**exponent, y), one.learn(X, y))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_predictions_keep_to_the_bound_also_where_the_base_rate_does_not(loss):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.where(rng.random(60) < 0.9, 1.0, -1.0)
    one = OnlineLearner(loss=loss, bound=1e-3)
    assert np.abs(one.learn(X, y)).max() <= 1e-3
    assert np.abs(one.predict(X)).max() <= 1e-3


def test_a_row_whose_prediction_is_no_number_does_not_take_the_row_before_back():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = 1e25 * (X @ [1.0, 2.0, 3.0] + rng.normal(size=20))
    one, other = (OnlineLearner(loss="squared", scaling="none") for _ in range(2))
    one.learn(X, y)
    other.learn(X, y)
    with pytest.raises(DivergenceError, match="not a finite number"):
        one.learn(1e17 * X[:1], y[:1])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
