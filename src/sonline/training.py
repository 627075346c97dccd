"""Training from a stream: batches into a model, with checkpoints that can be resumed exactly.

`sonline train` and `OnlineLearner.learn_stream` are two faces of `Training`.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sonline import streams
from sonline.errors import InvalidInputError, ParameterError
from sonline.evaluate import Point, Progress
from sonline.labels import SIGNS, ClassTable, label_of, token_of
from sonline.model import Learnt, Model, Reading
from sonline.parameters import Parameters
from sonline.rows import Floats
from sonline.streams import Batch, Options, Position, Stream
from sonline.streams.sources import expand

DECIDING_ROWS = 1000  # how many labels decide what the task is
MANY_CLASSES = 200  # more numbers than this among the first labels are no classes
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
    prepare: Callable[[Model], None] | None = None  # what is done to a new model
    predict_as: str = "raw"  # what is written to predictions
    loss_scale: float = 1.0  # losses are shown times this


class Watcher(Protocol):
    """What shows a run: `sonline.display.Display`, or `Silent`."""

    @property
    def is_live(self) -> bool:
        """Whether `update` is wanted after each batch."""

    def say(self, text: str) -> None:
        """Show a line."""

    def begin(self, rows: int, share: float | None) -> None:
        """Start the clock."""

    def row(
        self, point: Point, error: float, label: str, predicted: Callable[[], str], features: int
    ) -> None:
        """Show a point of the progressive loss."""

    def update(self, **facts: Any) -> None:
        """Show the state: the fields of `sonline.display.Now`."""


class Silent:
    """Shows nothing."""

    is_live = False

    def say(self, text: str) -> None:
        """Show nothing."""

    def begin(self, rows: int, share: float | None) -> None:
        """Show nothing."""

    def row(
        self, point: Point, error: float, label: str, predicted: Callable[[], str], features: int
    ) -> None:
        """Show nothing."""

    def update(self, **facts: Any) -> None:
        """Show nothing."""


class Files(AbstractContextManager[Any], Protocol):
    """Files that grow during a run: predictions and bad rows."""

    lengths: dict[str, int]

    def write(self, name: str, data: bytes) -> None:
        """Append to one of them."""

    def sync(self) -> None:
        """Let all that was written reach the disk."""


class NoFiles(nullcontext[None]):
    """None are wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: dict[str, int] = {}

    def write(self, name: str, data: bytes) -> None:
        """Write nothing."""

    def sync(self) -> None:
        """Do nothing."""


