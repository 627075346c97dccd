"""Theorems A, B and C: what holds for the isotropic sketch, and where it fails."""

import math

import numpy as np
import pytest

from sonline import OnlineLearner
from sonline.errors import InvalidInputError
from sonline.paper import theory
from sonline.paper.reference import Isotropic, ReferenceLearner, make_loss

KINDS = ("flat", "decaying", "spiked", "rotating", "scaled", "blocks", "noise")


def hostile(kind, T=200, d=12, m=3):
    """Return rows; those of "rotating", "blocks" and "noise" are unit vectors in runs."""
    rng = np.random.default_rng(19)
    rows = rng.normal(size=(T, d))
    if kind == "decaying":
        rows *= np.arange(1, d + 1) ** -2.0
    elif kind == "spiked":
        rows[:, :3] *= 10.0
    elif kind == "rotating":
        rows = np.repeat(np.eye(d), 20, axis=0)[:T] * 3.0
    elif kind == "scaled":
        rows *= np.logspace(-3, 3, T)[:, None]
    elif kind == "blocks":
        rows = theory.block_stream(d, m, 20)[0]
    elif kind == "noise":
        rows = theory.noise_stream(d, m, 100, 10)[0]
    return rows


def matrix(sketch):
    return sketch.alpha * np.eye(sketch.d) + sketch.V.T * sketch.ev @ sketch.V


class PartlyShrunk(Isotropic):
    """Theorem B: when a direction is dropped, the p last that are kept shrink by as much."""

    p = 2

    def update(self, ghat):
        self.insert(ghat)
        if len(self.ev) > self.m:
            lost = self.ev[-1]
            self.tail += (self.p + 1) * lost / (self.d - self.m)
            self.ev[-self.p - 1 :] -= lost
            self.V, self.ev = self.V[:-1], self.ev[:-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [1, 3, 8])
def test_each_step_of_the_lemma(kind, m):
    rows = hostile(kind, m=m)
    d = rows.shape[1]
    sketch = Isotropic(d, 0.3, m)
    discarded = 0.0
    for ghat in rows:
        before, tail = matrix(sketch), sketch.tail
        inserted = Isotropic(d, 0.3, m + 1)
        inserted.V, inserted.ev = sketch.V, sketch.ev
        inserted.update(ghat)
        sketch.update(ghat)
        A, a, delta = matrix(sketch), sketch.alpha, sketch.tail - tail
        lost = inserted.ev[m] if len(inserted.ev) > m else 0.0
        discarded += lost
        assert delta == pytest.approx(lost / (d - m))
        if lost:
            u = inserted.V[m]
            change = np.outer(ghat, ghat) - lost * np.outer(u, u) + delta * np.eye(d)
            assert np.allclose(A - before, change, atol=1e-9 * np.trace(A))
            assert u @ sketch.solve(u) == pytest.approx(1.0 / a)
        inverse = np.linalg.inv(A)
        assert delta * np.trace(inverse) >= lost / a * (1 - 1e-9)
        growth = np.linalg.slogdet(A)[1] - np.linalg.slogdet(before)[1]
        assert np.sum(inverse * (A - before)) <= growth + 1e-9
        assert ghat @ inverse @ ghat <= growth + 1e-9
    # the trace is not kept: the tail is added to the kept directions as well
    excess = np.trace(matrix(sketch)) - 0.3 * d - np.sum(rows**2)
    assert discarded > 0.0
    assert excess == pytest.approx(discarded * m / (d - m), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "p"), [(1, 0), (3, 2), (8, 3), (8, 8)])
def test_theorem_b_bounds_the_tail(kind, m, p):
    rows = hostile(kind, m=m)
    d = rows.shape[1]
    sketch = PartlyShrunk(d, 0.3, m)
    sketch.p = p
    left = 0.0
    for ghat in rows:
        sketch.update(ghat)
        left += ghat @ np.linalg.solve(matrix(sketch), ghat)
    log_det = np.linalg.slogdet(matrix(sketch))[1] - d * math.log(0.3)
    assert left <= log_det * (1 + 1e-9)  # the lemma holds for this rule, too
    spectrum = np.linalg.eigvalsh(rows.T @ rows)[::-1]
    assert sketch.tail > 0.0
    for k in range(p + 1):
        limit = (p + 1) * spectrum[k:].sum() / ((p + 1 - k) * (d - m))
        assert sketch.tail <= limit * (1 + 1e-9) + 1e-9


def theorem_a(X, y, loss, m, *, alpha=1.0, bound=1.0, eta=0.0):
    """Return regret and bound of a learner in the setting of Theorem A, and the tail's cost."""
    function = make_loss(loss)
    sigma, lipschitz = function.sigma(bound), function.lipschitz(bound)
    etas = theory.convex_etas(len(X), m, bound, lipschitz) if eta == "convex" else None
    learner = ReferenceLearner(
        loss, "isotropic", m, alpha=alpha, bound=bound, eta=eta, intercept=False
    )
    best = theory.best_comparator(X, y, loss, bound)
    predictions, cost = theory.isotropic_tail_cost(learner, X, y, best.weights)
    measured = theory.measure(X, y, predictions, loss, sigma=sigma, etas=etas)
    limit = theory.isotropic_bound(
        measured,
        theory.Assumptions(bound, lipschitz, sigma, etas),
        comparator_norm2=best.weights @ best.weights,
        alpha=alpha,
        eigenvalues=learner.ev,
        tail=learner.sketch.tail,
        tail_cost=cost,
    )
    return theory.regret(predictions, best.predictions, y, loss)[-1], limit, cost


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "hinge"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "alpha"), [(1, 10.0), (3, 0.1)])
@pytest.mark.parametrize("learnable", [True, False])
def test_regret_is_under_theorem_a(loss, kind, m, alpha, learnable):
    X = hostile(kind, T=100, d=8, m=m)
    X = X / np.abs(X).max()
    rng = np.random.default_rng(4)
    z = X @ rng.normal(size=X.shape[1]) * learnable + 0.3 * rng.normal(size=len(X))
    y = np.clip(z, -1.0, 1.0) if loss == "squared" else np.where(z > 0, 1.0, -1.0)
    eta = "convex" if loss == "hinge" else 0.0
    regret, limit, _ = theorem_a(X, y, loss, m, alpha=alpha, eta=eta)
    assert regret <= limit


