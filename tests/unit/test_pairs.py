"""Pairs of columns: which are chosen, what they add, and models with them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import InvalidInputError

Floats = NDArray[np.float64]


def table(rows: int, columns: int = 4, seed: int = 0) -> tuple[Floats, Floats]:
    """Numbers, a column with a large offset, one of few values; a target with products."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    X[:, 1] = 2000 + 3 * X[:, 1]
    X[:, 2] = rng.integers(0, 4, rows)
    y = X[:, 0] * (X[:, 1] - 2000) / 3 + (X[:, 2] == 2) * X[:, 3] + np.abs(X[:, 0])
    return X, y + 0.1 * rng.normal(size=rows)


def learner(X: Any, y: Any, **parameters: Any) -> OnlineLearner:
    new = OnlineLearner(**{"loss": "squared", "curves": "pairs", **parameters})
    new.learn(X, y)
    return new


def names(model: Any, label: Any = None) -> set[tuple[Any, Any]]:
    return {pair.features for pair in model.all_pairs(label)}


def loss_of(model: OnlineLearner, X: Floats, y: Floats) -> float:
    return float(np.mean((model.predict(X) - y) ** 2))


# -- which pairs there are -------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [4, 12])
def test_pairs_do_not_depend_on_whether_classes_were_declared(columns: int) -> None:
    """Only the first classes help to choose pairs: the first in the rows, not in the alphabet."""
    X, _ = table(1500, columns)
    rng = np.random.default_rng(1)
    y = np.array([f"{number:02}" for number in rng.permutation(np.arange(1500) % 50)])
    found = SONClassifier(curves="pairs", discover_classes=True).partial_fit(X, y)
    declared = SONClassifier(curves="pairs").partial_fit(X, y, classes=np.unique(y))
    np.testing.assert_array_equal(found.decision_function(X), declared.decision_function(X))
    assert names(found, "00") == names(declared, "00")


@pytest.mark.parametrize("kind", ["zeros and ones", "signs", "categories"])
def test_columns_of_two_values_need_no_column_of_numbers(kind: str) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (2000, 2)).astype(float)
    y = np.where(bits[:, 0] != bits[:, 1], 1, -1)
    X: Any = bits if kind == "zeros and ones" else 2 * bits - 1
    if kind == "categories":
        X = pd.DataFrame({"a": np.where(bits[:, 0], "u", "v"), "b": np.where(bits[:, 1], "s", "t")})
    model = OnlineLearner(curves="pairs")
    before = model.learn(X, y)
    assert (np.sign(before) == y)[500:].all()
    assert model.all_pairs()
    assert not model.all_curves()
    halves = [OnlineLearner(curves="pairs") for _ in range(2)]
    for half, part in zip(halves, (slice(1000), slice(1000, 2000)), strict=True):
        half.learn(X[part], y[part])
    others = (copy.deepcopy(model), model.compact(), halves[0].merge(halves[1:]))
    for other in others:
        assert (np.sign(other.predict(X)) == y).all()
    row = dict(enumerate(X[0].tolist())) if kind != "categories" else X[:1].to_dict("records")[0]
    assert sum(model.explain_one(row).values()) == pytest.approx(model.predict_one(row), abs=1e-4)


def test_a_product_is_learned() -> None:
    X, y = table(4000)
    T, t = table(1000, seed=1)
    with_pairs, without = learner(X, y), learner(X, y, curves="auto")
    assert loss_of(with_pairs, T, t) < 0.4 * loss_of(without, T, t)
    assert with_pairs.all_pairs()[0].features == (0, 1)
    assert not names(without)


def test_of_few_columns_all_are_pairs() -> None:
    X, y = table(100)
    assert len(names(learner(X, y))) == 6


def test_of_many_columns_those_that_matter_are() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 30))
    y = X[:, 3] * X[:, 17] + np.where(X[:, 8] > 0, X[:, 25], -X[:, 25]) + X[:, 0]
    pairs = learner(X, y).all_pairs()
    assert [pair.features for pair in pairs[:2]] in ([(3, 17), (8, 25)], [(8, 25), (3, 17)])
    assert len(pairs) <= 32


