import copy
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sonline import OnlineLearner, SONClassifier, SONRegressor, persistence
from sonline.errors import DivergenceError, InvalidInputError, ModelFileError, ParameterError
from sonline.parameters import Parameters


def problem(classes=2, n=400, seed=0):
    X, y = make_classification(
        n, 12, n_informative=8, n_classes=classes, random_state=seed, class_sep=1.5
    )
    return X * (1 + np.arange(12)), y


def regression(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * [1, 10, 100, 1, 1, 1]
    return X, X @ [1, 0.1, 0.01, 0, -1, 2] + 3 + 0.1 * rng.normal(size=n)


def fitted(estimator):
    X, y = regression() if isinstance(estimator, SONRegressor) else problem(3)
    return estimator.fit(X, y), X, y


def state_of(estimator):
    """Everything that an estimator is, for comparison."""
    state = {k: v for k, v in vars(estimator).items() if k != "_learning"}
    learner = vars(estimator).get("_learning")
    if learner is not None:
        document, tensors = learner.__getstate__()
        state["document"] = document
        state["tensors"] = {name: (a.shape, a.tobytes()) for name, a in tensors.items()}
    return pickle.dumps(state)


BOTH = [SONClassifier(random_state=0), SONRegressor(random_state=0)]


class TestParameters:
    @pytest.mark.parametrize("estimator", BOTH)
    def test_each_parameter_of_the_learner_is_there_with_its_default(self, estimator):
        arguments = {field: name for name, field in estimator.arguments}
        left_out = set(Parameters.names()) - set(arguments)
        assert left_out <= {"hash_bits", "seed", "quantile"}
        for field, name in arguments.items():
            if field != "loss":
                assert getattr(estimator, name) == getattr(Parameters(), field)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("loss", "cubic"),
            ("sketch", "big"),
            ("sketch_size", -1),
            ("alpha", "x"),
            ("max_iter", 0),
        ],
    )
    @pytest.mark.parametrize("estimator", BOTH)
    def test_bad_ones_are_errors_of_fit(self, estimator, name, value):
        bad = clone(estimator).set_params(**{name: value})
        with pytest.raises(ParameterError, match=name):
            fitted(bad)

    def test_a_regression_loss_is_not_for_classes(self):
        with pytest.raises(ParameterError, match="'quantile'"):
            SONClassifier("quantile").fit(*problem())
        with pytest.raises(ParameterError, match="'logistic'"):
            SONRegressor("logistic").fit(*regression())

    @pytest.mark.parametrize("estimator", BOTH)
    def test_they_cannot_change_on_the_way(self, estimator):
        model, X, y = fitted(clone(estimator).set_params(warm_start=True))
        model.set_params(sketch_size=3)
        before = state_of(model)
        for learn in (model.partial_fit, model.fit):
            with pytest.raises(ParameterError, match="sketch_size is 3"):
                learn(X, y)
        assert state_of(model) == before
        assert model.set_params(warm_start=False).fit(X, y).spectra()[0].size <= 3


