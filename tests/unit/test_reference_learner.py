import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.learner import OracleLearner
from oracle.warm_up import WARM_UP_ROWS, choose
from sonline.paper.reference import (
    LOSSES,
    DiagonalAdaptation,
    FrequentDirections,
    FullMatrix,
    Isotropic,
    LowRank,
    Oja,
    ReferenceLearner,
    RobustFrequentDirections,
    SketchedOnlineNewton,
    make_loss,
    run,
)
from sonline.paper.reference.learner import SKETCHES

SKETCHED = {
    "none": LowRank,
    "oja": lambda d, alpha: Oja(d, alpha, 4),
    "fd": lambda d, alpha: FrequentDirections(d, alpha, 4),
    "rfd": lambda d, alpha: RobustFrequentDirections(d, alpha, 4),
    "isotropic": lambda d, alpha: Isotropic(d, alpha, 4),
    "full": FullMatrix,
}


def stream(seed, T=200, d=10, kind="unit"):
    """Rows of norm 1, rows with norms from 1e-3 to 1e3, or sparse rows with late features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T, d))
    if kind == "sparse":
        X *= rng.random((T, d)) < 0.3
        X[: T // 2, d // 2 :] = 0.0
    else:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    if kind == "raw":
        X *= 10.0 ** rng.uniform(-3, 3, size=(T, 1))
    y = np.where(X @ rng.normal(size=d) + 0.1 * rng.normal(size=T) > 0, 1.0, -1.0)
    return X, y


def worst(a, b):
    return np.abs(a - b).max() / max(1.0, np.abs(a).max())


@pytest.mark.parametrize("sketch", SKETCHED)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bound", [0.8, math.inf])
def test_without_conveniences_it_is_algorithm_1(sketch, loss, bound):
    X, y = stream(0)
    y = 0.7 * y if loss in {"squared", "quantile"} else y
    y = np.abs(y) if loss == "gamma" else y  # its labels are above 0
    sigma = make_loss(loss).sigma(min(bound, 1.0)) if bound == math.inf else None
    paper = SketchedOnlineNewton(
        SKETCHED[sketch](X.shape[1], 9.0), make_loss(loss), bound, sigma=sigma, eta=0.3
    )
    learner = ReferenceLearner(
        loss,
        sketch,
        sketch_size=4,
        alpha=9.0,
        bound=None if bound == math.inf else bound,
        eta=0.3,
        intercept=False,
    )
    assert worst(run(paper, X, y), learner.learn(X, y)) < 1e-9
    assert worst(paper.w, learner.w) < 1e-9


def test_gradient_scaling_is_the_diagonal_adaptation_of_the_experiments():
    X, y = stream(1, kind="sparse")
    method = SketchedOnlineNewton(Oja(10, 3.0, 4), make_loss("squared"), 1.0)
    learner = ReferenceLearner(
        "squared", "oja", 4, alpha=3.0, bound=1.0, scaling="gradient", intercept=False
    )
    assert worst(run(DiagonalAdaptation(method), X, y), learner.learn(X, y)) < 1e-10


def test_full_hessian_squared_hinge_is_arow():
    X, y = stream(2)
    d, r = X.shape[1], 1.0
    w, Sigma, expected = np.zeros(d), np.eye(d) / 0.5, []
    for x, label in zip(X, y, strict=True):
        z = w @ x
        expected.append(z)
        if label * z < 1.0:
            beta = 1.0 / (x @ Sigma @ x + r)
            w = w + beta * (1.0 - label * z) * label * (Sigma @ x)
            Sigma = Sigma - beta * np.outer(Sigma @ x, Sigma @ x)
    learner = ReferenceLearner(
        "squared_hinge", "full", alpha=0.5, curvature="hessian", intercept=False
    )
    assert worst(np.array(expected), learner.learn(X, y)) < 1e-11
    assert worst(w, learner.w) < 1e-11


def test_full_hessian_squared_is_recursive_least_squares():
    X, y = stream(3)
    alpha = 0.2
    learner = ReferenceLearner("squared", "full", alpha=alpha, curvature="hessian", intercept=True)
    weight = np.random.default_rng(0).uniform(0.1, 3.0, size=len(y))
    learner.learn(X, y, weight)
    rows = np.hstack([np.ones((len(X), 1)), X])
    ridge = np.linalg.solve(alpha * np.eye(11) + (rows.T * weight) @ rows, rows.T @ (weight * y))
    assert worst(ridge, learner.raw_weights) < 1e-10


def test_adagrad():
    X, y = stream(4, kind="sparse")
    learner = ReferenceLearner("logistic", "adagrad", alpha=2.0, intercept=False)
    w, G, expected = np.zeros(10), np.zeros(10), []
    for x, label in zip(X, y, strict=True):
        z = w @ x
        expected.append(z)
        g = -label / (1.0 + math.exp(label * z)) * x
        G += g**2
        w = w - np.divide(g, 2.0 * np.sqrt(G), out=np.zeros(10), where=G > 0)
    assert worst(np.array(expected), learner.learn(X, y)) < 1e-13


def test_a_sketch_of_size_zero_is_gradient_descent():
    X, y = stream(5)
    plain = ReferenceLearner(sketch="none", alpha=4.0).learn(X, y)
    for sketch in ("oja", "fd", "rfd"):
        assert (
            ReferenceLearner(sketch=sketch, sketch_size=0, alpha=4.0).learn(X, y) == plain
        ).all()


def test_isotropic_of_size_zero_is_gradient_descent_with_a_step_that_shrinks():
    X, y = stream(5)
    learner = ReferenceLearner("squared", "isotropic", 0, 4.0, curvature="hessian", intercept=False)
    learner.learn(X, y)
    assert len(learner.ev) == 0
    assert learner.alpha == pytest.approx(4.0 + (X**2).sum() / X.shape[1])


def test_relative_alpha_is_the_running_mean_of_squared_norms():
    X, y = stream(6, kind="raw", T=50)
    learner = ReferenceLearner("logistic", "none", alpha="relative:0.5", intercept=True)
    learner.learn(X, y)
    assert learner.alpha == pytest.approx(0.5 * np.mean(1.0 + (X**2).sum(axis=1)))
    adagrad = ReferenceLearner("logistic", "adagrad", alpha="relative:0.5", intercept=False)
    adagrad.learn(X, y)
    assert adagrad.alpha == pytest.approx(0.5 * math.sqrt(np.mean((X**2).sum(axis=1))))


@pytest.mark.parametrize("sketch", ["none", "oja", "isotropic", "full"])
def test_relative_alpha_and_hessian_make_the_scale_of_the_data_irrelevant(sketch):
    X, y = stream(7)
    args = ("logistic", sketch, 4, "relative:1")
    small = ReferenceLearner(*args, curvature="hessian", intercept=False, oja_step="scale-free")
    large = ReferenceLearner(*args, curvature="hessian", intercept=False, oja_step="scale-free")
    assert worst(small.learn(1e-4 * X, y), large.learn(1e4 * X, y)) < 1e-9


def test_rms_scaling_is_the_mean_square_over_rows_that_have_the_feature():
    X, y = stream(8, kind="sparse", T=40)
    learner = OracleLearner("squared", "none", alpha=5.0, scaling="rms")
    learner.learn(X, y)
    present = np.where(X != 0, X, np.nan)
    expected = np.sqrt(np.nanmean(present**2, axis=0))
    ratio = learner.w / np.where(learner.raw_weights == 0, 1.0, learner.raw_weights)
    assert np.allclose(ratio[1:][learner.w[1:] != 0], expected[learner.w[1:] != 0])
    assert ratio[0] == 1.0  # the constant feature


def test_rms_scaling_makes_the_units_of_features_irrelevant():
    X, y = stream(9, kind="sparse")
    units = np.logspace(-6, 6, 10)
    args = {"alpha": "relative:0.5", "scaling": "rms", "curvature": "auto"}
    for sketch in ("none", "oja", "isotropic", "fd", "adagrad"):
        plain = OracleLearner("logistic", sketch, 4, **args)
        scaled = OracleLearner("logistic", sketch, 4, **args)
        assert worst(plain.learn(X, y), scaled.learn(X * units, y)) < 1e-8


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("scaling", OracleLearner.scalings)
def test_weight_zero_only_predicts_and_predict_changes_nothing(sketch, scaling):
    X, y = stream(10, T=60, kind="sparse")
    args = {"sketch": sketch, "sketch_size": 3, "scaling": scaling, "bound": 0.5, "clip": True}
    first, other = OracleLearner(**args), OracleLearner(**args)
    first.learn(X[:40], y[:40])
    other.learn(X[:40], y[:40])
    before = other.w.copy()
    ahead = other.learn(X[40:], y[40:], np.zeros(20))
    assert (ahead == other.predict(X[40:])).all()
    assert (other.w == before).all()
    assert other.rounds == 40
    assert (first.learn(X[40:], y[40:]) == other.learn(X[40:], y[40:])).all()
    assert first.learn(X[:1], y[:1])[0] == other.predict(X[:1])[0]


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("kind", ["unit", "raw", "sparse"])
def test_predictions_never_leave_the_bound(sketch, kind):
    X, y = stream(11, kind=kind)
    for scaling, loss in itertools.product(OracleLearner.scalings, ("squared", "hinge")):
        learner = OracleLearner(
            loss, sketch, 4, alpha="relative:0.01", bound=0.5, eta=0.1, scaling=scaling
        )
        predictions = learner.learn(X, y)
        assert np.isfinite(predictions).all()
        assert np.abs(predictions).max() <= 0.5
        assert (np.abs(predictions) == 0.5).any()  # the projection was at work


def test_after_a_projection_the_weights_predict_the_bound():
    X, y = stream(12)
    for sketch in SKETCHES:
        learner = ReferenceLearner("squared", sketch, 4, alpha=0.05, bound=0.3, sigma=0.01)
        moved = 0
        for x, label in zip(X, y, strict=True):
            learner._rows([x])
            w, z = learner.sketch.project(learner.w, np.append(1.0, x), learner.bound)
            assert float(w @ np.append(1.0, x)) == pytest.approx(z, abs=1e-12)
            moved += w is not learner.w
            learner.learn([x], [label])
        assert moved > 10


def test_clip_predicts_within_labels_seen_and_learns_at_the_clipped_value():
    learner = ReferenceLearner("squared", "none", alpha=0.1, clip=True, intercept=False)
    assert learner.learn([[1.0]], [2.0])[0] == 0.0  # no label seen: nothing to clip to
    # z = 0 is clipped to the range [2, 2] that includes this label: no gradient.
    assert learner.w[0] == 0.0
    assert learner.learn([[1.0]], [4.0])[0] == 2.0
    # at z = 2: gradient -2, step 10
    assert learner.w[0] == pytest.approx(20.0)
    assert learner.predict([[1.0]])[0] == 4.0
    assert learner.learn([[1.0]], [5.0])[0] == 4.0
    assert learner.w[0] == pytest.approx(20.0)  # clipped to 5 = y


def test_integer_weights_and_repetition_agree_to_first_order():
    X, y = stream(13, T=30)
    weighted = ReferenceLearner("squared", "full", alpha=1e4, curvature="hessian")
    repeated = ReferenceLearner("squared", "full", alpha=1e4, curvature="hessian")
    weighted.learn(X, y, np.full(30, 2.0))
    repeated.learn(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert worst(weighted.w * 1e4, repeated.w * 1e4) < 1e-10  # exact for least squares


@pytest.mark.parametrize(("loss", "lipschitz"), [("hinge", 1.0), ("squared", 4.0)])
def test_convex_schedule_with_a_sketch_uses_its_size(loss, lipschitz):
    X, y = stream(14, T=100, d=6)
    learner = ReferenceLearner(
        loss, "fd", 4, bound=2.0, eta="convex", sigma=0.0, alpha=3.0, intercept=False
    )
    paper = SketchedOnlineNewton(
        FrequentDirections(6, 3.0, 4),
        make_loss(loss),
        2.0,
        sigma=0.0,
        eta=lambda t: math.sqrt(4 / (2.0**2 * lipschitz**2 * t)),
    )
    assert worst(run(paper, X, y), learner.learn(X, y)) < 1e-11


@pytest.mark.parametrize(("loss", "eta"), [("squared", 0.0), ("quantile", "convex")])
def test_eta_none_adds_curvature_only_where_there_is_none(loss, eta):
    X, y = stream(14)
    chosen = ReferenceLearner(loss, "fd", 4, eta=None).learn(X, y)
    assert (chosen == ReferenceLearner(loss, "fd", 4, eta=eta).learn(X, y)).all()


def test_convex_schedule_of_the_full_matrix_uses_the_features_seen():
    learner = ReferenceLearner("hinge", "full", eta="convex", intercept=True)
    learner.learn([[1.0, 0.0, 2.0]], [1.0])
    # ghat = sqrt(eta_1) x with eta_1 = sqrt(3): two features and the constant
    assert learner.ev[0] == pytest.approx(math.sqrt(3) * 6.0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("curvature", ["gradient", "auto"])
@pytest.mark.parametrize("bound", [None, 1.0, 2.5])
def test_alpha_zero_is_invariant(loss, curvature, bound):
    if (loss, curvature, bound) == ("logistic", "auto", None):
        bound = 20.0  # without any bound separable logistic data has no finite optimum
    X, y = stream(15, T=200, d=6)
    if make_loss(loss).power is not None:
        y = np.exp(0.5 * y)  # its labels are above 0
        if (curvature, bound) == ("gradient", None):
            bound = 4.0  # without any, steps that are explicit overshoot to means of 1e20 and more
    M = np.random.default_rng(1).normal(size=(6, 6))
    args = {"alpha": 0.0, "bound": bound, "curvature": curvature, "eta": 0.1}
    here = ReferenceLearner(loss, "full", **args).learn(X, y)
    there = ReferenceLearner(loss, "full", **args).learn(X @ M.T, y)
    assert worst(here, there) < 1e-6


@given(split=st.integers(0, 60), sketch=st.sampled_from(list(SKETCHES)))
def test_any_split_into_batches_is_the_same(split, sketch):
    X, y = stream(16, T=60, kind="sparse")
    whole, parts = ReferenceLearner(sketch=sketch), ReferenceLearner(sketch=sketch)
    expected = whole.learn(X, y)
    predictions = np.concatenate(
        [parts.learn(X[:split], y[:split]), parts.learn(X[split:], y[split:])]
    )
    assert (expected == predictions).all()


def test_empty_rows_count_but_change_nothing():
    for sketch, alpha in itertools.product(SKETCHES, (1.0, "relative:1")):
        learner = ReferenceLearner("squared", sketch, alpha=alpha, intercept=False)
        assert (learner.learn(np.zeros((3, 4)), [1.0, 2.0, 3.0]) == 0.0).all()
        assert learner.rounds == 3
        assert not learner.w.any()
        assert len(learner.ev) == 0
        assert learner.V.shape == (0, 4)


@pytest.mark.parametrize("sketch", SKETCHES)
def test_fewer_features_than_rows_of_the_sketch(sketch):
    X, y = stream(17, d=2)
    learner = ReferenceLearner("logistic", sketch, sketch_size=10, curvature="hessian")
    full = ReferenceLearner("logistic", "full", curvature="hessian")
    predictions, exact = learner.learn(X, y), full.learn(X, y)
    assert len(learner.V) <= 3
    if sketch in {"fd", "rfd", "isotropic"}:
        assert worst(exact, predictions) < 1e-11


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sketch": "svd"}, "sketch must be one of none, adagrad, oja.*got 'svd'"),
        ({"scaling": "minmax"}, "scaling must be one of"),
        ({"curvature": "fisher"}, "curvature must be one of"),
        ({"loss": "hinge", "curvature": "hessian"}, "needs a second derivative; 'hinge' has none"),
        ({"alpha": 0.0}, 'alpha must be positive unless sketch="full", got 0.0'),
        ({"alpha": -1.0}, "alpha must be a number >= 0"),
        ({"alpha": "large"}, "alpha must be a number >= 0 or \"relative:c\".*got 'large'"),
        ({"alpha": "3"}, "got '3'"),
        ({"alpha": "relative:x"}, "got 'relative:x'"),
        ({"bound": 0.0}, "bound must be a positive number or None"),
    ],
)
def test_bad_parameters_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ReferenceLearner(**arguments)


@pytest.mark.parametrize(
    ("X", "y", "weight", "message"),
    [
        ([1.0], [1.0], None, "X must have two dimensions"),
        ([[math.nan]], [1.0], None, "X must be finite"),
        ([[1.0]], [1.0, 1.0], None, r"each of the 1 rows.*\(2,\)"),
        ([[1.0]], [math.inf], None, "y must be finite"),
        ([[1.0]], [1.0], [-1.0], "not negative"),
        ([[1.0]], [0.5], None, r"labels of the logistic loss must be -1 or \+1"),
        ([[1.0, 2.0]], [1.0], None, "must have 1 columns as before, got 2"),
    ],
)
def test_bad_rows_are_named_and_leave_the_model_alone(X, y, weight, message):
    learner = ReferenceLearner()
    learner.learn([[1.0]], [1.0])
    before = learner.w.copy()
    with pytest.raises(ValueError, match=message):
        learner.learn(X, y, weight)
    assert (learner.w == before).all()
    assert learner.rounds == 1


def test_an_implicit_step_has_the_curvature_of_where_it_ends():
    learner = ReferenceLearner(
        "logistic", "full", alpha=0.5, step="implicit", curvature="hessian", intercept=False
    )
    learner.learn([[2.0]], [1.0])
    end = 2.0 * learner.w[0]
    assert end == pytest.approx(-4.0 / 0.5 * make_loss("logistic").derivative(end, 1.0))
    assert learner.ev[0] == pytest.approx(4.0 * make_loss("logistic").second_derivative(end, 1.0))


def first_rows(seed=0):
    """Return rows of five columns: one with an offset, one in order, three like each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(WARM_UP_ROWS, 5))
    X[:, 0] += 40.0
    X[:, 1] = 50.0 + 0.1 * np.arange(WARM_UP_ROWS)
    return X