@pytest.mark.parametrize("m", [3, 11])
def test_theorem_a_on_its_own_hard_streams(m):
    for X, y in (
        theory.block_stream(m + 9, m, 60),
        theory.noise_stream(m + 9, m, 600, 20),
    ):
        regret, limit, _ = theorem_a(X, y, "squared", m)
        assert 0.0 < regret <= limit


def test_the_cost_of_the_tail_cannot_be_left_out():
    X, y = theory.noise_stream(6, 1, 1200, 150)
    regret, limit, cost = theorem_a(X, y, "squared", 1)
    assert limit - 0.5 * cost < regret <= limit


class TestTheoremC:
    m, d, alpha = 3, 20, 1.0

    def losses(self, noise, **parameters):
        rows = noise // (8 * (self.d - self.m))
        X, y = theory.noise_stream(self.d, self.m, noise, rows)
        learner = OnlineLearner(
            loss="squared",
            sketch_size=self.m,
            alpha=self.alpha,
            bound=1.0,
            scaling="none",
            intercept=False,
            step="explicit",
            curvature="gradient",
            sketch_every=1,
            **parameters,
        )
        best = np.r_[np.full(self.m, 0.5), 0.0, np.ones(self.d - self.m - 1)]
        predictions = learner.learn(X, y)
        regret = theory.regret(predictions, X @ best, y, "squared")[-1]
        return regret, rows, theory.measure(X, y, predictions, "squared", sigma=0.25), best

    @pytest.mark.parametrize("noise", [680, 2720, 10880])
    def test_regret_is_above_the_lower_bound(self, noise):
        regret, rows, *_ = self.losses(noise, sketch="isotropic")
        limit = theory.isotropic_lower_bound(self.d, self.m, noise, rows, self.alpha)
        assert regret >= limit >= rows * (self.d - self.m - 1) / 8

    def test_it_is_linear_and_that_of_the_full_matrix_is_not(self):
        few, many = (self.losses(noise, sketch="isotropic")[0] for noise in (2720, 10880))
        assert many >= 3.5 * few
        few, *_ = self.losses(2720, sketch="full")
        many, _, measured, best = self.losses(10880, sketch="full")
        limit = theory.theorem2_bound(
            measured,
            theory.Assumptions(1.0, 2.0, 0.25),
            comparator_norm2=best @ best,
            alpha=self.alpha,
        )
        assert many <= few + 10.0
        assert many <= limit

    def test_needs_its_setting(self):
        with pytest.raises(InvalidInputError, match=r"alpha >= 1, got 0\.5"):
            theory.isotropic_lower_bound(4, 2, 2, 1, 0.5)
        with pytest.raises(InvalidInputError, match="d > m >= 0 and an even number"):
            theory.noise_stream(4, 2, 3, 1)
        with pytest.raises(InvalidInputError, match="d > m >= 0"):
            theory.block_stream(4, 4, 1)


class TestBlockStream:
    X, y = theory.block_stream(60, 11, 1000)

    def loss(self, **parameters):
        learner = OnlineLearner(loss="squared", **parameters)
        return 0.5 * np.sum((learner.learn(self.X, self.y) - self.y) ** 2)

    @pytest.mark.parametrize("alpha", [1.0, "relative:0.03"])
    def test_isotropic_with_one_alpha_fails(self, alpha):
        isotropic = self.loss(sketch="isotropic", alpha=alpha)
        assert isotropic > 0.2 * len(self.y)  # labels are 1 and -1: predicting 0 costs 1/2 a row
        assert isotropic > 50 * self.loss(sketch="full", alpha=alpha)

    @pytest.mark.parametrize("sketch", ["fd", "full", "adagrad"])
    def test_others_do_not(self, sketch):
        assert self.loss(sketch=sketch, alpha=1.0) < 0.002 * len(self.y)

    def test_the_default_is_protected(self):
        assert self.loss() < 0.005 * len(self.y)

    def test_lower_bound_of_the_page(self):
        # half of the blocks start with a tail of at least n/2, and lose 1/8 in n/4 rows
        setting = {"scaling": "none", "intercept": False, "sketch_every": 1, "alpha": 1.0}
        for step in ("implicit", "explicit"):
            assert self.loss(**setting, step=step) > len(self.y) / 64


def test_tail_cost_needs_the_setting_of_theorem_a():
    X, y, w = [[1.0]], [1.0], [0.0]
    for wrong in (
        {"sketch": "fd"},
        {"bound": None},
        {"step": "implicit"},
        {"curvature": "hessian"},
        {"alpha": "relative:1"},
        {"scaling": "gradient"},
        {"clip": True},
        {"intercept": True},
    ):
        setting = {"sketch": "isotropic", "bound": 1.0, "intercept": False} | wrong
        with pytest.raises(InvalidInputError, match="Theorem A needs a new learner"):
            theory.isotropic_tail_cost(ReferenceLearner("squared", **setting), X, y, w)