class TestLearning:
    def test_partial_fit_is_the_learner(self):
        X, y = problem()
        learner = OnlineLearner()
        before = learner.learn(X, 2 * y - 1)
        model = SONClassifier()
        for start in range(0, len(y), 37):
            part = slice(start, start + 37)
            model.partial_fit(X[part], y[part], classes=[0, 1])
        np.testing.assert_array_equal(model.decision_function(X), learner.predict(X))
        np.testing.assert_array_equal(model.coef_[0], list(learner.weights().values()))
        assert model.intercept_[0] == learner.bias
        assert model.progressive_score_ == np.mean((before > 0) == y)
        assert model.progressive_loss_ == pytest.approx(
            np.mean(np.log1p(np.exp(-before * (2 * y - 1)))), rel=1e-12
        )
        assert model.progress_.rows == len(y)

    def test_partial_fit_of_numbers_is_the_learner(self):
        X, y = regression()
        learner = OnlineLearner(loss="squared")
        before = learner.learn(X, y)
        model = SONRegressor()
        for start in range(0, len(y), 37):
            part = slice(start, start + 37)
            model.partial_fit(X[part], y[part])
        np.testing.assert_array_equal(model.predict(X), learner.predict(X))
        expected = 1 - np.sum((before - y) ** 2) / np.sum((y - y.mean()) ** 2)
        assert model.progressive_score_ == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("estimator", BOTH)
    def test_fit_without_shuffling_is_partial_fit(self, estimator):
        model, X, y = fitted(clone(estimator).set_params(shuffle=False, max_iter=2))
        stream = clone(model)
        arguments = {"classes": [0, 1, 2]} if isinstance(model, SONClassifier) else {}
        for _ in range(2):
            stream.partial_fit(X, y, **arguments)
        np.testing.assert_array_equal(stream.predict(X), model.predict(X))
        assert model.n_iter_ == 2
        assert model.progress_.rows == len(y)  # honest predictions only

    @pytest.mark.parametrize("estimator", BOTH)
    def test_long_data_in_pieces(self, estimator, monkeypatch):
        model, X, y = fitted(clone(estimator))
        monkeypatch.setattr("sonline.estimators.rows.PIECE", 100)
        for rows in (X, sp.csr_array(X), sp.csr_matrix(X)):
            np.testing.assert_array_equal(clone(model).fit(rows, y).coef_, model.coef_)
        plain = clone(model).set_params(shuffle=False)
        cut = plain.fit(sp.csr_array(X), y).coef_
        monkeypatch.undo()
        np.testing.assert_array_equal(plain.fit(X, y).coef_, cut)

    def test_shuffling_is_chosen_by_random_state(self):
        X, y = problem(3)
        a, b, c = (SONClassifier(random_state=s).fit(X, y).coef_ for s in (0, 0, 1))
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()

    @pytest.mark.parametrize("estimator", BOTH)
    def test_warm_start_goes_on(self, estimator):
        once, X, y = fitted(clone(estimator).set_params(shuffle=False, max_iter=2))
        warm = clone(once).set_params(max_iter=1, warm_start=True)
        warm.fit(X, y).fit(X, y)
        np.testing.assert_array_equal(warm.coef_, once.coef_)
        assert warm.progress_.rows == 2 * len(y)
        warm.set_params(warm_start=False).fit(X, y)
        assert warm.progress_.rows == len(y)

    def test_threads_do_not_matter(self):
        X, y = problem(4, n=3000)
        one, two = (SONClassifier(random_state=0, n_jobs=n).fit(X, y) for n in (None, 2))
        np.testing.assert_array_equal(one.coef_, two.coef_)
        np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))

    def test_probabilities_are_proper(self):
        for classes in (2, 4):
            X, y = problem(classes, n=3000)
            model = SONClassifier(random_state=0).fit(X, y)
            chances = model.predict_proba(X)
            np.testing.assert_allclose(chances.sum(axis=1), 1)
            np.testing.assert_array_equal(chances.argmax(axis=1), model.predict(X))
            np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), chances)
            share = np.bincount(y) / len(y)
            assert log_loss(y, chances) < 0.8 * log_loss(y, np.tile(share, (len(y), 1)))

    def test_probabilities_far_out_are_still_some(self):
        X = np.array([[1.0], [-1.0], [0.0]] * 200)
        model = SONClassifier(dtype="float64").fit(X, [0, 1, 2] * 200)
        chances = model.predict_proba(np.array([[1e6], [-1e6], [1e8]]))
        assert np.isfinite(chances).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1)

    def test_other_losses_have_no_probabilities(self):
        for loss in ("hinge", "squared_hinge", "squared"):
            model = SONClassifier(loss, random_state=0).fit(*problem())
            assert model.score(*problem()) > 0.8
            assert not hasattr(model, "predict_proba")
            with pytest.raises(AttributeError, match="predict_proba"):
                model.predict_proba  # noqa: B018 - looking is enough

    def test_class_weight(self):
        X, y = problem(2, n=2000)
        keep = (y == 0) | (np.arange(len(y)) % 10 == 0)
        X, y = X[keep], y[keep]
        plain = SONClassifier(random_state=0).fit(X, y)
        balanced = SONClassifier(random_state=0, class_weight="balanced").fit(X, y)
        assert np.mean(balanced.predict(X) == 1) > np.mean(plain.predict(X) == 1)
        weights = {label: len(y) / (2 * np.sum(y == label)) for label in (0, 1)}
        named = SONClassifier(random_state=0, class_weight=weights).fit(X, y)
        np.testing.assert_allclose(named.coef_, balanced.coef_)
        as_rows = SONClassifier(random_state=0).fit(X, y, np.vectorize(weights.get)(y))
        np.testing.assert_array_equal(as_rows.coef_, named.coef_)

    def test_balanced_weights_need_all_labels(self):
        X, y = problem()
        model = SONClassifier(class_weight="balanced")
        before = state_of(model)
        with pytest.raises(ParameterError, match=r"class_weight=\{label: weight"):
            model.partial_fit(X, y, classes=[0, 1])
        assert state_of(model) == before

    def test_weights_of_rows(self):
        X, y = regression()
        w = np.linspace(0, 3, len(y))
        model = SONRegressor(shuffle=False).fit(X, y, w)
        learner = OnlineLearner(loss="squared")
        learner.learn(X, y, w)
        np.testing.assert_array_equal(model.predict(X), learner.predict(X))
        np.testing.assert_array_equal(
            SONRegressor(shuffle=False).fit(X, y, 1.0).coef_,
            SONRegressor(shuffle=False).fit(X, y).coef_,
        )


