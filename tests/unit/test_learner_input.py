"""Input that cannot be learned from is refused with what and where, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import learner, state_of
from sonline import OnlineLearner, SONClassifier, SONRegressor, evaluate
from sonline.errors import InvalidInputError, ParameterError
from sonline.parameters import DTYPES, LOSSES, SKETCHES

X = np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 3.0], [0.0, 1.0, 1.0]])
Y = np.array([1.0, -1.0, 1.0])


def with_value(value: float, row: int = 2, column: int = 1, dtype: str = "float64") -> Any:
    rows = X.astype(dtype)
    rows[row, column] = value
    return rows


def csr(
    indices: list[int], indptr: list[int], values: list[float] | None = None, columns: int = 3
) -> sp.csr_matrix:
    """Make a matrix without SciPy's own checks."""
    matrix = sp.csr_matrix((len(indptr) - 1, columns))
    matrix.indices = np.array(indices, dtype=np.int32)
    matrix.indptr = np.array(indptr, dtype=np.int32)
    matrix.data = np.ones(len(indices)) if values is None else np.array(values)
    return matrix


Call = Callable[[OnlineLearner], object]

BAD_ROWS: dict[str, tuple[Any, str]] = {
    "NaN": (with_value(np.nan), "X, row 2: feature 1: NaN"),
    "infinity": (with_value(np.inf, 1, 2), "X, row 1: feature 2: inf"),
    "minus infinity": (with_value(-np.inf), "X, row 2: feature 1: -inf"),
    "NaN in float32": (with_value(np.nan, dtype="float32"), "X, row 2: feature 1: NaN"),
    "infinity in float32": (with_value(np.inf, dtype="float32"), "X, row 2: feature 1: inf"),
    "NaN by columns": (np.asfortranarray(with_value(np.nan)), "X, row 2: feature 1: NaN"),
    "NaN in CSR": (sp.csr_matrix(with_value(np.nan)), "X, row 2: feature 1: NaN"),
    "infinity in CSC": (sp.csc_matrix(with_value(np.inf)), "X, row 2: feature 1: inf"),
    "too large": (with_value(1e200), "X, row 2: feature 1: 1e+200 is too large"),
    "negative index": (csr([0, 1, -1], [0, 1, 2, 3]), "X, row 2: negative feature index -1"),
    "indptr decreases": (csr([0, 1, 2], [0, 2, 1, 3]), "indptr decreases at row 1"),
    "indptr beyond the end": (csr([0, 1], [0, 1, 2, 9]), "indptr ends at 9"),
    "indptr starts late": (csr([0, 1, 2], [1, 1, 2, 3]), "indptr must start with 0, got 1"),
    "values missing": (csr([0, 1, 2], [0, 1, 2, 3], [1.0]), "data, indices and indptr"),
    "one dimension": (X[0], "X must have two dimensions, got shape (3,)"),
    "three dimensions": (X[None], "X must have two dimensions, got shape (1, 3, 3)"),
    **(
        {"sparse with one dimension": (sp.coo_array(X[0]), "X must have two dimensions")}
        if sp.coo_array(X[0]).ndim == 1  # since SciPy 1.13
        else {}
    ),
    "ragged": ([[1.0], [1.0, 2.0], [3.0]], "X"),
    "text": ([["a"], ["b"], ["c"]], "X has text"),
    "None": (np.array([[None], [1], [2]], dtype=object), "X"),
    "complex": (X.astype(complex), "complex"),
    "fewer rows": (X[:2], "X has 2 rows, y has 3 labels"),
    "more rows in CSR": (sp.csr_matrix(np.vstack([X, X])), "X has 6 rows, y has 3 labels"),
    "one mapping": ({0: 1.0}, "use learn_one"),
    "fewer mappings": ([{0: 1.0}], "X has 1 rows, y has 3 labels"),
    "infinity in a mapping": ([{0: 1.0}, {}, {4: np.inf}], "row 2: feature 4: inf"),
    "too large in a mapping": ([{"new": 1.0}, {4: 1e200}, {}], "row 1: feature 4: 1e+200"),
    "negative key": ([{}, {"new": 1.0}, {-1: 1.0}], "row 2: feature index -1"),
    "key beyond 63 bits": ([{2**63: 1.0}, {}, {}], "row 0: feature index 9223372036854775808"),
    "key beyond 64 bits": ([{2**200: 1.0}, {}, {}], "must be between 0 and 2^63 - 1"),
    "key of another type": ([{"new": 1.0, 1.5: 2.0}, {}, {}], "a string or an integer, got float"),
    "value of another type": ([{}, {}, {"new": 1.0, "b": [1]}], "row 2: feature 'b': expected"),
    "key that is not text": ([{"\ud800": 1.0}, {}, {}], "cannot be encoded as UTF-8"),
    "value that is not text": ([{"a": "\ud800"}, {}, {}], "cannot be encoded as UTF-8"),
    "not all mappings": ([{0: 1.0}, [1.0], {}], "row 1: a row must be a mapping"),
}

