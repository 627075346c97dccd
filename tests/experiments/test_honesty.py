"""The promise of the default: the model you keep is the model that was measured."""

import functools

import numpy as np
import pytest
from benchmarks.accuracy.generated import hyperplane, imbalanced, label_runs
from benchmarks.accuracy.protocol import with_delay
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import recall_score, roc_auc_score

from sonline import OnlineLearner, SONClassifier
from sonline.paper import datasets
from sonline.paper.datasets.contents import read
from sonline.paper.experiments import ill_conditioned

SINGLE = ("relative:0.01", "relative:0.03", "relative:0.1", "relative:1")
CLOSE = 1.05  # times the best single alpha
# Streams in the order of their file that miss this aim, and by how much; labels come so many rows
# late (0: frozen). docs/decisions/one-mixture.md has the reason.
MISSED = {("covtype", 0): 1.35, ("covtype", 1000): 1.11, ("ijcnn1", 1000): 1.11}


def wrong(predictions, y) -> float:
    return float(np.mean((predictions > 0) != (y > 0)))


def frozen_error(X, y, **parameters) -> float:
    """Return the error on the last quarter of the model of the rows before."""
    cut = 3 * y.size // 4
    learner = OnlineLearner(**parameters)
    learner.learn(X[:cut], y[:cut])
    return wrong(learner.predict(X[cut:]), y[cut:])


def late_error(X, y, delay: int, **parameters) -> float:
    """Return the error if each label arrives this many rows late."""
    return wrong(with_delay(OnlineLearner(**parameters), X, y, delay), y[delay:])


def best_single(error, *arguments) -> float:
    return min(error(*arguments, alpha=alpha) for alpha in SINGLE)


def check_close(name: str, delay: int, error: float, best: float) -> None:
    """Check that the default is close to the best alpha, or misses it by no more than is known."""
    if CLOSE * best < error <= MISSED.get((name, delay), 0) * best:
        pytest.xfail(f"{error / best:.3f} times the best alpha")
    assert error <= CLOSE * best


# -- the order of the labels -----------------------------------------------------------------------


def test_labels_in_runs_are_not_in_the_frozen_model():
    X, y = label_runs(n=16_000)
    assert frozen_error(X, y) <= CLOSE * best_single(frozen_error, X, y)


@pytest.mark.parametrize(("delay", "rows"), [(1, 3_000), (100, 8_000), (1000, 8_000)])
def test_labels_in_runs_that_come_late(delay, rows):
    """In the mean of eight streams: the best of several alphas on a few of them is chance.

    The mixture loses here: it is up to 1.13 times as wrong (docs/decisions/one-mixture.md).
    """
    streams = [label_runs(n=rows, seed=seed) for seed in range(8)]

    def error(**parameters) -> float:
        return float(np.mean([late_error(X, y, delay, **parameters) for X, y in streams]))

    assert error() <= 1.15 * best_single(error)


@pytest.fixture(scope="module")
def ordered(data_dir):
    @functools.cache
    def load(name: str):
        path = data_dir / "drift" / f"{name}.svm.gz"
        if path.exists():
            X, y = read(path)
        elif datasets.locate(name, data_dir) is not None:
            data = datasets.load(name, data_dir, download=False)
            X, y = data.X, data.y
        else:
            pytest.skip(f"the folder has no {name}")
        return X[:20_000], np.where(y[:20_000] > 0, 1.0, -1.0)

    return load


@pytest.mark.data
@pytest.mark.parametrize("name", ["covtype", "ijcnn1", "magic04", "w8a", "elec"])
def test_rows_in_the_order_of_their_file_frozen(ordered, name):
    X, y = ordered(name)
    check_close(name, 0, frozen_error(X, y), best_single(frozen_error, X, y))


@pytest.mark.data
@pytest.mark.parametrize("delay", [100, 1000])
@pytest.mark.parametrize("name", ["covtype", "ijcnn1", "magic04", "w8a", "weather"])
def test_rows_in_the_order_of_their_file_with_late_labels(ordered, name, delay):
    X, y = ordered(name)
    error, best = late_error(X, y, delay), best_single(late_error, X, y, delay)
    check_close(name, delay, error, best)


# -- weak signals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(500, 20), (500, 50), (1500, 100), (5000, 500)])
def test_weak_signals_are_not_called_certain(rows, columns):
    """A constant has a log loss of .693; without shrinkage the default had .87 to 1.03."""
    losses = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(rows, columns)), rng.normal(size=columns) / np.sqrt(5 * columns)
        y = np.where(X @ w + rng.logistic(size=rows) > 0, 1.0, -1.0)
        losses.append(np.logaddexp(0, -y * OnlineLearner().learn(X, y)).mean())
    assert np.mean(losses) < 0.74


def test_weak_signals_of_a_regression():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 50)), rng.normal(size=500)
    predictions = OnlineLearner(loss="squared").learn(X, y)
    assert np.mean((predictions - y) ** 2) < 1.12 * y.var()


