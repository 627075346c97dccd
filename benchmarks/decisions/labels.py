"""Few labels: `wants_labels` beside all labels, as many by the margin rule, and at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.accuracy import folder
from sonline import SONClassifier

ROWS = 20_000  # of each set, at most
SEVERAL = 10  # rows are predicted, and some of them learned
DENSE = 200  # columns, at most, of a table
SHARE, ERROR = 0.2, 1.05  # the target: of the labels, and of the error with all of them
SETS = (
    *("a9a", "breast-cancer", "diabetes", "heart", "ijcnn1", "ionosphere", "magic04"),
    *("mushrooms", "splice", "w8a", "census", "covtype (classes)", "letter (classes)"),
    *("20news", "rcv1", "elec", "weather"),
)
NEWS = "20news"

Wants = Callable[[SONClassifier, Any], np.ndarray]


@dataclass(frozen=True)
class Labelled:
    """Rows and their classes."""

    name: str
    X: Any = field(repr=False)
    y: np.ndarray = field(repr=False)


def sets(data_dir: Path | None) -> Iterator[Labelled]:
    """Yield the first rows of each set; tables are dense."""
    for stream in folder.streams(data_dir) if data_dir else ():
        if stream.name in SETS:
            X, y = stream.load()
            yield labelled(stream.name, X, y)
    if data_dir and (path := data_dir / "20news.svm.gz").exists():
        X, y = folder.classes(path)
        order = np.random.default_rng(0).permutation(len(y))
        yield labelled(NEWS, X[order], y[order])


def labelled(name: str, X: sp.csr_matrix, y: np.ndarray) -> Labelled:
    X, y = X[:ROWS], y[:ROWS].astype(int)
    return Labelled(name, X.toarray() if X.shape[1] <= DENSE else X, y)


def run(data_dir: Path | None) -> dict[str, Any]:
    return {"results": [compared(each) for each in sets(data_dir)]}


def compared(rows: Labelled) -> dict[str, Any]:
    """Return error and share of the labels of each rule; the others ask for as many as ours."""
    everything = ask(rows, lambda _, X: np.ones(X.shape[0], dtype=np.bool_))
    ours = ask(rows, lambda model, X: model.wants_labels(X))
    rng = np.random.default_rng(0)
    random = ask(rows, lambda _, X: rng.random(X.shape[0]) < ours["share"])
    return {
        "stream": rows.name,
        "rows": len(rows.y),
        "classes": int(np.unique(rows.y).size),
        "all": everything,
        "ours": ours,
        "margin": matched(rows, ours["share"]),
        "random": random,
    }


def ask(rows: Labelled, wants: Wants) -> dict[str, float]:
    """Return the error before learning, that of the last quarter of the rows, and the share."""
    model, classes, asked = SONClassifier(), np.unique(rows.y), SEVERAL
    model.partial_fit(rows.X[:SEVERAL], rows.y[:SEVERAL], classes=classes)
    wrong = np.ones(len(rows.y), dtype=np.bool_)  # nobody knows the first ones
    for low in range(SEVERAL, len(rows.y), SEVERAL):
        part = slice(low, min(low + SEVERAL, len(rows.y)))
        X, y = rows.X[part], rows.y[part]
        wrong[part] = model.predict(X) != y
        chosen = wants(model, X)
        if chosen.any():
            model.partial_fit(X[chosen], y[chosen])
            asked += int(chosen.sum())
    return {
        "error": float(wrong[SEVERAL:].mean()),
        "last quarter": float(wrong[3 * len(wrong) // 4 :].mean()),
        "share": asked / len(wrong),
    }


def margin_rule(b: float) -> Wants:
    """Ask with the chance b / (b + margin), as Cesa-Bianchi, Gentile and Zaniboni 2006."""
    rng = np.random.default_rng(0)

    def wants(model: SONClassifier, X: Any) -> np.ndarray:
        raw = model.decision_function(X)
        if raw.ndim > 1:
            two = np.sort(raw, axis=1)[:, -2:]
            raw = two[:, 1] - two[:, 0]
        return np.asarray(rng.random(X.shape[0]) < b / (b + np.abs(raw)))

    return wants


def matched(rows: Labelled, share: float) -> dict[str, float]:
    """Return what the margin rule does with the b that asks for as many labels."""
    low, high = 1e-6, 1e6
    best = None
    for _ in range(12):
        b = float(np.sqrt(low * high))
        found = ask(rows, margin_rule(b))
        if best is None or abs(found["share"] - share) < abs(best["share"] - share):
            best = found
        if abs(found["share"] - share) < 0.01 * share:
            break
        low, high = (b, high) if found["share"] < share else (low, b)
    assert best is not None
    return best