class Training:
    """Learns from a stream until it ends, is stopped or reaches its limit.

    Parameters
    ----------
    settings : Settings
        What to do.
    watcher : Watcher, optional
        Where to show it.
    files : Files, optional
        Where predictions and bad rows go.
    model : Model, optional
        What to go on with; without, the first rows decide what model is made.

    Attributes
    ----------
    rows, skipped : int
        Rows learnt or held out over all passes, and bad rows.
    progress, held : Progress
        Measures of this pass, and those of rows held out.
    past : list of dict
        Summaries of the passes before.
    """

    def __init__(
        self,
        settings: Settings,
        watcher: Watcher | None = None,
        files: Files | None = None,
        model: Model | None = None,
    ) -> None:
        self.settings = settings
        self.watcher: Watcher = watcher or Silent()
        self.model = model
        self.rows = 0
        self.turn_rows = 0  # of this pass
        self.skipped = 0
        self.progress, self.held = Progress(), Progress()
        self.past: list[dict[str, Any]] = []
        self.position = Position()
        self.interrupted = False
        self.description = ""  # of the input
        self._stream: Stream | None = None
        self._files: Files = files or NoFiles()

    @property
    def resumable(self) -> Path | None:
        """The file that a later run resumes from."""
        return self.settings.checkpoint or self.settings.output

    def run(self) -> Model:
        """Learn; the model."""
        settings = self.settings
        last = self.resumable if settings.resume else None
        if last is not None and last.exists():
            self._resume(last)
        elif settings.initial is not None:
            self.model = Model.load(settings.initial)
            self._check_parameters(self.model, settings.initial)
        elif last is not None:
            self.watcher.say(f"no {last} to resume from: starting at the beginning")
        with self._files, self._open() as stream:
            self._stream = stream
            self.description = stream.description
            stream.refuse_columns_of_text(settings.stream)
            self.watcher.say(stream.description)
            self.watcher.begin(self.rows, stream.share())
            with _interruptible(self._interrupt):
                self._loop(stream)
            if self.model is None:
                bad = f": all {self.skipped} are bad ones" if self.skipped else ""
                raise InvalidInputError(f"there are no rows to learn from{bad}")
            self._note()
        return self.model

    def _open(self) -> Stream:
        options = dict(self.settings.stream)
        if self.model is not None and self.model.reading.features:
            chosen = {name: value for name, value in options.items() if value}
            options = stream_options(self.model) | chosen
            options["features"] = self.model.reading.features
        elif self.model is not None:
            labels = {"tokens": self.model.table is not None}
            options = options_of(self.model.parameters) | labels | options
        else:
            options |= options_of(Parameters(**self.settings.given))
        return streams.open(
            self.settings.data, start=self.position, passes=self.settings.passes, **options
        )

    def _loop(self, stream: Stream) -> None:
        saved = time.monotonic()
        saved_rows = self.rows
        batches = iter(stream)
        if self.model is None:
            batches = self._decide(stream, batches)
        elif not self.model.reading.features:
            self.model.reading = reading_of(stream.options)
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

    def look(self) -> tuple[Model, str]:
        """Make the model that the first rows need, without learning; it and what was found out."""
        with self._open() as stream:
            next(self._decide(stream, iter(stream)), None)
            description = stream.description
        if self.model is None:
            raise ParameterError(
                f"{self.settings.data[0]}: there are no rows in it to tell what to learn from; put "
                "a file with rows first"
            )
        return self.model, description

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
        labels: list[Any] = []
        left = DECIDING_ROWS
        for batch in first:
            labels += batch.head(left).new_label_values()
            left -= min(left, len(batch))
        if seen:
            table = table_for(
                parameters, labels, self.settings.classes, "loss" in self.settings.given
            )
            self.model = Model(parameters, table)
            self.model.reading = reading_of(stream.options)
            if self.settings.prepare is not None:
                self.settings.prepare(self.model)
            if table is not None and not table.signs:
                self.watcher.say(_shown_classes(table.labels or labels, table.growing))
        return itertools.chain(first, batches)

    def _take(self, batch: Batch, stream: Stream) -> None:
        model = self.model
        self.skipped += batch.skipped
        self._files.write("bad_rows", batch.bad_text())
        if model is None:  # nothing but bad rows so far
            return
        if batch.start.turn != self.position.turn:
            self._next_pass()
        weights, held = self._weights(batch)
        if len(batch):
            learnt = model.learn_batch(batch, weights, THREADS)
            self._measure(model, batch, learnt, held)
        self.rows += len(batch)
        self.turn_rows += len(batch)
        self.position = batch.end
        if self.watcher.is_live:
            self.watcher.update(**self._now(model, stream))

    def _next_pass(self) -> None:
        self.past.append(self.summary())
        self.progress, self.held = Progress(), Progress()
        self.turn_rows = 0

    def _weights(self, batch: Batch) -> tuple[Floats | None, NDArray[np.bool_] | None]:
        """Return the weights with those of held-out rows 0, and which rows are held out."""
        period = self.settings.holdout
        if not period:
            return batch.weights, None
        numbers = self.turn_rows + np.arange(len(batch))
        held = numbers % period == period - 1
        weights = np.ones(len(batch)) if batch.weights is None else batch.weights
        return np.where(held, 0.0, weights), held

    def _measure(
        self, model: Model, batch: Batch, learnt: Learnt, held: NDArray[np.bool_] | None
    ) -> None:
        loss, wrong = model.measures(learnt)
        every: Any = slice(None)
        for rows, progress in (
            [(every, self.progress)]
            if held is None
            else [(~held, self.progress), (held, self.held)]
        ):
            weights = None if batch.weights is None else batch.weights[rows]
            before = progress.loss.rows
            points = progress.update(loss[rows], None if wrong is None else wrong[rows], weights)
            if model.table is None:
                progress.r2.update(learnt.targets[rows], learnt.raw[0][rows], weights)
            if progress is self.progress and points:
                numbers = np.arange(len(batch))[rows]
                for point in points:
                    self._show(model, batch, learnt, point, int(numbers[point.rows - before - 1]))
        if self.settings.predictions is not None:
            for rows, raw, classes in learnt.parts():
                tags = None if batch.tags is None else batch.tags[rows]
                text = prediction_lines(model, raw, self.settings.predict_as, tags, classes)
                self._files.write("predictions", text.encode())

    def _show(self, model: Model, batch: Batch, learnt: Learnt, point: Point, row: int) -> None:
        table = model.table
        target = learnt.targets[row]
        label = f"{target:g}" if table is None else str(table.labels[int(target)])

        def predicted() -> str:
            for rows, raw, classes in learnt.parts():
                if rows.start <= row < rows.stop:
                    place = row - rows.start
                    line = prediction_lines(
                        model, raw[:, place : place + 1], "label", None, classes
                    )
                    return f"{raw[0, place]:.4f}" if table is None else line.strip()
            return ""

        features = int(batch.indptr[row + 1] - batch.indptr[row])
        # The curve of errors has its points at the same rows.
        error = next(
            (p.average for p in reversed(self.progress.error.points) if p.rows == point.rows),
            float("nan"),
        )
        self.watcher.row(point, error, label, predicted, features)

    def _now(self, model: Model, stream: Stream) -> dict[str, Any]:
        stats = model.stats()
        error = self.progress.error
        return {
            "rows": self.rows,
            "share": stream.share(),
            "loss": self.progress.loss.now,
            "error": error.average if error.weight > 0 else None,
            "features": stats["features"],
            "sweeps": stats["sweeps"],
            "turn": self.position.turn,
            "passes": self.settings.passes,
            "skipped": self.skipped,
        }

    def summary(self) -> dict[str, Any]:
        """Return the averages of this pass that are known."""
        curves = {
            "loss": self.progress.loss,
            "error": self.progress.error,
            "holdout_loss": self.held.loss,
            "holdout_error": self.held.error,
        }
        return {name: curve.average for name, curve in curves.items() if curve.weight > 0} | {
            "rows": self.progress.loss.rows + self.held.loss.rows
        }

    # -- the state that a later run goes on from -------------------------------------------------

    def _note(self) -> None:
        """Put into the model what a later run needs to go on."""
        model = self.model
        assert model is not None  # noqa: S101 - asked after rows have come
        self._files.sync()
        if self._stream is not None:
            model.reading.columns = dict(self._stream.columns)
        model.progress = self.progress
        model.run = {
            "files": list(self._stream.files) if self._stream else [],
            "format": self._stream.options.format if self._stream else "auto",
            "position": self.position.as_dict(),
            "passes": self.settings.passes,
            "holdout": self.settings.holdout,
            "rows": self.rows,
            "turn_rows": self.turn_rows,
            "skipped": self.skipped,
            "held": self.held.as_dict(),
            "past": self.past,
            "lengths": self._files.lengths,
        }

    def save(self) -> None:
        """Write model and position to the file that can be resumed."""
        if self.model is None or self.resumable is None:
            return
        self._note()
        self.model.save(self.resumable)

    def _resume(self, path: Path) -> None:
        model = Model.load(path)
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
                    f"resume: {path} was made with {name} {run[name]}, now there is {value}; "
                    "repeat the same run, or continue training the model on other data (--from)"
                )
        self._check_parameters(model, path)
        self.model = model
        self.position = Position(**run["position"])
        self.rows, self.turn_rows = int(run["rows"]), int(run["turn_rows"])
        self.skipped = int(run["skipped"])
        self.progress, self.held = model.progress, Progress.from_dict(run["held"])
        self.past = list(run["past"])
        self._files.lengths |= {name: int(length) for name, length in run["lengths"].items()}
        if "-" in run["files"]:
            self.watcher.say(
                "standard input cannot be read again: the rows that come now are taken to be "
                "those after the ones learnt"
            )
            self.position = Position()
        self.watcher.say(f"resuming from {path} after {self.rows:,} rows")

    def _check_parameters(self, model: Model, path: Path) -> None:
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