BAD_CALLS: dict[str, tuple[Call, str]] = {
    "label NaN": (lambda m: m.learn(X, [1, np.nan, 1]), "y, row 1: .*nan"),
    "label infinite": (lambda m: m.learn(X, [1, -1, np.inf]), "y, row 2: .*inf"),
    "label too large": (lambda m: m.learn(X, [1, -1, 1e160]), "y, row 2: .*1e.160"),
    "weight too large": (
        lambda m: m.learn(X, Y, [1, 1e200, 1]),
        "sample_weight, row 1: the weight 1e.200",
    ),
    "one: weight too large": (
        lambda m: m.learn_one({"new": 1.0}, 1, 1e200),
        "sample_weight, row 0: the weight 1e",
    ),
    "labels too few": (lambda m: m.learn(X, [1, -1]), "X has 3 rows, y has 2 labels"),
    "labels in two dimensions": (lambda m: m.learn(X, Y[:, None]), "y must have one dimension"),
    "labels of digits": (lambda m: m.learn(X, ["1", "1", "0"]), "y must be.*got text, such as '1'"),
    "labels of text": (
        lambda m: m.learn(X, ["a", "b", "c"]),
        "y must be numbers, got text, such as 'a'",
    ),
    "label scalar": (lambda m: m.learn(X, 1.0), "X has 3 rows, y has 1 labels"),
    "weight NaN": (lambda m: m.learn(X, Y, [1, 1, np.nan]), "sample_weight, row 2: the weight nan"),
    "weight infinite": (
        lambda m: m.learn(X, Y, [1, np.inf, 1]),
        "sample_weight, row 1: the weight inf",
    ),
    "weight negative": (
        lambda m: m.learn(X, Y, [1, -0.5, 1]),
        "sample_weight, row 1: the weight -0.5",
    ),
    "weights too few": (
        lambda m: m.learn(X, Y, [1, 1]),
        "sample_weight must be.*3 rows, got 2",
    ),
    "weights of text": (lambda m: m.learn(X, Y, ["a", "b", "c"]), "sample_weight must be"),
    "one: label NaN": (lambda m: m.learn_one({"new": 1.0}, np.nan), "y, row 0: .*nan"),
    "one: label infinite": (lambda m: m.learn_one({"new": 1.0}, -np.inf), "y, row 0: .*inf"),
    "one: weight NaN": (
        lambda m: m.learn_one({"new": 1.0}, 1, np.nan),
        "sample_weight, row 0: the weight nan",
    ),
    "one: weight negative": (
        lambda m: m.learn_one({"new": 1.0}, 1, -1),
        "sample_weight, row 0: the weight -1",
    ),
    "one: weight infinite": (
        lambda m: m.learn_one({"new": 1.0}, 1, np.inf),
        "sample_weight, row 0: the weight inf",
    ),
    "one: infinite": (lambda m: m.learn_one({"new": 1.0, "b": np.inf}, 1), "feature 'b': inf"),
    "one: negative key": (lambda m: m.learn_one({"new": 1.0, -3: 1.0}, 1), "index -3"),
    "one: label of text": (lambda m: m.learn_one({"new": 1.0}, "spam"), "y must be.*SONClassifier"),
    "one: digits": (lambda m: m.learn_one({"new": 1.0}, "1"), "y must be a number, got '1'"),
    "one: no label": (lambda m: m.learn_one({"new": 1.0}, None), "y must be a number, got None"),
    "one: labels": (lambda m: m.learn_one({"new": 1.0}, [1, 2]), "y must be a number"),
    "one: huge": (lambda m: m.learn_one({"new": 1.0}, 10**400), "y must be .*too large"),
    "one: weight of text": (lambda m: m.learn_one({"new": 1.0}, 1, "2"), "w must be a number"),
    "one: not a mapping": (lambda m: m.learn_one([1.0, 2.0], 1), "a row must be a mapping"),
    "one: a string": (lambda m: m.predict_one("text"), "a row must be a mapping.*str"),
}


def trained(**changed: Any) -> OnlineLearner:
    model = learner(**changed)
    model.learn(X, Y)
    model.learn_one({"known": 1.0}, 1.0)
    return model