@pytest.mark.parametrize("offset", [0, 5, 15])
def test_columns_with_offsets_beside_categories(offset):
    rng = np.random.default_rng(0)
    columns, categories = rng.normal(size=(2000, 10)), np.eye(20)[rng.integers(0, 20, 2000)]
    y = columns @ rng.normal(size=10) + categories @ rng.normal(size=20) + rng.normal(size=2000)
    X = np.hstack([columns + offset, categories])
    learner = OnlineLearner(loss="squared")
    learner.learn(X[:1400], y[:1400])
    least_squares = LinearRegression().fit(X[:1400], y[:1400])
    best = np.mean((least_squares.predict(X[1400:]) - y[1400:]) ** 2)
    assert np.mean((learner.predict(X[1400:]) - y[1400:]) ** 2) < 1.05 * best


# -- classes that change ---------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "most"), [(2_000, 0.2), (8_000, 0.07)])
def test_a_rule_that_turns_is_followed(period, most):
    """The angle between the rule and its weights grows by 180 degrees in half a period."""
    rng = np.random.default_rng(0)
    rows = 12_000
    X, angle = rng.normal(size=(rows, 10)), np.arange(rows) * 2 * np.pi / period
    target = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) + 0.05 * rng.normal(size=rows)
    assert wrong(OnlineLearner().learn(X, np.sign(target)), target) <= most


def test_a_rule_that_changes_every_1000_rows_is_followed():
    rng = np.random.default_rng(1)
    X, rules = rng.normal(size=(12_000, 10)), rng.normal(size=(12, 10))
    target = np.einsum("nd,nd->n", X, rules[np.arange(12_000) // 1000])
    assert wrong(OnlineLearner().learn(X, np.sign(target)), target) <= 0.13


@pytest.mark.parametrize("speed", [0.001, 0.01])
def test_a_hyperplane_that_drifts_is_followed(speed):
    """5 % of the labels are wrong; steps that only shrink have 17 to 22 % errors."""
    X, y = (part[:20_000] for part in hyperplane(speed))
    assert wrong(OnlineLearner().learn(X, y), y) <= 0.12
    assert wrong(OnlineLearner(alpha="relative:0.1").learn(X, y), y) > 0.17


# -- rare positives ------------------------------------------------------------------------------


@functools.cache
def balanced(rate: float, rows: int):
    """Return recall and area under the ROC curve, of the default and of a batch learner.

    Of the default in the mean of four orders of the rows.
    """
    X, y = imbalanced(rate, n=rows)
    cut = 3 * y.size // 4

    def evaluated(model) -> tuple[float, float]:
        model.fit(X[:cut], y[:cut])
        labels, margins = model.predict(X[cut:]), model.decision_function(X[cut:])
        return recall_score(y[cut:], labels), roc_auc_score(y[cut:], margins)

    orders = [evaluated(SONClassifier(class_weight="balanced", random_state=i)) for i in range(4)]
    return np.mean(orders, axis=0), evaluated(LogisticRegression(class_weight="balanced"))


# Rate, rows, and how far the recall may be below. The fewer positives, the more the order of the
# rows counts: with 500 of them, and 20 features, one pass is not quite enough.
RATES = [
    (0.03, 100_000, 0.02),
    (0.007, 200_000, 0.02),
    pytest.param(0.007, 100_000, 0.04, marks=pytest.mark.long),
    pytest.param(0.001, 200_000, 0.06, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("rate", "rows", "margin"), RATES)
def test_balanced_classes_find_rare_positives_as_a_batch_learner_does(rate, rows, margin):
    (recall, area), (batch_recall, batch_area) = balanced(rate, rows)
    assert recall >= batch_recall - margin
    assert area >= batch_area - 0.02


def test_only_the_ratios_of_weights_count():
    """Powers of two change no digit."""
    X, y = imbalanced(0.1, n=3000)
    weights = np.random.default_rng(0).uniform(0.1, 5, y.size)
    raw = [OnlineLearner().learn(X, y, unit * weights) for unit in (1, 2.0**10, 2.0**-10)]
    np.testing.assert_allclose(raw[1:], [raw[0]] * 2, rtol=1e-4, atol=1e-4)


def test_extreme_weights():
    X, y = imbalanced(0.3, n=200)
    for weight in (1e-200, 1e9):
        assert np.isfinite(OnlineLearner().learn(X, y, np.full(y.size, weight))).all()


@pytest.mark.parametrize("rate", [0.001, 0.03])
def test_mean_probability_of_the_frozen_model_is_the_base_rate(rate):
    X, y = imbalanced(rate, n=200_000)
    learner = OnlineLearner()
    learner.learn(X, y)
    probabilities = 1 / (1 + np.exp(-learner.predict(X)))
    assert probabilities.mean() == pytest.approx(np.mean(y > 0), rel=0.1)


# -- regression ------------------------------------------------------------------------------------


def plane(rows: int = 12_000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 8))
    return X, X @ rng.normal(size=8) + 0.5 * rng.normal(size=rows)


@pytest.mark.parametrize("where", ["feature", "target"])
@pytest.mark.parametrize("at", [200, 6000])
def test_one_outlier_costs_little_and_nothing_later(where, at):
    X, y = plane()
    clean = (OnlineLearner(loss="squared").learn(X, y) - y) ** 2
    if where == "feature":
        X[at, 3] = 1e6
    else:
        y[at] += 1e6 * y.std()
    dirty = (OnlineLearner(loss="squared").learn(X, y) - y) ** 2
    next_rows = slice(at + 1, at + 1001)
    assert dirty[next_rows].mean() <= 2 * clean[next_rows].mean()
    assert dirty[at + 1001 :].mean() <= 1.01 * clean[at + 1001 :].mean()


@pytest.mark.parametrize("loss", ["squared", "quantile"])
@pytest.mark.parametrize("rows", [1000, 12_000])
def test_offset_and_unit_of_the_target_do_not_count(loss, rows):
    X, y = plane(rows)

    def explained(offset: float, unit: float) -> float:
        target = (y + offset * y.std()) * unit
        error = OnlineLearner(loss=loss).learn(X, target) - target
        return 1 - np.mean(error[1:] ** 2) / target.var()  # nothing is known before the first

    plain = explained(0, 1)
    for offset in (0, 100, 1e5):
        for unit in (1, 2.0**20, 1e-3):
            assert explained(offset, unit) == pytest.approx(plain, abs=0.005)


# -- numbers that change, grow or have long tails --------------------------------------------------


def explained(predictions, y) -> float:
    return 1 - float(np.mean((predictions - y) ** 2) / y.var())


@pytest.mark.parametrize("change", ["level", "sign of a weight", "all weights"])
def test_numbers_that_change_are_followed_within_500_rows(change):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(10_000, 10)), rng.normal(size=10)
    after = {"level": w, "sign of a weight": w * np.r_[-1, np.ones(9)], "all weights": w[::-1]}
    new = np.arange(10_000) >= 6000
    y = np.where(new, X @ after[change] + 10 * (change == "level"), X @ w)
    y += 0.5 * rng.normal(size=y.size)
    predictions = OnlineLearner(loss="squared").learn(X, y)
    clean = explained(predictions[5000:6000], y[5000:6000])
    assert explained(predictions[6500:7500], y[6500:7500]) >= clean - 0.02


def test_trend_over_the_number_of_the_row_is_followed():
    rng = np.random.default_rng(0)
    n, noise = 20_000, 0.3
    X = np.column_stack([np.arange(1.0, n + 1), rng.normal(size=(n, 4))])
    y = 0.002 * X[:, 0] + X[:, 1] - 2 * X[:, 2] + noise * rng.normal(size=n)
    errors = OnlineLearner(loss="squared").learn(X, y) - y
    assert np.mean(errors[1000:] ** 2) <= 1.5 * noise**2


def test_frozen_regression_with_a_column_that_grows():
    """50 rows cannot tell the slope over such a column, nor that of a year: they must not try."""
    scores = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = np.column_stack(
            [np.arange(4000), rng.integers(2010, 2026, 4000), rng.normal(size=4000)]
        )
        y = X @ [0.001, 0.3, 2] + 0.3 * rng.normal(size=4000)
        learner = OnlineLearner(loss="squared")
        learner.learn(X[:3000], y[:3000])
        scores.append(explained(learner.predict(X[3000:]), y[3000:]))
    assert np.mean(scores) >= 0.5
    assert min(scores) > 0


def test_long_tails_are_learned():
    """The median of some streams: a value far beyond all others may still be cut."""
    ratios = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=20_000), rng.lognormal(3, 1, 20_000)])
        y = X @ [3, 2] + 5 * rng.normal(size=20_000)
        learner = OnlineLearner(loss="squared")
        learner.learn(X[:10_000], y[:10_000])
        ratios.append(np.sqrt(np.mean((learner.predict(X[10_000:]) - y[10_000:]) ** 2)) / 5)
    assert np.median(ratios) <= 1.1


