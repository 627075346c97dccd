"""The contenders of `make accuracy`, each as its documentation says; "tuned" ones know the answer.

A tuned contender is the best of a small grid by the progressive error of the stream itself: an
optimistic figure, which no user has before the stream is over.
"""

# ruff: noqa: PLC0415, RUF007 - optional packages
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.accuracy.protocol import Contender
from sonline import OnlineLearner

try:
    import vowpalwabbit
except ImportError:  # no wheel for this Python: its lines are missing
    vowpalwabbit = None


TABLE = 100  # columns; with more, zeros are left out


def probability(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(z, -500, 500)))


class Sonline:
    """`OnlineLearner` for two classes and numbers."""

    def __init__(self, kind: str, **parameters: Any) -> None:
        self.regression = kind == "regression"
        loss = "squared" if self.regression else "logistic"
        self.learner = OnlineLearner(loss=loss, **parameters)

    def learn(self, X: sp.csr_matrix, y: np.ndarray) -> np.ndarray:
        return self._out(self.learner.learn(X, y))

    def predict(self, X: sp.csr_matrix) -> np.ndarray:
        return self._out(self.learner.predict(X))

    def _out(self, z: np.ndarray) -> np.ndarray:
        return z if self.regression else probability(z)


class SonlineClasses:
    """`SONClassifier`: progressive predictions row by row come from blocks of growing size."""

    def __init__(self, classes: int) -> None:
        from sonline import SONClassifier

        self.model = SONClassifier()
        self.classes = np.arange(classes, dtype=float)

    def learn(self, X: sp.csr_matrix, y: np.ndarray) -> np.ndarray:
        return _in_blocks(self, X, y)

    def take(self, X: sp.csr_matrix, y: np.ndarray) -> None:
        self.model.partial_fit(X, y, classes=self.classes)

    def predict(self, X: sp.csr_matrix) -> np.ndarray:
        if not hasattr(self.model, "classes_"):
            return np.full((X.shape[0], self.classes.size), 1 / self.classes.size)
        return np.asarray(self.model.predict_proba(X))


