import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonline.paper.reference import (
    AdaGrad,
    BlockOja,
    EpochFrequentDirections,
    FrequentDirections,
    FullMatrix,
    Isotropic,
    LowRank,
    Oja,
    PaperFrequentDirections,
    PaperOja,
    ReferenceLearner,
    RobustFrequentDirections,
    compute_eigen_system,
    compute_sparse_eigen_system,
    decompose,
    oja_rotation,
    orthonormalise,
    random_start,
)
from sonline.paper.reference.sketches import tau

seeds = st.integers(0, 2**32 - 1)


def vectors(seed, count, d, *, decay=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, d)) * np.arange(1, d + 1) ** -decay


def covariance(sketch):
    return sketch.S.T @ sketch.S


def relative(a, b):
    return np.abs(a - b).max() / max(np.abs(a).max(), np.abs(b).max(), 1e-300)


LOW_RANK = {
    "oja": Oja,
    "oja scale-free": lambda d, alpha, m: Oja(d, alpha, m, step="scale-free"),
    "oja 2/t": lambda d, alpha, m: Oja(d, alpha, m, step=2.0),
    "fd": FrequentDirections,
    "rfd": RobustFrequentDirections,
    "isotropic": Isotropic,
}


@pytest.mark.parametrize("name", LOW_RANK)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rows_stay_orthonormal_and_eigenvalues_positive(name, scale):
    sketch = LOW_RANK[name](12, 1.0, 5)
    for ghat in scale * vectors(0, 500, 12, decay=1.0):
        sketch.update(ghat)
        gram = sketch.V @ sketch.V.T
        assert np.abs(gram - np.eye(len(gram))).max() < 1e-13
        assert (sketch.ev > 0).all()


@pytest.mark.parametrize("name", [*LOW_RANK, "full"])
def test_solve_is_the_inverse_in_paper_letters(name):
    d, alpha = 8, 0.7
    sketch = FullMatrix(d, alpha) if name == "full" else LOW_RANK[name](d, alpha, 4)
    rows = vectors(1, 30, d)
    for ghat in rows:
        sketch.update(ghat)
    S, H, v = sketch.S, sketch.H, vectors(2, 1, d)[0]
    by_woodbury = (v - S.T @ (H @ (S @ v))) / sketch.alpha
    by_inverse = np.linalg.solve(sketch.alpha * np.eye(d) + S.T @ S, v)
    assert relative(sketch.solve(v), by_inverse) < 1e-12
    assert relative(by_woodbury, by_inverse) < 1e-10


@pytest.mark.parametrize("name", LOW_RANK)
def test_a_zero_vector_changes_nothing_but_the_count(name):
    once, twice = LOW_RANK[name](6, 1.0, 3), LOW_RANK[name](6, 1.0, 3)
    for ghat in vectors(3, 10, 6):
        once.update(ghat)
        twice.update(ghat)
    twice.update(np.zeros(6))
    assert (once.V == twice.V).all()
    assert (once.ev == twice.ev).all()
    assert once.alpha == twice.alpha
    if isinstance(once, Oja):
        assert twice.t == once.t + 1


@given(
    seed=seeds,
    m=st.integers(1, 12),
    extra=st.integers(0, 5),
    log_step=st.floats(-4, 1),
)
def test_closed_form_of_the_oja_step_is_gram_schmidt(seed, m, extra, log_step):
    rng = np.random.default_rng(seed)
    V = orthonormalise(rng.normal(size=(m, m + extra)))
    ghat = rng.normal(size=m + extra)
    step = 10.0**log_step
    closed = oja_rotation(V, V @ ghat, ghat, step)
    by_qr = orthonormalise(V + step * np.outer(V @ ghat, ghat))
    assert np.abs(closed - by_qr).max() < 1e-10


def test_closed_form_keeps_its_digits_where_qr_does_not():
    rng = np.random.default_rng(0)
    m, d, step = 6, 9, 1.0
    V = orthonormalise(rng.normal(size=(m, d)))
    ghat = 3e4 * rng.normal(size=d)
    # Gram-Schmidt in extended precision is the truth.
    rows = V.astype(np.longdouble)
    wide = ghat.astype(np.longdouble)
    rows += step * np.outer(rows @ wide, wide)
    for i in range(m):
        for _ in range(3):
            rows[i] -= (rows[:i] @ rows[i]) @ rows[:i]
        rows[i] /= np.sqrt(rows[i] @ rows[i])
    closed = oja_rotation(V, V @ ghat, ghat, step)
    assert np.abs(closed - rows).max() < 1e-6  # limited by the digits of V itself
    by_qr = orthonormalise(V + step * np.outer(V @ ghat, ghat))
    assert np.abs(by_qr - rows).max() > 10 * np.abs(closed - rows).max()


