"""Model files with a right checksum and other contents, whatever arrays and entries they have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import sonline
from learners import (
    COUNTS,
    SIZES,
    THINGS,
    WORDS,
    learn_some,
    look,
    pick,
    rows,
    save_and_load,
)
from sonline import OnlineLearner, SONClassifier, SONRegressor, persistence, river
from sonline.errors import ModelFileError, SonlineError
from sonline.parameters import SKETCHES

FACES = [OnlineLearner, SONClassifier, SONRegressor, river.SONClassifier, river.SONRegressor]


def some_models(rng: np.random.Generator) -> Iterator[Any]:
    """Yield models of all kinds that have learned a little."""
    X, y = rng.normal(size=(70, 5)), rng.normal(size=70)
    for sketch in SKETCHES:
        for dtype, scaling in (("float32", "rms"), ("float64", "none"), ("float32", "gradient")):
            learner = OnlineLearner(
                loss="squared", sketch=sketch, sketch_size=4, dtype=dtype, scaling=scaling
            )
            learner.learn(X, y)
            learner.learn_one({"name": 1.0, "other": "text"}, 1)
            yield learner
        some = {"sketch": sketch, "sketch_size": 2}
        yield SONClassifier(**some).fit(X, np.digitize(y, [-0.5, 0.5]))
        yield SONClassifier(**some, discover_classes=True).partial_fit(X, np.where(y > 0, "a", "b"))
        yield SONRegressor(**some).fit(X, y)
        named, number = river.SONClassifier(**some), river.SONRegressor(**some)
        for row, label in zip(X[:30].tolist(), y.tolist(), strict=False):
            named.learn_one(dict(zip("abcde", row, strict=True)), int(label > 0))
            number.learn_one(dict(zip("abcde", row, strict=True)), label)
        yield named
        yield number
    wide = np.where(rng.random((70, 800)) < 0.05, rng.normal(size=(70, 800)), 0.0)
    for classes in (np.digitize(y, [-0.5, 0.5]), np.where(y > 0, "a", "b")):
        shared = SONClassifier(sketch_size=2, discover_classes=True)
        yield shared.partial_fit(np.hstack([X + 9, wide]), classes)


class Files:
    """Mutates the files of models; whatever arrays and entries these have."""

    def __init__(self, folder: Path) -> None:
        self.known: list[tuple[Any, str, dict[str, Any]]] = []
        for model in some_models(np.random.default_rng(0)):
            path = folder / "known"
            model.save(path)
            document, tensors = persistence.read(path)
            self.known.append((model, json.dumps(document), tensors))

    def __call__(self, rng: np.random.Generator, folder: Path) -> None:
        """Change a file a little, load it and use the result."""
        model, text, known = pick(rng, self.known)
        document, tensors = json.loads(text), dict(known)
        for _ in range(int(rng.choice([1, 1, 1, 2, 3, 6]))):
            action = rng.random()
            if action < 0.6:
                change_tensor(rng, tensors)
            elif action < 0.8:
                change_count(rng, tensors)
            elif action < 0.85:
                tensors = {**tensors, **pick(rng, self.known)[2]}
            else:
                change_document(rng, document)
        path = folder / "forged"
        try:
            persistence.write(path, document, tensors)
        except ValueError:  # no JSON, such as an infinite number
            return
        face = type(model) if rng.random() < 0.7 else pick(rng, FACES)
        try:
            loaded = sonline.load(path) if rng.random() < 0.1 else face.load(path)
        except ModelFileError as error:
            if "MemoryError" in str(error):
                raise AssertionError(f"a file of {path.stat().st_size} bytes: {error}") from error
            return
        use(rng, loaded, folder)
        if type(loaded) is type(model):
            model.merge([loaded]).stats()


def change_tensor(rng: np.random.Generator, tensors: dict[str, Any]) -> None:
    """Put something else in the place of an array."""
    if not tensors:
        return
    name = pick(rng, sorted(tensors))
    array = tensors[name]
    action = int(rng.integers(11))
    if action <= 4 and array.size:
        array = array.copy()
        flat = array.reshape(-1)
        positions = rng.integers(flat.size, size=int(rng.choice([1, 1, 2, flat.size])))
        flat[positions] = hostile(rng, array.dtype, len(positions))
    elif action == 5 and array.ndim:
        array = array[: int(rng.integers(len(array) + 1))]
    elif action == 6 and array.ndim:
        array = np.concatenate([array, *[array[-1:]] * int(rng.integers(1, 4))])
    elif action == 7:
        array = (
            array.reshape(pick(rng, [(-1,), (-1, 1), (1, -1), (1, 1, -1)])) if array.size else array
        )
    elif action == 8:
        with np.errstate(all="ignore"):
            array = array.astype(pick(rng, ["f4", "f8", "i8", "u8", "u1", "i4", "f2", "?"]))
    elif action == 9:
        array = tensors[pick(rng, sorted(tensors))]
    else:
        del tensors[name]
        if rng.random() < 0.5:
            return
        name = (
            pick(rng, ["0.", "1.", "2.", ""]) + name.split(".", 1)[-1 if rng.random() < 0.5 else 0]
        )
    tensors[name] = np.ascontiguousarray(array).reshape(array.shape)


def hostile(rng: np.random.Generator, dtype: Any, count: int) -> Any:
    """Return numbers of a type, at the ends of its range more often than not."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return (rng.choice(SIZES, count) * rng.choice([-1, 1], count)).astype(dtype)
    if dtype.kind == "b":
        return rng.random(count) < 0.5
    limits = np.iinfo(dtype)
    named = [2**63 + some for some in (0, 1, 2, 7, 5 * 10**8)]
    allowed = [
        n for n in [*COUNTS, *named, -1, limits.max, limits.min] if limits.min <= n <= limits.max
    ]
    return np.array([pick(rng, allowed) for _ in range(count)], dtype=dtype)


