import math
import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("river", reason="River is an extra")

from river import compose, datasets, evaluate, linear_model, metrics, preprocessing

from sonline import OnlineLearner
from sonline.errors import InvalidInputError, ModelFileError, ParameterError
from sonline.parameters import Parameters
from sonline.river import SONClassifier, SONRegressor


def stream(labels, n=300, d=6, seed=0):
    """Rows of a problem whose labels appear one after another."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(d, len(labels)))
    for i in range(n):
        x = {f"f{j}": float(v) for j, v in enumerate(rng.normal(size=d)) if v > -0.5}
        scores = sum(v * W[int(name[1:])] for name, v in x.items()) + np.zeros(len(labels))
        yield x, labels[int(np.argmax(scores[: 1 + i // 20]))]


def state_of(model):
    return pickle.dumps(model)


def learn_all(model, rows, w=1.0):
    for x, y in rows:
        model.learn_one(x, y, w)
    return model


LABELS = {
    "bool": [False, True],
    "numpy bool": [np.bool_(False), np.bool_(True)],
    "int": [3, 1, 2, 0],
    "str": ["pear", "fig", "apple"],
    "tuple": [("a", 1), ("b", 2)],
}


class TestParameters:
    @pytest.mark.parametrize("model", [SONClassifier(), SONRegressor()])
    def test_each_parameter_of_the_learner_is_there_with_its_default(self, model):
        missing = {name for name in Parameters.names() if not hasattr(model, name)}
        assert missing <= {"quantile", "power", "delta", "epsilon"}
        for name in set(Parameters.names()) - missing - {"loss", "dtype"}:
            assert getattr(model, name) == getattr(Parameters(), name)

    def test_bad_ones_are_errors_at_once(self):
        with pytest.raises(ParameterError, match="'quantile'"):
            SONClassifier(loss="quantile")
        with pytest.raises(ParameterError, match="'hinge'"):
            SONRegressor(loss="hinge")
        with pytest.raises(ParameterError, match="sketch_size"):
            SONRegressor(sketch_size=-2)


class TestClassifier:
    def test_booleans_are_one_learner(self):
        model, learner = SONClassifier(), OnlineLearner(dtype="float64")
        for x, y in stream([False, True]):
            predicted = model.predict_one(x)
            model.learn_one(x, y)
            assert predicted in (None, learner.learn_one(x, 1 if y else -1) > 0)
        assert model.weights() == learner.weights()
        assert model.weights(False) == {k: -v for k, v in learner.weights().items()}
        chances = model.predict_proba_one(x)
        next_row = learner.learn_one(x, 1, 0.0)  # weight 0: only predicted
        assert chances[True] == pytest.approx(1 / (1 + math.exp(-next_row)))

    @pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
    @pytest.mark.parametrize("size", [1, 7, 300])
    def test_learn_many_is_a_loop(self, labels, size):
        rows = list(stream(labels))
        loop, batches = SONClassifier(sketch_size=3), SONClassifier(sketch_size=3)
        names = [f"f{j}" for j in range(6)]
        filled = [({name: x.get(name, 0.0) for name in names}, y) for x, y in rows]
        learn_all(loop, filled, w=0.5)
        for start in range(0, len(rows), size):
            part = filled[start : start + size]
            X = pd.DataFrame([x for x, _ in part])
            y = pd.Series([y for _, y in part])
            batches.learn_many(X, y, w=0.5)
        X = pd.DataFrame([x for x, _ in filled])
        for x, _ in filled:
            assert batches.predict_proba_one(x) == loop.predict_proba_one(x)
        for label in loop.predict_proba_one(x):
            assert batches.weights(label) == loop.weights(label)
        assert batches.predict_many(X).tolist() == [loop.predict_one(x) for x, _ in filled]
        many = batches.predict_proba_many(X)
        assert many.iloc[5].to_dict() == loop.predict_proba_one(filled[5][0])

    def test_labels_that_appear_are_as_if_known_from_the_start(self):
        rows = list(stream(["a", "b", "c", "d"]))
        late = learn_all(SONClassifier(), rows)
        early = SONClassifier()
        # A row of weight 0 makes a label known and changes nothing else.
        for label in ("a", "b", "c", "d"):
            early.learn_one({}, label, 0.0)
        learn_all(early, rows)
        for x, _ in rows:
            assert late.predict_proba_one(x) == early.predict_proba_one(x)

    def test_before_and_after_the_first_label(self):
        model = SONClassifier()
        assert model.predict_one({"a": 1.0}) is None
        assert model.predict_proba_one({"a": 1.0}) == {}
        assert model.predict_proba_many(pd.DataFrame({"a": [1.0]})).shape == (1, 0)
        model.learn_one({"a": 1.0}, "x")
        assert model.predict_one({"b": 1.0}) == "x"
        assert model.predict_proba_one({"b": 1.0}) == {"x": 1.0}

    def test_other_losses_have_no_probabilities(self):
        model = learn_all(SONClassifier(loss="hinge"), stream(["a", "b", "c"]))
        assert model.predict_one({"f0": 1.0}) in {"a", "b", "c"}
        with pytest.raises(NotImplementedError, match="loss='logistic'"):
            model.predict_proba_one({"f0": 1.0})
        with pytest.raises(NotImplementedError, match="loss='logistic'"):
            model.predict_proba_many(pd.DataFrame({"f0": [1.0]}))

    def test_company(self):
        pipe = (
            compose.Select("empty_server_form_handler", "popup_window", "https") | SONClassifier()
        )
        score = evaluate.progressive_val_score(datasets.Phishing(), pipe, metrics.Accuracy())
        assert score.get() > 0.7
        scaled = preprocessing.StandardScaler() | SONClassifier()
        score = evaluate.progressive_val_score(datasets.Phishing(), scaled, metrics.ROCAUC())
        assert score.get() > 0.93
        images = evaluate.progressive_val_score(
            datasets.ImageSegments(), SONClassifier(), metrics.Accuracy()
        )
        assert images.get() > 0.8

    def test_text_columns(self):
        model = SONClassifier()
        X = pd.DataFrame({"colour": ["red", "blue"] * 20, "size": [1, 2] * 20})
        model.learn_many(X, pd.Series(["stop", "go"] * 20))
        assert model.predict_one({"colour": "red", "size": 1}) == "stop"
        assert set(model.weights()) == {"colour=red", "colour=blue", "size"}


class TestRegressor:
    def test_learn_many_is_a_loop(self):
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcd"))
        y = X @ [1.0, 2.0, 0.0, -1.0] + 5
        w = pd.Series(rng.random(200))
        loop, batch = SONRegressor(), SONRegressor()
        for i in range(200):
            loop.learn_one(X.iloc[i].to_dict(), y[i], w[i])
        batch.learn_many(X, y, w)
        assert state_of(loop) == state_of(batch)
        expected = [loop.predict_one(X.iloc[i].to_dict()) for i in range(200)]
        assert batch.predict_many(X).tolist() == expected
        assert batch.predict_many(X).index.equals(X.index)
        assert batch.predict_many(X[:0]).tolist() == []

    def test_a_frame_of_dates_only_is_a_loop(self):
        """Its cells were read as the numbers that NumPy has for them."""
        dates = pd.date_range("2024-01-01", periods=40, freq="7h")
        X = pd.DataFrame({"when": dates.astype("datetime64[ns]")})
        y = pd.Series(np.arange(40.0))
        loop, batch = SONRegressor(), SONRegressor()
        for i in range(40):
            loop.learn_one(X.iloc[i].to_dict(), y[i])
        batch.learn_many(X, y)
        assert state_of(loop) == state_of(batch)
        assert "when.day_sin" in batch.weights()

    def test_better_than_gradient_descent_without_scaling(self):
        def mae(model):
            return evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())

        plain = mae(preprocessing.StandardScaler() | linear_model.LinearRegression())
        assert mae(SONRegressor()).get() < plain.get()


class TestFiles:
    @pytest.mark.parametrize("name", ["bool", "int", "str"])
    def test_classifier_continues_bit_for_bit(self, name, tmp_path):
        rows = list(stream(LABELS[name]))
        model = learn_all(SONClassifier(sketch_size=4), rows[:150])
        model.save(tmp_path / "model")
        twin = SONClassifier.load(tmp_path / "model")
        assert repr(twin) == repr(model)
        for each in (model, twin):
            learn_all(each, rows[150:])
        for x, _ in rows:
            assert twin.predict_proba_one(x) == model.predict_proba_one(x)

    def test_regressor_continues_bit_for_bit(self, tmp_path):
        rows = [(x, float(len(x))) for x, _ in stream([0, 1])]
        model = learn_all(SONRegressor(hash_bits=20), rows[:150])
        model.save(tmp_path / "model")
        twin = SONRegressor.load(tmp_path / "model")
        for each in (model, twin):
            learn_all(each, rows[150:])
        assert twin.weights() == model.weights()

    def test_files_that_cannot_be_written(self, tmp_path):
        model = learn_all(SONClassifier(), stream(LABELS["tuple"]))
        with pytest.raises(InvalidInputError, match="use pickle"):
            model.save(tmp_path / "model")
        SONRegressor().save(tmp_path / "model")
        with pytest.raises(ModelFileError, match="predicts numbers, not classes"):
            SONClassifier.load(tmp_path / "model")


class TestRowsOfRiver:
    """What River's own transformers give."""

    @pytest.mark.parametrize("kind", [SONClassifier, SONRegressor])
    def test_missing_values_are_absent(self, kind):
        with_gaps, without = kind(), kind()
        for number in range(20):
            row, label = {"a": 1.0, "b": number / 4}, number % 3
            with_gaps.learn_one(row | {"c": float("nan"), "d": None}, label)
            without.learn_one(row, label)
        assert state_of(with_gaps) == state_of(without)
        gaps = {"a": 1.0, "c": float("nan")}
        assert with_gaps.predict_one(gaps) == without.predict_one({"a": 1.0})

    @pytest.mark.parametrize("kind", [SONClassifier, SONRegressor])
    def test_names_may_be_tuples(self, kind):
        model = kind()
        for number in range(20):
            row = {("not", "good"): number % 2, ("very", "good"): 1 - number % 2, "n": 1}
            model.learn_one(row, number % 2)
        assert set(model.model.features()) == {"('not', 'good')", "('very', 'good')", "n"}
        rows = [{("not", "good"): 1}, {("very", "good"): 1}]
        assert model.predict_one(rows[0]) > model.predict_one(rows[1])
        assert list(model.explain_one({("not", "good"): 1}, 1 if kind is SONClassifier else None))

    @pytest.mark.parametrize("kind", [SONClassifier, SONRegressor])
    def test_weights_before_the_first_row(self, kind):
        model = kind()
        assert model.weights() == {}
        assert sum(model.explain_one({"a": 1.0}).values()) == 0

    def test_a_third_label_after_true_and_false(self):
        model = SONClassifier()
        model.learn_one({"a": 1.0}, True)
        with pytest.raises(InvalidInputError, match="after True or False there are only these two"):
            model.learn_one({"a": 1.0}, 2)