def test_sums_of_curves_need_no_pairs() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    X[:, 1] = X[:, 0] + 0.3 * X[:, 1]  # correlated columns are not a reason either
    y = X[:, 0] ** 2 + X[:, 1] + np.abs(X[:, 2]) + 0.1 * rng.normal(size=3000)
    with_pairs, without = learner(X, y), learner(X, y, curves="auto")
    T = X[rng.permutation(3000)]
    t = T[:, 0] ** 2 + T[:, 1] + np.abs(T[:, 2])
    assert loss_of(with_pairs, T, t) < 1.5 * loss_of(without, T, t)


def test_a_category_and_a_number() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=3000),
            "z": rng.normal(size=3000),
            "city": rng.choice(["a", "b"], 3000),
        }
    )
    y = np.where(frame.city == "a", frame.x, -frame.x)
    model = learner(frame, y)
    assert model.all_pairs()[0].features[0] in {"x", "city=a", "city=b"}
    assert ("x", "city=a") in {tuple(sorted(pair, reverse=True)) for pair in names(model)}
    assert loss_of(model, frame, y) < 0.2 * loss_of(learner(frame, y, curves="auto"), frame, y)


def test_classes_choose_pairs() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 12))
    codes = 2 * (X[:, 2] * X[:, 9] > 0) + (X[:, 4] > 0)
    model = SONClassifier(curves="pairs", shuffle=False).fit(X, codes)
    assert (2, 9) in names(model, 0)
    assert model.score(X, codes) > 1.3 * SONClassifier(shuffle=False).fit(X, codes).score(X, codes)


@pytest.mark.parametrize(
    ("rows", "parameters"),
    [(sp.csr_matrix, {}), (lambda X: X, {"alpha": 1.0}), (lambda X: X, {"hash_bits": 10})],
)
def test_others_have_none_and_the_same_bits(rows: Any, parameters: dict[str, Any]) -> None:
    X, y = table(300)
    with_pairs = learner(rows(X), y, **parameters)
    assert not names(with_pairs)
    without = learner(rows(X), y, **{**parameters, "curves": False})
    np.testing.assert_array_equal(with_pairs.predict(rows(X)), without.predict(rows(X)))


def test_columns_that_appear_late() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 10))
    X[:100, 9] = 0
    model = learner(X, X[:, 1] * X[:, 9])
    assert model.all_pairs()[0].features == (1, 9)


def test_zero_is_the_same_stored_or_absent() -> None:
    X, y = table(800, 5)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = 0.0
    wanted = learner(X, y)
    rows = [{j: v for j, v in enumerate(row) if v} for row in X.tolist()]
    got = learner(rows, y)
    assert names(got)
    np.testing.assert_array_equal(wanted.predict(X), got.predict(rows))
    assert names(got) == names(wanted)


def test_bad_values_are_refused_and_change_nothing() -> None:
    X, y = table(400)
    model, twin = learner(X[:200], y[:200]), learner(X[:200], y[:200])
    for value in (np.nan, np.inf, 1e300):
        wrong = X[200:].copy()
        wrong[50, 1] = value
        with pytest.raises(InvalidInputError):
            model.learn(wrong, y[200:])
    np.testing.assert_array_equal(model.learn(X[200:], y[200:]), twin.learn(X[200:], y[200:]))


@pytest.mark.filterwarnings("ignore:all values of 5 are so small")
def test_huge_tiny_and_constant_columns() -> None:
    X, y = table(400, 12)
    X[:, 4] *= 1e145
    X[:, 5] *= 1e-300
    X[:, 6] = 7.0
    X[100, 0] = 1e149
    model = learner(X, y, dtype="float64")
    assert np.isfinite(model.predict(-X)).all()
    assert not any(6 in pair for pair in names(model))