class TestDiscovery:
    LABELS = np.array(["pear", "fig", "apple", "date"])

    def stream(self):
        X, y = problem(4)
        for k in range(1, 4):
            y[: 30 * k] = np.minimum(y[: 30 * k], k - 1)
        return X, self.LABELS[y]

    def test_as_if_named_in_the_first_call(self):
        X, y = self.stream()
        found = SONClassifier(discover_classes=True)
        named = SONClassifier()
        for i in range(len(y)):
            found.partial_fit(X[i : i + 1], y[i : i + 1])
            assert y[i] in found.classes_
        named.partial_fit(X, y, classes=self.LABELS)
        assert found.classes_.tolist() == sorted(self.LABELS)
        np.testing.assert_array_equal(found.decision_function(X), named.decision_function(X))
        np.testing.assert_array_equal(found.coef_, named.coef_)
        np.testing.assert_array_equal(found.predict_proba(X), named.predict_proba(X))

    def test_two_classes_the_second_of_which_sorts_first(self):
        X, y = problem()
        y[:20] = 1
        found = SONClassifier(discover_classes=True)
        for i in range(0, len(y), 10):
            found.partial_fit(X[i : i + 10], y[i : i + 10])
        named = SONClassifier().partial_fit(X, y, classes=[0, 1])
        np.testing.assert_array_equal(found.decision_function(X), named.decision_function(X))
        np.testing.assert_array_equal(found.coef_, named.coef_)
        assert found.weights() == named.weights()

    def test_one_class_so_far(self):
        X, _ = problem()
        model = SONClassifier(discover_classes=True).partial_fit(X, ["a"] * len(X))
        assert set(model.predict(X)) == {"a"}
        np.testing.assert_array_equal(model.predict_proba(X), np.ones((len(X), 1)))

    def test_after_fit(self):
        X, y = problem(3)
        model = SONClassifier(discover_classes=True, random_state=0).fit(X[y < 2], y[y < 2])
        model.partial_fit(X[y == 2], y[y == 2])
        assert model.classes_.tolist() == [0, 1, 2]
        assert model.set_params(warm_start=True).fit(X, y + 1).classes_.tolist() == [0, 1, 2, 3]

    def test_a_failed_call_discovers_nothing(self):
        X, y = self.stream()
        model = SONClassifier(discover_classes=True).partial_fit(X[:50], y[:50])
        before = state_of(model)
        bad = X[100:].copy()
        bad[3, 3] = np.inf
        with pytest.raises(InvalidInputError, match="infinity in row 3"):
            model.partial_fit(bad, y[100:])
        with pytest.raises(InvalidInputError, match="another type"):
            model.partial_fit(X[:1], [7])
        assert state_of(model) == before


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
        model = SONClassifier(random_state=0).fit(rows, self.y)
        np.testing.assert_array_equal(model.decision_function(rows), self.expected)
        stream = SONClassifier().partial_fit(rows, self.y, classes=[0, 1, 2])
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
        model = SONClassifier(random_state=0).fit(wide, self.y)
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
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[frame.columns[::-1]])

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