def change_count(rng: np.random.Generator, tensors: dict[str, Any]) -> None:
    """Change a count, and the arrays that have as many rows or columns along with it."""
    scalars = [n for n, a in tensors.items() if a.ndim == 0 and a.dtype.kind == "i"]
    if not scalars:
        return
    name = pick(rng, sorted(scalars))
    old, new = int(tensors[name]), int(pick(rng, [n for n in COUNTS if n <= 4096]))
    tensors[name] = np.array(new)
    for other, array in list(tensors.items()):
        for axis, length in enumerate(array.shape):
            for shift in (0, 1):
                if length == old + shift and rng.random() < 0.7 and new * array.size < 10**6:
                    shape = (*array.shape[:axis], new + shift, *array.shape[axis + 1 :])
                    tensors[other] = (
                        np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
                    )


def change_document(rng: np.random.Generator, document: Any) -> None:
    """Put something else in the place of an entry, or take it away."""
    while isinstance(document, (dict, list)) and document:
        key = (
            pick(rng, sorted(document))
            if isinstance(document, dict)
            else int(rng.integers(len(document)))
        )
        inner = document[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.8:
            document = inner
            continue
        action = rng.random()
        if action < 0.2:
            del document[key]
        elif action < 0.4 and isinstance(inner, (int, float)):
            document[key] = pick(rng, COUNTS)
        elif action < 0.5 and isinstance(document, dict):
            document[pick(rng, WORDS)] = inner
        else:
            document[key] = pick(rng, THINGS)
        return


def use(rng: np.random.Generator, loaded: Any, folder: Path) -> None:
    """Do with a model from a forged file what users do."""
    label = pick(rng, loaded.model.known_labels or [None])
    attempts: list[Callable[[], Any]] = [
        loaded.stats,
        lambda: loaded.weights(label, scaled=bool(rng.random() < 0.5)),
        lambda: loaded.explain_one({"a": 1.0, "name": 2.0, "other": "text"}, label),
        lambda: repr(loaded),
        lambda: loaded.merge([loaded]).stats(),
    ]
    if isinstance(loaded, OnlineLearner):
        attempts += learner_attempts(rng, loaded)
    elif hasattr(loaded, "partial_fit"):
        attempts += estimator_attempts(rng, loaded)
    else:
        attempts += river_attempts(rng, loaded)
    for number in rng.permutation(len(attempts)).tolist():
        with suppress(SonlineError):
            attempts[number]()
    save_and_load(loaded, folder)


def learner_attempts(rng: np.random.Generator, loaded: Any) -> list[Callable[[], Any]]:
    """Return calls of an `OnlineLearner`."""
    return [
        lambda: look(loaded),
        lambda: learn_some(rng, loaded),
        lambda: loaded.learn(np.eye(6)[:, :5], [1.0] * 6),
        lambda: loaded.predict(rows(rng, 3, 9, loaded.params["dtype"])),
        lambda: loaded.compact().predict(np.eye(5)),
        lambda: loaded.bias,
    ]


def estimator_attempts(rng: np.random.Generator, loaded: Any) -> list[Callable[[], Any]]:
    """Return calls of an estimator for scikit-learn."""
    seen = [name for name in loaded.model.features() if isinstance(name, int)]
    columns = max(getattr(loaded, "n_features_in_", 5), *seen, 0)
    if columns > 50:  # a claim that nothing contradicts
        return []
    X = rng.normal(size=(4, columns))
    y = rng.normal(size=4)
    if hasattr(loaded, "classes_"):
        y = rng.choice(loaded.classes_, 4) if loaded.classes_.size else y > 0
    names = [*"abcde", "name"]
    return [
        lambda: loaded.predict(X),
        lambda: loaded.predict([{"a": 1.0, "name": 1.0}]),
        lambda: getattr(loaded, "coef_", None),
        loaded.value_limits,
        lambda: (loaded.intercept_, loaded.spectra(), loaded.prediction_range()),
        lambda: (loaded.progress_.now, loaded.progressive_loss_, loaded.progressive_score_),
        lambda: hasattr(loaded, "predict_proba") and loaded.predict_proba(X),
        lambda: loaded.score(X, y),
        lambda: loaded.partial_fit(X, y),
        lambda: loaded.partial_fit([dict.fromkeys(names, 1.0)] * 4, y),
        lambda: loaded.compact().predict(X),
        lambda: clone(loaded).fit(X, y),
    ]


def river_attempts(rng: np.random.Generator, loaded: Any) -> list[Callable[[], Any]]:
    """Return calls of an estimator for River."""
    row = dict(zip("abcdef", rng.normal(size=6).tolist(), strict=True))
    label = pick(rng, [0, 1, *loaded.model.known_labels])
    return [
        lambda: loaded.predict_one(row),
        lambda: getattr(loaded, "loss", "") == "logistic" and loaded.predict_proba_one(row),
        lambda: loaded.learn_one(row, label),
        lambda: loaded.clone().learn_one(row, label),
    ]