# -- models for streams ----------------------------------------------------------------------------


def table_for(
    parameters: Parameters, labels: Sequence[Any], classes: str | Sequence[Any], loss_given: bool
) -> ClassTable | None:
    """Return the classes that the first labels of a stream ask for; None if numbers are learnt."""
    if not parameters.binary:
        return None
    if classes not in ("auto", "binary", "multi"):
        words = classes.split(",") if isinstance(classes, str) else list(classes)
        declared = [label_of(word.strip()) if isinstance(word, str) else word for word in words]
        if len(set(declared)) < max(2, len(declared)):
            raise ParameterError(f"classes {classes}: name two or more different classes")
        return ClassTable(tuple(declared))
    if classes == "binary" or (classes == "auto" and set(labels) <= {-1, 0, 1}):
        return SIGNS
    if classes == "auto" and not loss_given:
        fractions = any(isinstance(label, float) for label in labels)
        if fractions or (len(labels) > MANY_CLASSES and not isinstance(labels[0], str)):
            shown = ", ".join(str(label) for label in labels[:4])
            raise ParameterError(
                f"labels such as {shown} look like numbers to be predicted: use the loss squared "
                "or quantile (--loss squared); if each is a class, classes multi (--classes multi)"
            )
    return ClassTable(growing=True)


def fitting(model: Model, labels: Sequence[Any], classes: str | Sequence[Any] = "auto") -> Model:
    """Return a model that has not learnt yet as the labels of a stream need it."""
    table = table_for(model.parameters, list(dict.fromkeys(labels)), classes, loss_given=False)
    return model if table is SIGNS else Model(model.parameters, table)


