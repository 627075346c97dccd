"""Input that the estimators for scikit-learn accept or refuse."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from estimator_cases import BOTH, fitted, problem, regression, state_of
from sonline import SONClassifier, SONRegressor
from sonline.errors import DivergenceError, InvalidInputError


class TestInput:
    X, y = problem(3)
    expected = SONClassifier(random_state=0).fit(X, y).decision_function(X)

    @pytest.mark.parametrize(
        "convert",
        [
            np.asfortranarray,
            lambda X: np.ascontiguousarray(X[:, ::-1])[:, ::-1],
            lambda X: X.astype(">f8"),
            lambda X: X.tolist(),
            sp.csr_matrix,
            sp.csr_array,
            sp.csc_matrix,
            sp.coo_matrix,
            sp.lil_matrix,
            pd.DataFrame,
        ],
    )
    def test_kinds(self, convert):
        rows = convert(self.X)
        model = SONClassifier(random_state=0, curves=True).fit(rows, self.y)
        np.testing.assert_array_equal(model.decision_function(rows), self.expected)
        stream = SONClassifier(curves=True).partial_fit(rows, self.y, classes=[0, 1, 2])
        again = clone(stream).partial_fit(self.X, self.y, classes=[0, 1, 2])
        for each in (stream, again):
            each.partial_fit(rows, self.y)
        np.testing.assert_array_equal(stream.coef_, again.coef_)

    @pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
    def test_wide_indices(self, kind):
        rows = kind(self.X)
        wide = kind(
            (rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), rows.shape
        )
        wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
        model = SONClassifier(random_state=0, curves=True).fit(wide, self.y)
        np.testing.assert_array_equal(model.decision_function(wide), self.expected)

    @pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, bool])
    def test_number_types(self, dtype):
        rows = (self.X * 3).astype(dtype) if dtype is not np.uint8 else np.abs(self.X).astype(dtype)
        model = SONClassifier(random_state=0).fit(rows, self.y)
        double = SONClassifier(random_state=0).fit(rows.astype(np.float64), self.y)
        np.testing.assert_array_equal(model.coef_, double.coef_)

    def test_read_only_memory_map(self, tmp_path):
        np.save(tmp_path / "X.npy", self.X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        model = SONClassifier(random_state=0).fit(mapped, self.y)
        np.testing.assert_array_equal(model.decision_function(mapped), self.expected)
        model.partial_fit(mapped, self.y)

    def test_frames_have_names(self):
        frame = pd.DataFrame(self.X, columns=[f"c{j}" for j in range(12)])
        model = SONClassifier(random_state=0).fit(frame, self.y)
        assert model.feature_names_in_.tolist() == frame.columns.tolist()
        assert set(model.weights(1)) == set(frame.columns)
        model.partial_fit(frame, self.y)
        with pytest.warns(UserWarning, match="valid feature names"):
            model.predict(self.X)
        raw = model.decision_function(frame)
        np.testing.assert_allclose(
            model.decision_function(frame[frame.columns[::-1]]), raw, rtol=1e-4, atol=1e-4
        )
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[frame.columns[:-1]])

    @pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
    def test_frames_after_arrays_go_by_position(self, make):
        frame = make({f"c{j}": self.X[:, j] for j in range(12)})
        model = SONClassifier(random_state=0).fit(self.X, self.y)
        with pytest.warns(UserWarning, match="was fitted without feature names"):
            predictions = model.decision_function(frame)
        np.testing.assert_array_equal(predictions, self.expected)
        with pytest.warns(UserWarning, match="was fitted without feature names"):
            model.partial_fit(frame, self.y)
        twin = SONClassifier(random_state=0).fit(self.X, self.y).partial_fit(self.X, self.y)
        np.testing.assert_array_equal(model.coef_, twin.coef_)
        assert not hasattr(model, "feature_names_in_")
        with (
            pytest.warns(UserWarning, match="was fitted without feature names"),
            pytest.raises(ValueError, match="11 features, but SONClassifier is expecting 12"),
        ):
            model.predict(frame[[f"c{j}" for j in range(11)]])

    def test_polars(self):
        frame = pl.DataFrame(self.X, schema=[f"c{j}" for j in range(12)])
        model = SONClassifier(random_state=0).fit(frame, pl.Series(self.y))
        np.testing.assert_array_equal(model.decision_function(frame), self.expected)
        assert model.feature_names_in_.tolist() == frame.columns

    @pytest.mark.parametrize(
        "labels",
        [
            np.array(["a", "b", "c"]),
            np.array(["a", "b", "c"], dtype=object),
            np.array([-5, 3, 10**12]),
            np.array([0.0, 1.0, 2.0]),
        ],
    )
    def test_labels(self, labels):
        named = labels[self.y]
        model = SONClassifier(random_state=0).fit(self.X, named)
        np.testing.assert_array_equal(model.decision_function(self.X), self.expected)
        assert model.predict(self.X).dtype == labels.dtype
        model.partial_fit(self.X, named)
        stream = SONClassifier().partial_fit(self.X, list(named), classes=list(labels))
        assert stream.classes_.tolist() == labels.tolist()

    def test_booleans(self):
        model = SONClassifier(random_state=0).fit(self.X, self.y == 1)
        assert model.predict(self.X).dtype == np.bool_
        model.partial_fit(self.X[:1], [True])


class TestBadInput:
    """A clear error, and the estimator as it was before the call."""

    def cases(self, X, y):
        nan = X.copy()
        nan[7, 2] = np.nan
        yield "NaN", nan, y
        yield "features", X[:, :5], y
        yield "(rows|samples|inconsistent)", X[:-1], y
        yield "(2D|dimension)", X[0], y[:1]
        yield "(complex|Complex)", X.astype(complex), y
        yield "(convert|float|numbers)", np.full(X.shape, "text", dtype=object), y

    @pytest.mark.parametrize("estimator", BOTH)
    def test_fit_needs_rows(self, estimator):
        model, X, y = fitted(clone(estimator))
        before = state_of(model)
        with pytest.raises(ValueError, match="minimum of 1"):
            model.fit(X[:0], y[:0])
        assert state_of(model) == before

    @pytest.mark.parametrize("estimator", BOTH)
    def test_rows(self, estimator):
        for started in (True, False):
            model, X, y = fitted(clone(estimator))
            model = model if started else clone(estimator)
            arguments = {"classes": [0, 1, 2]} if isinstance(model, SONClassifier) else {}
            before = state_of(model)
            for match, rows, labels in self.cases(X, y):
                if match == "features" and not started:
                    continue
                with pytest.raises(ValueError, match=match):
                    model.partial_fit(rows, labels, **arguments)
                assert state_of(model) == before
                if match != "features":
                    with pytest.raises(ValueError, match=match):
                        model.fit(rows, labels)
                    assert state_of(model) == before
                if started and "rows" not in match:
                    with pytest.raises(ValueError, match=match):
                        model.predict(rows)

    @pytest.mark.parametrize(
        ("labels", "match"),
        [
            ([0, 1, 9], "y, row 2: label 9 is not among the classes"),
            (["0", "1", "2"], "y, row 0: label '0'"),
            ([0, 1, "a"], "mixes labels of different types, such as 'a' and 0"),
            (np.array([0, None, 1], dtype=object), "y, row 1: None is not a label"),
            (["a", "b", None], "y, row 2: None is not a label"),
            (pd.Series(["a", pd.NA, "b"], dtype="string"), "y, row 1: <NA> is not a label"),
            ([0, 1, np.nan], "y, row 2: nan is not"),
            ([0.5, 1.5, 2.5], "(?i)continuous|label"),
            ([[0, 1], [1, 0], [1, 1]], "(?i)1d|shape|label"),
        ],
    )
    def test_labels(self, labels, match):
        X, y = problem(3)
        model = SONClassifier().partial_fit(X, y, classes=[0, 1, 2])
        before = state_of(model)
        with pytest.raises(ValueError, match=match):
            model.partial_fit(X[:3], labels)
        assert state_of(model) == before

    def test_one_class_only(self):
        X, _ = problem()
        model = SONClassifier()
        before = state_of(model)
        with pytest.raises(InvalidInputError, match=r"at least two classes .* 1 class: \['a'\]"):
            model.fit(X, ["a"] * len(X))
        with pytest.raises(InvalidInputError, match="at least two classes"):
            model.partial_fit(X, ["a"] * len(X), classes=["a"])
        assert state_of(model) == before

    def test_classes_of_partial_fit(self):
        X, y = problem(3)
        model = SONClassifier()
        with pytest.raises(InvalidInputError, match="classes must be passed on the first call"):
            model.partial_fit(X, y)
        with pytest.raises(InvalidInputError, match="label 2 is not"):
            model.partial_fit(X, y, classes=[0, 1])
        assert not hasattr(model, "classes_")
        model.partial_fit(X, y, classes=[2, 0, 1])
        with pytest.raises(InvalidInputError, match=r"classes=\[0, 1\] is not what"):
            model.partial_fit(X, y, classes=[0, 1])

    @pytest.mark.parametrize(
        "weights", [[-1.0], [np.nan], [np.inf], [1.0, 1.0], [[1.0]], ["heavy"], -1.0]
    )
    @pytest.mark.parametrize("estimator", BOTH)
    def test_weights(self, estimator, weights):
        model, X, y = fitted(clone(estimator))
        before = state_of(model)
        with pytest.raises(InvalidInputError, match="sample_weight"):
            model.partial_fit(X[:1], y[:1], sample_weight=weights)
        assert state_of(model) == before

    @pytest.mark.parametrize("labels", [[1.0, np.nan], [1.0, np.inf], ["a", "b"], [1.0]])
    def test_numbers(self, labels):
        model, X, _ = fitted(SONRegressor())
        before = state_of(model)
        for options in (labels, np.array(labels)):
            with pytest.raises(ValueError, match=r".+"):
                model.partial_fit(X[:2], options)
        assert state_of(model) == before

    def test_divergence_of_fit_says_where(self):
        X, y = regression()
        wild = SONRegressor(
            sketch="none", scaling="none", alpha=1e-6, step="explicit", shuffle=False
        )
        before = state_of(wild)
        with pytest.raises(DivergenceError, match="pass 1 of fit, rows of X: row "):
            wild.fit(X, y)
        assert state_of(wild) == before

    def test_weights_by_class(self):
        model, *_ = fitted(SONClassifier())
        with pytest.raises(InvalidInputError, match=r"one of \[0, 1, 2\], got None"):
            model.weights()
        with pytest.raises(InvalidInputError, match=r"one of \[0, 1, 2\], got 7"):
            model.weights(7)
        pair = SONClassifier().fit(*problem())
        assert pair.weights(0) == {name: -weight for name, weight in pair.weights(1).items()}
        assert pair.weights() == pair.weights(1)


@pytest.mark.parametrize("labels", [[], np.zeros(0), np.zeros(0, dtype=object)])
def test_no_rows_are_an_error_that_says_so(labels):
    with pytest.raises(ValueError, match="0 sample"):
        SONClassifier().fit(np.zeros((0, 4)), labels)


@pytest.mark.parametrize("kind", [SONClassifier, SONRegressor])
@pytest.mark.parametrize("convert", [np.asarray, np.ndarray.tolist, sp.csr_array, sp.coo_matrix])
def test_a_gap_in_an_array_is_named_with_what_to_do(kind, convert):
    X, y = problem(2)
    X[[5, 7], [2, 0]] = np.nan
    how = r"^X, row 5: column 2 is NaN; .*data frame with named columns.*missing='absent'"
    for learn in (kind().fit, kind().partial_fit):
        with pytest.raises(InvalidInputError, match=how) as caught:
            learn(convert(X), y)
        assert (caught.value.row, caught.value.field) == (5, 2)
    frame = pd.DataFrame(X, columns=[f"c{number}" for number in range(X.shape[1])])
    kind(missing="absent").fit(frame, y)
    X[5, 2] = X[7, 0] = 0.0
    with pytest.raises(ValueError, match="y contains NaN"):
        SONRegressor().fit(X, np.where(np.arange(y.size) == 3, np.nan, y))
