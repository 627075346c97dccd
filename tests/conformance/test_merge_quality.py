"""Merging beats what else one would do with models of shards, on rows that none has seen."""

import numpy as np
import pytest

from helpers import learner, stream
from sonline import OnlineLearner
from sonline.errors import DivergenceError
from sonline.evaluate import losses
from sonline.merging.precision import SOLVED
from sonline.parameters import LOSSES, SCALINGS, SKETCHES

ROWS, COMMON, SITES, OWN = 8000, 30, 16, 4
SHARDS = (2, 4, 8, 16)


def sites(seed):
    """Rows of sixteen sites: thirty common features, a few of them large, and four for each site.

    Data that is spread over machines is rarely shuffled; a shard is a number of sites.
    """
    rng = np.random.default_rng(seed)
    count = ROWS + 4000
    site = rng.integers(SITES, size=count)
    size = np.r_[np.full(6, 10.0), np.ones(COMMON - 6)]
    turn = np.linalg.qr(rng.normal(size=(COMMON, COMMON)))[0]
    X = np.zeros((count, COMMON + SITES * OWN))
    latent = rng.normal(size=(count, COMMON))
    X[:, :COMMON] = latent * size @ turn
    columns = COMMON + site[:, np.newaxis] * OWN + np.arange(OWN)
    part = rng.normal(size=(count, OWN))
    np.put_along_axis(X, columns, part, axis=1)
    of_site = rng.normal(size=SITES * OWN)
    z = latent @ rng.normal(size=COMMON) / 4 + (part * of_site[columns - COMMON]).sum(axis=1)
    return X, z + 0.3 * rng.normal(size=count), site


def units(seed):
    """Rows of sixteen sites, on each of which the same thirty features have other sizes.

    So each site knows some weights well and others hardly at all.
    """
    rng = np.random.default_rng(seed)
    site = rng.integers(SITES, size=ROWS + 4000)
    size = np.exp(1.5 * rng.normal(size=(SITES, COMMON)))
    X = rng.normal(size=(site.size, COMMON)) * size[site]
    z = X @ rng.normal(size=COMMON)
    return X, z / z.std() + 0.3 * rng.normal(size=site.size), site