def assert_refused(model: OnlineLearner, call: Call, message: str) -> None:
    before = state_of(model)
    with pytest.raises(InvalidInputError, match=message) as caught:
        call(model)
    assert isinstance(caught.value, ValueError)
    assert state_of(model) == before
    # It continues as if nothing had happened.
    untouched = trained(**model.params)
    np.testing.assert_array_equal(model.learn(X, Y), untouched.learn(X, Y))
    assert state_of(model) == state_of(untouched)


@pytest.mark.parametrize("sketch", ["isotropic", "fd", "full"])
@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_that_cannot_be_learned_from(case: str, sketch: str) -> None:
    rows, message = BAD_ROWS[case]
    assert_refused(trained(sketch=sketch), lambda m: m.learn(rows, Y), re.escape(message))


NOT_FOR_PREDICT = {"fewer rows", "more rows in CSR", "fewer mappings"}


@pytest.mark.parametrize("case", [case for case in BAD_ROWS if case not in NOT_FOR_PREDICT])
def test_rows_that_cannot_be_predicted(case: str) -> None:
    rows, message = BAD_ROWS[case]
    assert_refused(trained(), lambda m: m.predict(rows), re.escape(message))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("case", BAD_CALLS)
def test_labels_weights_and_single_rows(case: str, loss: str) -> None:
    assert_refused(trained(loss=loss), *BAD_CALLS[case])


@pytest.mark.parametrize("arguments", [(None, 1.0), ({0: 1.0}, None), ({0: 1.0}, "red")])
def test_arguments_of_another_type(arguments: tuple[Any, Any]) -> None:
    model = trained(loss="squared")
    before = state_of(model)
    with pytest.raises(InvalidInputError, match=r"must be a (mapping|number)"):
        model.learn_one(*arguments)
    assert state_of(model) == before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("as_mapping", [False, True])
def test_values_too_large_for_the_number_type(as_mapping: bool, dtype: str) -> None:
    """The message names the limit and, for float32, suggests float64."""
    large = 1e20 if dtype == "float32" else 1e151
    rows: Any = [{0: 1.0}, {}, {"new": -large}] if as_mapping else with_value(-large)
    model = trained(dtype=dtype)
    before = state_of(model)
    limit = "1e+18 with .*float32.*float64" if dtype == "float32" else "1e+150"
    with pytest.raises(InvalidInputError, match=f"row 2.*{limit.replace('+', r'.')}"):
        model.learn(rows, Y)
    assert state_of(model) == before


@pytest.mark.parametrize("loss", [name for name, info in LOSSES.items() if info["binary"]])
@pytest.mark.parametrize("labels", [[1, 2, 1], [1, 0.5, -1], [0, 1, -1], [1, -1, np.nan]])
def test_labels_that_a_loss_cannot_take(labels: list[float], loss: str) -> None:
    model = learner(loss=loss)
    before = state_of(model)
    with pytest.raises(InvalidInputError, match=r"y, row .*: .*label"):
        model.learn(X, labels)
    assert state_of(model) == before


@pytest.mark.parametrize(("first", "other"), [(0, -1), (-1, 0)])
def test_the_first_negative_label_decides(first: float, other: float) -> None:
    model = learner(loss="logistic")
    model.learn(X, [1, first, 1])
    before = state_of(model)
    with pytest.raises(InvalidInputError, match=f"y, row 2: label {other:g}"):
        model.learn(X, [1, first, other])
    with pytest.raises(InvalidInputError, match=f"y, row 0: label {other:g}"):
        model.learn_one({0: 1.0}, other)
    assert state_of(model) == before
    model.learn_one({0: 1.0}, first)


@pytest.mark.parametrize("labels", [[1, 0, 1], [True, False, True], np.int8([1, -1, 1])])
def test_labels_of_two_classes_in_any_spelling(labels: Any) -> None:
    plain, other = learner(loss="logistic"), learner(loss="logistic")
    np.testing.assert_array_equal(plain.learn(X, Y), other.learn(X, labels))
    np.testing.assert_array_equal(plain.predict(X), other.predict(X))