def test_memory_is_bounded() -> None:
    rng = np.random.default_rng(0)
    model = OnlineLearner(loss="squared", curves="pairs")
    sizes = []
    for _ in range(3):
        X = rng.normal(size=(20_000, 10))
        model.learn(X, X[:, 0] * X[:, 1])
        sizes.append(model.stats()["bytes"])
    assert sizes[2] < 1.05 * sizes[1]


# -- looking at them -------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_parts_add_up_to_the_prediction(classes: int) -> None:
    X, y = table(2000)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(
        city=np.random.default_rng(0).choice(["Oslo", "Bergen"], 2000)
    )
    if classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, classes + 1)[1:-1]))
    model: Any = SONClassifier if classes else SONRegressor
    model = model(curves="pairs", shuffle=False).fit(frame, y)
    rows = pd.concat([frame[:20], frame[:5].assign(a=0.0), frame[:5].assign(b=1e4)])
    raw = model.decision_function(rows) if classes else model.predict(rows)
    for number, row in enumerate(rows.to_dict("records")):
        parts = model.explain_one(row, 1 if classes else None)
        if row["a"]:
            assert {"a × b", "a"} <= set(parts)
        else:
            assert "a × b" not in parts
        wanted = raw[number, 1] if classes == 4 else raw[number]
        assert sum(parts.values()) == pytest.approx(wanted, abs=2e-4)


def test_a_map_is_what_both_columns_add() -> None:
    X, y = table(3000)
    model = learner(X, y)
    pair = next(pair for pair in model.all_pairs() if pair.features == (2, 3))
    assert pair.values[0].tolist() == [1, 2, 3]
    assert pair.contributions.shape == pair.rows.shape == (3, 2)
    assert pair.rows.sum() == pytest.approx(0.75 * 3000, rel=0.1)
    low, high = pair.values[1]
    assert pair.contributions[1, 0] < 0 < pair.contributions[1, 1]
    np.testing.assert_allclose(
        pair.at(np.full(2, 2.0), np.array([low, high])), pair.contributions[1]
    )
    parts = model.explain_one({2: 2.0, 3: high, 1: 2000.0})
    assert parts["2 × 3"] == pytest.approx(pair.contributions[1, 1])
    assert pair.name == "2 × 3"


def test_the_map_of_the_other_class_is_opposite() -> None:
    X, y = table(500)
    model = SONClassifier(curves="pairs").fit(X, np.where(y > 0, "high", "low"))
    low, high = (
        {pair.features: pair.contributions for pair in model.all_pairs(label)}
        for label in ("low", "high")
    )
    for features, contributions in low.items():
        np.testing.assert_allclose(contributions, -high[features])


# -- bits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [4, 12])
@pytest.mark.parametrize("size", [1, 33, 250])
def test_any_split_of_the_batches(size: int, columns: int) -> None:
    X, y = table(800, columns)
    wanted = OnlineLearner(loss="squared", curves="pairs").learn(X, y)
    split = OnlineLearner(loss="squared", curves="pairs")
    parts = [split.learn(X[at : at + size], y[at : at + size]) for at in range(0, 800, size)]
    np.testing.assert_array_equal(np.concatenate(parts), wanted)


