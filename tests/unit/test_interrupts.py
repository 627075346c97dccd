"""Ctrl-C, forks and sub-interpreters: nothing waits for ever and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import state_of
from sonline import OnlineLearner, streams
from sonline.errors import DivergenceError, InvalidInputError
from sonline.labels import ClassTable
from sonline.model import Model
from sonline.parameters import Parameters
from sonline.rows import CoreRows

ROWS, FEATURES = 4_000_000, 2  # some seconds


@contextmanager
def interrupted(function: str) -> Iterator[None]:
    """Let Ctrl-C come while a function waits for the core, not while Python prepares the rows."""

    def ring(_: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_name in (function, "call"):
            signal.default_int_handler(signal.SIGINT, frame)
        signal.setitimer(signal.ITIMER_REAL, 0.02)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def long_batch() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS // 40, FEATURES))
    return np.tile(X, (40, 1)), np.tile(np.sign(X[:, 0]), 40)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_an_interrupt_keeps_the_rows_learned(kind: str) -> None:
    X, y = long_batch()
    rows = sp.csr_array(X) if kind == "sparse" else X
    model = OnlineLearner()
    with interrupted("learn"), pytest.raises(KeyboardInterrupt) as caught:
        model.learn(rows, y)
    done = caught.value.rows_done  # type: ignore[attr-defined]
    assert 0 < done < ROWS
    assert caught.value.__notes__ == [f"{done} of {ROWS} rows have been learned"]
    assert model.stats()["rounds"] == done
    same = OnlineLearner()
    before = same.learn(rows[:done], y[:done])
    np.testing.assert_array_equal(caught.value.predictions, before)  # type: ignore[attr-defined]
    assert state_of(same) == state_of(model)
    model.learn(X[done : done + 10], y[done : done + 10])


def test_an_interrupt_finds_all_classes_at_the_same_row() -> None:
    X, _ = long_batch()
    codes = np.arange(ROWS) % 3
    model = Model(Parameters(), ClassTable((0, 1, 2)))
    with interrupted("learn"), pytest.raises(KeyboardInterrupt) as caught:
        model.learn(X, codes, threads=2)
    done = caught.value.rows_done  # type: ignore[attr-defined]
    assert 0 < done < ROWS
    assert model.stats()["rounds"] == done
    same = Model(Parameters(), ClassTable((0, 1, 2)))
    same.learn(X[:done], codes[:done])
    np.testing.assert_array_equal(same.predict(X[:9]), model.predict(X[:9]))


def test_an_interrupt_of_a_prediction() -> None:
    X, y = long_batch()
    model = OnlineLearner()
    model.learn(X[:100], y[:100])
    before = state_of(model)
    rows = np.concatenate([X, X, X])
    with interrupted("predict"), pytest.raises(KeyboardInterrupt) as caught:
        model.predict(rows)
    assert "predicted" in "".join(caught.value.__notes__)
    assert state_of(model) == before


def test_the_row_of_an_error_is_that_of_the_batch() -> None:
    X, y = long_batch()
    X[-1, 0] = np.nan
    model = OnlineLearner()
    with pytest.raises(InvalidInputError, match=f"row {ROWS - 1}: feature .*: NaN"):
        model.learn(X, y)
    assert model.stats()["rounds"] == 0


@pytest.mark.long
def test_a_fork_while_another_thread_learns_does_not_hang() -> None:
    X, y = long_batch()
    model = OnlineLearner()
    # The core itself: what Python does before would be of unknown length.
    core = ((X,), y, None, np.empty((1, ROWS)))
    learning = threading.Thread(target=model.model.core.learn_arrays, args=core)
    learning.start()
    time.sleep(0.1)
    assert learning.is_alive()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            model.predict(X[:2])
        except InvalidInputError as error:
            os._exit(7 if "forked while another thread used the learner" in str(error) else 8)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    learning.join()
    assert model.stats()["rounds"] == ROWS


def test_a_fork_of_an_idle_learner_can_continue() -> None:
    X, y = long_batch()
    model = OnlineLearner()
    model.learn(X[:100], y[:100])
    wanted = model.predict(X[:5]).tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            same = model.predict(X[:5]).tobytes() == wanted
            model.learn(X[:100], y[:100])
            os._exit(0 if same else 1)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


_IN_A_SUBINTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
text = '''
try:
    import sonline.learner
except ImportError as error:
    print("refused:", error)
else:
    sonline.learner.OnlineLearner().learn([[1.0]], [1])
    print("learned")
'''
number = interpreters.create()
interpreters.run_string(number, text)
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the module has another interface there")
def test_subinterpreters_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _IN_A_SUBINTERPRETER],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "refused: sonline cannot be used in a sub-interpreter" in done.stdout, done


@pytest.mark.parametrize("labels", [("yes", "no"), ("pear", "fig", "apple")])
def test_predictions_of_an_interrupt_are_in_the_order_of_the_classes(
    monkeypatch: pytest.MonkeyPatch, labels: tuple[str, ...]
) -> None:
    learner = OnlineLearner.from_model(Model(Parameters(), ClassTable(labels)))
    learner.learn(np.eye(3)[: len(labels)], labels)
    expected = learner.learn(np.eye(3), [labels[0]] * 3, [0, 0, 0])[:2]  # only predicted

    def interrupt(rows: CoreRows, group: Any, name: str, *arguments: Any) -> None:
        called(rows, group, name, *arguments)
        error = KeyboardInterrupt()
        vars(error)["rows_done"] = 2
        raise error

    called = CoreRows.call
    monkeypatch.setattr(CoreRows, "call", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        learner.learn(np.eye(3), [labels[0]] * 3, [0, 0, 0])  # weight 0: only predicted
    np.testing.assert_array_equal(caught.value.predictions, expected)  # type: ignore[attr-defined]


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_an_interrupt_before_and_after_all_rows(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    X, y = np.eye(4), np.array([1, 0, 1, 0])
    learner, same = OnlineLearner(loss=loss), OnlineLearner(loss=loss)
    expected = same.learn(X, y)
    called = CoreRows.call

    def late(rows: CoreRows, *arguments: Any) -> None:
        called(rows, *arguments)
        raise KeyboardInterrupt

    def early(*_: Any) -> Any:
        raise KeyboardInterrupt

    for function, done in ((early, 0), (late, 4)):
        monkeypatch.setattr(CoreRows, "call", function)
        with pytest.raises(KeyboardInterrupt) as caught:
            learner.learn(X, y)
        error: Any = caught.value
        assert error.rows_done == done == learner.stats()["rounds"]
        np.testing.assert_array_equal(error.predictions, expected[:done])
    monkeypatch.setattr(Model, "targets", early)
    with pytest.raises(KeyboardInterrupt) as caught:
        learner.learn(X, y)
    assert caught.value.rows_done == 0  # type: ignore[attr-defined]


def test_a_first_batch_of_classes_that_diverges_keeps_its_first_rows(tmp_path: Path) -> None:
    """The learner had forgotten the rows that its error counts as learned."""
    file = tmp_path / "rows.csv"
    rows = (f"{(-1) ** number * 1e9},{'abc'[number % 3]}\n" for number in range(60))
    file.write_text("x,label\n" + "".join(rows))
    learner = OnlineLearner(
        loss="squared_hinge", step="explicit", alpha=1e-12, sketch="none", scaling="none"
    )
    with streams.open(file, tokens=True) as stream:
        (batch,) = stream
    with pytest.raises(DivergenceError) as caught:
        learner.learn(batch)
    assert learner.stats()["rounds"] == caught.value.rows_done > 0
    assert learner.classes == ["a", "b", "c"]