BAD_PARAMETERS: dict[str, dict[str, Any]] = {
    "loss must be one of 'squared'.*got 'cubic'": {"loss": "cubic"},
    "sketch must be one of 'none'.*got 'svd'": {"sketch": "svd"},
    "scaling must be one of.*got 'minmax'": {"scaling": "minmax"},
    "curvature must be one of.*got 'fisher'": {"curvature": "fisher"},
    "dtype must be one of.*got 'float16'": {"dtype": "float16"},
    "sketch_size must be an integer.*got -1": {"sketch_size": -1},
    "sketch_size must be an integer.*got 2.5": {"sketch_size": 2.5},
    "sketch_size must be an integer.*got True": {"sketch_size": True},
    "sketch_size must be an integer.*got 1000000": {"sketch_size": 10**6},
    "alpha must be.*got -1": {"alpha": -1.0},
    "alpha must be.*got nan": {"alpha": float("nan")},
    "alpha must be.*'absolute:1'": {"alpha": "absolute:1"},
    "alpha.*'x' is not a number": {"alpha": "relative:x"},
    "alpha=0 needs sketch='full'": {"alpha": 0.0},
    "bound must be.*got 0": {"bound": 0.0},
    "bound must be.*got inf": {"bound": float("inf")},
    "sigma must be.*got -1": {"sigma": -1.0},
    "eta must be.*got 'concave'": {"eta": "concave"},
    "oja_step must be.*got 0": {"oja_step": 0.0},
    "quantile must be.*got 1": {"quantile": 1.0},
    "hash_bits must be an integer.*got 0": {"hash_bits": 0},
    "hash_bits must be an integer.*got 63": {"hash_bits": 63},
    "seed must be an integer.*got -1": {"seed": -1},
    "intercept must be True or False, got 'yes'": {"intercept": "yes"},
    "curvature='hessian' needs a loss with a second derivative": {
        "curvature": "hessian",
        "loss": "hinge",
    },
}


@pytest.mark.parametrize("message", BAD_PARAMETERS)
def test_parameters_out_of_range(message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        OnlineLearner(**BAD_PARAMETERS[message])


@pytest.mark.parametrize("names", [SKETCHES, tuple(LOSSES)])
def test_messages_list_the_whole_registry(names: tuple[str, ...]) -> None:
    parameter = "sketch" if names == SKETCHES else "loss"
    with pytest.raises(ParameterError) as caught:
        OnlineLearner(**{parameter: "?"})
    assert all(repr(name) in str(caught.value) for name in names)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_label_of_text_is_refused_by_every_loss_with_what_to_do(loss: str) -> None:
    model = learner(loss=loss)
    with pytest.raises(InvalidInputError, match=r"y must be a number, got 'spam'.*SONClassifier"):
        model.learn_one({"a": 1.0}, "spam")  # type: ignore[arg-type]
    first = 1.0 if LOSSES[loss]["log_link"] else 0.0  # a mean of e^0
    assert model.learn_one({"a": 1.0}, 1) == first


def test_a_bad_row_does_not_decide_which_label_is_the_negative_one() -> None:
    model = learner()
    with pytest.raises(InvalidInputError, match="feature 'a': inf"):
        model.learn_one({"a": np.inf}, 0)
    model.learn_one({"a": 1.0}, -1)
    with pytest.raises(InvalidInputError, match="y, row 0: label 0"):
        model.learn_one({"a": 1.0}, 0)


def anywhere(values):
    """Return the same numbers at odd addresses, as they lie in a message of Dask."""
    bytes_of_it = np.zeros(values.nbytes + 1, np.uint8)[1:]
    actual = bytes_of_it.view(values.dtype).reshape(values.shape)
    actual[...] = values
    assert not actual.flags.aligned
    return actual


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_may_lie_anywhere(dtype):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4)).astype(dtype), rng.choice([-1.0, 1.0], 50)
    weights = rng.random(50)
    rows = sp.csr_array(X)
    odd = sp.csr_array(rows)
    odd.data, odd.indices, odd.indptr = map(anywhere, (rows.data, rows.indices, rows.indptr))
    for even, moved in ((X, anywhere(X)), (rows, odd)):
        first, second = OnlineLearner(), OnlineLearner()
        expected = first.learn(even, y, weights)
        np.testing.assert_array_equal(second.learn(moved, anywhere(y), anywhere(weights)), expected)
        np.testing.assert_array_equal(second.predict(moved), first.predict(even))
    classes = np.where(y > 0, "a", "b")
    np.testing.assert_array_equal(
        SONClassifier(random_state=0).fit(anywhere(X), classes, anywhere(weights)).coef_,
        SONClassifier(random_state=0).fit(X, classes, weights).coef_,
    )
    np.testing.assert_array_equal(
        SONRegressor(random_state=0).fit(anywhere(X), anywhere(y), anywhere(weights)).coef_,
        SONRegressor(random_state=0).fit(X, y, weights).coef_,
    )
    assert evaluate.losses("squared", anywhere(y), anywhere(2 * y)).tolist() == [0.5] * 50
