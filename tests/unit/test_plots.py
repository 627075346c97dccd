import numpy as np
import pytest
from sklearn.datasets import load_iris, make_regression

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import InvalidInputError

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is an extra")
plots = pytest.importorskip("sonline.plots", reason="matplotlib is an extra")
plt.switch_backend("agg")


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def drawn(figure):
    figure.canvas.draw()
    return [axes.get_title() for axes in figure.axes]


def test_report_of_a_classifier_of_three():
    model = SONClassifier(random_state=0, sketch_size=4).fit(*load_iris(return_X_y=True))
    figure = model.report()
    assert drawn(figure) == ["Progressive loss", "Spectrum of the sketch", "Largest weights"]
    curve, spectrum, weights = figure.axes
    np.testing.assert_array_equal(curve.lines[0].get_xdata(), [1, 2, 4, 8, 16, 32, 64, 128, 150])
    assert curve.lines[0].get_ydata()[-1] == model.progressive_loss_
    assert len(spectrum.lines) == 3
    np.testing.assert_array_equal(spectrum.lines[1].get_ydata(), model.spectra()[1])
    sizes = [bar.get_width() for bar in weights.patches]
    assert sorted(sizes, key=abs) == sizes
    assert len(sizes) == model.coef_.size
    scaled = [w for label in range(3) for w in model.weights(label, scaled=True).values()]
    assert max(sizes, key=abs) == max(scaled, key=abs)


def test_report_of_numbers_and_of_a_bare_learner():
    X, y = make_regression(100, 30, random_state=0)
    model = SONRegressor(random_state=0).fit(X, y)
    assert len(drawn(model.report())) == 3
    learner = OnlineLearner(loss="squared")
    learner.learn(X, y)
    assert drawn(plots.report(learner)) == ["Spectrum of the sketch", "Largest weights"]
    axes = plots.largest_weights(learner, count=5, ax=plt.figure().add_subplot())
    assert len(axes.patches) == 5


def test_an_empty_spectrum():
    X, y = make_regression(50, 5, random_state=0)
    model = SONRegressor(sketch_size=0, random_state=0).fit(X, y)
    assert len(drawn(model.report())) == 3


def test_a_learner_keeps_no_curve():
    with pytest.raises(InvalidInputError, match="OnlineLearner does not keep"):
        plots.loss_curve(OnlineLearner())
