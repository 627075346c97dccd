"""OnlineLearner.merge: exactness, the dense oracle, features, rounds, errors."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from helpers import LOW_RANK, learner, stream
from oracle.merging import merged_sketch, merged_weights
from sonline import OnlineLearner, SONClassifier, SONRegressor, river
from sonline.errors import InvalidInputError, ParameterError
from sonline.labels import ClassTable
from sonline.merging.state import outputs_of, read
from sonline.model import Model
from sonline.parameters import SKETCHES, Parameters

RLS = {"loss": "squared", "sketch": "full", "curvature": "hessian", "scaling": "none"}


def trained(shards, X, y, **parameters):
    """Return learners of every shards-th row."""
    learners = [learner(**parameters) for _ in range(shards)]
    for number, shard in enumerate(learners):
        shard.learn(X[number::shards], y[number::shards])
    return learners


def dense(one):
    """Return A and its sketch part, both with the intercept."""
    V, ev = one.basis(), one.spectrum()
    S = (V.T * ev) @ V
    return S + one.stats()["alpha"] * np.eye(len(S)), S


def vector(one, size):
    """Return the weights, the intercept first, features in the order of their index."""
    weights = one.weights()
    return np.array([one.bias, *(weights.get(i, 0.0) for i in range(size))])


@pytest.mark.parametrize("alpha", [0.5, 0.0])
@pytest.mark.parametrize("shards", [2, 3, 7, 17])
def test_full_matrix_is_the_fit_of_the_union(shards, alpha):
    X, y = stream("emerging", "squared", 1200, 12)
    whole = learner(alpha=alpha, **RLS)
    whole.learn(X, y)
    first, *others = trained(shards, X, y, alpha=alpha, **RLS)
    merged = first.merge(others)
    rows = np.random.default_rng(1).normal(size=(100, 12))
    np.testing.assert_allclose(merged.predict(rows), whole.predict(rows), atol=1e-9)
    if alpha > 0:
        A = np.c_[np.ones(1200), X]
        ridge = np.linalg.solve(A.T @ A + alpha * np.eye(13), A.T @ y)
        np.testing.assert_allclose(vector(merged, 12), ridge, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 0.0])
def test_full_matrix_is_exact_in_several_rounds(alpha):
    X, y = stream("emerging", "squared", 1200, 12)
    whole = learner(alpha=alpha, **RLS)
    whole.learn(X, y)
    start = None
    for first in range(0, 1200, 400):
        shards = [copy.deepcopy(start) if start else learner(alpha=alpha, **RLS) for _ in range(5)]
        for number, shard in enumerate(shards):
            rows = slice(first + number, first + 400, 5)
            shard.learn(X[rows], y[rows])
        start = shards[0].merge(shards[1:], start=start)
    assert start.stats()["rounds"] == 1200
    rows = np.random.default_rng(1).normal(size=(100, 12))
    np.testing.assert_allclose(start.predict(rows), whole.predict(rows), atol=1e-9)


@pytest.mark.parametrize("trained_start", [False, True])
@pytest.mark.parametrize("sketch", LOW_RANK)
def test_sketches_agree_with_the_dense_oracle(sketch, trained_start):
    d, m, K = 9, 4, 3
    parameters = {"sketch": sketch, "sketch_size": m, "alpha": 0.7, "scaling": "none"}
    X, y = stream("unit", "logistic", 900, d)
    start = learner(**parameters)
    if trained_start:
        start.learn(X[:300], y[:300])
    shards = [copy.deepcopy(start) for _ in range(K)]
    for number, shard in enumerate(shards):
        shard.learn(X[300 + number :: K], y[300 + number :: K])
    merged = shards[0].merge(shards[1:], start=start if trained_start else None)

    size = d + 1
    A0, S0 = dense(start) if trained_start else (0.7 * np.eye(size), np.zeros((size, size)))
    w0 = vector(start, d) if trained_start else np.zeros(size)
    each, sketches = zip(*(dense(shard) for shard in shards), strict=True)
    S, added = merged_sketch(sketch, m, sketches, S0)
    np.testing.assert_allclose(dense(merged)[1], S, atol=1e-9)
    tails = (
        sum(shard.stats()["alpha"] - start.stats()["alpha"] for shard in shards)
        if trained_start
        else sum(shard.stats()["alpha"] - 0.7 for shard in shards)
    )
    np.testing.assert_allclose(merged.stats()["alpha"], A0[0, 0] - S0[0, 0] + tails + added)

    weights = [vector(shard, d) for shard in shards]
    if sketch == "oja":  # the weights by rows seen
        wanted = np.mean(weights, axis=0)
    else:  # the prior is subtracted where alpha includes the losses of the sketch
        subtracted = K - 1 if sketch != "fd" and not trained_start else 0
        wanted = merged_weights(each, weights, A0, w0, subtracted)
    np.testing.assert_allclose(vector(merged, d), wanted, atol=1e-9)


@pytest.mark.parametrize("sketch", ["rfd", "isotropic"])
def test_scaled_features_are_merged_in_raw_coordinates(sketch):
    """Shards whose scales are far apart; A of the raw features is diag(s) A diag(s)."""
    d, alpha = 6, 0.7
    parameters = {"sketch": sketch, "alpha": alpha, "scaling": "rms", "intercept": False}
    X, y = stream("unit", "logistic", 900, d)
    learners = [learner(**parameters) for _ in range(3)]
    for number, shard in enumerate(learners):
        size = np.random.default_rng(number).uniform(0.1, 10, size=d)
        shard.learn(X[number::3] * size, y[number::3])
    merged = learners[0].merge(learners[1:])

    def known(shard):
        state = outputs_of(shard.model.core.knowledge())[0]
        return read(shard.model.parameters, state, state["features"])

    every = [known(shard) for shard in learners]
    counts = sum(shard.counts for shard in every)
    squares = sum(shard.counts * shard.squares for shard in every)[1:] / counts[1:]
    np.testing.assert_allclose(known(merged).squares[1:], squares, rtol=1e-12)
    A, right = alpha * np.diag(squares), np.zeros(d)
    for shard in every:
        scale, V = np.sqrt(shard.squares[1:]), shard.V[:, 1:]
        S = shard.tail * np.eye(d) + (V.T * shard.ev) @ V
        raw = S * np.outer(scale, scale)
        A += raw
        right += (raw + alpha * np.diag(scale**2)) @ (shard.weights[0, 1:] / scale)
    wanted = np.linalg.solve(A, right)
    np.testing.assert_allclose([merged.weights()[i] for i in range(d)], wanted, atol=1e-9)


@pytest.mark.parametrize("changed", [{"loss": "hinge"}, {"curvature": "gradient"}])
@pytest.mark.parametrize("sketch", [*LOW_RANK, "full"])
def test_squared_gradients_are_no_precision(sketch, changed):
    X, y = stream("unit", "logistic", 900, 9)
    learners = trained(3, X, y, sketch=sketch, alpha=0.7, scaling="none", **changed)
    merged = learners[0].merge(learners[1:])
    wanted = np.mean([vector(learner, 9) for learner in learners], axis=0)
    np.testing.assert_allclose(vector(merged, 9), wanted, atol=1e-9)
    if sketch != "full":  # the sketches add up all the same
        S, _ = merged_sketch(
            sketch, 4, [dense(learner)[1] for learner in learners], np.zeros((10, 10))
        )
        np.testing.assert_allclose(dense(merged)[1], S, atol=1e-9)


def test_weight_vectors_that_failed_have_no_say():
    """In one learner all but the first of a blend have failed, in the other all but the last."""
    X, y = stream("unit", "squared", 600, 5)
    learners = trained(2, X, y, loss="squared", sketch="oja", scaling="none", intercept=False)
    for model, best in zip(learners, (0, -1), strict=True):
        document, tensors = model.__getstate__()
        share = np.full_like(tensors["0.later.members"], 1e-9)
        share[best] = 1.0
        shares = {f"0.{use}.members": share for use in ("next", "later")}
        # Factors are averaged apart from the weights: here all are 1.
        ones = np.ones_like(tensors["0.later.factors"])
        factors = {f"0.{use}.factors": ones for use in ("next", "later")}
        model.__setstate__((document, tensors | shares | factors))
    merged = learners[0].merge(learners[1:])
    each = np.mean([model.predict(X) for model in learners], axis=0)
    np.testing.assert_allclose(merged.predict(X), each, atol=1e-6)


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("scaling", ["none", "rms", "auto", "gradient"])
def test_merged_learner_is_a_learner(sketch, scaling, tmp_path):
    X, y = stream("emerging", "logistic", 800, 20)
    shards = trained(6, X, y, sketch=sketch, scaling=scaling, clip=True)
    before = [pickle.dumps(learner) for learner in shards]
    merged = shards[0].merge(shards[1:])
    assert [pickle.dumps(learner) for learner in shards] == before
    assert merged.stats()["rounds"] == 800
    assert merged.stats()["features"] == 21
    V = merged.basis()
    np.testing.assert_allclose(V @ V.T, np.eye(len(V)), atol=1e-9)
    merged.save(tmp_path / "m.sonline")
    twins = [OnlineLearner.load(tmp_path / "m.sonline"), pickle.loads(pickle.dumps(merged))]
    expected = merged.learn(X, y)
    for twin in twins:
        np.testing.assert_array_equal(twin.learn(X, y), expected)
        np.testing.assert_array_equal(twin.predict(X), merged.predict(X))
    again = merged.merge([shards[0]])
    assert again.stats()["rounds"] == 1600 + 134
    assert np.isfinite(again.predict(X)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scaling", ["none", "rms", "auto", "gradient"])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_alone_or_with_an_empty_one_nothing_changes(sketch, scaling, dtype):
    X, y = stream("emerging", "logistic", 300, 20)
    parameters = {"sketch": sketch, "scaling": scaling, "dtype": dtype, "clip": True}
    shard = learner(**parameters)
    shard.learn(X, y)
    np.testing.assert_array_equal(shard.merge([]).predict(X), shard.predict(X))
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    empty = learner(**parameters)
    for merged in (shard.merge([empty]), empty.merge([shard]), shard.merge([shard], start=shard)):
        np.testing.assert_allclose(merged.predict(X), shard.predict(X), atol=tolerance)
        np.testing.assert_allclose(merged.spectrum(), shard.spectrum(), rtol=1e-4)
        assert merged.stats()["rounds"] == 300
        assert merged.stats()["alpha"] == pytest.approx(shard.stats()["alpha"])


@pytest.mark.parametrize("sketch", SKETCHES)
def test_order_matters_for_rounding_only(sketch):
    X, y = stream("emerging", "logistic", 600, 20)
    a, b, c = trained(3, X, y, sketch=sketch)
    np.testing.assert_allclose(a.merge([b, c]).predict(X), c.merge([a, b]).predict(X), atol=1e-8)


@pytest.mark.parametrize("sketch", ["full", "none", "oja", "adagrad"])
def test_exact_merges_are_associative(sketch):
    X, y = stream("emerging", "squared", 900, 10)
    more = RLS if sketch == "full" else {"sketch": sketch, "alpha": "relative:0.1"}
    a, b, c = trained(3, X, y, **{"loss": "squared", "alpha": 0.5, "scaling": "rms", **more})
    left, right, flat = a.merge([b]).merge([c]), a.merge([b.merge([c])]), a.merge([b, c])
    np.testing.assert_allclose(left.predict(X), right.predict(X), atol=1e-7)
    np.testing.assert_allclose(left.predict(X), flat.predict(X), atol=1e-7)


@pytest.mark.parametrize("hash_bits", [None, 12])
def test_names_are_united_by_name(hash_bits):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(40)]
    truth = dict(zip(words, rng.normal(size=40), strict=True))

    def rows(count, known):
        out = [
            {str(w): float(rng.normal()) for w in rng.choice(known, 6, replace=False)} | {7: 1.0}
            for _ in range(count)
        ]
        return out, np.array([np.sign(sum(truth.get(k, 0) * v for k, v in x.items())) for x in out])

    # Two shards that share ten of forty names, and meet them in another order.
    known = words[:25], words[:14:-1]
    shards = [OnlineLearner(hash_bits=hash_bits) for _ in known]
    for model, part in zip(shards, known, strict=True):
        model.learn(*rows(1500, part))
    merged = shards[0].merge(shards[1:])
    if hash_bits is None:
        assert set(merged.features()) == {*words, 7}
        assert merged.features()[: len(shards[0].features())] == shards[0].features()
        only = (set(words[:15]), set(words[25:]))
        for model, part in zip(shards, only, strict=True):
            largest = max(abs(weight) for weight in model.weights().values())
            for word in part:  # features of one shard only keep their sign, if not near 0
                weight = model.weights()[word]
                assert abs(weight) < 0.1 * largest or merged.weights()[word] * weight > 0
    X, y = rows(1000, words)
    errors = [np.mean(np.sign(model.predict(X)) != y) for model in (merged, *shards)]
    assert errors[0] < 0.7 * min(errors[1:])
    before = merged.stats()["features"]
    merged.learn_one({"new word": 1.0, "w0": 2.0}, 1)
    assert merged.stats()["features"] == before + 1


def test_far_and_sparse_indices_are_united():
    a, b = learner(), learner()
    a.learn(sp.csr_array(([1.0, 2.0], ([0, 0], [3, 2**40])), shape=(1, 2**41)), [1])
    b.learn(sp.csr_array(([1.0, 2.0], ([0, 0], [2**40, 0])), shape=(1, 2**41)), [-1])
    merged = a.merge([b])
    assert merged.features() == [3, 2**40, 0]
    assert merged.weights()[3] > 0 > merged.weights()[0]


def test_learners_of_another_kind_are_refused():
    with pytest.raises(ParameterError, match=r"model 3 has sketch_size=5, the first has 4"):
        learner().merge([learner(), learner(sketch_size=5)])
    with pytest.raises(ParameterError, match="alpha"):
        learner().merge([], start=learner(alpha=1.0))
    zero, minus = learner(), learner()
    zero.learn(np.ones((2, 1)), [0, 1])
    minus.learn(np.ones((2, 1)), [-1, 1])
    with pytest.raises(InvalidInputError, match="0 and 1"):
        zero.merge([minus])
    with pytest.raises(InvalidInputError, match="cannot have continued from it"):
        learner().merge([zero], start=zero)


@pytest.mark.parametrize(
    "face", [OnlineLearner, SONClassifier, river.SONClassifier, river.SONRegressor]
)
def test_only_learners_can_be_merged(face):
    model = face()
    if face is SONClassifier:
        model.fit(np.eye(2), [0, 1])
    for others in (None, 3, "ab", [None], [model, "ab"], model):
        with pytest.raises(InvalidInputError, match=r"merge takes a list of .*: model.merge\(\["):
            model.merge(others)
    with pytest.raises(InvalidInputError, match=r"start must be a learner or an estimator"):
        model.merge([], start="ab")


def test_an_estimator_merges_with_its_like():
    model = SONClassifier().fit(np.eye(2), [0, 1])
    with pytest.raises(InvalidInputError, match="cannot be merged with a OnlineLearner"):
        model.merge([OnlineLearner()])


def test_labels_are_remembered():
    a, b = learner(), learner()
    a.learn(np.ones((2, 1)), [1, 1])
    b.learn(np.ones((2, 1)), [0, 1])
    with pytest.raises(InvalidInputError, match="label"):
        a.merge([b]).learn(np.ones((1, 1)), [-1])


# -- estimators ------------------------------------------------------------------------------------


def classes_of(X):
    return np.array(list("abcde"))[np.abs(X[:, :5]).argmax(axis=1)]


def test_classifiers_with_named_classes_merge():
    rng = np.random.default_rng(0)
    W, X = rng.normal(size=(5, 12)), rng.normal(size=(6000, 12))
    y = np.array(list("abcde"))[(X @ W.T).argmax(axis=1)]
    shards = [
        SONClassifier().partial_fit(X[n:5000:4], y[n:5000:4], classes=list("abcde"))
        for n in range(4)
    ]
    merged = shards[0].merge(shards[1:])
    scores = [learner.score(X[5000:], y[5000:]) for learner in (merged, *shards)]
    assert scores[0] >= max(scores[1:])
    assert merged.progress_.rows == 5000
    assert merged.progressive_loss_ == pytest.approx(
        np.mean([learner.progressive_loss_ for learner in shards])
    )
    assert merged.progressive_score_ == pytest.approx(
        np.mean([learner.progressive_score_ for learner in shards])
    )
    merged.partial_fit(X[:10], y[:10])
    other = SONClassifier().partial_fit(X[:9], y[:9], classes=list("abcdef"))
    with pytest.raises(InvalidInputError, match="different classes"):
        shards[0].merge([other])
    with pytest.raises(InvalidInputError, match="cannot be merged with a SONRegressor"):
        shards[0].merge([SONRegressor().partial_fit(X[:9], X[:9, 0])])


@pytest.mark.parametrize("declared", [2, 5])
def test_classes_that_were_discovered_are_united(declared):
    # The same rows in the same shards, once with the classes known beforehand.
    rng = np.random.default_rng(0)
    names = list("abcde"[:declared])
    X = rng.normal(size=(900, 6))
    y = np.array(names)[np.abs(X[:, :declared]).argmax(axis=1)]
    parts = [(X[n::3][::-1] if n else X[n::3], y[n::3][::-1] if n else y[n::3]) for n in range(3)]
    parts[1] = tuple(values[parts[1][1] != "a"] for values in parts[1])
    known = [SONClassifier(dtype="float64").partial_fit(*p, classes=names) for p in parts]
    learners = [
        SONClassifier(dtype="float64", discover_classes=True).partial_fit(*p) for p in parts
    ]
    for first in range(3):
        order = [first, *(n for n in range(3) if n != first)]
        wanted = known[order[0]].merge([known[n] for n in order[1:]])
        merged = learners[order[0]].merge([learners[n] for n in order[1:]])
        assert merged.classes_.tolist() == names
        np.testing.assert_allclose(
            merged.decision_function(X), wanted.decision_function(X), atol=1e-9
        )
        merged.partial_fit(X[:50], np.array(["new"] * 50))
        assert "new" in merged.classes_


def test_regressors_merge(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8))
    y = 100 + X @ rng.normal(size=8) + 0.1 * rng.normal(size=4000)
    shards = [SONRegressor().partial_fit(X[n:3000:3], y[n:3000:3]) for n in range(3)]
    merged = shards[0].merge(shards[1:])
    assert merged.score(X[3000:], y[3000:]) > np.mean([s.score(X[3000:], y[3000:]) for s in shards])
    scores = [learner.progressive_score_ for learner in shards]
    assert min(scores) <= merged.progressive_score_ <= max(scores)
    merged.save(tmp_path / "m.sonline")
    np.testing.assert_array_equal(
        SONRegressor.load(tmp_path / "m.sonline").predict(X), merged.predict(X)
    )
    with pytest.raises(Exception, match="not fitted"):
        SONRegressor().merge(shards)


def test_rounds_of_an_estimator_count_the_start_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))
    y = X[:, 0] > 0
    start = SONClassifier().partial_fit(X[:1000], y[:1000], classes=[False, True])
    shards = [copy.deepcopy(start).partial_fit(X[1000 + n :: 2], y[1000 + n :: 2]) for n in (0, 1)]
    merged = shards[0].merge(shards[1:], start=start)
    assert merged.progress_.rows == 3000
    losses = [learner.progress_.total for learner in (*shards, start)]
    assert merged.progress_.total == pytest.approx(losses[0] + losses[1] - losses[2])


def test_class_learners_need_the_same_classes():
    parameters = Parameters()
    two, three = (Model(parameters, ClassTable(tuple(range(n)))) for n in (2, 3))
    with pytest.raises(InvalidInputError, match=r"different classes, such as \[0, 1\]"):
        two.merge([three])
    with pytest.raises(InvalidInputError, match="a model of classes cannot be merged with one of"):
        two.merge([Model(parameters)])


def test_river_models_merge():
    river = pytest.importorskip("sonline.river")
    rng = np.random.default_rng(0)
    rows = [dict(zip("abc", rng.normal(size=3).tolist(), strict=True)) for _ in range(900)]
    label = [max(x, key=x.get) for x in rows]
    parts = [slice(0, 300), slice(599, 299, -1), slice(600, 900)]
    models = [river.SONClassifier() for _ in parts]
    for model, part in zip(models, parts, strict=True):
        for x, y in zip(rows[part], label[part], strict=True):
            model.learn_one(x, y)
    merged = models[0].merge([*models[1:], river.SONClassifier()])
    right = np.mean([merged.predict_one(x) == y for x, y in zip(rows, label, strict=True)])
    assert right > 0.9
    merged.learn_one({"a": 1.0}, "new")
    assert merged.predict_proba_one({"a": 1.0}).keys() == {"a", "b", "c", "new"}
    numbers = [river.SONRegressor() for _ in parts]
    for model, part in zip(numbers, parts, strict=True):
        for x in rows[part]:
            model.learn_one(x, x["a"] + 2 * x["b"])
    assert numbers[0].merge(numbers[1:]).predict_one({"a": 1.0, "b": 1.0}) == pytest.approx(3, 0.05)
    flags = [river.SONClassifier() for _ in range(2)]
    flags[0].learn_one({"a": 1.0}, True)
    flags[1].learn_one({"a": 1.0}, "text")
    with pytest.raises(InvalidInputError, match="different classes"):
        flags[0].merge(flags[1:])


def test_merging_keeps_the_higher_limit_of_a_long_tail():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=8000), rng.lognormal(3, 1, 8000)])
    y = X @ [3.0, 2.0]
    shards = [OnlineLearner(loss="squared") for _ in range(2)]
    for number, shard in enumerate(shards):
        shard.learn(X[number::2], y[number::2])
    merged = shards[0].merge(shards[1:])
    raised = max(shard._model.core.save()["scales.limits"].max() for shard in shards)
    assert merged._model.limits()[1][-1] == pytest.approx(np.sqrt(raised))
    assert merged._model.limits()[1][-1] > 10 * merged._model.core.scales()[-1]


def test_columns_of_estimators_may_have_any_order():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = frame["a"] - 2 * frame["b"]
    first = SONRegressor(random_state=0).fit(frame[:100], y[:100])
    same = SONRegressor(random_state=0).fit(frame[100:], y[100:])
    other = SONRegressor(random_state=0).fit(frame.loc[100:, ["c", "b", "a"]], y[100:])
    merged = first.merge([other])
    assert merged.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(merged.predict(frame), first.merge([same]).predict(frame), atol=0.05)
    lacking = SONRegressor().fit(frame[["a", "b"]], y)
    with pytest.raises(InvalidInputError, match="different names of columns: 'c' not in all"):
        first.merge([lacking])
