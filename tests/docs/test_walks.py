"""The walks of a row in docs/design.md are those that the code takes."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sonline
from sonline import OnlineLearner, SONClassifier
from sonline.distributed.partition import train_arrays
from sonline.read_options import ReadOptions
from sonline.training import RunSettings, Training

PACKAGE = str(Path(sonline.__file__).parent)
PAGE = Path(__file__).parents[2] / "docs" / "design.md"
X, Y = np.tile(np.eye(4), (10, 1)), np.array([1, -1] * 20)


def walk(title: str) -> list[str]:
    """Return the functions of a walk in the page, in their order."""
    text = PAGE.read_text(encoding="utf-8")
    block = text.split(f"### {title}\n", 1)[1].split("\n#", 1)[0]
    code = block.split("```text\n", 1)[1].split("```", 1)[0]
    return re.findall(r"^\s*([\w.]+) +\S+\.py", code, re.MULTILINE)


def called(call: Callable[[], object]) -> list[str]:
    """Return the functions of sonline that a call enters, in all threads."""
    names: list[str] = []

    def note(frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            names.append(frame.f_code.co_qualname.replace("<locals>.", ""))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return names


def mapping() -> Iterator[str]:
    learner = OnlineLearner()
    learner.learn_one({"a": 1.0}, 1)
    learner.learn_one({"a": 1.0}, -1)
    return iter(called(lambda: learner.learn_one({"a": 1.0}, 1)))


def frame(tmp_path: Path) -> Iterator[str]:
    pandas = pytest.importorskip("pandas")
    learner = OnlineLearner()
    return iter(called(lambda: learner.learn(pandas.DataFrame({"a": ["x", "y"]}), [1, -1])))


def file(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "a.csv").write_text("y,a\n" + "1,0.5\n0,2.0\n" * 90_000)
    settings = RunSettings([str(tmp_path / "a.csv")], stream=ReadOptions(label="y"))
    names = called(Training(settings).run)
    first = names.index("Training._take")
    return iter(names[names.index("Training._take", first + 1) :] + names)


def partition(tmp_path: Path) -> Iterator[str]:
    return iter(called(lambda: train_arrays(SONClassifier(), 0, "", X, Y, classes=[-1, 1])))


def test_a_mapping_is_one_step_from_the_core() -> None:
    assert list(mapping()) == walk("A mapping: `learn_one`") == ["OnlineLearner.learn_one"]


@pytest.mark.parametrize(
    ("title", "entered"),
    [
        ("An array or a frame: `learn`", frame),
        ("A file: `learn_stream` and `sonline train`", file),
        ("A partition: Dask, Spark and `--cluster`", partition),
    ],
)
def test_the_functions_of_a_walk_are_entered_in_their_order(
    title: str, entered: Callable[[Path], Iterator[str]], tmp_path: Path
) -> None:
    names = entered(tmp_path)
    for name in walk(title):
        assert name in names, f"{name} is not entered, or not in this order"
