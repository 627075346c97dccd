"""The estimators in the company of scikit-learn, and in files."""

import copy
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

from estimator_cases import BOTH, fitted, problem
from sonline import OnlineLearner, SONClassifier, SONRegressor, persistence
from sonline.errors import InvalidInputError, ModelFileError


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
            bare = cross_validate(model, X, y, params={"sample_weight": w}, cv=3)
        assert np.isfinite(bare["test_score"]).all()
        assert pipe[-1].intercept_[0] > SONClassifier(random_state=0).fit(X, y).intercept_[0]

    @pytest.mark.skipif(
        parse_version(sklearn.__version__) < parse_version("1.8"),
        reason="scikit-learn does not ask the steps of a pipeline what its score needs before 1.8",
    )
    def test_metadata_routing_of_scores_through_a_pipeline(self):
        X, y = problem()
        with config_context(enable_metadata_routing=True):
            model = SONClassifier(random_state=0).set_fit_request(sample_weight=True)
            model.set_score_request(sample_weight=True)
            pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
            weights = {"sample_weight": np.where(y == 1, 10.0, 0.1)}
            scores = cross_validate(pipe, X, y, params=weights, cv=3)
        assert np.isfinite(scores["test_score"]).all()

    @pytest.mark.parametrize("estimator", BOTH)
    def test_clone_has_not_learned(self, estimator):
        model, X, _ = fitted(clone(estimator))
        twin = clone(model)
        assert twin.get_params() == model.get_params()
        with pytest.raises(NotFittedError):
            twin.predict(X)
        for name in ("coef_", "intercept_", "progressive_loss_", "progressive_score_"):
            assert not hasattr(twin, name)

    @pytest.mark.parametrize("estimator", BOTH)
    @pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy", "file"])
    def test_copies_continue_bit_for_bit(self, estimator, way, tmp_path):
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
        with pytest.raises(ModelFileError, match="predicts classes, not numbers"):
            SONRegressor.load(tmp_path / "model")
        with pytest.raises(NotFittedError):
            SONClassifier().save(tmp_path / "other")

    @pytest.mark.parametrize(
        "damage",
        [
            lambda d, t: d.pop("classes"),
            lambda d, t: d["classes"].update(labels=[0, 0, 1]),
            lambda d, t: d["classes"].update(labels=[0, 1]),
            lambda d, t: d["classes"].update(labels=[0, [1], 2]),
            lambda d, t: d["face"]["arguments"].update(sketch="big"),
            lambda d, t: d["face"]["arguments"].update(colour="red"),
            lambda d, t: d["progress"]["loss"].pop("rows"),
            lambda d, t: t.pop("names.bytes"),
            lambda d, t: t.pop("1.blocks"),
            lambda d, t: t.update({"1.blocks": t["1.blocks"][:-1]}),
        ],
    )
    def test_files_that_do_not_fit_together(self, damage, tmp_path):
        model, *_ = fitted(clone(BOTH[0]))
        model.save(tmp_path / "model")
        document, tensors = persistence.read(tmp_path / "model")
        damage(document, tensors)
        persistence.write(tmp_path / "damaged", document, tensors)
        with pytest.raises(ModelFileError, match="damaged: "):
            SONClassifier.load(tmp_path / "damaged")

    def test_labels_that_no_file_can_hold(self, tmp_path):
        X, y = problem()
        model = SONClassifier().fit(X, np.array(["2020-01-01", "2021-01-01"], "M8[D]")[y])
        with pytest.raises(InvalidInputError, match=r"datetime64.* cannot be written"):
            model.save(tmp_path / "x.son")
        assert list(tmp_path.iterdir()) == []


def test_booleans_meet_their_words(tmp_path):
    frame = pd.DataFrame({"a": np.arange(60.0) % 7, "b": np.arange(60.0) % 3})
    y = frame["a"] > 3
    table = frame.assign(label=y)
    table.to_csv(tmp_path / "b.csv", index=False)
    table.to_json(tmp_path / "b.jsonl", orient="records", lines=True)
    files = [tmp_path / "b.csv", tmp_path / "b.jsonl"]
    SONClassifier(random_state=0).fit(frame, y).save(tmp_path / "sk.son")
    models = [tmp_path / "sk.son"]
    for number, file in enumerate(files):
        learner = OnlineLearner()
        learner.learn_stream(file)
        learner.save(tmp_path / f"{number}.son")
        models.append(tmp_path / f"{number}.son")
    for model in models:
        loaded = SONClassifier.load(model)
        assert loaded.score(frame, y) > 0.9
        classes = loaded.classes_.tolist()
        assert loaded.partial_fit(frame, y).classes_.tolist() == classes
        assert loaded.score(frame, loaded.predict(frame)) == 1
        for file in files:
            learner = OnlineLearner.load(model)
            assert learner.learn_stream(file).error.average < 0.1
            assert learner.classes == classes
            assert learner.learn(frame, y).shape == (60,)


@pytest.mark.parametrize("kind", [SONClassifier, SONRegressor])
def test_columns_of_a_model_of_another_face(kind, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    y = (frame["a"] > 0).astype(int)
    learner = OnlineLearner(loss="squared" if kind is SONRegressor else "logistic")
    learner.learn(frame, y)
    learner.save(tmp_path / "m.son")
    model = kind.load(tmp_path / "m.son")
    with pytest.raises(AttributeError, match=r"by name \(such as 'a'\) but no columns yet"):
        model.coef_  # noqa: B018
    with pytest.raises(InvalidInputError):
        model.partial_fit(frame.assign(a="x"), y)
    assert not hasattr(model, "n_features_in_")
    model.partial_fit(frame[["b", "a", "c"]], y)
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["b", "a", "c"]
    weights = model.weights()
    np.testing.assert_allclose(np.ravel(model.coef_), [weights[name] for name in "bac"])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["a", "b"]])
    pytest.importorskip("onnx")
    assert model.to_onnx().graph.input[0].name == "X"