def test_mappings_one_by_one_and_frames_are_the_same_bits() -> None:
    X, y = table(300, 5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    wanted = OnlineLearner(loss="squared", curves="pairs").learn(frame, y)
    one = OnlineLearner(loss="squared", curves="pairs")
    rows = frame.to_dict("records")
    assert [one.learn_one(row, label) for row, label in zip(rows, y, strict=True)] == list(wanted)


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("row", [1, 32, 33, 100, 160, 500])
def test_saved_at_any_row(row: int, classes: int, tmp_path: Path) -> None:
    X, y = table(800, 12)
    if classes:
        y = np.digitize(y, [-0.5, 0.5])
    kind: Any = SONClassifier if classes else SONRegressor
    known = {"classes": [0, 1, 2]} if classes else {}

    def make(to: int) -> Any:
        return kind(curves="pairs").partial_fit(X[:to], y[:to], **known)

    first, whole = make(row), make(800)
    first.save(tmp_path / "model.son")
    again = kind.load(tmp_path / "model.son")
    np.testing.assert_array_equal(again.predict(X), first.predict(X))
    again.partial_fit(X[row:], y[row:])
    again.save(tmp_path / "again.son")
    whole.save(tmp_path / "whole.son")
    assert names(whole, 1 if classes else None)
    assert (tmp_path / "again.son").read_bytes() == (tmp_path / "whole.son").read_bytes()


def test_threads_do_not_matter() -> None:
    X, y = table(600, 12)
    codes = np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75]))
    one, four = (
        SONClassifier(curves="pairs", n_jobs=jobs, shuffle=False).fit(X, codes) for jobs in (1, 4)
    )
    np.testing.assert_array_equal(one.predict_proba(X), four.predict_proba(X))


@pytest.mark.filterwarnings("ignore:the error is")
def test_new_classes_are_as_if_declared() -> None:
    X, y = table(600, 12)
    codes = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    codes[:2] = 0, 1
    order = np.argsort(codes == 2, kind="stable")
    X, codes = X[order], codes[order]
    declared = SONClassifier(curves="pairs", shuffle=False)
    declared.partial_fit(X, codes, classes=[0, 1, 2])
    emerged = SONClassifier(curves="pairs", shuffle=False, discover_classes=True)
    for at in range(0, 600, 50):
        emerged.partial_fit(X[at : at + 50], codes[at : at + 50])
    assert names(declared, 1)
    np.testing.assert_array_equal(declared.predict_proba(X), emerged.predict_proba(X))


def test_predictions_change_nothing(tmp_path: Path) -> None:
    X, y = table(300, 12)
    one, other = learner(X[:100], y[:100]), learner(X[:100], y[:100])
    one.predict(X * 3)
    one.predict_one({0: 5.0, 99: 1.0})
    for name, model in (("one", one), ("other", other)):
        model.learn(X[100:], y[100:])
        model.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


# -- merging, compact, ONNX ------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [2, 5])
def test_merged_maps_are_nearly_the_mean(parts: int) -> None:
    X, y = table(8000)
    T, t = table(1000, seed=1)
    models = [learner(X[k::parts], y[k::parts]) for k in range(parts)]
    merged = models[0].merge(models[1:])
    assert loss_of(merged, T, t) < np.mean([loss_of(model, T, t) for model in models])
    assert loss_of(merged, T, t) < 0.5 * loss_of(learner(X, y, curves="auto"), T, t)
    assert names(merged) == names(models[0])


def test_maps_with_a_common_start_are_merged_exactly() -> None:
    X, y = table(3000)
    start = learner(X[:1000], y[:1000])
    parts = [copy.deepcopy(start) for _ in range(2)]
    for k, part in enumerate(parts):
        part.learn(X[1000 + k :: 2], y[1000 + k :: 2])
    merged = parts[0].merge(parts[1:], start=start)
    assert loss_of(merged, X, y) < 1.02 * np.mean([loss_of(part, X, y) for part in parts])
    state = merged.model.core.save()
    for name in ("points", "of", "few"):
        np.testing.assert_array_equal(
            state[f"curves.pairs.{name}"], start.model.core.save()[f"curves.pairs.{name}"]
        )


def test_columns_in_another_order_are_merged() -> None:
    X, y = table(4000)
    frame = pd.DataFrame(X, columns=list("abcd"))
    one = learner(frame[:2000], y[:2000])
    other = learner(frame[2000:][list("dcba")], y[2000:])
    merged = one.merge([other])
    single = np.mean([np.mean((model.predict(frame) - y) ** 2) for model in (one, other)])
    assert np.mean((merged.predict(frame) - y) ** 2) < 1.02 * single


