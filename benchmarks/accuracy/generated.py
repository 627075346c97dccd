"""Generated streams: drift, runs of labels, rare positives, many classes, heavy tails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

from benchmarks.accuracy.encode import tfidf
from benchmarks.accuracy.stream import Rows, Stream


def streams() -> Iterator[Stream]:
    yield Stream("labels in runs of 200", "binary", "ordered", label_runs)
    yield Stream("labels in runs of 20", "binary", "ordered", lambda: label_runs(run=20, seed=1))
    for kappa in (10, 200, 1000):
        for rotated in (True, False):
            for exponent in (0, 3):
                how = "rotated" if rotated else "axis-aligned"
                yield Stream(
                    f"Fig. 1 kappa={kappa} {how}" + (" scales 1e-3..1e3" if exponent else ""),
                    "binary", "synthetic", _spiked(kappa, rotated, exponent),
                )  # fmt: skip
    yield Stream("hyperplane drift slow", "binary", "ordered", lambda: hyperplane(0.001))
    yield Stream("hyperplane drift fast", "binary", "ordered", lambda: hyperplane(0.01))
    yield Stream("concept switches", "binary", "ordered", concept_switches)
    for rate in (0.001, 0.007, 0.03):
        yield Stream(f"positives {rate:g}", "binary", "rare", _rare(rate))
    yield Stream("topics (105 classes)", "multiclass", "many", topics)
    yield Stream("sparse Gaussian rows", "regression", "synthetic", sparse_gaussian)
    yield Stream("log-normal columns", "regression", "synthetic", log_normal)
    yield Stream("Friedman 1", "regression", "synthetic", friedman)
    yield Stream("target offset 100 sd", "regression", "synthetic", lambda: linear(offset=100))
    yield Stream("target offset 1e5 sd", "regression", "synthetic", lambda: linear(offset=1e5))


def label_runs(run: int = 200, seed: int = 0, n: int = 40_000, d: int = 10) -> Rows:
    """Return rows whose label keeps its sign for about `run` rows; x tells it with some noise."""
    rng = np.random.default_rng(seed)
    switch = rng.random(n) < 1 / run
    y = np.where(np.cumsum(switch) % 2 == 0, 1.0, -1.0)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    return sp.csr_matrix(rng.normal(size=(n, d)) + 1.35 * y[:, None] * w), y


def _spiked(kappa: float, rotated: bool, exponent: int) -> Callable[[], Rows]:
    def load() -> Rows:
        rng = np.random.default_rng(int(kappa))
        n, d, spikes = 10_000, 100, 10
        scale = np.ones(d)
        scale[:spikes] = kappa
        X = rng.normal(size=(n, d)) * np.sqrt(scale)
        theta = rng.normal(size=d) / np.sqrt(scale)
        y = np.sign(X @ theta)
        if rotated:
            X = X @ np.linalg.qr(rng.normal(size=(d, d)))[0]
        X *= 10.0 ** rng.uniform(-exponent, exponent, size=d)
        return sp.csr_matrix(X), y

    return load


def hyperplane(speed: float, n: int = 40_000, d: int = 10) -> Rows:
    """Return uniform rows and a hyperplane that turns, with 5 % of the labels wrong."""
    rng = np.random.default_rng(5)
    X = rng.random((n, d))
    direction = rng.choice([-1.0, 1.0], size=d)
    w, y = rng.random(d), np.empty(n)
    for t in range(n):
        y[t] = 1.0 if X[t] @ w > w.sum() / 2 else -1.0
        w += speed * direction
        direction[rng.random(d) < 0.001] *= -1
    y[rng.random(n) < 0.05] *= -1
    return sp.csr_matrix(X), y


def concept_switches(n: int = 40_000, d: int = 20) -> Rows:
    """Return rows whose linear rule changes every 10,000 rows."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(n, d))
    rules = rng.normal(size=(4, d))
    margins = np.einsum("nd,nd->n", X, rules[np.arange(n) * 4 // n])
    return sp.csr_matrix(X), np.where(margins + rng.normal(size=n) > 0, 1.0, -1.0)


def _rare(rate: float) -> Callable[[], Rows]:
    def load() -> Rows:
        return imbalanced(rate)

    return load


def imbalanced(rate: float, n: int = 100_000, d: int = 20, seed: int = 9) -> Rows:
    """Return rows of a logistic model with the given share of positives."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    margin = X @ rng.normal(size=d) * (1.5 / np.sqrt(d))
    low, high = -30.0, 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if (1 / (1 + np.exp(-margin - middle))).mean() > rate:
            high = middle
        else:
            low = middle
    p = 1 / (1 + np.exp(-margin - low))
    return sp.csr_matrix(X), np.where(rng.random(n) < p, 1.0, -1.0)


def topics(classes: int = 105, n: int = 10_000, words: int = 20_000, length: int = 60) -> Rows:
    """Return tf-idf rows of texts: words by Zipf's law, a fifth of them from those of the class."""
    rng = np.random.default_rng(10)
    frequency = 1 / np.arange(1, words + 1)
    common = rng.choice(words, size=(n, length), p=frequency / frequency.sum())
    topic_words = rng.integers(200, words, size=(classes, 40))
    y = rng.integers(classes, size=n)
    special = topic_words[y[:, None], rng.integers(40, size=(n, length))]
    drawn = np.where(rng.random((n, length)) < 0.2, special, common)
    counts = sp.csr_matrix(
        (np.ones(drawn.size), drawn.ravel(), np.arange(n + 1) * length), shape=(n, words)
    )
    counts.sum_duplicates()
    return tfidf(counts), y.astype(float)


def sparse_gaussian(n: int = 30_000, d: int = 100_000, s: int = 32) -> Rows:
    rng = np.random.default_rng(0)
    j = np.exp(rng.random((n, s)) * np.log(d)).astype(np.int32)
    v, theta = rng.standard_normal((n, s)), rng.standard_normal(d)
    X = sp.csr_matrix((v.ravel(), j.ravel(), np.arange(n + 1) * s), shape=(n, d))
    y = X @ theta / np.sqrt(s)
    X.sum_duplicates()
    return X, y


def log_normal(n: int = 10_000) -> Rows:
    """Return five good columns and three irrelevant ones with very heavy tails."""
    rng = np.random.default_rng(2)
    good = rng.normal(size=(n, 5))
    bad = np.exp(4 * rng.normal(size=(n, 3)))
    y = good @ np.array([1.0, -2, 0.5, 1.5, 1]) + 0.4 * rng.normal(size=n)
    return sp.csr_matrix(np.hstack([good, bad])), y


def friedman(n: int = 20_000) -> Rows:
    rng = np.random.default_rng(3)
    X = rng.random((n, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    return sp.csr_matrix(X), y + 5 * X[:, 4] + rng.normal(size=n)


def linear(offset: float = 0.0, n: int = 1_000, d: int = 8) -> Rows:
    """Return a noisy linear target (R^2 about .75), moved by some standard deviations."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    y = X @ rng.normal(size=d)
    y += rng.normal(size=n) * y.std() * 0.58
    return sp.csr_matrix(X), y + offset * y.std()
