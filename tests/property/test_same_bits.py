"""The bits do not depend on batches, or on where learning stops and continues."""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from helpers import Array, emerging_rows, labels_of, state_of
from sonline import OnlineLearner
from sonline.parameters import DTYPES, LOSSES, SCALE_FREE, SCALINGS, SKETCHES

ROUNDS, FEATURES = 60, 8

models = st.fixed_dictionaries(
    {
        "sketch": st.sampled_from(SKETCHES),
        "loss": st.sampled_from(list(LOSSES)),
        "dtype": st.sampled_from(DTYPES),
        "scaling": st.sampled_from(SCALINGS),
        "bound": st.sampled_from([None, 1.0]),
        "clip": st.booleans(),
        "intercept": st.booleans(),
        "sketch_size": st.integers(0, 12),
        "oja_step": st.sampled_from([1.0, SCALE_FREE]),
        "alpha": st.sampled_from([1.0, "relative:0.1", "auto"]),
        "hash_bits": st.sampled_from([None, 3, 20]),
    }
)


def rows(loss: str, seed: int, rounds: int = ROUNDS) -> tuple[Array, Array, Array]:
    """Sparse rows with late features and an empty one, labels, and weights of which some are 0."""
    rng = np.random.default_rng(seed)
    X = emerging_rows(rng, rounds, FEATURES)
    X[rng.integers(rounds)] = 0
    y = X.sum(axis=1) + rng.normal(size=rounds)
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], size=rounds)
    return X, labels_of(loss, y), weights


def mapping(x: Array) -> dict[Any, float]:
    return {i: float(value) for i, value in enumerate(x) if value}


def run(parameters: dict[str, Any], X: Array, y: Array, w: Array) -> tuple[Array, dict[str, Any]]:
    model = OnlineLearner(**parameters)
    return model.learn(X, y, w), state_of(model)


def assert_same(
    predictions: Any, model: OnlineLearner, wanted: tuple[Array, dict[str, Any]]
) -> None:
    np.testing.assert_array_equal(predictions, wanted[0])
    assert state_of(model) == wanted[1]


def as_matrix(form: str, X: Array) -> Any:
    if form == "csr64":
        matrix = sp.csr_matrix(X)
        matrix.indices = matrix.indices.astype(np.int64)
        matrix.indptr = matrix.indptr.astype(np.int64)
        return matrix
    if form == "fortran":
        return np.asfortranarray(X)
    if form == "every other":  # strides that are not those of a contiguous array
        wide = np.full((2 * len(X), 3 * X.shape[1]), np.nan)
        wide[::2, ::3] = X
        return wide[::2, ::3]
    if form == "list":
        return X.tolist()
    if form == "mappings":
        return [mapping(x) for x in X]
    return {
        "dense": np.asarray,
        "csr": sp.csr_matrix,
        "csr_array": sp.csr_array,
        "csc": sp.csc_matrix,
        "coo": sp.coo_matrix,
    }[form](X)


FORMS = (
    *("dense", "fortran", "every other", "list", "mappings"),
    *("csr", "csr64", "csr_array", "csc", "coo"),
)


@given(models, st.integers(0, 9), st.lists(st.integers(0, ROUNDS), max_size=6))
def test_any_split_into_batches(parameters: dict[str, Any], seed: int, cuts: list[int]) -> None:
    X, y, w = rows(parameters["loss"], seed)
    model = OnlineLearner(**parameters)
    positions = [0, *sorted(cuts), ROUNDS]
    parts = [model.learn(X[a:b], y[a:b], w[a:b]) for a, b in itertools.pairwise(positions)]
    assert_same(np.concatenate(parts), model, run(parameters, X, y, w))


@given(models, st.integers(0, 9), st.sampled_from(FORMS))
def test_any_form_of_rows(parameters: dict[str, Any], seed: int, form: str) -> None:
    X, y, w = rows(parameters["loss"], seed)
    model = OnlineLearner(**parameters)
    assert_same(model.learn(as_matrix(form, X), y, w), model, run(parameters, X, y, w))
    np.testing.assert_array_equal(model.predict(as_matrix(form, X)), model.predict(X))


@given(models, st.integers(0, 9))
def test_one_row_at_a_time(parameters: dict[str, Any], seed: int) -> None:
    X, y, w = rows(parameters["loss"], seed)
    model = OnlineLearner(**parameters)
    actual = [model.learn_one(mapping(x), *rest) for x, *rest in zip(X, y, w, strict=True)]
    assert_same(actual, model, run(parameters, X, y, w))
    np.testing.assert_array_equal([model.predict_one(mapping(x)) for x in X], model.predict(X))


@given(models, st.integers(0, 9))
def test_float32_rows_are_their_own_doubles(parameters: dict[str, Any], seed: int) -> None:
    X, y, w = rows(parameters["loss"], seed)
    narrow = X.astype(np.float32)
    model = OnlineLearner(**parameters)
    assert_same(model.learn(narrow, y, w), model, run(parameters, narrow.astype(float), y, w))


