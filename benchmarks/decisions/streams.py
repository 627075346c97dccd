"""Streams of numbers: tables of a folder in several orders, and generated ones that change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.accuracy import folder
from benchmarks.accuracy.generated import friedman

Numbers = tuple[np.ndarray, np.ndarray]
ROWS = 4_000  # of each stream, at most
SHUFFLED = ("abalone", "airfoil", "bike", "california", "concrete", "elevators", "energy")
# By which column a table is sorted: the rows change, and with them what is hard.
SORTED = {"abalone": (1,), "california": (0, 6), "elevators": (2,)}
CHANGING = ("abrupt", "gradual", "noise", "season", "jump")


@dataclass(frozen=True)
class Table:
    """A stream of numbers; its rows are dense."""

    name: str
    load: Callable[[], Numbers] = field(repr=False)


def shuffled(data_dir: Path | None) -> Iterator[Table]:
    """Yield tables in random order, and bikes by the hour."""
    for name in SHUFFLED:
        yield from _of_folder(data_dir, name, name)
    yield from _of_folder(data_dir, "bike (time order)", "bike by the hour")
    yield Table("Friedman 1 (generated)", lambda: _dense(*friedman(ROWS)))
    yield Table("diabetes of scikit-learn", _diabetes)


def drifting(data_dir: Path | None) -> Iterator[Table]:
    """Yield tables sorted by a column, bikes by the hour, and generated streams."""
    yield from _of_folder(data_dir, "bike (time order)", "bike by the hour")
    for name, columns in SORTED.items():
        for column in columns:
            yield from _of_folder(data_dir, name, f"{name} by column {column + 1}", column)
    for kind in CHANGING:
        yield Table(f"{kind} (generated)", lambda kind=kind: changing(kind))


def changing(kind: str, rows: int = ROWS, features: int = 5, seed: int = 11) -> Numbers:
    """Return rows and numbers whose relation, noise or level changes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    t, noise = np.arange(rows), rng.normal(size=rows)
    w, other = rng.normal(size=(2, features))
    if kind == "abrupt":  # two rules, in turns
        return X, np.where(t // 900 % 2, X @ w, X @ other) + 0.5 * noise
    if kind == "gradual":  # the rule turns
        return X, X @ w * np.cos(t / 700) + X @ other * np.sin(t / 700) + 0.5 * noise
    if kind == "noise":  # of two sizes, in turns
        return X, X @ w + noise * np.where(t // 800 % 2, 3, 0.3)
    if kind == "season":  # of the level and of the noise
        return X, X @ w + noise * (1 + 0.9 * np.sin(t / 110)) + 3 * np.sin(t / 500)
    return X, X @ w + noise + 100.0 * (t > rows // 2)  # of the level, at once


def _of_folder(
    data_dir: Path | None, stream: str, name: str, column: int | None = None
) -> Iterator[Table]:
    for known in folder.streams(data_dir) if data_dir else ():
        if known.name == stream:

            def load() -> Numbers:
                X, y = _dense(*known.load())  # noqa: B023 - the last one
                if column is None:
                    return X[:ROWS], y[:ROWS]
                chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:ROWS])
                order = chosen[np.argsort(X[chosen, column], kind="stable")]
                return X[order], y[order]

            yield Table(name, load)
            return


def _dense(X: object, y: np.ndarray) -> Numbers:
    return X.toarray(), y  # type: ignore[attr-defined]


def _diabetes() -> Numbers:
    from sklearn.datasets import load_diabetes  # noqa: PLC0415 - slow to import

    X, y = load_diabetes(return_X_y=True, scaled=False)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order].astype(float)