def _in_blocks(contender: Any, X: sp.csr_matrix, y: np.ndarray) -> np.ndarray:
    """Predict, then learn, in blocks of 2 % of the rows: for those that learn by batch."""
    size = max(y.size // 50, 1)
    out = []
    for at in range(0, y.size, size):
        out.append(contender.predict(X[at : at + size]))
        contender.take(X[at : at + size], y[at : at + size])
    return np.concatenate(out)


class Vw:
    """Vowpal Wabbit, one example at a time."""

    def __init__(self, kind: str, arguments: str, classes: int = 2) -> None:
        self.kind, self.classes = kind, classes
        task = {
            "binary": "--loss_function logistic --link logistic",
            "regression": "",
            "multiclass": f"--oaa {classes} --loss_function logistic --probabilities",
        }[kind]
        self.vw = vowpalwabbit.Workspace(f"--quiet {task} {arguments}")

    def learn(self, X: sp.csr_matrix, y: np.ndarray) -> np.ndarray:
        return np.array([self._row(X, i, y[i]) for i in range(y.size)])

    def predict(self, X: sp.csr_matrix) -> np.ndarray:
        return np.array([self._row(X, i, None) for i in range(X.shape[0])])

    def _row(self, X: sp.csr_matrix, i: int, y: float | None) -> Any:
        part = slice(X.indptr[i], X.indptr[i + 1])
        values = " ".join(
            f"{j}:{v:.9g}" for j, v in zip(X.indices[part], X.data[part], strict=True)
        )
        label = "" if y is None else f"{y + 1:.0f}" if self.kind == "multiclass" else f"{y:.12g}"
        example = self.vw.parse(f"{label} | {values}")
        prediction = self.vw.predict(example)
        if y is not None:
            self.vw.learn(example)
        self.vw.finish_example(example)
        return prediction


class Sgd:
    """scikit-learn's SGD behind its `StandardScaler`, both learning as they go."""

    def __init__(self, kind: str, classes: int = 2, **parameters: Any) -> None:
        from sklearn.linear_model import SGDClassifier, SGDRegressor
        from sklearn.preprocessing import StandardScaler

        self.kind, self.classes = kind, np.arange(classes, dtype=float)
        self.scalers = {dense: StandardScaler(with_mean=dense) for dense in (False, True)}
        self.model = (
            SGDRegressor(**parameters)
            if kind == "regression"
            else SGDClassifier(loss="log_loss", **parameters)
        )
        self.started = False

    def learn(self, X: sp.csr_matrix, y: np.ndarray) -> np.ndarray:
        return _in_blocks(self, X, y)

    def take(self, X: sp.csr_matrix, y: np.ndarray) -> None:
        X = self._scaled(X, learn=True)
        if self.kind == "regression":
            self.model.partial_fit(X, y)
        else:
            classes = np.array([-1.0, 1.0]) if self.kind == "binary" else self.classes
            self.model.partial_fit(X, y, classes=classes)
        self.started = True

    def predict(self, X: sp.csr_matrix) -> np.ndarray:
        if not self.started:
            shape = (X.shape[0], self.classes.size) if self.kind == "multiclass" else X.shape[0]
            value = {"binary": 0.5, "regression": 0.0}.get(self.kind, 1 / self.classes.size)
            return np.full(shape, value)
        X = self._scaled(X)
        if self.kind == "regression":
            return np.asarray(self.model.predict(X))
        p = np.asarray(self.model.predict_proba(X))
        return p[:, 1] if self.kind == "binary" else p

    def _scaled(self, X: sp.csr_matrix, learn: bool = False) -> Any:
        """Return standardised rows; tables are centred, too."""
        dense = X.shape[1] <= TABLE
        scaler, X = self.scalers[dense], X.toarray() if dense else X
        return (scaler.partial_fit(X) if learn else scaler).transform(X)


class River:
    """River's `StandardScaler` and its logistic, softmax or linear regression."""

    def __init__(self, kind: str, classes: int, rate: float = 0.01) -> None:
        from river import linear_model, optim, preprocessing

        last = {
            "binary": linear_model.LogisticRegression,
            "multiclass": linear_model.SoftmaxRegression,
            "regression": linear_model.LinearRegression,
        }[kind]
        self.kind, self.classes = kind, classes
        self.model = preprocessing.StandardScaler() | last(optimizer=optim.SGD(rate))

    def learn(self, X: sp.csr_matrix, y: np.ndarray) -> np.ndarray:
        out = []
        for row, label in zip(self._rows(X), y, strict=True):
            out.append(self._one(row))
            self.model.learn_one(row, label > 0 if self.kind == "binary" else label)
        return np.array(out)

    def predict(self, X: sp.csr_matrix) -> np.ndarray:
        return np.array([self._one(row) for row in self._rows(X)])

    def _one(self, row: dict[int, float]) -> Any:
        if self.kind == "binary":
            return float(self.model.predict_proba_one(row).get(True, 0.5))
        if self.kind == "multiclass":
            p = self.model.predict_proba_one(row)
            shares = np.array([p.get(float(k), 0.0) for k in range(self.classes)])
            return shares if shares.any() else np.full(self.classes, 1 / self.classes)
        return float(self.model.predict_one(row))

    def _rows(self, X: sp.csr_matrix) -> list[dict[int, float]]:
        wide = X.shape[1] > TABLE
        if not wide:
            return [dict(enumerate(row)) for row in X.toarray()]
        ends = X.indptr
        return [
            dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
            for a, b in zip(ends[:-1], ends[1:], strict=True)
        ]


class Simple:
    """No features: the last label, or the share of each class (the mean) so far."""

    def __init__(self, kind: str, classes: int, last: bool) -> None:
        self.kind, self.last = kind, last
        self.total, self.rows = np.zeros(classes if kind == "multiclass" else 1), 0
        self.latest = 0.0

    def learn(self, X: sp.csr_matrix, y: np.ndarray) -> np.ndarray:
        out = []
        for label in y:
            out.append(self._one())
            if self.kind == "multiclass":
                self.total[int(label)] += 1
            else:
                self.total[0] += label if self.kind == "regression" else (label > 0)
            self.rows += 1
            self.latest = label
        return np.array(out)

    def predict(self, X: sp.csr_matrix) -> np.ndarray:
        return np.array([self._one()] * X.shape[0])

    def _one(self) -> Any:
        if self.kind == "multiclass":
            if not self.last:
                return (self.total + 1) / (self.rows + self.total.size)
            p = np.full(self.total.size, 0.01 / self.total.size)
            p[int(self.latest)] += 0.99
            return p
        if self.last:
            return self.latest if self.kind == "regression" else (0.99 if self.latest > 0 else 0.01)
        if self.kind == "regression":
            return self.total[0] / max(self.rows, 1)
        return (self.total[0] + 0.5) / (self.rows + 1)


@dataclass(frozen=True)
class Entry:
    """A contender: of several ways to make it, the best counts."""

    name: str
    makers: Callable[[str, int], list[Callable[[], Contender]]] = field(repr=False)
    kinds: tuple[str, ...] = ("binary", "multiclass", "regression")
    slow: bool = False  # left out of wide streams
    late: bool = False  # also evaluated with late labels


def _sonline(kind: str, classes: int) -> list[Callable[[], Contender]]:
    if kind == "multiclass":
        return [lambda: SonlineClasses(classes)]
    return [lambda: Sonline(kind)]


def _single(kind: str, classes: int) -> list[Callable[[], Contender]]:
    alphas = (0.001, 0.01, 0.1, 1.0, 10.0)
    return [lambda a=a: Sonline(kind, alpha=f"relative:{a:g}") for a in alphas]  # type: ignore[misc]


def _vw(arguments: tuple[str, ...]) -> Callable[[str, int], list[Callable[[], Contender]]]:
    def makers(kind: str, classes: int) -> list[Callable[[], Contender]]:
        return [lambda a=a: Vw(kind, a, classes) for a in arguments]  # type: ignore[misc]

    return makers


def entries() -> list[Entry]:
    """Return all contenders that are installed."""
    listed = [
        Entry("sonline", _sonline, late=True),
        Entry("sonline, best single alpha", _single, ("binary", "regression"), late=True),
        Entry("majority or mean", lambda kind, n: [lambda: Simple(kind, n, last=False)], late=True),
        Entry("last label", lambda kind, n: [lambda: Simple(kind, n, last=True)], late=True),
        Entry("SGD, scaled", lambda kind, n: [lambda: Sgd(kind, n)]),
        Entry(
            "SGD, scaled, tuned",
            lambda kind, n: [
                lambda r=r: Sgd(kind, n, learning_rate="constant", eta0=r)  # type: ignore[misc]
                for r in (0.001, 0.01, 0.1)
            ],
        ),
        Entry("River, scaled", lambda kind, n: [lambda: River(kind, n)], slow=True),
        Entry(
            "River, scaled, tuned",
            lambda kind, n: [lambda r=r: River(kind, n, r) for r in (0.001, 0.01, 0.1)],  # type: ignore[misc]
            ("binary", "regression"),
            slow=True,
        ),
    ]
    if vowpalwabbit is not None:
        listed += [
            Entry("VW", _vw(("",)), late=True),
            Entry(
                "VW, tuned",
                _vw(tuple(f"-l {rate}" for rate in (0.02, 0.1, 0.5, 2, 8))),
                slow=True,
            ),
            Entry(
                "VW OjaNewton",
                _vw(("--OjaNewton --sketch_size 10",)),
                ("binary", "regression"),
                slow=True,
            ),
            Entry("VW coin", _vw(("--coin",)), ("binary", "regression")),
        ]
    return listed
