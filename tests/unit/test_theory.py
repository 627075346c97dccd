import itertools
import math

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from sonline.errors import InvalidInputError
from sonline.paper import theory
from sonline.paper.reference import LOSSES, Loss, ReferenceLearner, make_loss

seeds = st.integers(0, 2**32 - 1)
CURVED = ("squared", "logistic", "squared_hinge")


def stream(seed, T=60, d=4, loss="logistic", bound=1.0):
    """Random rows; an odd seed gives labels that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T, d)) * rng.uniform(0.1, 2.0, size=d)
    z = X @ rng.normal(size=d) * (seed % 2 == 0) + 0.5 * rng.normal(size=T)
    y = np.where(z > 0, 1.0, -1.0)
    if loss in {"squared", "quantile"}:
        y = np.clip(z, -bound, bound)
    if loss in {"poisson", "gamma", "tweedie"}:
        y = np.exp(np.clip(z, -bound, bound))
    return X, y


def total(loss, z, y):
    return sum(loss.value(a, b) for a, b in zip(z, y, strict=True))


class TestBestComparator:
    @pytest.mark.parametrize("loss", LOSSES)
    @given(seed=seeds, bound=st.floats(0.1, 5.0))
    @settings(max_examples=15)
    def test_certified_feasible_and_not_beaten_by_chance(self, loss, seed, bound):
        X, y = stream(seed, loss=loss, bound=bound)
        best = theory.best_comparator(X, y, loss, bound)
        assert np.abs(X @ best.weights).max() <= bound * (1 + 1e-12)
        assert np.abs(best.predictions - X @ best.weights).max() <= 1e-12 * bound
        assert 0.0 <= best.gap <= 1e-8 * (1 + best.loss)
        function = make_loss(loss)
        assert best.loss == pytest.approx(total(function, best.predictions, y))
        rng = np.random.default_rng(seed)
        for other in best.weights + 0.1 * rng.normal(size=(20, X.shape[1])):
            other = other * min(1.0, bound / np.abs(X @ other).max())  # noqa: PLW2901
            assert total(function, X @ other, y) >= best.loss - best.gap - 1e-12

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("bound", [0.3, 1.0])
    def test_agrees_with_a_general_solver(self, loss, bound):
        X, y = stream(1, T=40, d=3, loss=loss, bound=bound)
        function = make_loss(loss)
        best = theory.best_comparator(X, y, loss, bound)
        limits = scipy.optimize.LinearConstraint(X, -bound, bound)
        general = min(
            scipy.optimize.minimize(
                lambda w: total(function, X @ w, y),
                start,
                method="COBYLA",
                constraints=limits,
                tol=1e-8,
                options={"maxiter": 4000},
            ).fun
            for start in (np.zeros(3), best.weights)
        )
        assert best.loss <= general + 1e-6
        assert best.loss == pytest.approx(general, rel=1e-3)

    def test_without_active_bounds_it_is_least_squares(self):
        X, y = stream(2, loss="squared")
        best = theory.best_comparator(X, y, "squared", bound=50.0)
        exact = np.linalg.lstsq(X, y, rcond=None)[0]
        assert np.abs(best.weights - exact).max() < 1e-3
        assert best.loss == pytest.approx(0.5 * ((X @ exact - y) ** 2).sum(), rel=1e-8)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_does_not_depend_on_coordinates(self, loss):
        X, y = stream(3, loss=loss, bound=0.5)
        M = np.random.default_rng(3).normal(size=(4, 4)) * np.logspace(-4, 4, 4)
        here, there = (theory.best_comparator(data, y, loss, 0.5) for data in (X, X @ M.T))
        assert here.loss == pytest.approx(there.loss, rel=1e-7)

    def test_takes_the_smallest_weights_among_equals(self):
        best = theory.best_comparator([[1.0, 1.0], [2.0, 2.0]], [0.5, 1.0], "squared", 1.0)
        assert np.allclose(best.weights, [0.25, 0.25], atol=1e-4)

    def test_rows_without_any_feature(self):
        best = theory.best_comparator(np.zeros((3, 2)), [1.0, -1.0, 1.0], "logistic", 1.0)
        assert (best.weights == 0.0).all()
        assert best.loss == pytest.approx(3 * math.log(2))
        assert best.gap < 1e-12

    @pytest.mark.parametrize("loss", ["logistic", "quantile"])
    def test_weights_of_rows_count_like_repetition(self, loss):
        X, y = stream(4, T=20, loss=loss)
        repeats = np.random.default_rng(4).integers(0, 4, size=20)
        weighted = theory.best_comparator(X, y, loss, 0.7, sample_weight=repeats)
        repeated = theory.best_comparator(
            np.repeat(X, repeats, axis=0), np.repeat(y, repeats), loss, 0.7
        )
        # rows of weight 0 still bound the predictions
        assert weighted.loss >= repeated.loss - 1e-6
        keep = repeats > 0
        weighted = theory.best_comparator(X[keep], y[keep], loss, 0.7, sample_weight=repeats[keep])
        assert weighted.loss == pytest.approx(repeated.loss, rel=1e-7)

    def test_any_convex_loss_even_without_a_second_derivative(self):
        X, y = stream(5, T=30, d=3, loss="squared")
        squared = make_loss("squared")
        rough = Loss(
            "rough",
            squared.value,
            squared.derivative,
            None,
            squared.lipschitz,
            squared.sigma,
            False,
        )
        by_planes = theory.best_comparator(X, y, rough, 0.5, tolerance=1e-5)
        by_newton = theory.best_comparator(X, y, squared, 0.5)
        assert by_planes.loss == pytest.approx(by_newton.loss, rel=1e-5)

    def test_says_when_it_was_not_exact_enough(self):
        X, y = stream(6)
        with pytest.raises(ArithmeticError, match=r"found only up to .* tolerance, now 1e-30"):
            theory.best_comparator(X, y, "logistic", 1.0, tolerance=1e-30)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([1.0], [1.0], "hinge", 1.0), "X must have shape"),
            (([[1.0]], [1.0, 2.0], "hinge", 1.0), "X must have shape"),
            (([[math.inf]], [1.0], "hinge", 1.0), "must be finite"),
            (
                ([[1.0]], [1.0], "hinge", math.inf),
                "bound must be a positive finite number, got inf",
            ),
            (([[1.0]], [1.0], "hinge", 0.0), "bound must be a positive finite number"),
        ],
    )
    def test_bad_arguments(self, arguments, message):
        with pytest.raises(InvalidInputError, match=message):
            theory.best_comparator(*arguments)
        with pytest.raises(InvalidInputError, match="negative"):
            theory.best_comparator([[1.0]], [1.0], "hinge", 1.0, sample_weight=[-1.0])


class TestRegret:
    def test_is_the_difference_of_the_sums_so_far(self):
        curve = theory.regret([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], "squared")
        assert curve == pytest.approx([0.5, 0.5, 1.0])
        weighted = theory.regret(
            [0.0, 1.0, 2.0], [1.0] * 3, [1.0] * 3, "squared", sample_weight=[2.0, 1.0, 4.0]
        )
        assert weighted == pytest.approx([1.0, 1.0, 3.0])

    def test_shapes_must_fit(self):
        with pytest.raises(InvalidInputError, match="comparator_predictions must have shape"):
            theory.regret([0.0], [0.0, 1.0], [1.0], "squared")


def measured_regret(loss, sketch, seed, *, bound=1.0, T=150, d=5, **parameters):
    """Run the reference learner on a random stream; return regret, comparator and measures."""
    X, y = stream(seed, T=T, d=d, loss=loss, bound=bound)
    learner = ReferenceLearner(loss, sketch, bound=bound, intercept=False, **parameters)
    predictions = learner.learn(X, y)
    best = theory.best_comparator(X, y, loss, bound)
    function = make_loss(loss)
    lipschitz = function.lipschitz(bound)
    etas = None
    if parameters.get("eta") == "convex":
        size = d if sketch == "full" else parameters["sketch_size"]
        etas = theory.convex_etas(T, size, bound, lipschitz)
    sigma = function.sigma(bound)
    measured = theory.measure(X, y, predictions, loss, sigma=sigma, etas=etas)
    assumed = theory.Assumptions(bound, lipschitz, sigma, etas)
    curve = theory.regret(predictions, best.predictions, y, loss)
    return curve[-1], best, measured, assumed, learner


@pytest.mark.parametrize("loss", CURVED)
@pytest.mark.parametrize("alpha", [0.1, 10.0])
@pytest.mark.parametrize("bound", [0.5, 5.0])
@pytest.mark.parametrize("seed", range(2))
def test_full_matrix_regret_is_under_theorem_2(loss, alpha, bound, seed):
    regret, best, *known, _ = measured_regret(loss, "full", seed, bound=bound, alpha=alpha)
    norm2 = best.weights @ best.weights
    assert regret <= theory.theorem2_bound(*known, comparator_norm2=norm2, alpha=alpha)


@pytest.mark.parametrize("loss", ["hinge", "quantile"])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
@pytest.mark.parametrize("bound", [0.5, 5.0])
@pytest.mark.parametrize("seed", range(2))
def test_full_matrix_regret_is_under_theorem_2_without_curvature(loss, alpha, bound, seed):
    regret, best, *known, _ = measured_regret(
        loss, "full", seed, bound=bound, alpha=alpha, eta="convex"
    )
    norm2 = best.weights @ best.weights
    general = theory.theorem2_bound(*known, comparator_norm2=norm2, alpha=alpha)
    simple = theory.theorem2_convex_bound(*known, comparator_norm2=norm2, alpha=alpha)
    assert regret <= general <= simple


@pytest.mark.parametrize(
    ("loss", "eta"), [("squared", 0.0), ("logistic", 0.0), ("hinge", "convex")]
)
@pytest.mark.parametrize("m", [1, 2, 4, 6])
@pytest.mark.parametrize("bound", [1.0, 5.0])
@pytest.mark.parametrize("seed", range(2))
def test_fd_regret_is_under_theorem_3_for_every_k(loss, eta, m, bound, seed):
    regret, best, measured, assumed, learner = measured_regret(
        loss, "fd", seed, bound=bound, alpha=1.0, eta=eta, sketch_size=m
    )
    known = {
        "comparator_norm2": best.weights @ best.weights,
        "alpha": 1.0,
        "m": m,
        "sketch_trace": float(learner.ev.sum()),
    }
    limits = [theory.theorem3_bound(measured, assumed, **known, k=k) for k in range(m)]
    assert regret <= min(limits)
    assert theory.theorem3_bound(measured, assumed, **known) == min(limits)
    # and shrinking removed the eigenvalues of the proof
    for k in range(m):
        tail = measured.spectrum[k:].sum()
        assert learner.sketch.shrunk <= tail / (m - k) * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bound", [1.0, 5.0])
@pytest.mark.parametrize("seed", range(2))
def test_pseudo_inverse_regret_is_under_corollary_1(loss, bound, seed):
    eta = 0.0 if loss in CURVED else "convex"
    regret, _, *known, _ = measured_regret(loss, "full", seed, bound=bound, alpha=0.0, eta=eta)
    general = theory.pseudo_inverse_bound(*known)
    assert regret <= general
    if eta == "convex":
        assert general <= theory.corollary1_convex_bound(*known)


def test_the_regrets_above_are_not_all_negative():
    # The learner obeys the bound only on the row at hand, so easy streams give negative regret.
    actual = [
        measured_regret(loss, sketch, 1, bound=5.0, alpha=0.1, eta=eta, sketch_size=2)[0]
        for loss, eta in (("squared", 0.0), ("logistic", 0.0), ("hinge", "convex"))
        for sketch in ("full", "fd")
    ]
    assert min(actual) > 10.0


@given(seed=seeds, rank=st.integers(1, 5))
def test_theorem_4_and_its_eigenvalue(seed, rank):
    rng = np.random.default_rng(seed)
    d, T = 5, 40
    X = rng.normal(size=(T, rank)) @ rng.normal(size=(rank, d))
    zeros = np.zeros(T)
    measured = theory.measure(X, np.ones(T), zeros, "squared")  # gradients are -x
    A, left, smallest = np.zeros((d, d)), 0.0, math.inf
    for x in X:
        A += np.outer(x, x)
        left += x @ np.linalg.pinv(A, rcond=1e-11, hermitian=True) @ x
        values = np.linalg.eigvalsh(A)
        smallest = min(smallest, values[values > 1e-11 * values[-1]].min())
    assert measured.rank == rank
    assert measured.smallest_eigenvalue == pytest.approx(smallest, rel=1e-6)
    assert left <= theory.theorem4_bound(measured)


def test_measure_sees_the_to_sketch_vectors():
    X, y = stream(7, loss="squared")
    T, predictions = len(X), np.full(len(X), 0.1)
    etas = theory.convex_etas(T, 4, 1.0, 2.0)
    measured = theory.measure(X, y, predictions, "squared", sigma=0.25, etas=etas)
    g = (predictions - y)[:, None] * X
    ghat = np.sqrt(0.25 + etas)[:, None] * g
    assert measured.gradient_energy == pytest.approx((g**2).sum())
    assert np.allclose(measured.spectrum, np.linalg.eigvalsh(ghat.T @ ghat)[::-1])
    few = theory.measure(X[:2], y[:2], predictions[:2], "squared", sigma=1.0)
    assert few.spectrum.shape == (4,)
    assert few.rank == 2


class TestTheorem1:
    @pytest.mark.parametrize(("T", "d"), [(3, 1), (5, 2), (8, 3), (10, 4)])
    def test_expectation_is_exact(self, T, d):
        gains = [
            sum(abs(sum(signs[i::d])) for i in range(d))
            for signs in itertools.product((-1, 1), repeat=T)
        ]
        expected = 2.0 * 3.0 * np.mean(gains)
        assert theory.lower_bound_expectation(T, d, 2.0, 3.0) == pytest.approx(expected)

    @given(d=st.integers(1, 60), more=st.integers(0, 3000))
    def test_theorem_holds_for_every_number_of_rounds(self, d, more):
        T = d + more
        exact = theory.lower_bound_expectation(T, d, 1.0, 1.0)
        assert exact >= theory.theorem1_lower_bound(T, d, 1.0, 1.0) * (1 - 1e-12)

    @pytest.mark.parametrize("sketch", ["none", "adagrad", "full"])
    def test_no_algorithm_does_better_on_average(self, sketch):
        T, d, runs = 60, 3, 150
        regrets = []
        for seed in range(runs):
            X, y = theory.lower_bound_stream(T, d, seed=seed)
            learner = ReferenceLearner(
                "hinge", sketch, alpha=4.0, bound=1.0, eta="convex", intercept=False
            )
            predictions = learner.learn(X, y)
            best = np.abs([y[i::d].sum() for i in range(d)]).sum()
            regrets.append(best - predictions @ y)
        error = np.std(regrets) / math.sqrt(runs)
        expected = theory.lower_bound_expectation(T, d, 1.0, 1.0)
        assert np.mean(regrets) == pytest.approx(expected, abs=4 * error)
        assert np.mean(regrets) + 2 * error >= theory.theorem1_lower_bound(T, d, 1.0, 1.0)

    def test_stream_and_comparator_are_those_of_the_proof(self):
        X, y = theory.lower_bound_stream(50, 4, seed=9)
        assert (X.sum(axis=0) >= 12).all()
        assert np.isin(y, (-1.0, 1.0)).all()
        gain = 2.0 * 0.5 * np.abs([y[i::4].sum() for i in range(4)]).sum()
        best = theory.best_comparator(X, y, theory.linear_loss(2.0), bound=0.5)
        assert best.loss == pytest.approx(-gain, rel=1e-7)
        hinge = theory.best_comparator(X, y, "hinge", bound=0.5)
        assert hinge.loss == pytest.approx(50 - gain / 2.0, rel=1e-7)

    def test_needs_as_many_rounds_as_features(self):
        for function in (theory.lower_bound_expectation, theory.theorem1_lower_bound):
            with pytest.raises(InvalidInputError, match="rounds >= d >= 1, got 3 and 4"):
                function(3, 4, 1.0, 1.0)
        with pytest.raises(InvalidInputError, match="rounds >= d >= 1"):
            theory.lower_bound_stream(3, 4)


def test_bounds_say_what_they_cannot_use():
    known = {"comparator_norm2": 1.0, "alpha": 1.0}
    measured = theory.measure(np.eye(2), np.ones(2), np.zeros(2), "squared", sigma=1.0)
    with pytest.raises(InvalidInputError, match=r"sigma \+ eta_T must be positive, got 0\.0"):
        theory.theorem2_bound(measured, theory.Assumptions(1.0, 1.0), **known)
    rising = theory.Assumptions(1.0, 1.0, etas=[0.1, 0.2])
    curved = theory.Assumptions(1.0, 1.0, sigma=1.0)
    with pytest.raises(InvalidInputError, match="never increases"):
        theory.theorem2_bound(measured, rising, **known)
    with pytest.raises(InvalidInputError, match="0 <= k < m, got k = 3 and m = 3"):
        theory.theorem3_bound(measured, curved, **known, m=3, sketch_trace=1.0, k=3)
    with pytest.raises(InvalidInputError, match="X must have shape"):
        theory.measure([[1.0]], [1.0], [0.0, 0.0], "squared")
    with pytest.raises(InvalidInputError, match="one entry for each of 1 rows"):
        theory.measure([[1.0]], [1.0], [0.0], "squared", etas=[1.0, 1.0])