def test_the_first_rows_show_unit_centres_and_width():
    X = np.hstack([np.ones((WARM_UP_ROWS, 1)), first_rows()])
    choices = choose(X, directions=2, intercept=True)
    assert np.flatnonzero(choices.centres).tolist() == [1]  # the column in order may go on so
    assert choices.unit == 0.0  # two columns of five are as large as forty of the others
    assert not choices.wide
    assert choose(X[:, [0, 3, 4, 5]], 2, True).unit == pytest.approx(np.mean(X[:, 3:] ** 2))
    assert choose(X, 5, True).centres[1] > 0  # large offsets are centred beside any sketch
    assert not choose(X, 2, False).centres.any()
    assert not choose(X, 2, True, scaling="rms").centres.any()
    rng = np.random.default_rng(0)
    words = (rng.random((WARM_UP_ROWS, 400)) < 0.03).astype(float)
    assert choose(words, 10, False).wide
    assert choose(words, 10, False).unit == 1.0


def test_the_first_rows_are_learned_again():
    X, y = np.vstack([first_rows(), first_rows(1)]), np.tile([1.0, -1.0], WARM_UP_ROWS)
    learner = OracleLearner("logistic", "oja", 2, scaling="auto")
    learner.learn(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    assert learner.rounds == WARM_UP_ROWS
    assert learner.inputs.centres[1] > 0
    again = OracleLearner("logistic", "oja", 2, scaling="auto")
    again.learn(X[:1], y[:1], [0.0])  # knows the number of columns
    again._start(again._inputs(6, centres=learner.inputs.centres))
    again.first_rows = None
    again.learn(X, y)
    learner.learn(X[WARM_UP_ROWS:], y[WARM_UP_ROWS:])
    assert (learner.w == again.w).all()
    assert np.allclose(
        learner.predict(X), np.hstack([np.ones((len(X), 1)), X]) @ learner.raw_weights
    )