def test_oja_is_algorithm_3_for_any_orthonormal_start():
    d, m, alpha = 10, 4, 2.0
    V0 = orthonormalise(vectors(4, m, d))
    for step in (1.0, 0.5, 2.0):
        ours = Oja(d, alpha, m, V0=V0, step=step)
        paper = PaperOja(alpha, V0, lambda t, step=step: min(step / t, 1.0))
        for ghat in vectors(5, 200, d):
            ours.update(ghat)
            paper.update(ghat)
            assert relative(covariance(ours), covariance(paper)) < 1e-9
        assert relative(ours.V, paper.V) < 1e-9
        assert relative(ours.H, paper.H) < 1e-9


def test_oja_grows_its_rows_from_the_data():
    sketch = Oja(5, 1.0, 3)
    e = np.eye(5)
    sketch.update(2.0 * e[0])
    sketch.update(4.0 * e[0])  # in the span: rotates (here: not at all) and adds up
    sketch.update(3.0 * e[0] + 1.0 * e[1])
    assert np.allclose(sketch.V, e[:2])
    assert np.allclose(sketch.ev, [4.0 + 16.0 + 9.0, 1.0])
    sketch.update(1e-7 * e[2] + e[0])  # a share of 1e-14 of the energy is not a direction
    assert len(sketch.V) == 2
    sketch.dimension = 2
    sketch.update(e[4])  # no more rows than features seen
    assert len(sketch.V) == 2


def test_oja_with_as_many_rows_as_directions_knows_the_whole_matrix_trace():
    sketch, rows = Oja(6, 1.0, 6), vectors(6, 300, 6)
    for ghat in rows:
        sketch.update(ghat)
    assert sketch.ev.sum() == pytest.approx((rows**2).sum())


def test_block_oja_between_blocks_does_not_change_and_block_one_is_oja():
    d, m = 9, 3
    V0 = orthonormalise(vectors(7, m, d))
    rows = vectors(8, 60, d)
    plain, block_of_one = Oja(d, 1.0, m, V0=V0), BlockOja(d, 1.0, m, block=1, V0=V0)
    blocks = BlockOja(d, 1.0, m, block=m, V0=V0)
    for t, ghat in enumerate(rows, start=1):
        before = covariance(blocks)
        for sketch in (plain, block_of_one, blocks):
            sketch.update(ghat)
        assert relative(covariance(plain), covariance(block_of_one)) < 1e-10
        assert ((covariance(blocks) == before).all()) == (t % m != 0)


def test_block_oja_is_one_power_step_on_the_whole_block():
    d, m = 8, 3
    V0 = orthonormalise(vectors(9, m, d))
    G = vectors(10, m, d)
    sketch = BlockOja(d, 1.0, m, block=m, V0=V0)
    for ghat in G:
        sketch.update(ghat)
    assert np.allclose(sketch.ev, ((G @ V0.T) ** 2).sum(axis=0))
    assert np.allclose(sketch.V, orthonormalise(V0 @ (np.eye(d) + G.T @ G / m)))


def test_block_oja_grows_from_the_data():
    sketch = BlockOja(6, 1.0, 3, block=2)
    for ghat in vectors(11, 20, 6):
        sketch.update(ghat)
    assert np.abs(sketch.V @ sketch.V.T - np.eye(3)).max() < 1e-12


@pytest.mark.parametrize("decay", [0.0, 1.0])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_fd_is_algorithm_2(m, decay):
    ours, paper = FrequentDirections(9, 0.5, m), PaperFrequentDirections(9, 0.5, m)
    for ghat in vectors(12, 200, 9, decay=decay):
        ours.update(ghat)
        paper.update(ghat)
        assert len(ours.ev) <= m - 1
        assert np.abs(covariance(ours) - covariance(paper)).max() < 1e-9


