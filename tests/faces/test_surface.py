"""Every face has the same methods for looking inside, and takes the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import InvalidInputError, ParameterError

polars = pytest.importorskip("polars")
river = pytest.importorskip("sonline.river")

NAMES = ["a", "b", "c"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
SCORE = X @ [1.0, -2.0, 0.5]
LABELS = {
    "numbers": SCORE,
    "signs": np.where(SCORE > 0, 1, -1),
    "classes": np.array(["low", "mid", "top"])[np.digitize(SCORE, [-1.0, 1.0])],
}
FACES = {
    "learner, numbers": (lambda: OnlineLearner(loss="squared"), "numbers"),
    "learner, signs": (OnlineLearner, "signs"),
    "regressor": (lambda: SONRegressor(shuffle=False), "numbers"),
    "classifier, signs": (lambda: SONClassifier(shuffle=False), "signs"),
    "classifier": (lambda: SONClassifier(shuffle=False), "classes"),
    "river regressor": (river.SONRegressor, "numbers"),
    "river classifier": (river.SONClassifier, "classes"),
}


def frame() -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES)


def trained(name: str, rows: Any = None) -> Any:
    make, task = FACES[name]
    face, y = make(), LABELS[task]
    rows = frame() if rows is None else rows
    if isinstance(face, OnlineLearner):
        face.learn(rows, y)
    elif hasattr(face, "fit"):
        face.fit(rows, y)
    else:
        face.learn_many(rows, pd.Series(y.tolist()))
    return face


def row(number: int) -> dict[str, float]:
    return dict(zip(NAMES, X[number].tolist(), strict=True))


@pytest.mark.parametrize("name", FACES)
def test_looking_inside(name: str) -> None:
    face, task = trained(name), FACES[name][1]
    label = {"label": "top"} if task == "classes" else {}
    assert face.stats()["rounds"] == len(X)
    assert face.features() == NAMES
    raw, scaled = face.weights(**label), face.weights(**label, scaled=True)
    rms = np.sqrt(np.mean(X**2, axis=0))
    for position, feature in enumerate(NAMES):
        assert scaled[feature] == pytest.approx(raw[feature] * rms[position], rel=0.2)
    parts = face.explain_one(row(3), **label)
    assert all(type(part) is float for part in parts.values())
    assert [abs(part) for part in parts.values()] == sorted(map(abs, parts.values()), reverse=True)
    assert list(parts).count("(intercept)") == 1
    output = face.model.output_of(label.get("label"))[0]
    wanted = face.model.predict([row(3)])[output, 0]
    assert sum(parts.values()) == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    far = {name: value * 1000 for name, value in row(3).items()}  # beyond the limits
    wanted = face.model.predict([far])[output, 0]
    assert sum(face.explain_one(far, **label).values()) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("name", FACES)
def test_compact_predicts_the_same_and_refuses_to_learn(name: str) -> None:
    face = trained(name)
    small = face.compact()
    assert type(small) is type(face)
    assert small.stats()["bytes"] < face.stats()["bytes"] / 2
    raw, wanted = (entry.model.predict([row(n) for n in range(20)]) for entry in (small, face))
    np.testing.assert_allclose(raw, wanted, rtol=1e-4, atol=1e-4)
    with pytest.raises(InvalidInputError, match="compact model, which only predicts"):
        small.model.learn([row(0)], LABELS[FACES[name][1]][:1].tolist())


@pytest.mark.parametrize("name", [name for name in FACES if "numbers" not in name])
def test_probabilities_of_one_row(name: str) -> None:
    face = trained(name)
    if FACES[name][1] == "numbers":
        assert not hasattr(face, "predict_proba_one")
        return
    chances = face.predict_proba_one(row(5))
    assert sum(chances.values()) == pytest.approx(1)
    assert set(chances) == set(LABELS[FACES[name][1]].tolist())
    if hasattr(face, "predict_proba"):
        many = face.predict_proba(frame().iloc[5:6])[0]
        labels = face.classes if isinstance(face, OnlineLearner) else face.classes_.tolist()
        assert [chances[label] for label in labels] == pytest.approx(many.tolist(), rel=1e-12)


@pytest.mark.parametrize("name", [name for name in FACES if "river" not in name])
def test_no_rows_are_no_error(name: str) -> None:
    y = LABELS[FACES[name][1]]
    for rows in (X, sp.csr_array(X), frame()):
        face = trained(name, rows)
        before = face.model.to_bytes()
        if isinstance(face, OnlineLearner):
            face.learn(rows[:0], y[:0])
        else:
            face.partial_fit(rows[:0], y[:0])
        assert face.model.to_bytes() == before
        assert face.predict(rows[:0]).shape == (0,)
    if hasattr(face, "partial_fit"):
        new = FACES[name][0]()
        new.partial_fit(X[:0], y[:0], **({} if "regressor" in name else {"classes": np.unique(y)}))
        assert new.partial_fit(X, y).stats()["rounds"] == len(X)


@pytest.mark.parametrize("name", [name for name in FACES if "river" not in name])
def test_order_of_columns_is_irrelevant(name: str) -> None:
    face = trained(name)
    wanted = face.predict(frame())
    for other in (frame()[NAMES[::-1]], polars.DataFrame(frame())[NAMES[::-1]]):
        predictions = face.predict(other)
        if predictions.dtype.kind == "f":
            np.testing.assert_allclose(predictions, wanted, rtol=1e-4, atol=1e-5)
        else:
            assert (predictions == wanted).all()
    if not isinstance(face, OnlineLearner):  # where any feature may be absent
        with pytest.raises(ValueError, match="feature names should match"):
            face.predict(frame().drop(columns="b"))


@pytest.mark.parametrize("name", [name for name in FACES if "river" not in name])
def test_iterators_are_refused(name: str) -> None:
    y = LABELS[FACES[name][1]]
    face = FACES[name][0]()
    learn = face.learn if isinstance(face, OnlineLearner) else face.fit
    with pytest.raises(InvalidInputError, match="generator, which can be read once only"):
        learn((r for r in X), y)
    with pytest.raises(InvalidInputError, match=r"LazyFrame; collect\(\) it first"):
        learn(polars.LazyFrame(frame()), y)
    if isinstance(face, OnlineLearner):
        with pytest.raises(InvalidInputError, match=r"y is a generator.*pass list\(y\)"):
            learn(X, (label for label in y))


def test_other_mistakes_are_named() -> None:
    with pytest.raises(ParameterError, match="'absent', 'mark', 'refuse'; got 'drop'"):
        OnlineLearner(missing="drop")
    with pytest.raises(InvalidInputError, match="SONClassifier"):
        OnlineLearner().learn(X, LABELS["classes"])
    named = trained("learner, signs")
    with pytest.raises(InvalidInputError, match="knows its features by name"):
        named.learn(X, LABELS["signs"])
    for weight in (-1, float("inf"), float("nan")):
        with pytest.raises(ParameterError, match="weight of class 'low'"):
            SONClassifier(class_weight={"low": weight}).fit(X, LABELS["classes"])


def test_a_full_matrix_without_room_continues_with_its_features() -> None:
    learner = OnlineLearner(sketch="full", alpha=1.0)
    learner.learn(X, LABELS["signs"])
    wide = sp.csr_array((np.ones(9000), np.arange(9000), [0, 9000]), shape=(1, 9000))
    with pytest.raises(InvalidInputError, match="at most 8191 features; use sketch=") as error:
        learner.learn(wide, [1])
    assert "reasonable size" not in str(error.value)
    assert len(learner.learn(X[:3], LABELS["signs"][:3])) == 3
