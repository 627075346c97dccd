"""Rows from tables, texts and ids; labels from words; one order of shuffling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from benchmarks.accuracy.stream import MOST_ROWS, Rows

Texts = tuple[list[str], list[Any]]  # and what is known of each


def order(rows: int) -> np.ndarray:
    return np.random.default_rng(17).permutation(rows)


def shuffled(load: Callable[[], Rows], rows: int = MOST_ROWS) -> Callable[[], Rows]:
    """Return a loader of the same rows in a random order, at most `rows` of them."""

    def load_shuffled() -> Rows:
        X, y = load()
        chosen = order(y.size)[:rows]
        return X[chosen], y[chosen]

    return load_shuffled


def mixed(*columns: Iterable[Any]) -> list[list[Any]]:
    """Return the columns with their entries in one random order."""
    listed = [list(column) for column in columns]
    chosen = order(len(listed[0]))
    return [[column[i] for i in chosen] for column in listed]


def signs(positive: Iterable[Any]) -> np.ndarray:
    return np.where(np.fromiter(positive, bool), 1.0, -1.0)


def classes(
    labels: Sequence[Hashable], least: int = 1, most: int | None = None, cap: int | None = None
) -> tuple[list[int], np.ndarray]:
    """Return the rows to keep and their classes 0 .. k-1.

    A class needs `least` rows; the `most` frequent classes stay, each with its first `cap` rows.
    """
    frequent = {label for label, n in Counter(labels).most_common(most) if n >= least}
    number = {label: i for i, label in enumerate(sorted(frequent))}  # type: ignore[type-var]
    rows: list[int] = []
    seen: Counter[Hashable] = Counter()
    for i, label in enumerate(labels):
        if label in number and (cap is None or seen[label] < cap):
            seen[label] += 1
            rows.append(i)
    return rows, np.array([number[labels[i]] for i in rows], float)


def words(texts: Iterable[str], how: str, **options: Any) -> sp.csr_matrix:
    """Return words as "counts", "0/1" or "tf-idf"; ``letters=(3, 4)`` takes parts of words."""
    if "letters" in options:
        options |= {"analyzer": "char_wb", "ngram_range": options.pop("letters")}
    else:
        options["token_pattern"] = r"(?u)\b\w+\b"
    if how == "tf-idf":
        return sp.csr_matrix(TfidfVectorizer(**options).fit_transform(texts))
    counts = CountVectorizer(binary=how == "0/1", **options).fit_transform(texts)
    return sp.csr_matrix(counts.astype(float))


def text_classes(texts: Texts, how: str, least: int = 1, **options: Any) -> Rows:
    """Return the words of texts and their classes, at most `cap` rows each."""
    limits = {key: options.pop(key) for key in ("most", "cap") if key in options}
    rows, y = classes(texts[1], least, **limits)
    rows, y = rows[:MOST_ROWS], y[:MOST_ROWS]
    return words([texts[0][i] for i in rows], how, **options), y


def text_signs(texts: Texts, positive: Sequence[Any] | set[Any], how: str, **options: Any) -> Rows:
    """Return the words of texts and whether their labels are among the positive ones."""
    texts = texts[0][:MOST_ROWS], texts[1][:MOST_ROWS]
    return words(texts[0], how, **options), signs(label in positive for label in texts[1])


def text_numbers(texts: Texts, how: str, **options: Any) -> Rows:
    """Return the words of texts and their numbers."""
    return words(texts[0], how, **options), np.array(texts[1], float)


def shuffled_texts(texts: Sequence[str], labels: Sequence[Any]) -> Texts:
    first, second = mixed(texts, labels)
    return first, second


def one_hot(ids: Iterable[Iterable[str]]) -> sp.csr_matrix:
    """Return a column of zeros and ones for every id."""
    matrix = CountVectorizer(analyzer=lambda row: row, binary=True).fit_transform(ids)
    return sp.csr_matrix(matrix.astype(float))


def beside(*parts: Any) -> sp.csr_matrix:
    """Return the columns of all parts side by side; one-dimensional parts are one column."""
    columns = [
        part if sp.issparse(part) or np.ndim(part) == 2 else np.asarray(part, float)[:, None]
        for part in parts
    ]
    return sp.csr_matrix(sp.hstack([sp.csr_matrix(column, dtype=float) for column in columns]))


def cycle(position: Any, period: float, harmonics: int = 1) -> np.ndarray:
    """Return sine and cosine columns of a time of day or year."""
    angle = 2 * np.pi * np.asarray(position, float) / period
    steps = range(1, harmonics + 1)
    return np.stack([f(k * angle) for f in (np.sin, np.cos) for k in steps], axis=1)


def columns_of(table: pd.DataFrame, levels: int = 400) -> sp.csr_matrix:
    """Return numbers as they are and words as one column each; missing numbers are 0.

    A column of words keeps its most frequent `levels`.
    """
    parts = []
    for name in table.columns:
        column = table[name]
        categorical = isinstance(column.dtype, pd.CategoricalDtype)
        numbers = pd.to_numeric(column.astype(str) if categorical else column, errors="coerce")
        if not categorical and (
            pd.api.types.is_numeric_dtype(column.dtype) or numbers.notna().mean() > 0.9
        ):
            values = numbers.astype(float).replace([np.inf, -np.inf], 0.0).fillna(0.0)
            parts.append(sp.csr_matrix(values.to_numpy(float)[:, None]))
            continue
        text = column.astype(str).str.strip()
        number = {word: i for i, word in enumerate(text.value_counts().index[:levels])}
        codes = text.map(number)
        known = np.flatnonzero(codes.notna())
        at = (known, codes.to_numpy()[known].astype(int))
        parts.append(sp.csr_matrix((np.ones(known.size), at), shape=(len(table), len(number))))
    return sp.csr_matrix(sp.hstack(parts))


def tfidf(counts: sp.csr_matrix) -> sp.csr_matrix:
    """Return rows of unit length, words weighted by how few rows have them."""
    rows, vocabulary = counts.shape
    documents = np.bincount(counts.indices, minlength=vocabulary)
    X = sp.csr_matrix(counts @ sp.diags(np.log(rows / np.maximum(documents, 1))))
    norms = np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel())
    return sp.csr_matrix(sp.diags(1 / np.maximum(norms, 1e-12)) @ X)
