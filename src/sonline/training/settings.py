"""What a training run is asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonline.errors import ParameterError
from sonline.model import Model

EVERY_SECONDS = 30.0  # between checkpoints, if nothing else is asked for
THREADS = min(os.cpu_count() or 1, 8)  # for several classes; results do not depend on it


@dataclass
class Settings:
    """What a run is asked for."""

    data: list[str]
    given: dict[str, Any] = field(default_factory=dict)  # parameters of the learner
    stream: dict[str, Any] = field(default_factory=dict)  # options of the stream
    output: Path | None = None
    classes: str | Sequence[Any] = "auto"
    class_weights: dict[Any, float] = field(default_factory=dict)  # by label; others have 1
    validation: list[str] = field(default_factory=list)  # files that are measured after each pass
    patience: int = 3  # passes without a smaller loss there, after which it is enough
    passes: int = 1
    shuffle: int = 0  # rows of the blocks within which they are put into another order
    holdout: int = 0
    limit: int | None = None
    predictions: Path | None = None
    bad_rows: Path | None = None
    checkpoint: Path | None = None
    every_rows: int = 0
    every_seconds: float = 0.0
    initial: Path | None = None
    resume: bool = False
    prepare: Callable[[Model], None] | None = None  # what is done to a new model
    predict_as: str = "raw"  # what is written to predictions
    loss_scale: float = 1.0  # losses are shown times this


def checkpoint_times(every: int | str | None, checkpoint: bool) -> tuple[int, float]:
    """Return after how many rows and after how many seconds to save; 0 is never."""
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
