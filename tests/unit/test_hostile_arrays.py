"""Arrays whose conversion to numbers would silently change their meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from sonline import OnlineLearner, SONClassifier, SONRegressor, river
from sonline.errors import InvalidInputError

X = np.arange(12.0).reshape(6, 2)
y = np.array([1, -1, 1, -1, 1, 1])
UNUSABLE = {
    "masked": lambda values: np.ma.masked_array(values, mask=values == values.flat[1]),
    "dates": lambda values: values.astype("M8[s]"),
    "durations": lambda values: values.astype("m8[s]"),
    "complex": lambda values: values + 1j,
    "date objects": lambda values: values.astype("M8[s]").astype(object),
}


@pytest.mark.parametrize("kind", UNUSABLE)
@pytest.mark.parametrize("argument", ["X", "y", "sample_weight"])
@pytest.mark.parametrize("face", [OnlineLearner, SONClassifier, SONRegressor])
def test_nothing_is_dropped_in_silence(face: Any, argument: str, kind: str) -> None:
    data = {"X": X, "y": y.astype(float), "sample_weight": np.arange(1.0, 7.0)}
    data[argument] = UNUSABLE[kind](data[argument])
    if face is SONClassifier and argument == "y" and kind in ("dates", "durations"):
        assert face().fit(**data).classes_.size == 2  # they are labels like others
        return
    learn = OnlineLearner(loss="squared").learn if face is OnlineLearner else face().fit
    with pytest.raises((InvalidInputError, ValueError, TypeError)) as caught:
        learn(**data)
    if kind not in {"complex", "date objects"}:  # scikit-learn refuses these itself
        assert caught.type is InvalidInputError


@pytest.mark.parametrize("face", [OnlineLearner, SONClassifier, SONRegressor])
def test_predictions_heed_masks_and_dates(face: Any) -> None:
    model = face(random_state=0).fit(X, y) if face is not OnlineLearner else face()
    if face is OnlineLearner:
        model.learn(X, y)
    for kind in ("masked", "dates"):
        with pytest.raises(InvalidInputError, match=r"masked|dates"):
            model.predict(UNUSABLE[kind](X))


def test_a_mask_that_hides_nothing_is_no_obstacle() -> None:
    plain, masked = OnlineLearner(), OnlineLearner()
    expected = plain.learn(X, y)
    assert (masked.learn(np.ma.masked_array(X, mask=False), y) == expected).all()


def test_a_memoryview_is_an_array() -> None:
    assert (OnlineLearner().learn(memoryview(X), y) == OnlineLearner().learn(X, y)).all()


@pytest.mark.parametrize(
    ("attribute", "value"), [("indptr", [0, 1, 2, 3, 4, 5, 99]), ("data", [1.0])]
)
@pytest.mark.parametrize("face", [SONClassifier, SONRegressor])
def test_sparse_matrices_that_contradict_themselves(face: Any, attribute: str, value: Any) -> None:
    matrix = sp.csr_matrix(X)
    setattr(matrix, attribute, np.array(value))
    with pytest.raises(InvalidInputError):
        face().fit(matrix, y)


@pytest.mark.parametrize("face", [OnlineLearner, SONClassifier, SONRegressor])
@pytest.mark.parametrize("indices", [np.arange(12) % 2 + 0.5, (np.arange(12) % 2).astype(str)])
def test_indices_of_a_sparse_matrix_are_integers(face: Any, indices: Any) -> None:
    """Fractions were cut off, and the row was learned with other features."""
    matrix = sp.csr_matrix(np.ones((6, 2)))
    matrix.indices = indices
    learn = face().learn if face is OnlineLearner else face().fit
    with pytest.raises(InvalidInputError, match="indices of a sparse matrix must be integers"):
        learn(matrix, y)


@pytest.mark.parametrize("face", [OnlineLearner, SONClassifier, SONRegressor])
def test_integers_beyond_all_floats(face: Any) -> None:
    values = X.astype(object)
    values[2, 1] = 10**400
    learn = face().learn if face is OnlineLearner else face().fit
    with pytest.raises(InvalidInputError, match="int too large"):
        learn(values, y)


def test_labels_beyond_all_floats() -> None:
    with pytest.raises(InvalidInputError, match="int too large"):
        SONRegressor().fit(X, [10**400] * 6)


@pytest.mark.parametrize("label", [np.inf, -np.inf, np.nan, None])
def test_labels_must_fit_into_a_file(label: Any) -> None:
    """A model with the label infinity could be trained, but not saved."""
    with pytest.raises(InvalidInputError, match="is not a label"):
        river.SONClassifier().learn_one({"a": 1.0}, label)


def test_an_error_quotes_a_long_text_in_part() -> None:
    long = "x" * 10**6
    with pytest.raises(InvalidInputError) as caught:
        OnlineLearner().learn(X, [long] * 6)
    assert len(str(caught.value)) < 500
    model = river.SONClassifier()
    model.learn_one({"a": 1.0}, long)
    model.learn_one({"a": 1.0}, "y" * 10**6)
    classifier = SONClassifier().fit(X, [long, "y", long, "y", "y", "y"])
    for learn in (
        lambda: model.learn_one({"a": 1.0}, 3),
        lambda: classifier.partial_fit(X[:1], ["z" * 10**6]),
        lambda: model.learn_one({"a": 1.0}, long, long),  # type: ignore[arg-type]
        lambda: river.SONRegressor().learn_one({"a": 1.0}, 10**4000),
        lambda: river.SONRegressor().learn_one({"a": 1.0}, 1.0, 10**4000),
        lambda: OnlineLearner().learn_one({"a": 1.0}, long),
        lambda: OnlineLearner().learn_one({"a": 1.0}, 1, long),  # type: ignore[arg-type]
        lambda: OnlineLearner().learn_one({"a": [long]}, 1),  # type: ignore[dict-item]
        lambda: OnlineLearner(missing="refuse").learn_one({long: float("nan")}, 1),
        lambda: OnlineLearner().learn_one({long + "\ud800": 1.0}, 1),
        lambda: OnlineLearner().learn_one({"a": 10**4000}, 1),
        lambda: OnlineLearner().learn_one({10**4000: 1.0}, 1),
    ):
        with pytest.raises(InvalidInputError) as caught:
            learn()
        assert len(str(caught.value)) < 700
