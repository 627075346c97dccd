"""A training run: from a stream to a model, with checkpoints that can be resumed exactly."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline import streams
from sonline.cli.judge import Metrics, lines, measures, said, task_of
from sonline.cli.options import refuse_columns_of_text
from sonline.cli.outputs import GrowingFiles
from sonline.cli.progress import Display, Now
from sonline.cli.trained import Label, Learnt, Trained, label_of, read_options
from sonline.errors import InvalidInputError, ParameterError
from sonline.evaluate import Point
from sonline.parameters import Parameters
from sonline.streams import Batch, Position, Stream
from sonline.streams.sources import expand

DECIDING_ROWS = 1000  # how many labels decide what the task is


@dataclass
class Settings:
    """What the command line asked of a run."""

    data: list[str]
    output: Path | None
    given: dict[str, Any]  # parameters of the learner
    stream: dict[str, Any]  # options of the stream
    classes: str = "auto"
    passes: int = 1
    holdout: int = 0
    limit: int | None = None
    predictions: Path | None = None
    bad_rows: Path | None = None
    checkpoint: Path | None = None
    every_rows: int = 0
    every_seconds: float = 0.0
    initial: Path | None = None
    resume: bool = False
    prepare: Callable[[Trained], None] | None = None  # what is done to a model begun here
    predict_as: str = "raw"  # what is written to predictions
    loss_scale: float = 1.0  # losses are shown times this


class Run:
    """Learns from a stream until it ends, is stopped or reaches its limit.

    Parameters
    ----------
    settings : Settings
        What to do.
    display : Display
        Where to show it.
    """

    def __init__(self, settings: Settings, display: Display) -> None:
        self.settings = settings
        self.display = display
        self.model: Trained | None = None
        self.rows = 0  # learnt or held out, over all passes
        self.turn_rows = 0  # ... in this pass
        self.skipped = 0
        self.metrics = Metrics()
        self.past: list[dict[str, Any]] = []  # summaries of the passes before
        self.position = Position()
        self.interrupted = False
        self.told = ""
        self._stream: Stream | None = None
        self._files = GrowingFiles(
            {"predictions": settings.predictions, "bad_rows": settings.bad_rows}, display.say
        )

    @property
    def resumable(self) -> Path | None:
        """The file that ``--resume`` goes on from."""
        return self.settings.checkpoint or self.settings.output

    def execute(self) -> Trained:
        """Run; the model."""
        settings = self.settings
        last = self.resumable if settings.resume else None
        if last is not None and last.exists():
            self._resume(last)
        elif settings.initial is not None:
            self._begin_from(settings.initial)
        elif last is not None:
            self.display.say(f"no {last} to go on from: starting at the beginning")
        with self._files, self._open() as stream:
            self._stream = stream
            self.told = stream.told
            refuse_columns_of_text(stream, self.settings.stream)
            self.display.say(stream.told)
            self.display.begin(self.rows, stream.share())
            with _interruptible(self._interrupt):
                self._loop(stream)
            if self.model is None:
                bad = f": all {self.skipped} are bad ones" if self.skipped else ""
                raise InvalidInputError(f"there are no rows to learn from{bad}")
            self._note(self.position)
        return self.model

    def _open(self) -> Stream:
        options = dict(self.settings.stream)
        if self.model is not None:
            own = {name: value for name, value in options.items() if value}
            options = self.model.options(label_names=list(self.model.tokens)) | own
            options["features"] = self.model.features
        else:
            chosen = Parameters(**self.settings.given)
            options |= {
                "hash_bits": chosen.hash_bits,
                "hash_seed": chosen.seed,
                "dtype": chosen.dtype,
                "tokens": chosen.binary,
            }
        return streams.open(
            self.settings.data, start=self.position, passes=self.settings.passes, **options
        )

    def _loop(self, stream: Stream) -> None:
        saved = time.monotonic()
        saved_rows = self.rows
        batches = iter(stream)
        if self.model is None:
            batches = self._decide(stream, batches)
        for whole in batches:
            left = None if self.settings.limit is None else self.settings.limit - self.rows
            batch = whole if left is None else whole.head(left)
            self._take(batch, stream)
            if self.settings.limit is not None and self.rows >= self.settings.limit:
                break
            if self.interrupted:
                break
            due = self.settings.every_rows and self.rows - saved_rows >= self.settings.every_rows
            late = self.settings.every_seconds
            if due or (late and time.monotonic() - saved >= late):
                self.save()
                saved, saved_rows = time.monotonic(), self.rows

    def _decide(self, stream: Stream, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Look at the first rows, make the model that they need, and give them back."""
        first: list[Batch] = []
        seen = 0
        for batch in batches:
            first.append(batch)
            seen += len(batch)
            if seen >= DECIDING_ROWS:
                break
        parameters = Parameters(**self.settings.given)
        labels: list[Label] = []
        left = DECIDING_ROWS
        for batch in first:
            labels += [label_of(token) for token in batch.head(left).new_labels]
            left -= min(left, len(batch))
        if seen:
            task, classes, growing = task_of(
                parameters, labels, self.settings.classes, "loss" in self.settings.given
            )
            self.model = Trained(
                parameters,
                task,
                stream.options.features,
                labels=classes,
                growing=growing,
                table=read_options(stream.options),
            )
            if self.settings.prepare is not None:
                self.settings.prepare(self.model)
            if task == "classes":
                self.display.say(said(classes or labels, growing))
        return itertools.chain(first, batches)

    def _take(self, batch: Batch, stream: Stream) -> None:
        model = self.model
        self.skipped += batch.skipped
        self._files.write("bad_rows", batch.bad_text())
        if model is None:  # nothing but bad rows so far
            return
        if batch.start.turn != self.position.turn:
            self._next_pass()
        file = stream.files[batch.start.file]
        weights, held = self._weights(batch)
        if len(batch):
            for learnt in model.learn(batch, weights, file):
                self._judge(batch, learnt, held)
        self.rows += len(batch)
        self.turn_rows += len(batch)
        self.position = batch.end
        if self.display.is_live:
            self.display.update(self._now(stream))

    def _next_pass(self) -> None:
        self.past.append(self.metrics.summary())
        self.metrics = Metrics()
        self.turn_rows = 0

    def _weights(self, batch: Batch) -> tuple[NDArray[np.float64] | None, NDArray[np.bool_] | None]:
        """Return the weights with those of held-out rows 0, and which rows are held out."""
        period = self.settings.holdout
        if not period:
            return batch.weights, None
        numbers = self.turn_rows + np.arange(len(batch))
        held = numbers % period == period - 1
        weights = np.ones(len(batch)) if batch.weights is None else batch.weights
        return np.where(held, 0.0, weights), held

    def _judge(self, batch: Batch, learnt: Learnt, held: NDArray[np.bool_] | None) -> None:
        model = self.model
        assert model is not None  # noqa: S101 - it has learnt
        count = learnt.targets.size
        loss, wrong = measures(model, learnt.raw, learnt.targets)
        rows = slice(learnt.first, learnt.first + count)
        weights = None if batch.weights is None else batch.weights[rows]
        if held is None:
            points = self.metrics.loss.update(loss, weights)
            before = self.metrics.loss.rows - count
            if wrong is not None:
                self.metrics.error.update(wrong, weights)
            for point in points:
                self._show(batch, learnt, point, point.rows - before - 1)
        else:
            out = held[rows]
            for chosen, first, second in (
                (~out, self.metrics.loss, self.metrics.error),
                (out, self.metrics.holdout_loss, self.metrics.holdout_error),
            ):
                own = None if weights is None else weights[chosen]
                before = first.rows
                numbers = np.flatnonzero(chosen)
                if wrong is not None:
                    second.update(wrong[chosen], own)
                for point in first.update(loss[chosen], own):
                    if first is self.metrics.loss:
                        self._show(batch, learnt, point, int(numbers[point.rows - before - 1]))
        if self.settings.predictions is not None:
            text = lines(model, learnt.raw, self.settings.predict_as, _tags(batch, rows))
            self._files.write("predictions", text.encode())

    def _show(self, batch: Batch, learnt: Learnt, point: Point, row: int) -> None:
        model = self.model
        assert model is not None  # noqa: S101 - it has learnt
        if model.task == "regression":
            label = f"{learnt.targets[row]:g}"
        else:
            target = int(learnt.targets[row])
            label = str(model.classes()[target if model.task == "classes" else (target + 1) // 2])

        def predicted() -> str:
            if model.task == "regression":
                return f"{learnt.raw[0, row]:.4f}"
            return str(model.classes()[int(model.chosen(learnt.raw[:, row : row + 1])[0])])

        place = learnt.first + row
        features = int(batch.indptr[place + 1] - batch.indptr[place])
        # The curve of errors has its points at the same rows.
        error = next(
            (p.average for p in reversed(self.metrics.error.points) if p.rows == point.rows),
            float("nan"),
        )
        self.display.row(point, error, label, predicted, features)

    def _now(self, stream: Stream) -> Now:
        assert self.model is not None  # noqa: S101 - it has learnt
        stats = self.model.learner.stats()
        error = self.metrics.error
        return Now(
            rows=self.rows,
            share=stream.share(),
            loss=self.metrics.loss.now,
            error=error.average if error.weight > 0 else None,
            features=stats["features"],
            sweeps=stats["sweeps"],
            turn=self.position.turn,
            passes=self.settings.passes,
            skipped=self.skipped,
        )

    # --- the state that a later run goes on from

    def _note(self, position: Position) -> None:
        """Put into the model what a later run needs to go on."""
        model = self.model
        assert model is not None  # noqa: S101 - asked after rows have come
        self._files.sync()
        if self._stream is not None:
            model.columns = dict(self._stream.columns)
        model.run = {
            "files": list(self._stream.files) if self._stream else [],
            "format": self._stream.options.format if self._stream else "auto",
            "position": position.as_dict(),
            "passes": self.settings.passes,
            "holdout": self.settings.holdout,
            "rows": self.rows,
            "turn_rows": self.turn_rows,
            "skipped": self.skipped,
            "metrics": self.metrics.as_dict(),
            "past": self.past,
            "lengths": self._files.lengths,
        }

    def save(self) -> None:
        """Write model and position to the file that can be resumed."""
        if self.model is None or self.resumable is None:
            return
        self._note(self.position)
        self.model.save(self.resumable)

    def _resume(self, path: Path) -> None:
        model = Trained.load(path)
        run = model.run
        if not run:
            raise ParameterError(f"{path} was not made by a run that can be resumed")
        expected = {
            "files": expand(self.settings.data),
            "passes": self.settings.passes,
            "holdout": self.settings.holdout,
        }
        for name, value in expected.items():
            if run[name] != value and not (name == "passes" and value > run[name]):
                raise ParameterError(
                    f"--resume: {path} was made with {name} {run[name]}, now there is {value}; "
                    "repeat the same command, or learn on with --from"
                )
        self._same_parameters(model, path)
        self.model = model
        self.position = Position(**run["position"])
        self.rows, self.turn_rows = int(run["rows"]), int(run["turn_rows"])
        self.skipped = int(run["skipped"])
        self.metrics = Metrics.from_dict(run["metrics"])
        self.past = list(run["past"])
        self._files.lengths = {name: int(length) for name, length in run["lengths"].items()}
        if "-" in run["files"]:
            self.display.say(
                "standard input cannot be read again: the rows that come now are taken to be "
                "those after the ones learnt"
            )
            self.position = Position()
        self.display.say(f"going on from {path} after {self.rows:,} rows")

    def _begin_from(self, path: Path) -> None:
        self.model = Trained.load(path)
        self._same_parameters(self.model, path)

    def _same_parameters(self, model: Trained, path: Path) -> None:
        have = model.parameters.as_dict()
        wanted = Parameters(**{**have, **self.settings.given}).as_dict()
        for name, value in wanted.items():
            if value != have[name]:
                raise ParameterError(
                    f"{path} was made with {name}={have[name]!r}, which cannot become {value!r}"
                )

    def _interrupt(self) -> None:
        self.interrupted = True
        if self._stream is not None:
            self._stream.stop()


def _tags(batch: Batch, rows: slice) -> list[str] | None:
    return None if batch.tags is None else batch.tags[rows]


@contextmanager
def _interruptible(handle: Any) -> Iterator[None]:
    """Let the first Ctrl-C end the run in order, the second at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(*_: Any) -> None:
        handle()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
