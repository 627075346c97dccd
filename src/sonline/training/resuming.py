"""Whether a run may go on from a checkpoint: the same options, and the same files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sonline.errors import ParameterError
from sonline.streams.sources import expand, fingerprint
from sonline.training.class_weights import ClassWeights
from sonline.training.settings import RunSettings


def check_same_run(path: Path, run: Mapping[str, Any], settings: RunSettings) -> None:
    """Raise an error if a checkpoint is of another run; there may be more passes than before."""
    expected = {
        "files": expand(settings.data),
        "passes": settings.passes,
        "holdout": settings.holdout,
        "shuffle": settings.shuffle,
        "class-weight": ClassWeights(settings.class_weights).as_list(),
    }
    known = {**run, "class-weight": run["class_weights"]}
    given, before = settings.stream.of_rows(), run["options"]
    for name in given | before:
        expected[name], known[name] = given.get(name), before.get(name)
    for name, value in expected.items():
        stored = known[name]
        if stored != value and not (name == "passes" and value > stored):
            raise ParameterError(
                f"resume: {path} was saved by a run with {name} {stored}, this run has {value}; "
                "repeat the same run, or continue training the model on other data (--from)"
            )


def check_same_content(path: Path, run: Mapping[str, Any]) -> None:
    """Raise an error if the beginning of a file is not what it was."""
    for name, content in zip(run["files"], run["contents"], strict=False):
        if content is not None and fingerprint(name, content["size"]) != content:
            raise ParameterError(
                f"resume: {name} is not the file that {path} was made from: it is shorter or its "
                "content has changed; restore it, or start without resume (--resume)"
            )