@given(models, st.integers(0, 9), st.integers(0, ROUNDS))
def test_predict_changes_nothing_and_equals_the_result_of_learn(
    parameters: dict[str, Any], seed: int, row: int
) -> None:
    X, y, w = rows(parameters["loss"], seed)
    model = OnlineLearner(**parameters)
    model.learn(X[:row], y[:row], w[:row])
    before = state_of(model)
    new_feature = np.hstack([X, np.ones((ROUNDS, 1))])
    predictions = model.predict(X)
    model.predict(new_feature)
    model.predict_one({"never seen": 1.0, 2**62: 3.0})
    assert state_of(model) == before
    if model.model.parameters.several:  # `learn` mixes for the next row, `predict` for later ones
        return
    for x, z in zip(X[row : row + 1], predictions[row : row + 1], strict=True):
        assert model.learn(x[None], y[row : row + 1]) == z


@given(models, st.integers(0, 9))
def test_rows_of_weight_zero_are_not_there(parameters: dict[str, Any], seed: int) -> None:
    X, y, w = rows(parameters["loss"], seed)
    model = OnlineLearner(**parameters)
    remaining = w > 0
    all_rows, state = run(parameters, X, y, w)
    assert_same(
        model.learn(X[remaining], y[remaining], w[remaining]), model, (all_rows[remaining], state)
    )
    only_predicted = model.learn(X[:1], [1.0], [0.0])
    next_row = model.model.predict(X[:1], later=False)[0]
    assert only_predicted == model.model.means(next_row)
    new = {"new": 1.0}
    next_row = model.model.predict_one(new, False)[0]
    assert model.learn_one(new, 1.0, 0.0) == model.model.mean_one(next_row)
    assert state_of(model)["features"] == state["features"]


@given(models, st.integers(0, 9), st.integers(0, ROUNDS), st.sampled_from(["save", "pickle"]))
def test_stopped_and_continued(
    tmp_path_factory: pytest.TempPathFactory,
    parameters: dict[str, Any],
    seed: int,
    row: int,
    way: str,
) -> None:
    X, y, w = rows(parameters["loss"], seed)
    model = OnlineLearner(**parameters)
    model.learn(X[:row], y[:row], w[:row])
    again = brought_back(model, way, tmp_path_factory.getbasetemp())
    assert_continues(model, again, row, (X, y, w))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("way", ["save", "pickle", "copy", "deepcopy"])
def test_stopped_and_continued_for_all(
    way: str, sketch: str, loss: str, dtype: str, tmp_path: Path
) -> None:
    """Every sketch, loss and number type, stopped at three rows of a longer stream."""
    X, y, w = rows(loss, 1, rounds=400)
    model = OnlineLearner(sketch=sketch, loss=loss, dtype=dtype, sketch_size=3, bound=2.0)
    for row, stop in ((0, 1), (1, 130), (130, 317)):
        model.learn(X[row:stop], y[row:stop], w[row:stop])
        assert_continues(model, brought_back(model, way, tmp_path), stop, (X, y, w))


def brought_back(model: OnlineLearner, way: str, folder: Path) -> OnlineLearner:
    if way == "save":
        model.save(folder / "model.sonline")
        return OnlineLearner.load(folder / "model.sonline")
    if way == "pickle":
        return pickle.loads(pickle.dumps(model))
    return {"copy": copy.copy, "deepcopy": copy.deepcopy}[way](model)


def assert_continues(
    model: OnlineLearner, again: OnlineLearner, row: int, data: tuple[Array, Array, Array]
) -> None:
    """Check a copy of `model`, which learned the rows up to `row`, against never having stopped."""
    X, y, w = data
    assert again.params == model.params
    assert state_of(again) == state_of(model)
    rest = again.learn(X[row:], y[row:], w[row:])
    whole = OnlineLearner(**model.params)
    predictions = whole.learn(X, y, w)
    np.testing.assert_array_equal(rest, predictions[row:])
    assert state_of(again) == state_of(whole)


@given(models, st.integers(0, 9), st.permutations(range(FEATURES)))
def test_order_of_the_features_does_not_matter(
    parameters: dict[str, Any], seed: int, order: list[int]
) -> None:
    """Up to rounding, and not for hashed features, which collide in another way."""
    X, y, w = rows(parameters["loss"], seed)
    parameters = {**parameters, "dtype": "float64", "hash_bits": None, "alpha": "relative:2"}
    a, b = OnlineLearner(**parameters), OnlineLearner(**parameters)
    np.testing.assert_allclose(a.learn(X, y, w), b.learn(X[:, order], y, w), rtol=1e-8, atol=1e-8)
    mine, theirs = a.weights(), b.weights()
    for new, old in enumerate(order):
        np.testing.assert_allclose(theirs.get(new, 0), mine.get(old, 0), rtol=1e-7, atol=1e-8)


@given(models, st.integers(0, 9))
def test_names_and_numbers_of_features_are_only_names(
    parameters: dict[str, Any], seed: int
) -> None:
    """Far indices, strings and their mixture give the bits of 0, 1, 2, ..."""
    X, y, w = rows(parameters["loss"], seed)
    parameters = {**parameters, "hash_bits": None}
    wanted, _ = run(parameters, X, y, w)
    for name in (str, lambda i: 10**12 - i, lambda i: f"é{i}" if i % 2 else 2**62 + i):
        model = OnlineLearner(**parameters)
        named = [{name(i): value for i, value in mapping(x).items()} for x in X]
        # Rows keep the order of their items, so only the spelling differs.
        np.testing.assert_array_equal(model.learn(named, y, w), wanted)
        assert set(model.features()) <= {name(i) for i in range(FEATURES)}
