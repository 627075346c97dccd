"""Several threads, and signals, on one learner and on several."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
import threading
import time
from collections import UserDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import learner, state_of, stream
from sonline import SONClassifier, river
from sonline.labels import ClassTable
from sonline.model import Model
from sonline.parameters import SKETCHES, Parameters

THREADS = 4


def together(*works: Callable[[], object]) -> list[object]:
    """Run all at the same time; raises what any of them raised."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> object:
        start.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(run, work) for work in works]]


@pytest.mark.parametrize("sketch", SKETCHES)
def test_one_learner_each(sketch: str) -> None:
    X, y = stream("emerging", "logistic", 2000, 10)
    models = [learner(sketch=sketch) for _ in range(THREADS)]
    actual = together(*(lambda m=m: m.learn(X, y) for m in models))  # type: ignore[misc]
    for predictions in actual:
        np.testing.assert_array_equal(predictions, actual[0])
    assert all(state_of(m) == state_of(models[0]) for m in models)


@pytest.mark.parametrize("sketch", SKETCHES)
def test_many_readers_of_one_learner(sketch: str) -> None:
    X, y = stream("unit", "logistic", 2000, 10)
    model = learner(sketch=sketch)
    model.learn(X, y)
    before, wanted = state_of(model), model.predict(X)
    entry = {i: float(value) for i, value in enumerate(X[7])}

    def read() -> None:
        for _ in range(20):
            np.testing.assert_array_equal(model.predict(X), wanted)
            assert model.predict_one(entry) == wanted[7]
            model.basis(), model.weights(), model.stats(), model.features()

    together(*[read] * THREADS)
    assert state_of(model) == before


@pytest.mark.parametrize("sketch", SKETCHES)
def test_writers_and_readers_of_one_learner(sketch: str) -> None:
    """The order of the batches is open, but each is learned whole and nothing is lost or torn."""
    X, y = stream("emerging", "logistic", 400, 10)
    model = learner(sketch=sketch, bound=5.0)
    repeats = 10

    def write() -> None:
        for _ in range(repeats):
            model.learn(X, y)

    def write_names() -> None:
        for i in range(repeats * 40):
            model.learn_one({f"name {i % 50}": 1.0, 3: 2.0}, 1 if i % 2 else -1)

    def read() -> None:
        for _ in range(repeats):
            assert (np.abs(model.predict(X)) <= 5.0).all()
            assert abs(model.predict_one({"name 3": 1.0})) <= 5.0
            state_of(model)
            assert len(model.weights()) <= 60

    together(write, write, write_names, read, read)
    assert model.stats()["rounds"] == 2 * repeats * len(X) + repeats * 40
    assert len(model.features()) == 60
    assert np.isfinite(model.predict(X)).all()


LEARN_FOR_EVER = """
import numpy as np, sys
from sonline import OnlineLearner
X = np.random.default_rng(0).normal(size=(2_000, 50))
y = np.where(X[:, 0] > 0, 1, -1)
learner = OnlineLearner()
learner.learn(X, y)
rounds = 0
try:
    print("ready", flush=True)
    while True:
        learner.learn(X, y)
        rounds = learner.stats()["rounds"]
except KeyboardInterrupt:
    # The batch at hand was learned whole; the learner can go on.
    assert learner.stats()["rounds"] in (rounds, rounds + len(X), 2 * len(X))
    assert np.isfinite(learner.predict(X)).all()
    learner.learn(X, y)
    print("interrupted", flush=True)
"""


def test_a_model_of_several_classes_is_saved_as_of_one_moment(tmp_path: Path) -> None:
    """Its learners were saved one after the other, and had other features each if rows came."""
    model = river.SONClassifier(sketch_size=2)
    for label in range(3):
        model.learn_one({"a": 1.0}, label)
    turns = 15
    turn = threading.Semaphore(0)  # so that no more rows are learned than copies can keep up with

    def learn() -> None:
        for number in range(turns):
            turn.acquire()
            for row in range(40):
                label = 3 + number // 4 if row == 20 else row % 3
                model.learn_one({f"feature {number} {row}": 1.0}, label)

    def copy_and_save() -> None:
        for _ in range(turns):
            turn.release()
            copy.deepcopy(model)
            model.save(tmp_path / "model")
            river.SONClassifier.load(tmp_path / "model").merge([model])

    together(learn, copy_and_save)


