"""Models with curves: split, saved, merged, exported, compact, forged."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import ModelFileError
from sonline.parameters import Parameters

Floats = NDArray[np.float64]


def table(rows: int, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(size=rows),
            rng.normal(2000.0, 3.0, rows),
            rng.integers(0, 6, rows),
            rng.exponential(size=rows) * (rng.random(rows) < 0.6),
        ]
    )
    y = np.abs(X[:, 0]) + np.sin(X[:, 1]) + (X[:, 2] == 3) + np.sqrt(X[:, 3])
    return X, y + 0.1 * rng.normal(size=rows)


def learner(X: Floats, y: Floats, **parameters: Any) -> OnlineLearner:
    new = OnlineLearner(**{"loss": "squared", **parameters})
    new.learn(X, y)
    return new


# -- bits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 7, 33, 250])
def test_any_split_of_the_batches(size: int, dtype: str) -> None:
    X, y = table(500)
    wanted = OnlineLearner(loss="squared", dtype=dtype).learn(X, y)
    split = OnlineLearner(loss="squared", dtype=dtype)
    parts = [split.learn(X[at : at + size], y[at : at + size]) for at in range(0, 500, size)]
    np.testing.assert_array_equal(np.concatenate(parts), wanted)


@pytest.mark.parametrize("row", [1, 31, 32, 33, 64, 200, 400])
def test_saved_at_any_row(row: int, tmp_path: Path) -> None:
    X, y = table(500)
    wanted = OnlineLearner(loss="squared").learn(X, y)
    first = learner(X[:row], y[:row])
    first.save(tmp_path / "model.son")
    again = OnlineLearner.load(tmp_path / "model.son")
    np.testing.assert_array_equal(again.predict(X), first.predict(X))
    np.testing.assert_array_equal(again.learn(X[row:], y[row:]), wanted[row:])
    again.save(tmp_path / "again.son")
    whole = learner(X, y)
    whole.save(tmp_path / "whole.son")
    assert (tmp_path / "again.son").read_bytes() == (tmp_path / "whole.son").read_bytes()


def test_predictions_change_nothing(tmp_path: Path) -> None:
    X, y = table(300)
    one, other = learner(X, y), learner(X, y)
    one.predict(X * 3)
    one.predict_one({0: 5.0, 99: 1.0})
    for name, model in (("one", one), ("other", other)):
        model.learn(X, y)
        model.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_threads_do_not_matter() -> None:
    X, y = table(600)
    codes = np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75]))
    one, four = (SONClassifier(n_jobs=jobs, shuffle=False).fit(X, codes) for jobs in (1, 4))
    np.testing.assert_array_equal(one.predict_proba(X), four.predict_proba(X))


def test_new_classes_are_as_if_declared() -> None:
    X, y = table(400)
    codes = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    order = np.argsort(codes, kind="stable")
    X, codes = X[order], codes[order]
    declared = SONClassifier(shuffle=False).partial_fit(X, codes, classes=[0, 1, 2])
    emerged = SONClassifier(shuffle=False, discover_classes=True)
    for at in range(0, 400, 50):
        emerged.partial_fit(X[at : at + 50], codes[at : at + 50])
    np.testing.assert_array_equal(declared.predict_proba(X), emerged.predict_proba(X))


def test_a_row_of_weight_zero_is_only_predicted() -> None:
    X, y = table(400)
    weights = np.ones(400)
    weights[::5] = 0
    one = OnlineLearner(loss="squared")
    one.learn(X, y, weights)
    other = learner(X[weights > 0], y[weights > 0])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_the_linear_members_are_those_of_a_model_without_curves() -> None:
    X, y = table(500)
    with_curves, without = learner(X, y), learner(X, y, curves=False)
    saved, plain = (model.model.core.save() for model in (with_curves, without))
    for name in ("0.blocks", "0.sketch.F", "0.sketch.beta", "scales.numbers"):
        np.testing.assert_array_equal(saved[name], plain[name])


# -- merging, compact, ONNX ------------------------------------------------------------------------


def loss_of(model: OnlineLearner, X: Floats, y: Floats) -> float:
    return float(np.mean((model.predict(X) - y) ** 2))


@pytest.mark.parametrize("parts", [2, 5])
def test_merged_curves_are_the_mean_of_curves(parts: int) -> None:
    X, y = table(6000)
    T, t = X[5000:], y[5000:]
    models = [learner(X[k:5000:parts], y[k:5000:parts]) for k in range(parts)]
    merged = models[0].merge(models[1:])
    assert loss_of(merged, T, t) < 1.02 * np.mean([loss_of(model, T, t) for model in models])
    values = np.linspace(-1.5, 1.5, 9)
    mean = np.mean([model.curve(0).at(values) for model in models], axis=0)
    np.testing.assert_allclose(merged.curve(0).at(values), mean, atol=0.15)
    rows = sum(model.curve(0).rows.sum() for model in models)
    assert merged.curve(0).rows.sum() == pytest.approx(rows, rel=0.02)


def test_merged_models_go_on_and_are_saved(tmp_path: Path) -> None:
    X, y = table(2000)
    merged = learner(X[:900], y[:900]).merge([learner(X[900:1800], y[900:1800])])
    merged.save(tmp_path / "model.son")
    again = OnlineLearner.load(tmp_path / "model.son")
    np.testing.assert_array_equal(again.learn(X[1800:], y[1800:]), merged.learn(X[1800:], y[1800:]))


def test_merging_with_models_that_have_no_curves_yet() -> None:
    X, y = table(2000)
    large, small = learner(X[:1500], y[:1500]), learner(X[1500:1520], y[1500:1520])
    merged = small.merge([large])
    assert loss_of(merged, X, y) < 1.1 * loss_of(large, X, y)
    assert learner(X[:10], y[:10]).merge([learner(X[10:20], y[10:20])]).predict(X).size == 2000


def test_a_second_round_from_a_start() -> None:
    X, y = table(3000)
    start = learner(X[:1000], y[:1000])
    parts = [copy.deepcopy(start) for _ in range(2)]
    for k, part in enumerate(parts):
        part.learn(X[1000 + k :: 2], y[1000 + k :: 2])
    merged = parts[0].merge(parts[1:], start=start)
    assert loss_of(merged, X, y) < 1.05 * np.mean([loss_of(part, X, y) for part in parts])


def test_merged_classes() -> None:
    X, y = table(3000)
    codes = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    halves = [SONClassifier(shuffle=False).fit(X[k::2], codes[k::2]) for k in range(2)]
    merged = halves[0].merge([halves[1]])
    assert merged.score(X, codes) > np.mean([half.score(X, codes) for half in halves]) - 0.01


@pytest.mark.parametrize("kind", ["numbers", "two", "four"])
def test_compact_and_onnx(kind: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    X, y = table(2000)
    X = X.astype(np.float32).astype(np.float64)
    edges = {"two": [0.5], "four": [0.25, 0.5, 0.75]}
    model: Any = SONRegressor() if kind == "numbers" else SONClassifier()
    model.fit(X, y if kind == "numbers" else np.digitize(y, np.quantile(y, edges[kind])))
    rows = np.vstack([X[:100], 3 * X[:50], -X[:50], np.zeros((1, 4))])

    def raw(of: Any) -> Floats:
        return np.asarray(of.predict(rows) if kind == "numbers" else of.decision_function(rows))

    assert model.model.curves(None if kind != "four" else 1)
    small = model.compact()
    np.testing.assert_allclose(raw(small), raw(model), rtol=1e-4, atol=1e-4)
    small.save(tmp_path / "small.son")
    np.testing.assert_array_equal(raw(type(model).load(tmp_path / "small.son")), raw(small))
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    names = [output.name for output in session.get_outputs()]
    named = dict(zip(names, session.run(None, {"X": rows.astype(np.float32)}), strict=True))
    got = named["predictions"] if kind == "numbers" else named["scores"]
    np.testing.assert_allclose(
        got[:, 1] if kind == "two" else got, raw(model), rtol=1e-4, atol=1e-4
    )


# -- files that are not ours -----------------------------------------------------------------------

WRONG = {
    "curves.own": lambda a: a[::-1],
    "curves.ends": lambda a: a[::-1],
    "curves.pieces": lambda a: a + 1,
    "curves.waiting": lambda a: a + 1,
    "curves.depths": lambda a: a + 9,
    "curves.parts": lambda a: a + 1,
    "curves.kept": lambda a: a + 40,
    "curves.hats": lambda a: a * 0,
    "curves.lows": lambda a: a + 2,
    "curves.steps": lambda a: a - 3,
    "curves.rows": lambda a: -a - 1,
    "curves.values": lambda a: a + 1e6,
    "curves.mean_energy": lambda a: a - 1e6,
    "0.curved.blocks": lambda a: a[:-1],
}


@pytest.mark.parametrize("field", WRONG)
def test_forged_files_are_refused(field: str) -> None:
    X, y = table(300)
    state = learner(X, y).model.core.save()
    state[field] = np.ascontiguousarray(WRONG[field](state[field])).astype(state[field].dtype)
    empty = OnlineLearner(loss="squared").model.core
    with pytest.raises(ValueError, match="field"):
        empty.restore(state)


@pytest.mark.parametrize("field", [name for name in WRONG if name != "0.curved.blocks"])
def test_missing_fields_are_refused(field: str) -> None:
    X, y = table(100)
    state = learner(X, y).model.core.save()
    del state[field]
    with pytest.raises(ValueError, match=r"curves\.\w+' is missing"):
        OnlineLearner(loss="squared").model.core.restore(state)


def test_a_file_of_a_model_with_curves_needs_its_parameters(tmp_path: Path) -> None:
    X, y = table(100)
    learner(X, y).save(tmp_path / "model.son")
    content = (tmp_path / "model.son").read_bytes()
    (tmp_path / "cut.son").write_bytes(content[:-100])
    with pytest.raises(ModelFileError):
        OnlineLearner.load(tmp_path / "cut.son")
    assert "curves" in Parameters.names()