class TestCompany:
    """Life among other parts of scikit-learn."""

    def test_pipeline_search_and_validation(self):
        X, y = load_iris(return_X_y=True)
        pipe = make_pipeline(StandardScaler(), SONClassifier(random_state=0, max_iter=3))
        assert cross_val_score(pipe, X, y, cv=3).mean() > 0.85
        search = GridSearchCV(pipe, {"sonclassifier__sketch_size": [0, 3]}, cv=3, n_jobs=2)
        assert search.fit(X, y).best_score_ > 0.85

    def test_text(self):
        texts = ["good fine great", "bad awful poor", "great good", "awful bad bad"] * 25
        y = [1, 0, 1, 0] * 25
        model = make_pipeline(TfidfVectorizer(), SONClassifier(random_state=0)).fit(texts, y)
        assert model.score(texts, y) == 1
        hashed = FeatureHasher(2**20, input_type="string").transform(t.split() for t in texts)
        stream = SONClassifier().partial_fit(hashed, y, classes=[0, 1])
        assert stream.partial_fit(hashed, y).score(hashed, y) == 1
        assert stream.coef_.shape == (1, 2**20)
        assert len(stream.weights()) < 10

    def test_metadata_routing(self):
        X, y = problem()
        w = np.where(y == 1, 10.0, 0.1)
        with config_context(enable_metadata_routing=True):
            model = SONClassifier(random_state=0).set_fit_request(sample_weight=True)
            model.set_score_request(sample_weight=True)
            pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
            pipe.fit(X, y, sample_weight=w)
            scores = cross_validate(pipe, X, y, params={"sample_weight": w}, cv=3)
        assert np.isfinite(scores["test_score"]).all()
        assert pipe[-1].intercept_[0] > SONClassifier(random_state=0).fit(X, y).intercept_[0]

    @pytest.mark.parametrize("estimator", BOTH)
    def test_clone_has_not_learnt(self, estimator):
        model, X, _ = fitted(clone(estimator))
        twin = clone(model)
        assert twin.get_params() == model.get_params()
        with pytest.raises(NotFittedError):
            twin.predict(X)
        for name in ("coef_", "intercept_", "progressive_loss_", "progressive_score_"):
            assert not hasattr(twin, name)

    @pytest.mark.parametrize("estimator", BOTH)
    @pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy", "file"])
    def test_copies_go_on_bit_for_bit(self, estimator, way, tmp_path):
        model, X, y = fitted(clone(estimator))
        if way == "pickle":
            twin = pickle.loads(pickle.dumps(model))
        elif way == "joblib":
            buffer = io.BytesIO()
            joblib.dump(model, buffer)
            buffer.seek(0)
            twin = joblib.load(buffer)
        elif way == "deepcopy":
            twin = copy.deepcopy(model)
        else:
            model.save(tmp_path / "model")
            twin = type(model).load(tmp_path / "model")
        for each in (model, twin):
            each.partial_fit(X[::-1], y[::-1])
        np.testing.assert_array_equal(twin.predict(X), model.predict(X))
        np.testing.assert_array_equal(twin.coef_, model.coef_)
        assert twin.progressive_loss_ == model.progressive_loss_
        assert twin.progressive_score_ == model.progressive_score_
        assert twin.get_params() == model.get_params()

    def test_files_keep_names_labels_and_arguments(self, tmp_path):
        X, y = problem(3)
        frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(12)])
        labels = np.array(["x", "yy", "zzz"])[y]
        model = SONClassifier(
            discover_classes=True,
            class_weight={"x": 2.0, "yy": 1.0, "zzz": 1.0},
            random_state=np.random.RandomState(3),
            warm_start=True,
            dtype="float64",
        ).fit(frame, labels)
        model.save(tmp_path / "model")
        twin = SONClassifier.load(tmp_path / "model")
        assert twin.class_weight == model.class_weight
        assert twin.feature_names_in_.tolist() == frame.columns.tolist()
        assert twin.classes_.dtype == model.classes_.dtype
        for each in (model, twin):
            each.fit(frame, labels)
            each.set_params(class_weight=None).partial_fit(frame[:1], ["new"])
        np.testing.assert_array_equal(twin.coef_, model.coef_)
        assert twin.predict(frame).tolist() == model.predict(frame).tolist()

    def test_files_of_another_kind(self, tmp_path):
        model, *_ = fitted(clone(BOTH[0]))
        model.save(tmp_path / "model")
        with pytest.raises(ModelFileError, match="holds a classifier, expected a regressor"):
            SONRegressor.load(tmp_path / "model")
        with pytest.raises(NotFittedError):
            SONClassifier().save(tmp_path / "other")

    @pytest.mark.parametrize(
        "damage",
        [
            lambda d, t: d.pop("classes"),
            lambda d, t: d["classes"].update(numbers=[0, 0, 1]),
            lambda d, t: d["classes"].update(labels=[0, 1], numbers=[0, 1]),
            lambda d, t: d["learner"].update(classes=4),
            lambda d, t: d["learner"].update(signs=[1.0, 1.0]),
            lambda d, t: d["learner"].update(signs=[1.0, 1.0, 0.5]),
            lambda d, t: d["arguments"].update(sketch="big"),
            lambda d, t: d["arguments"].update(colour="red"),
            lambda d, t: d["progress"].pop("rows"),
            lambda d, t: t.pop("names.bytes"),
            lambda d, t: t.pop("1.blocks"),
            lambda d, t: t.update({"1.blocks": t["1.blocks"][:-1]}),
        ],
    )
    def test_files_that_do_not_fit_together(self, damage, tmp_path):
        model, *_ = fitted(clone(BOTH[0]))
        model.save(tmp_path / "model")
        document, tensors = persistence.read(tmp_path / "model", model.kind)
        damage(document, tensors)
        persistence.write(tmp_path / "damaged", model.kind, document, tensors)
        with pytest.raises(ModelFileError, match="damaged: "):
            SONClassifier.load(tmp_path / "damaged")