def test_merged_models_go_on_and_are_saved(tmp_path: Path) -> None:
    X, y = table(3000, 12)
    merged = learner(X[:900], y[:900]).merge([learner(X[900:1800], y[900:1800])])
    merged.save(tmp_path / "model.son")
    again = OnlineLearner.load(tmp_path / "model.son")
    np.testing.assert_array_equal(again.learn(X[1800:], y[1800:]), merged.learn(X[1800:], y[1800:]))
    assert len(names(merged)) > 8


def test_merging_with_models_that_have_no_pairs_yet() -> None:
    X, y = table(2000)
    large, small = learner(X[:1500], y[:1500]), learner(X[1500:1520], y[1500:1520])
    assert loss_of(small.merge([large]), X, y) < 1.1 * loss_of(large, X, y)


def test_merged_classes() -> None:
    X, y = table(3000)
    codes = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    halves = [
        SONClassifier(curves="pairs", shuffle=False).fit(X[k::2], codes[k::2]) for k in (0, 1)
    ]
    merged = halves[0].merge([halves[1]])
    assert merged.score(X, codes) > np.mean([half.score(X, codes) for half in halves]) - 0.01


@pytest.mark.parametrize("kind", ["numbers", "two", "four"])
def test_compact_and_onnx(kind: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    X, y = table(2000, 6)
    X[:, 5] = np.random.default_rng(0).integers(0, 2, 2000)
    X = X.astype(np.float32).astype(np.float64)
    edges = {"two": [0.5], "four": [0.25, 0.5, 0.75]}
    model: Any = SONRegressor if kind == "numbers" else SONClassifier
    target = y if kind == "numbers" else np.digitize(y, np.quantile(y, edges[kind]))
    model = model(curves="pairs").fit(X, target)
    rows = np.vstack([X[:100], 3 * X[:50], -X[:50], np.zeros((1, 6))])

    def raw(of: Any) -> Floats:
        return np.asarray(of.predict(rows) if kind == "numbers" else of.decision_function(rows))

    assert len(model.all_pairs(None if kind != "four" else 1)) > 10
    small = model.compact()
    np.testing.assert_allclose(raw(small), raw(model), rtol=1e-4, atol=1e-4)
    small.save(tmp_path / "small.son")
    np.testing.assert_array_equal(raw(type(model).load(tmp_path / "small.son")), raw(small))
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    outputs = [output.name for output in session.get_outputs()]
    named = dict(zip(outputs, session.run(None, {"X": rows.astype(np.float32)}), strict=True))
    got = named["predictions"] if kind == "numbers" else named["scores"]
    np.testing.assert_allclose(
        got[:, 1] if kind == "two" else got, raw(model), rtol=2e-4, atol=2e-4
    )


# -- files that are not ours -----------------------------------------------------------------------

WRONG = {
    "stage": lambda a: a + 9,
    "seen": lambda a: a + 99999,
    "columns": lambda a: a[::-1],
    "few": lambda a: 1 - a,
    "counts": lambda a: a + 9,
    "points": lambda a: -a,
    "of": lambda a: a[::-1],
    "first": lambda a: a * 0,
    "rows": lambda a: -a - 1,
    "candidates": lambda a: a + 60,
    "sums": lambda a: a[:-1],
}


@pytest.mark.parametrize("field", WRONG)
def test_forged_files_are_refused(field: str) -> None:
    X, y = table(300, 12)
    state = learner(X, y).model.core.save()
    name = f"curves.pairs.{field}"
    state[name] = np.ascontiguousarray(WRONG[field](state[name])).astype(state[name].dtype)
    with pytest.raises(ValueError, match="field"):
        OnlineLearner(loss="squared", curves="pairs").model.core.restore(state)


@pytest.mark.parametrize("field", [name for name in WRONG if name != "stage"])
def test_missing_fields_are_refused(field: str) -> None:
    X, y = table(300, 12)
    state = learner(X, y).model.core.save()
    del state[f"curves.pairs.{field}"]
    with pytest.raises(ValueError, match=r"curves\.pairs\.\w+' is missing"):
        OnlineLearner(loss="squared", curves="pairs").model.core.restore(state)
