import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification, make_regression

from sonline import SONClassifier, SONRegressor
from sonline.errors import InvalidInputError

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX is an extra")
to_onnx = pytest.importorskip("sonline.export", reason="ONNX is an extra").to_onnx


def run(model, X):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    values = session.run(None, {"X": X.astype(np.float32)})
    return {output.name: value for output, value in zip(session.get_outputs(), values, strict=True)}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clip": True},
        {"bound": 0.7, "alpha": "relative:1"},
        {"bound": 0.7, "alpha": "relative:1", "clip": True},
        {"fit_intercept": False},
    ],
)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("discover", [False, True])
def test_classifier(classes, loss, options, discover):
    X, y = make_classification(300, 8, n_informative=6, n_classes=classes, random_state=0)
    X = X.astype(np.float32)
    labels = np.array(["c", "a", "b"])[y]
    model = SONClassifier(loss, dtype="float64", discover_classes=discover, **options)
    model.partial_fit(X[:10], labels[:10], classes=None if discover else np.unique(labels))
    model.partial_fit(X[10:], labels[10:])
    predictions = run(model.to_onnx(), X)
    scores = model.decision_function(X)
    scores = np.column_stack([-scores, scores]) if classes == 2 else scores
    np.testing.assert_allclose(predictions["scores"], scores, rtol=1e-4, atol=1e-4)
    clear = np.diff(np.sort(scores, axis=1)[:, -2:]).ravel() > 1e-3
    np.testing.assert_array_equal(predictions["labels"][clear], model.predict(X)[clear])
    if loss == "logistic":
        np.testing.assert_allclose(predictions["probabilities"], model.predict_proba(X), atol=1e-4)
    else:
        assert "probabilities" not in predictions


@pytest.mark.parametrize("options", [{}, {"clip": True}])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_means(loss, options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    y = rng.poisson(np.exp(0.3 * X[:, 0])) + (loss == "gamma")
    model = SONRegressor(loss, dtype="float64", random_state=0, **options).fit(X, y)
    np.testing.assert_allclose(run(model.to_onnx(), X)["predictions"], model.predict(X), rtol=1e-3)


@pytest.mark.parametrize("options", [{}, {"clip": True}, {"bound": 50.0, "alpha": "relative:1"}])
def test_regressor(options, tmp_path):
    X, y = make_regression(300, 8, random_state=0)
    X = X.astype(np.float32)
    model = SONRegressor(dtype="float64", random_state=0, **options).fit(X, y)
    written = model.to_onnx(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == written.SerializeToString()
    far = 3 * X
    expected = model.predict(far)
    unit = np.abs(expected).max()  # ONNX adds up in float32
    np.testing.assert_allclose(run(written, far)["predictions"], expected, rtol=0, atol=1e-6 * unit)
    if options:
        low, high = model.prediction_range()
        assert (model.predict(far) == high[0]).any() or (model.predict(far) == low[0]).any()


def test_whole_numbers_are_labels():
    X, y = load_iris(return_X_y=True)
    model = SONClassifier(random_state=0).fit(X, y)
    predictions = run(to_onnx(model), X)
    assert predictions["labels"].dtype == np.int64
    assert np.mean(predictions["labels"] == model.predict(X)) > 0.99


def test_models_that_cannot_be_exported():
    with pytest.raises(InvalidInputError, match="fitted SONClassifier"):
        to_onnx(SONClassifier())
    bounded = SONRegressor(bound=1.0, alpha="auto").fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(InvalidInputError, match=r"blend of . linear models, each bounded"):
        to_onnx(bounded)


def test_a_model_that_is_not_linear_yet_is_not_exported():
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1, 10, 100]
    y = X[:, 0] > 0
    model = SONClassifier(discover_classes=True).partial_fit(X[:15], y[:15])
    with pytest.raises(InvalidInputError, match="no feature has occurred 16 times yet"):
        model.to_onnx()
    model.partial_fit(X[15:16], y[15:16])
    scores = run(model.to_onnx(), X)["scores"][:, 1]
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-4)
    unscaled = SONClassifier(scaling="none", discover_classes=True).partial_fit(X[:5], y[:5])
    scores = run(unscaled.to_onnx(), X)["scores"][:, 1]
    np.testing.assert_allclose(scores, unscaled.decision_function(X), rtol=1e-4, atol=1e-4)


def test_rare_features_of_an_exported_model():
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1, 10, 100]
    y = X[:, 0] > 0
    X[5:, 1], X[5:, 2] = 0, 0
    with pytest.warns(UserWarning, match="2 of 3 features have occurred fewer than 16 times"):
        SONClassifier(random_state=0).fit(X, y).to_onnx()
    X[:5, 1:] = 1  # dummies
    model = SONClassifier(random_state=0).fit(X, y)
    scores = run(model.to_onnx(), X)["scores"][:, 1]
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-4)