class TestBadInput:
    """A clear error, and the estimator as it was before the call."""

    def cases(self, X, y):
        nan = X.copy()
        nan[7, 2] = np.nan
        yield "NaN", nan, y
        yield "features", X[:, :5], y
        yield "(rows|samples|inconsistent)", X[:-1], y
        yield "(2D|dimension)", X[0], y[:1]
        yield "(samples|minimum)", X[:0], y[:0]
        yield "(complex|Complex)", X.astype(complex), y
        yield "(convert|float|numbers)", np.full(X.shape, "text", dtype=object), y

    @pytest.mark.parametrize("estimator", BOTH)
    def test_rows(self, estimator):
        for begun in (True, False):
            model, X, y = fitted(clone(estimator))
            model = model if begun else clone(estimator)
            arguments = {"classes": [0, 1, 2]} if isinstance(model, SONClassifier) else {}
            before = state_of(model)
            for match, rows, labels in self.cases(X, y):
                if match == "features" and not begun:
                    continue
                with pytest.raises(ValueError, match=match):
                    model.partial_fit(rows, labels, **arguments)
                assert state_of(model) == before
                if match != "features":
                    with pytest.raises(ValueError, match=match):
                        model.fit(rows, labels)
                    assert state_of(model) == before
                if begun and "rows" not in match:
                    with pytest.raises(ValueError, match=match):
                        model.predict(rows)

    @pytest.mark.parametrize(
        ("labels", "match"),
        [
            ([0, 1, 9], "label 9 in row 2 is not among the classes"),
            (["0", "1", "2"], "label '0' in row 0"),
            ([0, 1, "a"], "mixes labels of different types, such as 'a' and 0"),
            (np.array([0, None, 1], dtype=object), "row|label|type"),
            ([0, 1, np.nan], "nan in row 2"),
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
        with pytest.raises(InvalidInputError, match="label 2 in row"):
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
        for given in (labels, np.array(labels)):
            with pytest.raises(ValueError, match=r".+"):
                model.partial_fit(X[:2], given)
        assert state_of(model) == before

    def test_divergence_of_fit_says_where(self):
        X, y = regression()
        wild = SONRegressor(sketch="none", scaling="none", alpha=1e-6, shuffle=False)
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