def _in_step(model: Model) -> set[tuple[int, int]]:
    """Return the rounds and features of each learner: one pair, if they have seen the same rows."""
    return {(int(stats["rounds"]), int(stats["features"])) for stats in [model.stats()]}


@pytest.fixture
def _threads_switch_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class _Waiting(UserDict[str, float]):
    """A row that says when it is read, and is ready when another thread may have come as far."""

    def __init__(self) -> None:
        super().__init__(a=1.0)
        self.read, self.other = threading.Event(), threading.Event()

    def items(self) -> Any:
        self.read.set()
        assert self.other.wait(60)
        time.sleep(0.05)  # the other thread is on its way to the lock
        return super().items()

    def meanwhile(self, work: Callable[[], object]) -> Callable[[], object]:
        """Return work that begins when the row is read."""

        def run() -> object:
            assert self.read.wait(60)
            self.other.set()
            return work()

        return run


def test_a_class_that_appears_while_another_is_learned() -> None:
    """The second thread knew nothing of the class of the first, and set the table without it."""
    model = Model(Parameters(sketch_size=2), ClassTable(("a", "b"), growing=True))
    row = _Waiting()
    together(
        lambda: model.learn([row], ["c"]),
        row.meanwhile(lambda: model.learn([{"b": 1.0}], ["d"])),
    )
    assert model.known_labels == ("a", "b", "c", "d")
    assert _in_step(model) == {(2, 3)}


@pytest.mark.usefixtures("_threads_switch_often")
def test_several_threads_discover_classes() -> None:
    """None is forgotten, and the learners of all classes have seen every row."""
    repeats = 40
    for _ in range(repeats):
        model = river.SONClassifier(sketch="none")

        def discover(number: int, model: river.SONClassifier = model) -> None:
            row = {f"f{number}": 1.0}
            for other in range(3):
                model.learn_one(row, f"class {number}")
                model._model.learn([row] * 2, [f"class {other}"] * 2)
                model.predict_proba_one(row)
                model._model.predict([row])

        together(*(lambda n=n: discover(n) for n in range(THREADS)))  # type: ignore[misc]
        labels = model.predict_proba_one({}).keys()
        assert labels == {f"class {number}" for number in range(THREADS)}
        assert _in_step(model._model) == {(THREADS * 9, THREADS + 1)}


@pytest.mark.usefixtures("_threads_switch_often")
def test_predictions_while_another_thread_discovers_classes() -> None:
    """They are of the classes of one moment."""
    X = np.eye(6)
    model = SONClassifier(sketch="none", discover_classes=True).partial_fit(X[:2], [0, 1])
    done = threading.Event()

    def discover() -> None:
        try:
            for label in range(2, 60):
                model.partial_fit(X[:1], [label])
        finally:
            done.set()

    def predict() -> None:
        while not done.is_set():
            sums = model.predict_proba(X).sum(axis=1)
            np.testing.assert_allclose(sums, 1.0)
            assert set(model.predict(X)) <= set(range(60))
            assert len(model.predict_proba_one(X[0])) >= 2

    together(discover, predict, predict)
    assert model.classes_.tolist() == list(range(60))


def test_two_threads_start_with_booleans() -> None:
    """Each made a model of False and True, and one of them was lost."""
    model = river.SONClassifier(sketch="none")
    row = _Waiting()
    together(
        lambda: model._learn([row], [True], 1.0),
        row.meanwhile(lambda: model.learn_one({"b": 1.0}, False)),
    )
    assert _in_step(model._model) == {(2, 3)}


def test_interrupted_between_batches() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEARN_FOR_EVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (out, process.returncode) == ("interrupted\n", 0), err


START = r"""
import re
from sonline import OnlineLearner
import sonline._core  # what is measured is the learner, not the imports
import sonline.parameters
small = OnlineLearner(hash_bits=4)

def most_megabytes():
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\s*(\d+)", file.read())[1]) / 1e3

before = most_megabytes()
learner = OnlineLearner(hash_bits=26, sketch_size=10)
first = learner.learn_one({"a": 1.0, "b": "c"}, 1)
print(most_megabytes() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_hashing_into_many_bits_costs_nothing_at_the_start() -> None:
    """Less than 50 MB, and so no time to fill them, for 2^26 places of which a row used two."""
    done = subprocess.run(
        [sys.executable, "-c", START], check=True, capture_output=True, text=True, timeout=300
    )
    assert float(done.stdout) < 50