def views(seed):
    """Rows of sixteen sites, each with its own two large directions, across all features."""
    rng = np.random.default_rng(seed)
    site = rng.integers(SITES, size=ROWS + 4000)
    size = np.where(np.arange(40) // 2 == np.arange(SITES)[:, np.newaxis], 3.0, 0.3)
    latent = rng.normal(size=(site.size, 40)) * size[site]
    turn = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    z = latent @ rng.normal(size=40) / 3
    return latent @ turn, z + 0.3 * rng.normal(size=site.size), site


def shuffled(seed):
    """Rows of one kind, eight large directions among a hundred."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(ROWS + 4000, 100))
    size = np.r_[np.full(8, 10.0), np.ones(92)]
    turn = np.linalg.qr(rng.normal(size=(100, 100)))[0]
    z = latent @ rng.normal(size=100) / 10
    return latent * size @ turn, z + 0.3 * rng.normal(size=len(z)), rng.permutation(len(z)) % SITES


def evaluated(data, sketch, shards, seed, loss):
    """Return the loss on held-out rows: mean of the shards, average of the weights, merged."""
    X, z, site = data(seed)
    y = z if loss == "squared" else np.where(z > 0, 1.0, -1.0)
    learners = [OnlineLearner(loss=loss, sketch=sketch) for _ in range(shards)]
    for number, model in enumerate(learners):
        part = site[:ROWS] % shards == number
        model.learn(X[:ROWS][part], y[:ROWS][part])
    merged = learners[0].merge(learners[1:])
    held = X[ROWS:]

    def mean_loss(raw):
        return losses(loss, y[ROWS:], raw).mean()

    each = np.array([model.predict(held) for model in learners])
    # Predictions are linear: that of the averaged weights is the average of the predictions.
    return (
        np.mean([mean_loss(raw) for raw in each]),
        mean_loss(each.mean(axis=0)),
        mean_loss(merged.predict(held)),
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("data", [sites, units])
def test_merging_beats_shards_and_averages(data, sketch, shards, loss):
    mean, average, merged = evaluated(data, sketch, shards, 0, loss)
    if data is units and loss == "logistic" and not merged < 0.99 * min(mean, average):
        # With implicit steps shards in other units are good by themselves: merging few of them
        # gains less than one per cent, and with rfd the plain average is better.
        pytest.xfail(f"merged {merged:.4f}, mean {mean:.4f}, average {average:.4f}")
    assert merged < 0.99 * mean
    assert merged < 0.99 * average


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_merging_weighs_directions_where_there_are_any(sketch, shards):
    """What is weighed is what a learner has: none, adagrad and oja weigh features only.

    Where each shard knows a few directions across all features, that is no better than averaging.
    """
    mean, average, merged = evaluated(views, sketch, shards, 0, "squared")
    assert merged < mean
    if sketch in SOLVED:
        assert merged < 1.01 * average
        assert shards < SITES or merged < 0.95 * average


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_merging_shuffled_rows_is_no_worse_than_averaging(sketch, shards):
    """Where all shards know the same, weighing them is averaging, but for what sketches tell.

    Over five seeds isotropic is within 0.3 % of the average with 2 and 4 shards, on either side.
    """
    mean, average, merged = evaluated(shuffled, sketch, shards, 0, "logistic")
    assert merged < mean
    assert merged < 1.01 * average
    if sketch == "full" or (sketch == "isotropic" and shards > 4):
        assert merged < average


# -- any parameters --------------------------------------------------------------------------------

TRAINED = 1000


def some_rows(rng):
    """Rows of some kind for some loss, and parameters that suit them more or less."""
    choices = {
        "sketch": SKETCHES,
        "loss": tuple(LOSSES),
        "scaling": SCALINGS,
        "curvature": ("auto", "gradient"),
        "alpha": ("auto", 1.0, "relative:0.5"),
        "sketch_size": range(7),
    }
    chosen = {name: some[rng.integers(len(some))] for name, some in choices.items()}
    kind = ("unit", "emerging", "scaled")[rng.integers(3)]
    if kind != "scaled":
        return *stream(kind, "squared", 1600, 12, int(rng.integers(1000))), chosen
    size = np.logspace(-2, 2, 12)  # and four values in ten are 0
    X = rng.normal(size=(1600, 12)) * size * (rng.random((1600, 12)) < 0.6)
    return X, X @ (rng.normal(size=12) / size) + 0.3 * rng.normal(size=1600), chosen


def against_the_mean(rng, clip):
    """Return the loss on held-out rows as a share of the mean of the shards'; None if useless.

    Useless are learners that fail, or are hardly better than a constant.
    """
    X, z, chosen = some_rows(rng)
    y = np.where(z > 0, 1.0, -1.0) if LOSSES[chosen["loss"]]["binary"] else z
    shards = int(rng.integers(2, 9))
    learners = [learner(clip=clip, **chosen) for _ in range(shards)]

    def mean_loss(raw):
        return losses(chosen["loss"], y[TRAINED:], raw).mean()

    try:
        for number, shard in enumerate(learners):
            shard.learn(X[number:TRAINED:shards], y[number:TRAINED:shards])
    except DivergenceError:
        return None
    mean = np.mean([mean_loss(shard.predict(X[TRAINED:])) for shard in learners])
    if mean > 0.8 * mean_loss(np.full(len(X) - TRAINED, np.median(z))):
        return None
    return mean_loss(learners[0].merge(learners[1:]).predict(X[TRAINED:])) / mean


@pytest.mark.long
@pytest.mark.parametrize("clip", [False, True])
def test_with_any_parameters_merged_is_rarely_worse_than_the_mean_of_the_shards(clip):
    """By more than one in a hundred at most once in a hundred; on average a tenth better.

    It is never worse where weights are averaged by what all have seen alike (Jensen). Clipped
    predictions are not linear, matrices may claim too much: docs/distributed.md has the figures.
    """
    rng = np.random.default_rng(0)
    tried = [against_the_mean(rng, clip) for _ in range(800)]
    ratios = np.array([entry for entry in tried if entry is not None])
    assert ratios.size > 500
    assert np.mean(ratios > 1.01) <= 0.01
    assert ratios.max() < 2
    assert np.exp(np.log(ratios).mean()) < 0.9