@pytest.mark.parametrize("offset", [0, 100, 1000])
def test_columns_with_offsets_are_learned(offset):
    """Such as years, temperatures in kelvin and pressures."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=5000)
    learner = OnlineLearner(loss="squared")
    learner.learn(X[:4000] + offset, y[:4000])
    exact = LinearRegression().fit(X[:4000], y[:4000]).score(X[4000:], y[4000:])
    assert explained(learner.predict(X[4000:] + offset), y[4000:]) >= exact - 0.03


# -- curvature -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [10, 200, 1000])
def test_stretched_axes_do_not_count(kappa):
    """The stream of Fig. 1 turned so that its long directions are features, in any unit."""
    X, y = ill_conditioned(kappa)
    turned = X @ np.linalg.svd(X, full_matrices=False)[2].T
    for unit in (1e-3, 10 ** np.random.default_rng(0).uniform(-3, 3, X.shape[1])):
        assert wrong(OnlineLearner().learn(turned * unit, y), y) <= 0.055


@pytest.mark.parametrize("kappa", [10, 200, 1000])
def test_stretched_directions_do_not_count(kappa):
    """The stream of Fig. 1 as it is, in any unit."""
    X, y = ill_conditioned(kappa)
    for unit in (1e-3, 1, 1e3):
        assert wrong(OnlineLearner().learn(X * unit, y), y) <= 0.055
