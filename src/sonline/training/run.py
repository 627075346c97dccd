"""`Training`: batches of a stream into a model, with checkpoints."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline import streams
from sonline.display import Display, PlainConsole
from sonline.errors import InvalidInputError, ParameterError
from sonline.evaluate import Progress
from sonline.model import LearnResult, Model, NextRows
from sonline.model.features import check_stream_features
from sonline.parameters import Parameters
from sonline.rows import CoreRows, Floats
from sonline.streams import Batch, Position, Stream
from sonline.streams.shuffling import shuffled
from sonline.streams.sources import fingerprint
from sonline.training.class_weights import ClassWeights
from sonline.training.outputs import GrowingFiles
from sonline.training.predictions import prediction_lines
from sonline.training.resuming import check_same_content, check_same_run
from sonline.training.settings import MORE_CLASSES, THREADS, RunSettings
from sonline.training.shown import show_row
from sonline.training.signals import CTRL_C, interruptible
from sonline.training.task import (
    DECIDING_ROWS,
    LabelCheck,
    NumberCheck,
    in_blocks,
    location_of,
    options_of,
    reading_of,
    shown_classes,
    stream_options,
    table_for,
)
from sonline.training.validation import Validation


class Training:
    """Trains a model on a stream until the stream ends, is stopped or reaches its limit.

    Parameters
    ----------
    settings : RunSettings
        The settings of the run.
    display : Display, optional
        Shows the run; by default nothing is shown.
    model : Model, optional
        The model to continue; by default a new one, as the first rows need it.
    signals : sequence of signal.Signals
        The signals that end the run cleanly.

    Attributes
    ----------
    rows, skipped : int
        Rows learned or held out in all passes, and bad rows.
    progress, held : Progress
        Measures of this pass, and of the rows held out.
    next_rows : NextRows
        Measures of the frozen model on the next rows. A resumed run starts new ones.
    past : list of dict
        Summaries of the earlier passes.
    """

    more_classes = MORE_CLASSES  # advice about labels that the classes do not allow
    predict_as = "raw"  # the kind of predictions in the file of predictions

    def __init__(
        self,
        settings: RunSettings,
        display: Display | None = None,
        model: Model | None = None,
        signals: Sequence[Signals] = CTRL_C,
    ) -> None:
        self.settings = settings
        self.display = display or Display(PlainConsole(), silent=True)
        self.model = model
        self.rows = 0
        self.turn_rows = 0  # of this pass
        self.skipped = 0
        self.progress, self.held = Progress(), Progress()
        self.next_rows = NextRows()
        self.past: list[dict[str, Any]] = []
        self.position = Position()
        self.class_weights = ClassWeights(settings.class_weights)
        self.validation: Validation | None = None
        if settings.validation:
            how = {"format": settings.stream.format}
            self.validation = Validation(
                settings.validation, settings.patience, how, settings.checkpoint
            )
        self.interrupted: Signals | None = None  # the signal that ended the run
        self._finished = False
        self._signals = signals
        self.description = ""  # of the input
        self._stream: Stream | None = None
        self._contents: list[dict[str, Any] | None] = []  # fingerprints of the files
        self._files = GrowingFiles(
            {"predictions": settings.predictions, "bad_rows": settings.bad_rows}, self.display.say
        )

    @property
    def absent_columns(self) -> list[str]:
        """JSON lines: columns that options name and that no row had."""
        return self._stream.absent_columns if self._stream else []

    @property
    def resumable(self) -> Path | None:
        """The file that a later run resumes from."""
        return self.settings.checkpoint or self.settings.output

    def run(self) -> Model:
        """Train, and return the model."""
        settings = self.settings
        last = self.resumable if settings.resume else None
        if last is not None and last.exists():
            self._resume(last)
        elif settings.initial is not None:
            self.model = Model.load(settings.initial)
            self._check_parameters(self.model, settings.initial)
        elif last is not None:
            self.display.say(f"no {last} to resume from: starting at the beginning")
        with self._files, self._open() as stream:
            self._stream = stream
            self._contents = [fingerprint(name) for name in stream.files]
            self.description = stream.description
            stream.refuse_columns_of_text(settings.stream)
            self.display.say(stream.description)
            self.display.begin(self.rows, stream.share())
            with interruptible(self._interrupt, self._signals):
                self._loop(stream)
            self._finished = self.interrupted is None
            if self.validation is not None and self.model is not None and not self.interrupted:
                if not self.validation.last:  # after the last pass
                    self.validation.enough(self.model, final=True)
                self._note()
                self.model = self.validation.best(self.model)
                self.display.say(f"the model is that of pass {self.validation.best_pass}")
            if self.model is None:
                bad = f": all {self.skipped} are bad" if self.skipped else ""
                where = ", ".join(stream.files[:3]) + (", ..." if len(stream.files) > 3 else "")
                raise InvalidInputError(f"{where}: there are no rows to learn from{bad}")
            self._note()
        return self.model

    def _open(self) -> Stream:
        options = self.settings.stream.chosen()
        if self.model is None:
            options |= options_of(Parameters(**self.settings.parameters))
        elif self.model.reading.features:
            options = stream_options(self.model) | options
            options["features"] = self.model.reading.features
        else:
            known = {
                "tokens": self.model.table is not None,
                "columns": self.model.reading.columns,
            }
            options = options_of(self.model.parameters) | known | options
        return streams.open(
            self.settings.data,
            start=self.position,
            passes=self.settings.passes,
            **options,
        )

    def _loop(self, stream: Stream) -> None:
        saved = time.monotonic()
        saved_rows = self.rows
        batches = iter(stream)
        if self.model is None:
            batches = self._decide(stream, batches)
        elif not self.model.reading.features:
            check_stream_features(self.model, stream.options.features == "name")
            columns = self.model.reading.columns
            self.model.reading = replace(reading_of(stream.options), columns=columns)
        table = None if self.model is None else self.model.table
        if self.model is not None:
            self.class_weights.check(table)
        check: LabelCheck | NumberCheck | None = None
        if table is not None:
            check = LabelCheck(table, self.more_classes)
        elif self.model is not None:
            check = NumberCheck(self.model)
        usable = self._usable(batches, check, stream.options.on_error)
        if self.settings.shuffle:
            seed = 0 if self.model is None else self.model.parameters.seed
            stopped = lambda: self.interrupted is not None  # noqa: E731 - asked at the end
            usable = shuffled(usable, self.settings.shuffle, seed, stopped)
        for batch in usable:
            if batch.start.turn != self.position.turn and self._pass_is_last():
                break
            self._take(batch, stream)
            if self.interrupted:
                break
            due = self.settings.every_rows and self.rows - saved_rows >= self.settings.every_rows
            late = self.settings.every_seconds
            if due or (late and time.monotonic() - saved >= late):
                self.save()
                saved, saved_rows = time.monotonic(), self.rows

    def _usable(
        self, batches: Iterator[Batch], check: LabelCheck | NumberCheck | None, on_error: str
    ) -> Iterator[Batch]:
        """Yield batches without rows that cannot be learned, up to the limit."""
        left = None if self.settings.limit is None else self.settings.limit - self.rows
        for full in batches:
            batch = full if left is None else full.head(left)
            reasons = check.reasons(batch) if check is not None else {}
            if reasons and on_error == "stop":
                yield batch.head(min(reasons))  # rows before the error are learned
            batch = batch.checked(reasons, on_error)
            yield batch
            if left is not None:
                left -= len(batch)
                if left <= 0:
                    return

    def look(self) -> tuple[Model, str]:
        """Return an untrained model for the first rows, and a sentence about the input."""
        with self._open() as stream:
            next(self._decide(stream, iter(stream)), None)
            description = stream.description
        if self.model is None:
            raise ParameterError(
                f"{self.settings.data[0]}: it has no rows to detect the task from; put "
                "a file with rows first"
            )
        return self.model, description

    def _decide(self, stream: Stream, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Create a model for the first rows; return all batches, including the first ones."""
        first: list[Batch] = []
        parameters = Parameters(**self.settings.parameters)
        # If the labels do not decide the task, training on a slow pipe starts with its first row.
        needed = DECIDING_ROWS if parameters.binary and self.settings.classes == "auto" else 1
        labels: list[Any] = []
        seen = 0
        for batch in batches:
            first.append(batch)
            if batch.codes is not None:
                codes = batch.codes[: needed - seen].tolist()
                labels += [batch.names.label(code) for code in codes if code >= 0]
            seen += len(batch)
            if seen >= needed:
                break
        if seen:
            table = table_for(
                parameters,
                labels,
                self.settings.classes,
                "loss" in self.settings.parameters,
                skip=stream.options.on_error == "skip",
                location_of=lambda label: location_of(label, first),
            )
            if not self.settings.shuffle and in_blocks(labels):
                self.display.say(
                    "warning: the first rows are sorted by label, and the model forgets the first "
                    "label over those that follow: shuffle the rows (--shuffle 100000)"
                )
            self.model = Model(parameters, table)
            self.model.reading = reading_of(stream.options)
            if self.settings.prepare is not None:
                self.settings.prepare(self.model)
            if table is not None and not table.signs:
                classes = table.labels or list(dict.fromkeys(labels))
                self.display.say(shown_classes(classes, table.growing))
        return itertools.chain(first, batches)

    def _take(self, batch: Batch, stream: Stream) -> None:
        model = self.model
        self.skipped += batch.skipped
        self._files.write("bad_rows", batch.bad_text())
        if model is None:  # all rows so far were bad
            return
        weights, held = self._weights(batch)
        if len(batch):
            learned = self.learn(model, batch, weights)
            self._measure(model, batch, learned, held)
        self.rows += len(batch)
        self.turn_rows += len(batch)
        self.position = batch.end
        if model.reading.columns != stream.columns:
            model.reading = replace(model.reading, columns=dict(stream.columns))
        if self.display.is_live:
            self.display.update(**self._now(model, stream))

    def learn(self, model: Model, batch: Batch, weights: Floats | None) -> LearnResult:
        """Learn a batch; in the first pass some are also predicted by the frozen model."""
        if batch.start.turn > 0 or not self.next_rows.is_due(len(batch), self.rows):
            return model.learn_batch(batch, weights, THREADS)
        frozen: list[Floats] = []

        def predict(rows: CoreRows) -> None:
            frozen.append(model.predict(rows, offset=batch.offsets))

        learned = model.learn_batch(batch, weights, THREADS, predict)
        self.next_rows.compare(model, learned, frozen[0])
        return learned

    def _pass_is_last(self) -> bool:
        """Start the next pass, or return True if validation shows no more progress."""
        if self.validation is not None and self.model is not None:
            if self.validation.enough(self.model):
                return True
            validated, self.validation.last = self.validation.last, {}
            self.past.append(self.summary() | validated)
        else:
            self.past.append(self.summary())
        self.progress, self.held = Progress(), Progress()
        self.turn_rows = 0
        return False

    def _weights(self, batch: Batch) -> tuple[Floats | None, NDArray[np.bool_] | None]:
        """Return the weights to learn with, 0 for held-out rows, and which rows are held out."""
        period = self.settings.holdout
        weights = self.class_weights.of(batch)
        if not period:
            return weights, None
        numbers = self.turn_rows + np.arange(len(batch))
        held = numbers % period == period - 1
        return np.where(held, 0.0, 1.0 if weights is None else weights), held

    def _measure(
        self, model: Model, batch: Batch, learned: LearnResult, held: NDArray[np.bool_] | None
    ) -> None:
        loss, wrong = self.losses(model, learned)
        counted = self.counted(learned, batch)
        all_rows: Any = slice(None)
        for rows, progress in (
            [(all_rows, self.progress)]
            if held is None
            else [(~held, self.progress), (held, self.held)]
        ):
            weights = None if counted is None else counted[rows]
            before = progress.loss.rows
            points = progress.update(loss[rows], None if wrong is None else wrong[rows], weights)
            if model.table is None:
                progress.r2.update(
                    learned.targets[rows], model.means(learned.raw[0][rows]), weights
                )
            if progress is self.progress and points:
                numbers = np.arange(len(batch))[rows]
                for point in points:
                    row = int(numbers[point.rows - before - 1])
                    errors = self.progress.error
                    show_row(
                        self.display, model, batch, learned, point=point, row=row, errors=errors
                    )
        if self.settings.predictions is not None:
            kind = "mean" if model.parameters.log_link else self.predict_as
            for rows, raw, classes in learned.parts():
                tags = None if batch.tags is None else batch.tags[rows]
                text = prediction_lines(model, raw, kind, tags, classes)
                self._files.write("predictions", text.encode())

    def losses(self, model: Model, learned: LearnResult) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Return the loss of each prediction, and for classes whether it was wrong."""
        return model.measures(learned)

    def counted(self, learned: LearnResult, batch: Batch) -> Floats | None:
        """Return the weights of the rows in the reported averages."""
        return learned.counted(batch.weights)

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
        """Return the averages of this pass."""
        curves = {
            "loss": self.progress.loss,
            "error": self.progress.error,
            "holdout_loss": self.held.loss,
            "holdout_error": self.held.error,
        }
        return {name: curve.average for name, curve in curves.items() if curve.weight > 0} | {
            "rows": self.progress.loss.rows + self.held.loss.rows,
            **({} if self.validation is None else self.validation.last),
        }

    # -- the state that a later run resumes ------------------------------------------------------

    def _note(self) -> None:
        """Store the state of the run in the model, for a resumed run."""
        model = self.model
        assert model is not None  # noqa: S101 - only called after the first rows
        self._files.sync()
        model.progress = self.progress
        model.run = {
            "files": list(self._stream.files) if self._stream else [],
            "contents": self._contents,
            "format": self._stream.options.format if self._stream else "auto",
            "position": self.position.as_dict(),
            "passes": self.settings.passes,
            "holdout": self.settings.holdout,
            "shuffle": self.settings.shuffle,
            "validation": None if self.validation is None else self.validation.as_dict(),
            "class_weights": self.class_weights.as_list(),
            "options": self.settings.stream.of_rows(),
            "rows": self.rows,
            "turn_rows": self.turn_rows,
            "skipped": self.skipped,
            "held": self.held.as_dict(),
            "past": self.past,
            # Files of a finished run are complete: equal models have equal files without them.
            "lengths": {} if self._finished else self._files.lengths,
        }

    def save(self) -> None:
        """Write the model and the position to the checkpoint."""
        if self.model is None or self.resumable is None:
            return
        self._note()
        self.model.save(self.resumable)

    def _resume(self, path: Path) -> None:
        model = Model.load(path)
        run = model.run
        if not run:
            raise ParameterError(f"{path} was not made by a run that can be resumed")
        check_same_run(path, run, self.settings)
        self._check_parameters(model, path)
        check_same_content(path, run)
        self.model = model
        self.position = Position(**run["position"])
        self.rows, self.turn_rows = int(run["rows"]), int(run["turn_rows"])
        self.skipped = int(run["skipped"])
        self.progress, self.held = model.progress, Progress.from_dict(run["held"])
        self.past = list(run["past"])
        if self.validation is not None:
            self.validation.resume(run["validation"], path)
        self._files.resume({name: int(length) for name, length in run["lengths"].items()})
        if "-" in run["files"]:
            if self.settings.passes > 1:
                raise ParameterError(
                    "resume: standard input cannot be read again, so several passes over it cannot "
                    "be continued (--resume); start again"
                )
            self.display.say(
                "standard input cannot be read again: incoming rows are taken as those after the "
                "last one learned"
            )
            self.position = Position()
        self.display.say(f"resuming from {path} after {self.rows:,} rows")

    def _check_parameters(self, model: Model, path: Path) -> None:
        have = model.parameters.as_dict()
        needed = Parameters(**{**have, **self.settings.parameters}).as_dict()
        for name, value in needed.items():
            if value != have[name]:
                raise ParameterError(
                    f"{path} was made with {name}={have[name]!r}, which cannot become {value!r}"
                )

    def _interrupt(self, number: Signals) -> None:
        self.interrupted = number
        if self._stream is not None:
            self._stream.stop()