def test_fd_with_more_rows_than_dimensions_is_the_full_matrix():
    d = 7
    full = FullMatrix(d, 1.0)
    others = [
        FrequentDirections(d, 1.0, d + 1),
        RobustFrequentDirections(d, 1.0, d + 1),
        Isotropic(d, 1.0, d),
    ]
    for ghat in vectors(13, 300, d, decay=2.0):
        full.update(ghat)
        for sketch in others:
            sketch.update(ghat)
            assert relative(covariance(full), covariance(sketch)) < 1e-12
            assert sketch.alpha == 1.0


@pytest.mark.parametrize("sketch_class", [FrequentDirections, EpochFrequentDirections])
@pytest.mark.parametrize("decay", [0.0, 0.5, 2.0])
def test_fd_keeps_its_promises(sketch_class, decay):
    d, m = 20, 6
    rows = vectors(14, 240, d, decay=decay)
    sketch = sketch_class(d, 1.0, m)
    for ghat in rows:
        sketch.update(ghat)
    exact = rows.T @ rows
    spectrum = np.linalg.eigvalsh(exact)[::-1]
    for k in range(m):
        assert sketch.shrunk <= spectrum[k:].sum() / (m - k) * (1 + 1e-12)
    lost = np.linalg.eigvalsh(exact - covariance(sketch))
    assert lost[0] >= -1e-9 * spectrum[0]
    assert lost[-1] <= sketch.shrunk * (1 + 1e-12)


def test_robust_fd_shrinks_like_fd_and_keeps_half_in_alpha():
    plain, robust = FrequentDirections(8, 1.0, 3), RobustFrequentDirections(8, 1.0, 3)
    for ghat in vectors(15, 50, 8):
        plain.update(ghat)
        robust.update(ghat)
    assert (plain.V == robust.V).all()
    assert (plain.ev == robust.ev).all()
    assert plain.alpha == 1.0
    assert robust.alpha == pytest.approx(1.0 + plain.shrunk / 2)


def test_epoch_fd_keeps_its_inverse_right_within_an_epoch():
    d, m, alpha = 12, 4, 0.6
    sketch = EpochFrequentDirections(d, alpha, m)
    for ghat in vectors(16, 50, d):
        sketch.update(ghat)
        S = sketch.S
        assert relative(sketch.H, np.linalg.inv(alpha * np.eye(2 * m) + S @ S.T)) < 1e-11
        assert np.abs(sketch.V @ sketch.V.T - np.eye(m)).max() < 1e-12
        assert sketch.D[-1] == 0.0


def test_epoch_fd_loses_nothing_when_m_exceeds_the_dimension_seen():
    d, m = 12, 6
    rows = vectors(17, 48, d)
    rows[:, 5:] = 0.0  # all in five dimensions
    sketch = EpochFrequentDirections(d, 1.0, m, V0=orthonormalise(vectors(18, m, d)))
    for ghat in rows:
        sketch.update(ghat)
    assert relative(covariance(sketch), rows.T @ rows) < 1e-12


@given(seed=seeds, m=st.integers(1, 6), n=st.integers(1, 8), d=st.integers(1, 10))
def test_decompose_postconditions(seed, m, n, d):
    rng = np.random.default_rng(seed)
    P, R = rng.normal(size=(m, n)), rng.normal(size=(n, d))
    L, Q = decompose(P, R @ R.T)
    rank = np.linalg.matrix_rank(P @ R)
    assert L.shape == (m, rank)
    assert Q.shape == (rank, n)
    assert np.allclose(L @ Q @ R, P @ R)
    assert np.abs(Q @ R @ (Q @ R).T - np.eye(rank)).max() < 1e-6


def test_decompose_drops_dependent_rows():
    R = np.eye(3)
    P = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 5.0]])
    L, Q = decompose(P, R @ R.T)
    assert Q.shape == (2, 3)
    assert np.allclose(L @ Q, P)


@pytest.mark.parametrize("rank_of_D", [0, 2, 4])
def test_eigen_systems_are_eigen_systems(rank_of_D):
    rng = np.random.default_rng(rank_of_D)
    d, m = 15, 4
    V = orthonormalise(rng.normal(size=(m, d)))
    D2 = np.where(np.arange(m) < rank_of_D, rng.uniform(1, 5, size=m), 0.0)
    G = rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.4)
    exact = V.T * D2 @ V + G.T @ G
    values = np.linalg.eigvalsh(exact)[::-1][:m]
    dense, Sigma = compute_eigen_system(D2, V, G)
    assert np.allclose(Sigma, values)
    assert np.allclose(exact @ dense.T, dense.T * Sigma)
    # The sparse one, for a factor F that is not the identity.
    F = np.tril(rng.normal(size=(m, m))) + 3 * np.eye(m)
    Z = np.linalg.solve(F, V)
    N1, N2, Sigma = compute_sparse_eigen_system(D2, F, Z, G, Z @ Z.T)
    sparse = N1 @ Z + N2 @ G
    assert np.allclose(Sigma, values)
    assert np.allclose(np.abs(np.sum(sparse * dense, axis=1)), 1.0)
    # The erratum: N1 = Sigma^-1 U1 D^2 F, singular as soon as one D is 0.
    assert np.linalg.matrix_rank(N1, tol=1e-9) == rank_of_D