class TestBadInput:
    """A clear error, and the model as it was before the call."""

    @pytest.mark.parametrize(
        ("x", "y", "w", "match"),
        [
            ({"f0": float("inf")}, "a", 1.0, "not a finite number"),
            ({"f0": 1.0, "new": []}, "a", 1.0, "feature 'new': expected a number"),
            ({"f0": float("inf")}, "new", 1.0, "not a finite number"),
            ({"f0": 1.0}, None, 1.0, "None is not a label"),
            ({"f0": 1.0}, float("nan"), 1.0, "nan is not a label"),
            ({"f0": 1.0}, 7, 1.0, "label 7 is of another type"),
            ({"f0": 1.0}, ["a"], 1.0, "a label must be a number or a text"),
            ({"f0": 1.0}, "a", -1.0, "w, row 0: the weight -1 is not a number from 0"),
            ({"f0": 1.0}, "new", float("inf"), "w, row 0: the weight inf is not a number from 0"),
            ("f0", "a", 1.0, "a row must be a mapping"),
            (None, "a", 1.0, "a row must be a mapping"),
            ({"f0": 1.0}, np.int64(3), 1.0, "label 3 is of another type"),
            ({1.5: 1.0}, "a", 1.0, "a feature must be a string or an integer"),
        ],
    )
    def test_rows(self, x, y, w, match):
        model = learn_all(SONClassifier(), stream(["a", "b", "c"]))
        before = state_of(model)
        with pytest.raises(InvalidInputError, match=match):
            model.learn_one(x, y, w)
        assert state_of(model) == before

    def test_batches(self):
        model = learn_all(SONClassifier(), stream(["a", "b", "c"]))
        before = state_of(model)
        X = pd.DataFrame({"f0": [1.0, 2.0], "g": [3.0, np.inf]})
        for labels in (["a", "new"], ["a"], ["a", 7]):
            with pytest.raises(InvalidInputError):
                model.learn_many(X, pd.Series(labels, dtype=object))
        for w in ([1.0, 2.0, 3.0], pd.Series([1.0]), [[1.0, 1.0]]):
            with pytest.raises(InvalidInputError, match="w must"):
                model.learn_many(X.replace(np.inf, 0.0), pd.Series(["a", "b"]), w=w)
        X.columns = ["f0", "f0"]
        with pytest.raises(InvalidInputError, match="columns of the same name"):
            model.learn_many(X.replace(np.inf, 0.0), pd.Series(["a", "b"]))
        assert state_of(model) == before

    def test_predict(self):
        model = learn_all(SONClassifier(), stream(["a", "b", "c"]))
        before = state_of(model)
        for predict in (model.predict_one, model.predict_proba_one):
            for row in (None, "f0", 3, {"f0": float("inf")}, {"f0": []}, {None: 1.0}):
                with pytest.raises(InvalidInputError):
                    predict(row)
        assert state_of(model) == before

    def test_labels_of_numpy_beside_tuples(self):
        model = learn_all(SONClassifier(), [({"a": 1.0}, ("x", 1)), ({"a": 2.0}, np.int64(1))])
        assert set(model.predict_proba_one({"a": 1.0})) == {("x", 1), 1}

    def test_more_than_true_and_false(self):
        model = learn_all(SONClassifier(), stream([False, True]))
        before = state_of(model)
        with pytest.raises(InvalidInputError, match="y, row 0: label 2 is not among"):
            model.learn_one({"f0": 1.0}, 2)
        assert state_of(model) == before

    def test_numbers(self):
        model = learn_all(SONRegressor(), [({"a": 1.0}, 2.0)])
        before = state_of(model)
        for y in (float("nan"), float("inf")):
            with pytest.raises(InvalidInputError, match="y"):
                model.learn_one({"a": 1.0}, y)
        with pytest.raises(InvalidInputError, match=r"NaN|finite"):
            model.learn_many(pd.DataFrame({"a": [np.inf]}), pd.Series([1.0]))
        assert state_of(model) == before
