"""Properties of merging that hold for any learners."""

import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from helpers import learner, stream
from sonline.errors import DivergenceError
from sonline.merging import FAN_IN, groups
from sonline.parameters import SKETCHES

PARAMETERS = st.fixed_dictionaries(
    {
        "sketch": st.sampled_from(SKETCHES),
        "loss": st.sampled_from(["squared", "logistic", "hinge", "squared_hinge"]),
        "alpha": st.sampled_from(["auto", 8.0, "relative:2"]),
        "scaling": st.sampled_from(["none", "rms", "auto", "gradient"]),
        "dtype": st.sampled_from(["float32", "float64"]),
        "sketch_size": st.integers(0, 6),
        "intercept": st.booleans(),
        "hash_bits": st.sampled_from([None, 3]),
        "bound": st.sampled_from([None, 1.0]),
    }
)


def shards(parameters, cuts, seed):
    """Return learners of parts of a stream; parts may be empty."""
    X, y = stream("emerging", parameters["loss"], 60, 8, seed)
    ends = [0, *sorted(cuts), 60]
    learners = [learner(**parameters) for _ in ends[1:]]
    for shard, first, last in zip(learners, ends, ends[1:], strict=False):
        shard.learn(X[first:last], y[first:last])
    return X, learners


def state(one):
    """Return everything that is saved."""
    document, tensors = one.__getstate__()
    return document, {name: (t.dtype, t.shape, t.tobytes()) for name, t in tensors.items()}


@given(PARAMETERS, st.lists(st.integers(0, 60), max_size=8), st.integers(0, 5))
def test_same_learners_in_the_same_order_give_the_same_bits(parameters, cuts, seed):
    X, learners = shards(parameters, cuts, seed)
    first, other = (learners[0].merge(learners[1:]) for _ in range(2))
    assert state(first) == state(other)
    assert np.isfinite(first.predict(X)).all()
    assert first.stats()["rounds"] == 60
    V = first.basis()
    np.testing.assert_allclose(V @ V.T, np.eye(len(V)), atol=1e-6)
    assert (first.spectrum() >= 0).all()
    if parameters["bound"] is not None:
        assert np.abs(first.predict(X)).max() <= parameters["bound"]


@settings(max_examples=20)
@given(PARAMETERS, st.lists(st.integers(0, 60), min_size=4, max_size=15), st.integers(0, 5))
def test_many_are_merged_as_their_groups_are(parameters, cuts, seed):
    _, level = shards(parameters, cuts, seed)
    whole = level[0].merge(level[1:])
    while len(level) > 1:
        level = [some[0].merge(some[1:]) for some in groups(level, FAN_IN)]
    assert state(level[0]) == state(whole)


@given(PARAMETERS, st.lists(st.integers(0, 60), max_size=3), st.integers(0, 5))
def test_merged_learners_continue(parameters, cuts, seed):
    X, learners = shards(parameters, cuts, seed)
    merged = learners[0].merge(learners[1:])
    _, y = stream("emerging", parameters["loss"], 60, 8, seed)
    before = merged.learn(X[:1], y[:1], [0.0])  # weight 0: only predicted
    try:
        after = merged.learn(X, y)
    except DivergenceError:  # as the learners alone would: a small alpha and no directions
        reject()
    np.testing.assert_allclose(after[:1], before, atol=1e-6)
    assert np.isfinite(merged.predict(X)).all()


@given(PARAMETERS, st.integers(2, 5), st.integers(0, 5))
def test_the_common_start_is_counted_once(parameters, count, seed):
    """Learners that have seen nothing since the start are the start again."""
    X, (start,) = shards(parameters, [], seed)
    merged = start.merge([start] * (count - 1), start=start)
    assert merged.stats()["rounds"] == 60
    size = 1 + np.abs(start.predict(X)).max()
    np.testing.assert_allclose(merged.predict(X) / size, start.predict(X) / size, atol=2e-3)
    np.testing.assert_allclose(merged.spectrum(), start.spectrum(), rtol=1e-2, atol=1e-4 * size)


@given(
    st.fixed_dictionaries(
        {
            "sketch": st.sampled_from(SKETCHES),
            "loss": st.sampled_from(["hinge", "quantile", "squared"]),
            "scaling": st.sampled_from(["none", "gradient"]),
            "alpha": st.sampled_from([2.0, "relative:0.5"]),
        }
    ),
    st.integers(2, 6),
    st.integers(0, 5),
)
def test_without_precision_the_mean_of_the_predictions_is_merged(parameters, count, seed):
    """Whatever the learners made of their rows, its loss is at most the mean of their losses."""
    X, y = stream("unit", parameters["loss"], 60 * count, 5, seed)
    learners = [learner(curvature="gradient", **parameters) for _ in range(count)]
    for number, shard in enumerate(learners):
        shard.learn(X[number::count], y[number::count])
    each = np.mean([shard.predict(X) for shard in learners], axis=0)
    np.testing.assert_allclose(
        learners[0].merge(learners[1:]).predict(X), each, rtol=1e-9, atol=1e-9
    )
