"""From the publishers' files to rows and labels.

A form takes the files in their order and returns a sparse matrix and the labels as the publisher
counts them; the registry says which of them are positive.
"""

from __future__ import annotations

import csv
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from sonline.errors import DataFormatError
from sonline.paper.datasets.contents import Floats, read, rounded, widen
from sonline.streams.sources import open_source

Rows: TypeAlias = tuple[sp.csr_matrix, Floats]
MISSING = "?"
ENCODING = "latin-1"  # any byte is a character


def svmlight(paths: Sequence[Path]) -> Rows:
    """Files of svmlight text, one after another."""
    parts = [read(path) for path in paths]
    width = max(X.shape[1] for X, _ in parts)
    stacked = sp.vstack([widen(X, width) for X, _ in parts], format="csr")
    return sp.csr_matrix(stacked), np.concatenate([labels for _, labels in parts])


def letter(paths: Sequence[Path]) -> Rows:
    """UCI letter-recognition.data: the letter, then 16 numbers. Labels 1 to 26."""
    table = list(_table(paths))
    labels = [float(ord(row[0]) - ord("A") + 1) for row in table]
    return _numbers([row[1:] for row in table]), np.array(labels)


def magic04(paths: Sequence[Path]) -> Rows:
    """UCI magic04.data: ten numbers, then g or h. Labels +1 and -1."""
    table = list(_table(paths))
    return _numbers([row[:-1] for row in table]), _signs([row[-1] for row in table], "g")


def covtype(paths: Sequence[Path]) -> Rows:
    """UCI covtype.data: 54 numbers, then the class. Labels 1 to 7."""
    table = np.loadtxt(_lines(paths), delimiter=",", dtype=np.float64, ndmin=2)
    return sp.csr_matrix(table[:, :-1]), table[:, -1].copy()


def census(paths: Sequence[Path]) -> Rows:
    """UCI census-income: 41 columns and the income. Labels +1 (50000+.) and -1."""
    table = list(_table(paths))
    return _one_hot([row[:-1] for row in table]), _signs([row[-1] for row in table], "50000+.")


def adult(paths: Sequence[Path]) -> Rows:
    """UCI adult.data and adult.test, which begins with a comment and ends its labels in a dot."""
    table = [row for row in _table(paths) if not row[0].startswith("|")]
    incomes = [row[-1].rstrip(".") for row in table]
    return _one_hot([row[:-1] for row in table]), _signs(incomes, ">50K")


def rcv1(paths: Sequence[Path]) -> Rows:
    """Vowpal Wabbit's rcv1.tar.gz: svmlight but for the namespace after the label."""
    with tarfile.open(paths[0]) as archive:
        names = [n for n in archive.getnames() if Path(n).name.startswith("rcv1.train.")]
        packed = [n for n in names if n.endswith((".vw.gz", ".dat.gz"))]
        if not packed:
            raise DataFormatError(
                f"holds no rcv1.train.vw.gz, only {archive.getnames()}", file=str(paths[0])
            )
        archive.extract(packed[0], paths[0].parent, filter="data")
    extracted = paths[0].parent / packed[0]
    plain = extracted.with_name("rcv1.train.svm")
    try:
        with plain.open("w", encoding=ENCODING) as file:
            file.writelines(line.replace("|f", "", 1) for line in _lines([extracted]))
        return read(plain)
    finally:
        extracted.unlink()
        plain.unlink(missing_ok=True)


def newsgroups(paths: Sequence[Path]) -> Rows:
    """20 Newsgroups as scikit-learn fetches and counts it. Labels 1 to 20.

    The rows are the training part and then the test part, each as scikit-learn shuffles it; values
    are rounded to six digits.
    """
    from sklearn.datasets import fetch_20newsgroups_vectorized  # noqa: PLC0415 - for this set only

    bunch = fetch_20newsgroups_vectorized(
        subset="all", remove=("headers", "footers", "quotes"), normalize=True, data_home=paths[0]
    )
    X = sp.csr_matrix(bunch.data, dtype=np.float64)
    X.sort_indices()
    X.data = rounded(X.data)
    return X, bunch.target.astype(np.float64) + 1


FORMS: dict[str, Callable[[Sequence[Path]], Rows]] = {
    "svmlight": svmlight,
    "letter": letter,
    "magic04": magic04,
    "covtype": covtype,
    "census": census,
    "adult": adult,
    "rcv1": rcv1,
    "20news": newsgroups,
}


def _lines(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of files, decompressed, one file after another."""
    for path in paths:
        with closing(open_source(str(path))) as source, source.named_damage():
            for line in source.plain:
                yield line.decode(ENCODING)


def _table(paths: Sequence[Path]) -> Iterator[list[str]]:
    """Yield the rows of comma-separated files, stripped, without empty ones."""
    for row in csv.reader(_lines(paths), skipinitialspace=True):
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield cells


def _signs(words: Iterable[str], positive: str) -> Floats:
    return np.array([1.0 if word == positive else -1.0 for word in words])


def _numbers(table: list[list[str]]) -> sp.csr_matrix:
    return sp.csr_matrix(np.array(table, dtype=np.float64))


def _one_hot(table: list[list[str]]) -> sp.csr_matrix:
    """Columns of numbers as they are, columns of words as one 0/1 feature for each, sorted.

    A missing value is no feature; so is a zero.
    """
    rows, columns, values, width = [], [], [], 0
    for column in zip(*table, strict=True):
        words = sorted(set(column) - {MISSING})
        numbers = _as_numbers(words)
        if numbers is None:
            entries = {word: (width + i, 1.0) for i, word in enumerate(words)}
            width += len(words)
        else:
            entries = {word: (width, number) for word, number in zip(words, numbers, strict=True)}
            width += 1
        present = [(i, *entries[word]) for i, word in enumerate(column) if word != MISSING]
        row, number, value = np.array(present).T
        rows.append(row)
        columns.append(number)
        values.append(value)
    parts = (np.concatenate(rows).astype(np.int64), np.concatenate(columns).astype(np.int64))
    X = sp.csr_matrix((np.concatenate(values), parts), shape=(len(table), width))
    X.eliminate_zeros()
    X.sort_indices()
    return X


def _as_numbers(words: list[str]) -> list[float] | None:
    try:
        return [float(word) for word in words]
    except ValueError:
        return None