def options_of(parameters: Parameters) -> dict[str, Any]:
    """Return the options of a stream for a model with these parameters."""
    return {
        "hash_bits": parameters.hash_bits,
        "hash_seed": parameters.seed,
        "dtype": parameters.dtype,
        "tokens": parameters.binary,
    }


def stream_options(model: Model, **more: Any) -> dict[str, Any]:
    """Return the options of a stream that a model can read."""
    table, reading = model.table, model.reading
    features = reading.features or ("name" if model.core.name_count() else "index")
    return {
        **options_of(model.parameters),
        "features": "hash" if model.parameters.hash_bits is not None else features,
        "tokens": table is not None,
        "names": model.core if features == "name" else [],
        "label_names": [] if table is None else [token_of(label) for label in table.labels],
        "columns": reading.columns,
        **reading.table,
        **more,
    }


def reading_of(options: Options) -> Reading:
    """Return how a stream is read, to be kept with a model."""
    table = {
        "label": options.label,
        "weight": options.weight,
        "tag": options.tag,
        "text": list(options.text),
        "ignore": list(options.ignore),
        "interactions": list(options.interactions),
    }
    return Reading(options.features, {}, {name: value for name, value in table.items() if value})


def prediction_lines(
    model: Model, raw: Floats, kind: str, tags: list[str] | None, classes: int | None = None
) -> str:
    """Return predictions as text, a line per row, with its tag.

    ``classes`` is how many classes the predictions know, if not all of the model.
    """
    count = model.classes if classes is None else classes
    if kind == "label" and model.table is not None:
        chosen = raw[0] > 0 if count == 2 else raw.argmax(axis=0)
        names = [str(label) for label in model.table.labels]
        rows = [names[int(number)] for number in chosen.tolist()]
    else:
        numbers = raw
        if kind == "probability":
            numbers = model.probabilities(raw)
            numbers = numbers[1:] if numbers.shape[0] == 2 else numbers
        if numbers.shape[0] == 1:
            rows = [repr(value) for value in numbers[0].tolist()]
        else:
            rows = [" ".join(map(repr, line)) for line in numbers.T.tolist()]
    if tags is not None:
        rows = [f"{row} {tag}" if tag else row for row, tag in zip(rows, tags, strict=True)]
    return "".join(f"{row}\n" for row in rows)


def learn_stream(
    model: Model,
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    options: dict[str, Any],
    passes: int,
    classes: str | Sequence[Any],
    progress: bool,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: int | str | None,
    resume: bool,
) -> tuple[Model, bool]:
    """Learn a stream as `OnlineLearner.learn_stream` is asked to.

    Returns the model, and whether Ctrl-C ended it early.
    """
    if resume and checkpoint is None:
        raise ParameterError("resume=True needs checkpoint, the file to resume from")
    every_rows, every_seconds = checkpoint_times(checkpoint_every, checkpoint is not None)
    fresh = not model.stats()["rounds"]
    settings = Settings(
        data=[os.fspath(name) for name in streams.listed(source)],
        given=model.parameters.as_dict(),
        stream=options,
        classes=classes,
        passes=passes,
        checkpoint=None if checkpoint is None else Path(checkpoint),
        every_rows=every_rows,
        every_seconds=every_seconds,
        resume=resume,
    )
    if fresh:  # as on the command line, where parameters that were not given are the defaults
        default = Parameters().as_dict()
        settings.given = {k: v for k, v in settings.given.items() if v != default[k]}
    training = Training(settings, model=None if fresh else model)
    if progress:
        from sonline.display import Display, LastingConsole  # noqa: PLC0415 - seldom wanted

        with Display(LastingConsole(), silent=False) as display:
            training.watcher = display
            learnt = training.run()
    else:
        learnt = training.run()
    if training.interrupted:
        training.save()
    return learnt, training.interrupted


def checkpoint_times(every: int | str | None, checkpoint: bool) -> tuple[int, float]:
    """Return after how many rows and after how many seconds to save; 0 is never."""
    if every is None:
        return 0, EVERY_SECONDS if checkpoint else 0.0
    if not checkpoint:
        raise ParameterError(
            "checkpoint_every needs checkpoint, the file (--checkpoint-every: --checkpoint FILE)"
        )
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s?)", str(every))
    if not found or float(found[1]) <= 0 or not (found[2] or found[1].isdigit()):
        raise ParameterError(
            f"checkpoint_every must be rows (100000) or seconds (60s), got {every!r}"
        )
    return (0, float(found[1])) if found[2] else (int(found[1]), 0.0)


def _shown_classes(labels: Sequence[Any], growing: bool) -> str:
    shown = ", ".join(str(label) for label in labels[:10])
    more = ", ..." if len(labels) > 10 else ""
    return f"classes: {shown}{more}{' (and any that come)' if growing else ''}"


@contextmanager
def _interruptible(handle: Callable[[], None]) -> Iterator[None]:
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
