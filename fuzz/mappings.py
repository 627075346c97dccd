"""Rows that misbehave while they are read."""

from __future__ import annotations

import datetime as dt
import gc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from learners import COUNTS, SIZES, look, pick, save_and_load
from sonline import OnlineLearner
from sonline.errors import SonlineError
from sonline.labels import ClassTable
from sonline.model import Model
from sonline.parameters import MISSING, Parameters


class Odd:
    """A key, a value or a row that does not behave."""

    def __init__(self, rng: np.random.Generator, row: Any) -> None:
        self.rng, self.row = rng, row

    def misbehave(self) -> Any:
        """Change the row, call back, fail, or return something."""
        action = self.rng.random()
        if action < 0.2:
            self.row.clear()
            gc.collect(0)
        elif action < 0.3:
            self.row[self.rng.random()] = 1.0
        elif action < 0.4:
            learner_at_hand[0].predict_one({"a": 1.0})
        elif action < 0.5:
            raise pick(self.rng, [ValueError, TypeError, OverflowError, KeyError])("no")
        return pick(self.rng, [1.0, 2, -1, 2**63, 2**64, float("nan"), "text", None])

    def __float__(self) -> float:
        return self.misbehave()  # type: ignore[no-any-return]

    def __index__(self) -> int:
        return self.misbehave()  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self.misbehave()  # type: ignore[no-any-return]


class OddMapping(Mapping[Any, Any]):
    """A mapping whose items are anything."""

    def __init__(self, rng: np.random.Generator, row: dict[Any, Any]) -> None:
        self.rng, self.row = rng, row

    def __getitem__(self, key: Any) -> Any:
        return self.row[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.row)

    def __len__(self) -> int:
        return int(self.rng.integers(9))

    def items(self) -> Any:
        """Return pairs, most of the time."""
        pairs: list[Any] = list(self.row.items())
        if self.rng.random() < 0.4:
            pairs.append(pick(self.rng, [(), ("a",), ["a", 1.0], None, "ab", ("a", 1.0, 2.0), 3]))
        return pick(self.rng, [pairs, tuple(pairs), iter(pairs), dict(self.row).items()])


class OddList(list[Any]):
    """Rows that are of another number each time they are counted."""

    seed = 0

    def __len__(self) -> int:
        self.seed += 1
        return super().__len__() if self.seed % 3 else 2


learner_at_hand: list[Any] = [None]


def odd_row(rng: np.random.Generator) -> Any:
    """Return a mapping with all sorts of keys and values."""
    row: dict[Any, Any] = {}
    words = ["a", "b", "é", "x" * 300, "", "\udc80", "a=b", "\0"]
    for _ in range(int(rng.integers(0, 8))):
        keys = [*words, *COUNTS, -1, 2**70, True, None, 1.5, b"a", ("a", 1), Odd(rng, row)]
        numbers = [1.0, -2, True, *SIZES, np.float32(2), float("nan")]
        others = [None, [], dt.date(2024, 5, 17), np.datetime64("2024-05-17", "ns"), Odd(rng, row)]
        key, value = pick(rng, keys), pick(rng, [*numbers, *words, *others])
        row[key] = value
    return row if rng.random() < 0.7 else OddMapping(rng, row)


def fuzz_mappings(rng: np.random.Generator, folder: Path) -> None:
    """Rows that misbehave while they are read."""
    learner = OnlineLearner(
        sketch=pick(rng, ["isotropic", "fd", "none"]),
        hash_bits=pick(rng, [None, None, 3]),
        missing=pick(rng, MISSING),
    )
    classes = Model(Parameters(sketch_size=2), ClassTable((0, 1, 2)))
    learner_at_hand[0] = learner
    actions: list[Callable[[], Any]] = [
        lambda: learner.learn_one(odd_row(rng), 1),
        lambda: learner.learn_one(odd_row(rng), pick(rng, [1, -1, 0, 7]), pick(rng, [0, 1.0, -1])),
        lambda: learner.predict_one(odd_row(rng)),
        lambda: learner.learn([odd_row(rng) for _ in range(4)], [1, -1, 1, 1]),
        lambda: learner.predict([odd_row(rng) for _ in range(4)]),
        lambda: learner.learn(OddList({"a": 1.0} for _ in range(50)), [1] * pick(rng, [2, 50])),
        lambda: learner.predict(OddList({"a": 1.0} for _ in range(50))),
        lambda: classes.learn_one(odd_row(rng), 1, 1.0),
        lambda: classes.predict_one(odd_row(rng)),
    ]
    for _ in range(6):
        rounds, features = learner.stats()["rounds"], learner.features()
        try:
            pick(rng, actions)()
        except SonlineError:
            if learner.stats()["rounds"] == rounds and learner.features() != features:
                raise AssertionError("a row that was refused has left a feature") from None
    look(learner)
    save_and_load(learner, folder)
    learner_at_hand[0] = None
