"""The settings of a training run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonline.errors import ParameterError
from sonline.model import Model
from sonline.read_options import ReadOptions

EVERY_SECONDS = 30.0  # between checkpoints by default
MORE_CLASSES = "use classes='multi' (--classes multi) or list all classes (--classes a,b)"
THREADS = min(os.cpu_count() or 1, 8)  # for several classes; results do not depend on it


@dataclass
class RunSettings:
    """The settings of a training run."""

    data: list[str]
    parameters: dict[str, Any] = field(default_factory=dict)  # of the learner, as the user set them
    stream: ReadOptions = field(default_factory=ReadOptions)
    output: Path | None = None
    classes: str | Sequence[Any] = "auto"
    class_weights: dict[Any, float] = field(default_factory=dict)  # by label; 1 for other labels
    validation: list[str] = field(default_factory=list)  # files to evaluate on after each pass
    patience: int = 3  # stop after this many passes without a smaller validation loss
    passes: int = 1
    shuffle: int = 0  # rows are shuffled within blocks of this many; 0: not at all
    holdout: int = 0  # one row in this many is predicted only; 0: none
    limit: int | None = None
    predictions: Path | None = None
    bad_rows: Path | None = None
    checkpoint: Path | None = None
    every_rows: int = 0
    every_seconds: float = 0.0
    initial: Path | None = None
    resume: bool = False
    prepare: Callable[[Model], None] | None = None  # called with a new model before it learns


def checkpoint_times(every: int | str | None, checkpoint: bool) -> tuple[int, float]:
    """Return the rows and the seconds between two checkpoints; 0 means never."""
    if every is None:
        return 0, EVERY_SECONDS if checkpoint else 0.0
    if not checkpoint:
        raise ParameterError(
            "checkpoint_every needs checkpoint, the file (--checkpoint-every: --checkpoint FILE)"
        )
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s?)", str(every))
    if not match or float(match[1]) <= 0 or not (match[2] or match[1].isdigit()):
        raise ParameterError(
            f"checkpoint_every must be rows (100000) or seconds (60s), got {every!r}"
        )
    return (0, float(match[1])) if match[2] else (int(match[1]), 0.0)
