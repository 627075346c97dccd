"""alpha="auto": the kernel against the reference, and the promises of the blend."""

import numpy as np
import pytest

from sonline import OnlineLearner
from sonline.paper.reference import ReferenceEnsemble
from sonline.parameters import EXPERTS, LOSSES, Parameters

ROUNDS, FEATURES = 2000, 10


def stream(kind: str, *, binary: bool, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROUNDS, FEATURES)) * np.linspace(0.3, 3, FEATURES)
    if kind == "sparse":
        X *= rng.random(X.shape) < 0.3
        X[: ROUNDS // 2, FEATURES // 2 :] = 0  # features that emerge late
    if kind == "growing":
        X *= np.linspace(0.01, 1, ROUNDS)[:, None] ** np.linspace(0, 2, FEATURES)
    target = X @ rng.normal(size=FEATURES) + 0.3 * rng.normal(size=ROUNDS)
    if not binary:
        return X, target
    wrong = rng.random(ROUNDS) < (0.1 if kind == "sparse" else 0.0)  # all experts may be far off
    return X, np.where((target > 0) != wrong, 1.0, -1.0)


def experts_of(loss: str, sketch: str = "isotropic") -> list[tuple[float, float]]:
    return list(Parameters(loss=loss, sketch=sketch).experts)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", ["dense", "sparse", "growing"])
@pytest.mark.parametrize("sketch", ["isotropic", "oja", "none"])
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize(("scaling", "bound"), [("auto", None), ("none", 1.5), ("rms", 1.5)])
def test_kernel_equals_reference(kind, sketch, loss, scaling, bound):
    X, y = stream(kind, binary=bool(LOSSES[loss]["binary"]))
    shared = {
        "loss": loss,
        "sketch": sketch,
        "sketch_size": 4,
        "curvature": "auto",
        "scaling": scaling,
        "bound": bound,
        "oja_step": "scale-free",
        "sketch_every": "auto",
        "eta": None,
    }
    reference = ReferenceEnsemble(experts_of(loss, sketch), **shared)
    learner = OnlineLearner(alpha="auto", dtype="float64", **shared)
    expected = reference.learn(X, y)
    np.testing.assert_allclose(learner.learn(X, y), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        [learner.bias, *(learner.weights()[i] for i in range(FEATURES))],
        reference.raw_blend(),
        rtol=1e-6,
        atol=1e-8,
    )


@pytest.mark.parametrize("loss", ["squared", "quantile"])
@pytest.mark.parametrize("intercept", [True, False])
def test_clipped_predictions_are_what_is_evaluated(loss, intercept):
    """Labels of a small range, on which the blend is often beyond it."""
    X, y = stream("growing", binary=False)
    y = np.clip(y, -0.5, 1.5)
    shared = {
        "loss": loss,
        "sketch": "isotropic",
        "sketch_size": 4,
        "curvature": "auto",
        "scaling": "auto",
        "clip": True,
        "intercept": intercept,
        "sketch_every": "auto",
        "eta": None,
    }
    reference = ReferenceEnsemble(experts_of(loss), **shared)
    learner = OnlineLearner(alpha="auto", dtype="float64", **shared)
    np.testing.assert_allclose(learner.learn(X, y), reference.learn(X, y), rtol=1e-8, atol=1e-8)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sketch", ["isotropic", "oja"])
@pytest.mark.parametrize("every", ["auto", 3])
def test_sketch_that_sees_some_rows_only(sketch, every):
    X, y = (np.concatenate([part] * 3) for part in stream("sparse", binary=True))
    shared = {"sketch": sketch, "sketch_size": 4, "scaling": "auto", "oja_step": "scale-free"}
    reference = ReferenceEnsemble(
        list(EXPERTS), curvature="auto", eta=None, sketch_every=every, **shared
    )
    learner = OnlineLearner(dtype="float64", sketch_every=every, **shared)
    np.testing.assert_allclose(learner.learn(X, y), reference.learn(X, y), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("sketch", ["isotropic", "oja"])
@pytest.mark.parametrize("every", ["auto", 3])
def test_one_row_of_r_counts_r_times(sketch, every):
    """The spectrum grows as if all rows had been seen, in the mean of some streams."""
    ratios = []
    for seed in range(3, 15):
        X, y = (np.concatenate([part] * 3) for part in stream("sparse", binary=True, seed=seed))
        sums = []
        for each in (every, 1):
            learner = OnlineLearner(sketch=sketch, sketch_size=4, sketch_every=each)
            learner.learn(X, y)
            sums.append(learner.spectrum().sum())
        ratios.append(sums[0] / sums[1])
    assert np.mean(ratios) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("bound", [None, 1.5])
def test_scales_from_a_sample_follow_changes(bound):
    """Features that come late, outliers and a change of units, when few rows are in the sample."""
    X, y = (np.concatenate([part] * 3) for part in stream("sparse", binary=True))
    X[: len(X) // 2, 0] = 0
    X[len(X) // 2 :, 1] *= 1000
    X[::97, 2] *= 50
    shared = {"sketch": "isotropic", "sketch_size": 4, "scaling": "rms", "bound": bound}
    reference = ReferenceEnsemble(
        list(EXPERTS), curvature="auto", eta=None, sketch_every="auto", **shared
    )
    learner = OnlineLearner(dtype="float64", **shared)
    np.testing.assert_allclose(learner.learn(X, y), reference.learn(X, y), rtol=1e-7, atol=1e-7)


def scales_of_a_sample(often: float, size: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows with rare values of some size, and the counts and scales of their features."""
    rng = np.random.default_rng(0)
    n = 60_000
    x = np.where(rng.random(n) < often, size, 0.1)
    late = np.where(np.arange(n) < 20_000, 0.0, x)
    X = np.stack([x, rng.normal(size=n), late], axis=1)  # in the order of their appearance
    y = np.where(X[:, 1] + rng.normal(size=n) > 0, 1.0, -1.0)
    learner = OnlineLearner(dtype="float64")
    learner.learn(X, y)
    counts = learner._model.core.save()["blocks"][
        1:, len(EXPERTS) + learner.params["sketch_size"] + 1
    ]
    return X, counts, learner._model.core.scales()[1:]


def test_scales_from_a_sample_are_those_of_all_rows():
    """Rare values are neither missed nor counted more than once; counts are rows, for merging."""
    X, counts, scales = scales_of_a_sample(0.05, 1.0)
    np.testing.assert_allclose(counts, np.count_nonzero(X, axis=0), rtol=0.02)
    true = [np.sqrt(np.mean(column[column != 0] ** 2)) for column in X.T]
    np.testing.assert_allclose(scales, true, rtol=0.1)


def test_spikes_far_beyond_the_scale_are_taken_for_errors():
    """One value of 200 that is 100 times the others hardly moves their scale."""
    _, _, scales = scales_of_a_sample(0.005, 10.0)
    assert (scales[[0, 2]] >= 0.1).all()
    assert (scales[[0, 2]] < 0.2).all()


def test_a_change_of_units_costs_no_more_than_with_every_row_in_the_scales():
    mistakes = [0, 0]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40_000, 5))
        y = np.where(X @ rng.normal(size=5) + 0.3 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
        X[:20_000, 2] *= 1e-6
        for number, every in enumerate(("auto", 1)):
            wrong = (OnlineLearner(sketch_every=every).learn(X, y) > 0) != (y > 0)
            mistakes[number] += int(wrong[20_000:].sum())
    assert mistakes[0] <= 1.05 * mistakes[1]


def test_blend_is_linear_and_near_the_best_expert():
    X, y = stream("dense", binary=True)
    learner = OnlineLearner()
    blended = np.mean((learner.learn(X, y) > 0) != (y > 0))
    weights = learner.weights()
    linear = learner.bias + X @ [weights[i] for i in range(FEATURES)]
    np.testing.assert_allclose(learner.predict(X), linear, rtol=1e-3, atol=1e-3)
    single = [
        np.mean((OnlineLearner(alpha=f"relative:{c}").learn(X, y) > 0) != (y > 0))
        for c in (0.001, 0.01, 0.1, 1.0)
    ]
    assert blended <= min(single) + 0.01


def test_without_intercept():
    X, y = stream("sparse", binary=True)
    shared = {"sketch": "isotropic", "sketch_size": 4, "scaling": "rms", "intercept": False}
    shared["sketch_every"] = "auto"
    reference = ReferenceEnsemble(list(EXPERTS), curvature="auto", eta=None, **shared)
    learner = OnlineLearner(dtype="float64", **shared)
    np.testing.assert_allclose(learner.learn(X, y), reference.learn(X, y), rtol=1e-8, atol=1e-8)
    assert learner.bias == 0


@pytest.mark.parametrize("loss", ["logistic", "squared", "quantile"])
def test_following_labels_equals_the_reference(loss):
    X, y = stream("dense", binary=loss == "logistic")
    y = np.sort(y)  # labels in runs, which is what following them is for
    shared = {"loss": loss, "sketch": "isotropic", "sketch_size": 4, "scaling": "auto"}
    shared |= {"sketch_every": "auto", "follow_labels": True}
    reference = ReferenceEnsemble(experts_of(shared["loss"]), curvature="auto", eta=None, **shared)
    learner = OnlineLearner(dtype="float64", **shared)
    weights = np.random.default_rng(0).uniform(0.1, 5, ROUNDS)
    expected = reference.learn(X, y, weights)
    np.testing.assert_allclose(learner.learn(X, y, weights), expected, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(learner.predict(X), reference.predict(X), rtol=1e-7, atol=1e-7)


def test_labels_without_order_leave_no_constant_behind():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 4))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    learner = OnlineLearner()
    learner.learn(X, y)
    assert abs(learner.bias) < 0.1 * abs(learner.weights()[0])


def test_follows_a_stream_sorted_by_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8))
    y = np.repeat([1.0, -1.0], 2000)
    follower, blend = OnlineLearner(follow_labels=True), OnlineLearner()
    decaying = OnlineLearner(alpha="relative:0.1")
    mistakes = [
        int(np.sum((entry.learn(X, y) > 0) != (y > 0))) for entry in (follower, blend, decaying)
    ]
    assert mistakes[0] <= 4  # the first row, and the rows until it notices the change of class
    assert mistakes[1] < mistakes[2] / 4
    # What is kept is the same.
    np.testing.assert_array_equal(follower.predict(X), blend.predict(X))
    assert follower.weights() == blend.weights()


def test_outliers_and_weights_equal_the_reference():
    X, y = stream("sparse", binary=False)
    X[1500, 2], y[700], y[1800] = 1e6, 1e7, -1e5
    weights = np.random.default_rng(0).uniform(0.1, 5, ROUNDS)
    shared = {"loss": "squared", "sketch": "isotropic", "sketch_size": 4, "scaling": "auto"}
    shared["sketch_every"] = "auto"
    reference = ReferenceEnsemble(experts_of(shared["loss"]), curvature="auto", eta=None, **shared)
    learner = OnlineLearner(dtype="float64", **shared)
    expected = reference.learn(X, y + 1e4, weights)
    np.testing.assert_allclose(learner.learn(X, y + 1e4, weights), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("power", [-6, -3, 3, 6])
def test_default_does_not_depend_on_units(power):
    X, y = stream("dense", binary=True)
    plain = OnlineLearner(dtype="float64").learn(X, y)
    scaled = OnlineLearner(dtype="float64").learn(X * 10.0**power, y)
    np.testing.assert_allclose(scaled, plain, rtol=1e-4, atol=1e-4)
    plain = OnlineLearner(dtype="float64", scaling="rms").learn(X, y)
    each = X * 10.0 ** np.random.default_rng(1).integers(-6, 7, size=FEATURES)
    single = OnlineLearner(dtype="float64", scaling="rms").learn(each, y)
    np.testing.assert_allclose(single, plain, rtol=1e-4, atol=1e-4)
