"""Classes of wide rows, which do without sketches from the third class on."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from sonline import DivergenceError
from sonline.errors import ModelFileError
from sonline.labels import ClassTable
from sonline.model import LearnResult, Model
from sonline.parameters import Parameters

ROWS, FEATURES, CLASSES = 320, 1500, 5


def stream(rows: int = ROWS, seed: int = 0) -> tuple[sp.csr_matrix, list[str]]:
    """Return wide rows of which the first 40 have two classes."""
    rng = np.random.default_rng(seed)
    X = sp.random(rows, FEATURES, 0.03, "csr", random_state=seed)
    W = np.random.default_rng(99).normal(size=(FEATURES, CLASSES))
    y = (X @ W + 0.3 * rng.normal(size=(rows, CLASSES))).argmax(axis=1)
    y[:40] %= 2
    return X, [f"class {number}" for number in y]


X, LABELS = stream()
NAMED = tuple(dict.fromkeys(LABELS))


def declared(**parameters) -> Model:
    return Model(Parameters(**parameters), ClassTable(NAMED))


def growing(**parameters) -> Model:
    return Model(Parameters(**parameters), ClassTable(growing=True))


def sketched(model: Model) -> bool:
    return any(spectrum.size for spectrum in model.spectra())


def rightness(model: Model) -> float:
    numbers = [model.table.numbers[label] for label in LABELS]
    return float(np.mean(model.choose(model.predict(X)) == numbers))


@pytest.mark.parametrize("events", ["plain", "centred"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_bits_however_rows_and_classes_come(events, dtype):
    """Classes named at the start or not, batches of any size, models saved and continued."""
    rows = X
    if events == "centred":
        offsets = 30 + np.random.default_rng(8).normal(size=(ROWS, 40))
        rows = sp.hstack([sp.csr_matrix(offsets), X], "csr")
    named, whole, single, saved = declared(dtype=dtype), *(growing(dtype=dtype) for _ in range(3))
    weights = np.random.default_rng(3).choice([0.0, 0.5, 1.0, 2.0], ROWS)
    named.learn(rows, LABELS, weights)
    learned = whole.learn(rows, LABELS, weights)
    assert np.any(named.centres() != 0) == (events == "centred")
    results = [
        single.learn(rows[row], LABELS[row : row + 1], weights[row : row + 1])
        for row in range(ROWS)
    ]
    for start, end in ((0, 1), (1, 7), (7, 8), (8, 44), (44, 45), (45, 200), (200, ROWS)):
        saved = pickle.loads(pickle.dumps(saved))
        saved.learn(rows[start:end], LABELS[start:end], weights[start:end])
    assert not any(sketched(model) for model in (named, whole, single, saved))
    np.testing.assert_array_equal(whole.predict(rows), named.predict(rows))
    assert whole.to_bytes() == single.to_bytes() == saved.to_bytes()
    for part, raw, classes in learned.parts():
        for row in range(part.start, part.stop):
            expected = progressive(results[row], classes)
            np.testing.assert_array_equal(raw[:, row - part.start], expected)


def progressive(result: LearnResult, classes: int) -> np.ndarray:
    ((_, raw, known),) = result.parts()
    assert known == classes
    return raw[:, 0]


def test_mappings_learn_as_batches_do():
    names = [f"f{column}" for column in range(FEATURES)]
    mappings = [
        {names[j]: float(v) for j, v in zip(row.indices, row.data, strict=True)} for row in X
    ]
    batch, single = growing(), growing()
    batch.learn(mappings, LABELS)
    known = 1 + max(LABELS.index(label) for label in NAMED)
    single.learn(mappings[:known], LABELS[:known])
    for row, label in zip(mappings[known:], LABELS[known:], strict=True):
        single.learn_one(row, single.table.numbers[label], 1.0)
    assert single.to_bytes() == batch.to_bytes()
    one = batch.predict_one(mappings[3])
    np.testing.assert_array_equal(one, batch.predict([mappings[3]])[:, 0])
    assert batch.choose_one(mappings[3]) == int(np.argmax(one))
    parts = batch.explain(mappings[3], NAMED[2])
    assert sum(parts.values()) == pytest.approx(one[batch.table.numbers[NAMED[2]]], abs=1e-4)


def test_two_classes_learn_as_if_no_more_could_come():
    binary = Model(Parameters(), ClassTable(NAMED[:2]))
    open_ended = growing()
    for start, end in ((0, 10), (10, 40)):
        two = binary.learn(X[start:end], LABELS[start:end]).raw
        more = open_ended.learn(X[start:end], LABELS[start:end]).raw
        np.testing.assert_array_equal(two[:, 1:], more[:, 1:])
    assert sketched(open_ended)


def test_tables_keep_a_sketch_for_each_class():
    rng = np.random.default_rng(4)
    model = Model(Parameters(), ClassTable((0, 1, 2)))
    rows, y = rng.normal(size=(300, 500)), rng.integers(0, 3, 300)
    model.learn(rows[:20], y[:20])
    again = pickle.loads(pickle.dumps(model))
    for each in (model, again):
        each.learn(rows[20:], y[20:])
        assert sketched(each)
    assert model.to_bytes() == again.to_bytes()


@pytest.mark.parametrize("parameters", [{"sketch": "full"}, {"alpha": 1.0}, {"sketch": "none"}])
def test_a_lone_weight_vector_keeps_its_sketch(parameters):
    model = declared(**parameters)
    few = X[:60, :200]
    model.learn(few, LABELS[:60])
    assert sketched(model) == (parameters == {"alpha": 1.0})


def test_steps_per_feature_are_shared():
    model = declared()
    model.learn(X, LABELS)
    # Weights of all classes side by side, and one G; two numbers of the scales.
    assert model.stats()["bytes"] / FEATURES < 4 * (CLASSES + 1 + 2) * 3


@pytest.mark.parametrize("make", [declared, growing])
def test_merge(make):
    parts = [make() for _ in range(3)]
    for number, part in enumerate(parts):
        part.learn(X[number::3], LABELS[number::3])
    merged = parts[0].merge(parts[1:])
    assert not sketched(merged)
    assert rightness(merged) > max(rightness(part) for part in parts)
    assert merged.to_bytes() == parts[0].merge(parts[1:]).to_bytes()
    loaded = Model.from_bytes(merged.to_bytes())
    for model in (merged, loaded):
        model.learn(X, LABELS)
    assert loaded.to_bytes() == merged.to_bytes()


def test_merge_of_a_second_round():
    start = declared()
    start.learn(X[:160], LABELS[:160])
    parts = [pickle.loads(pickle.dumps(start)) for _ in range(2)]
    for number, part in enumerate(parts):
        part.learn(X[160 + number :: 2], LABELS[160 + number :: 2])
    merged = parts[0].merge(parts[1:], start)
    assert not sketched(merged)
    assert merged.stats()["rounds"] == ROWS
    assert rightness(merged) > rightness(start)
    same = parts[0].merge([start], start)  # nothing new in the second
    np.testing.assert_allclose(same.predict(X), parts[0].predict(X), rtol=0.2, atol=0.2)


def test_merge_with_a_model_of_few_features():
    """No class has a sketch then."""
    wide, narrow = declared(), declared()
    wide.learn(X, LABELS)
    narrow.learn(X[:, :100], LABELS)
    assert sketched(narrow)
    for first, second in ((wide, narrow), (narrow, wide)):
        merged = first.merge([second])
        assert not sketched(merged)
        assert rightness(merged) > 0.5


def test_compact():
    model = declared()
    model.learn(X, LABELS)
    small = model.compact()
    np.testing.assert_allclose(small.predict(X), model.predict(X), atol=1e-4)
    again = Model.from_bytes(small.to_bytes())
    np.testing.assert_array_equal(again.predict(X), small.predict(X))


def test_a_row_that_cannot_be_learned_is_left_out_by_all():
    rows, y = X[:80].copy(), LABELS[:80]
    rows.data = rows.data.copy()
    rows.data[rows.indptr[60] : rows.indptr[61]] = 1e17
    plain = declared(scaling="none", dtype="float32")
    with pytest.raises(DivergenceError, match=r"row 60: .* left this row out"):
        plain.learn(rows, y, weights=np.where(np.arange(80) == 60, 1e250, 1.0))
    other = declared(scaling="none", dtype="float32")
    kept = np.arange(80) != 60
    other.learn(rows[kept], [label for label, keep in zip(y, kept, strict=True) if keep])
    assert plain.stats()["rounds"] == other.stats()["rounds"] == 79
    # Features of the row may have been brought up to date, which rounds.
    np.testing.assert_allclose(plain.predict(X), other.predict(X), atol=1e-5)


def test_damaged_files():
    model = declared()
    model.learn(X[:80], LABELS[:80])
    assert not sketched(model)
    document, tensors = model.__getstate__()
    for name in tensors:
        for damaged in (None, tensors[name][..., np.newaxis], tensors[name].astype(np.int8)):
            changed = {key: value.copy() for key, value in tensors.items()}
            if damaged is None:
                del changed[name]
            else:
                changed[name] = damaged
            with pytest.raises(ModelFileError):
                Model.__new__(Model).__setstate__((document, changed))
    for name, value in (
        ("0.sketched", 1),
        ("0.next.members", -1.0),
        ("0.label.weight", -1.0),
        ("classes.seen", -np.arange(tensors["classes.seen"].size)),
    ):
        changed = {key: array.copy() for key, array in tensors.items()}
        changed[name] = np.broadcast_to(
            np.asarray(value, tensors[name].dtype), tensors[name].shape
        ).copy()
        with pytest.raises(ModelFileError):
            Model.__new__(Model).__setstate__((document, changed))


def test_rows_of_the_same_keys_while_classes_emerge():
    """A new class moves the blocks of all features; the next row has the keys of the last one."""
    river = pytest.importorskip("sonline.river", reason="River is an extra")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(39, 600)), [str(k) for k in [0, 1, 2] * 5 + [3] * 10 + [4, 0] * 7]
    keys = [f"f{j}" for j in range(600)]
    rows = [dict(zip(keys, x, strict=True)) for x in X.tolist()]
    single, batch = river.SONClassifier(), river.SONClassifier()
    for x, label in zip(rows, labels, strict=True):
        single.learn_one(x, label)
    batch.learn_many(pandas.DataFrame(X, columns=keys), pandas.Series(labels))
    for x in rows:
        assert single.predict_proba_one(x) == batch.predict_proba_one(x)