def test_isotropic_spreads_what_it_drops():
    sketch = Isotropic(5, 1.0, 2)
    for value, e in zip((3.0, 2.0, 1.0), np.eye(5), strict=False):
        sketch.update(value * e)
    assert np.allclose(sketch.ev, [9.0, 4.0])
    assert sketch.alpha == pytest.approx(1.0 + 1.0 / (5 - 2))
    sketch.dimension = 2
    sketch.update(np.eye(5)[4])
    assert sketch.alpha == pytest.approx(1.0 + 1.0 / 3 + 1.0)  # never divides by less than 1


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 1.0])
def test_full_matrix_knows_inverse_and_eigensystem(alpha):
    d = 6
    rows = vectors(20, 40, d, decay=1.0)
    rows[:, 4:] = 0.0
    sketch = FullMatrix(d, alpha)
    for ghat in rows:
        sketch.update(ghat)
    A = alpha * np.eye(d) + rows.T @ rows
    v = vectors(21, 1, d)[0]
    assert relative(sketch.solve(v), np.linalg.pinv(A, rcond=1e-12, hermitian=True) @ v) < 1e-10
    assert sketch.V.shape == (4, d)
    assert relative(sketch.V.T * sketch.ev @ sketch.V, rows.T @ rows) < 1e-12


def test_adagrad_matrix():
    sketch = AdaGrad(3, 2.0)
    sketch.update(np.array([3.0, 0.0, 0.5]))
    sketch.update(np.array([4.0, 0.0, 0.0]))
    assert np.allclose(sketch.solve(np.array([10.0, 7.0, 1.0])), [1.0, 0.0, 1.0])


@given(seed=seeds, bound=st.floats(0.01, 10), size=st.floats(0.0, 100))
def test_projection_is_the_nearest_point(seed, bound, size):
    rng = np.random.default_rng(seed)
    d = 5
    sketch = Isotropic(d, 0.5, 3)
    for ghat in rng.normal(size=(6, d)):
        sketch.update(ghat)
    u, x = size * rng.normal(size=d), rng.normal(size=d)
    w, z = sketch.project(u, x, bound)
    assert abs(w @ x) <= bound * (1 + 1e-9)
    assert z == pytest.approx(w @ x, rel=1e-9, abs=1e-9)
    assert tau(z, bound) == 0.0
    A = sketch.alpha * np.eye(d) + covariance(sketch)
    distance = (w - u) @ A @ (w - u)
    for other in w + rng.normal(size=(20, d)):
        if abs(other @ x) <= bound:
            assert distance <= (other - u) @ A @ (other - u) + 1e-9 * (1 + distance)


def test_projection_leaves_alone_what_is_inside():
    sketch = LowRank(2, 1.0)
    u = np.array([0.3, 0.4])
    w, z = sketch.project(u, np.array([1.0, 1.0]), 1.0)
    assert w is u
    assert z == pytest.approx(0.7)
    w, z = sketch.project(u, np.zeros(2), 1.0)  # no 0/0
    assert w is u
    assert z == 0.0


def test_random_start_stands_for_all_features() -> None:
    """The features that the data never has matter only by their inner products."""
    rng = np.random.default_rng(0)
    features, m, dimension = 6, 3, 40
    X, y = rng.normal(size=(80, features)), np.sign(rng.normal(size=80))
    V0 = random_start(1 + features, m, dimension, seed=4)
    drawn = np.linalg.qr(np.random.default_rng(4).standard_normal((dimension, m)))[0].T
    short, whole = (
        ReferenceLearner("squared", "oja", m, step="implicit", V0=start).learn(
            np.hstack([X, np.zeros((80, start.shape[1] - 1 - features))]), y
        )
        for start in (V0, drawn)
    )
    np.testing.assert_allclose(short, whole, rtol=1e-9, atol=1e-9)
