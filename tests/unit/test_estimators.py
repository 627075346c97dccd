"""What the estimators for scikit-learn learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import log_loss

from estimator_cases import BOTH, fitted, problem, regression, state_of
from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import InvalidInputError, ParameterError
from sonline.parameters import Parameters


class TestParameters:
    @pytest.mark.parametrize("estimator", BOTH)
    def test_each_parameter_of_the_learner_is_there_with_its_default(self, estimator):
        arguments = {field: name for name, field in estimator.arguments}
        left_out = set(Parameters.names()) - set(arguments)
        assert left_out <= {"hash_bits", "seed", "quantile", "power", "delta", "epsilon"}
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
        before, y = before[1:], y[1:]  # nothing was known before the first row
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
        model, X, y = fitted(clone(estimator).set_params(curves=True))  # sparse rows, too
        monkeypatch.setattr("sonline.rows.core.PIECE", 100)
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
    def test_warm_start_continues(self, estimator):
        once, X, y = fitted(clone(estimator).set_params(shuffle=False, max_iter=2))
        warm = clone(once).set_params(max_iter=1, warm_start=True)
        warm.fit(X, y).fit(X, y)
        np.testing.assert_array_equal(warm.coef_, once.coef_)
        assert warm.progress_.rows == 2 * len(y)
        warm.set_params(warm_start=False).fit(X, y)
        assert warm.progress_.rows == len(y)

    def test_threads_do_not_matter(self):
        X, y = problem(4, n=3000)
        first, two = (SONClassifier(random_state=0, n_jobs=n).fit(X, y) for n in (None, 2))
        np.testing.assert_array_equal(first.coef_, two.coef_)
        np.testing.assert_array_equal(first.predict_proba(X), two.predict_proba(X))

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
        discovered = SONClassifier(discover_classes=True)
        named = SONClassifier()
        for i in range(len(y)):
            discovered.partial_fit(X[i : i + 1], y[i : i + 1])
            assert y[i] in discovered.classes_
        named.partial_fit(X, y, classes=self.LABELS)
        assert discovered.classes_.tolist() == sorted(self.LABELS)
        np.testing.assert_array_equal(discovered.decision_function(X), named.decision_function(X))
        np.testing.assert_array_equal(discovered.coef_, named.coef_)
        np.testing.assert_array_equal(discovered.predict_proba(X), named.predict_proba(X))

    def test_two_classes_that_appear_in_reverse_order(self):
        X, y = problem()
        y[:20] = 1
        discovered = SONClassifier(discover_classes=True)
        for i in range(0, len(y), 10):
            discovered.partial_fit(X[i : i + 10], y[i : i + 10])
        named = SONClassifier().partial_fit(X, y, classes=[0, 1])
        np.testing.assert_array_equal(discovered.decision_function(X), named.decision_function(X))
        np.testing.assert_array_equal(discovered.coef_, named.coef_)
        assert discovered.weights() == named.weights()

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
        with pytest.raises(InvalidInputError, match="X, row 3: feature 3: inf"):
            model.partial_fit(bad, y[100:])
        with pytest.raises(InvalidInputError, match="another type"):
            model.partial_fit(X[:1], [7])
        assert state_of(model) == before
