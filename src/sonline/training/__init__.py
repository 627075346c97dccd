"""Training from a stream: batches into a model, with checkpoints that can be resumed exactly.

`sonline train` and `OnlineLearner.learn_stream` are two faces of `Training`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from sonline import streams
from sonline.arguments import check_integer, refuse_unknown_names
from sonline.display import Display, PlainConsole, open_console
from sonline.errors import ParameterError
from sonline.labels import label_of, plain
from sonline.model import Model
from sonline.parameters import Parameters
from sonline.read_options import ReadOptions
from sonline.rows import check_class_weights
from sonline.streams.sources import expand
from sonline.training.outputs import best_of, check_checkpoint, check_outputs
from sonline.training.predictions import prediction_lines, prediction_objects
from sonline.training.run import Training
from sonline.training.settings import EVERY_SECONDS, THREADS, RunSettings, checkpoint_times
from sonline.training.signals import ENDING
from sonline.training.task import (
    NumberCheck,
    fitting,
    options_of,
    stream_options,
    targets_of,
)

__all__ = [
    "ENDING",
    "EVERY_SECONDS",
    "THREADS",
    "NumberCheck",
    "RunSettings",
    "Training",
    "checkpoint_times",
    "fitting",
    "learn_stream",
    "prediction_lines",
    "prediction_objects",
    "stream_options",
    "targets_of",
]

_OF_THE_RUN = ["passes", "shuffle", "classes", "class_weight", "progress", "validation", "patience"]
_OF_THE_RUN += ["checkpoint", "checkpoint_every", "resume"]


def learn_stream(
    model: Model,
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    options: dict[str, Any],
    passes: int,
    shuffle: int,
    classes: str | Sequence[Any],
    class_weight: Mapping[Any, float] | None,
    progress: bool,
    validation: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None,
    patience: int,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: int | str | None,
    resume: bool,
    prepare: Callable[[Model], None],
) -> tuple[Model, bool]:
    """Train a model for `OnlineLearner.learn_stream`.

    ``prepare`` is called with the new model for a learner without rows, before it is trained.
    Returns the model, and whether Ctrl-C ended it early.
    """
    if resume and checkpoint is None:
        raise ParameterError("resume=True needs checkpoint, the file to resume from")
    for name in options.keys() & options_of(model.parameters).keys():
        raise ParameterError(
            f"{name} is not an option of learn_stream: the model has it, see the parameters of "
            "OnlineLearner"
        )
    every = [*(entry.name for entry in fields(ReadOptions)), *_OF_THE_RUN]
    refuse_unknown_names("there is no option", options, every)
    weights = {} if class_weight is None else class_weight
    check_class_weights(weights)
    check_integer("shuffle", shuffle, 0)
    check_integer("patience", patience, 1)
    every_rows, every_seconds = checkpoint_times(checkpoint_every, checkpoint is not None)
    fresh = not model.stats()["rounds"]
    data = [os.fspath(name) for name in streams.listed(source)]
    validated = [] if validation is None else expand(streams.listed(validation))
    if checkpoint is not None:
        file = Path(checkpoint)
        best = {"best model of checkpoint": best_of(file)} if validated else {}
        check_outputs([*data, *validated], {"checkpoint": file, **best})
        check_checkpoint("checkpoint", file)
    settings = RunSettings(
        data=data,
        parameters=model.parameters.as_dict(),
        stream=ReadOptions(**options),
        classes=classes,
        class_weights={
            label_of(label) if isinstance(label, str) else plain(label): float(weight)
            for label, weight in weights.items()
        },
        passes=passes,
        shuffle=int(shuffle),
        validation=validated,
        patience=int(patience),
        checkpoint=None if checkpoint is None else Path(checkpoint),
        every_rows=every_rows,
        every_seconds=every_seconds,
        resume=resume,
        prepare=prepare,
    )
    if fresh:  # as on the command line, which passes only parameters that differ from the defaults
        default = Parameters().as_dict()
        settings.parameters = {k: v for k, v in settings.parameters.items() if v != default[k]}
    console = open_console() if progress else PlainConsole()
    with Display(console, silent=not progress) as display:
        training = Training(settings, display, model=None if fresh else model)
        learned = training.run()
    if training.interrupted:
        training.save()
    elif unused := training.class_weights.unused(learned.table):
        warnings.warn(f"class_weight: no row has the label {', '.join(unused)}", stacklevel=3)
    return learned, training.interrupted is not None
