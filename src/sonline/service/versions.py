"""A version of a model: the model, its snapshots, and its progressive metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, TypeVar

import msgspec
import numpy as np

from sonline import persistence
from sonline.arguments import refuse_unknown_names
from sonline.errors import (
    DivergenceError,
    InvalidInputError,
    ModelFileError,
    ParameterError,
)
from sonline.labels import ClassTable, token_of
from sonline.model import LearnResult, Model, asking
from sonline.model.pictures import as_data
from sonline.model.predictions import probabilities_one
from sonline.parameters import Parameters
from sonline.rows import Floats
from sonline.service.bodies import TASKS, Rows, Served
from sonline.service.columns import Columns
from sonline.service.monitor import Monitor
from sonline.service.records import CHAMPION, StoreError, Version, brief
from sonline.service.settings import SLICE
from sonline.service.view import DatabaseView
from sonline.streams.batch import joined_column

EXPLAINED = 20_000  # features of a model whose predictions are explained: it reads all weights
FACE = {"name": "OnlineLearner"}  # what a model file of the service is opened as
Item = TypeVar("Item")


class RecoveryError(StoreError):
    """A version has no snapshot that can be read."""


def new_model(
    task: str = "binary", classes: Sequence[Any] = (), parameters: dict[str, Any] | None = None
) -> Model:
    """Create an empty model.

    Examples
    --------
    >>> new_model("classes", parameters={"sketch_size": 5}).growing
    True
    """
    if task not in TASKS:
        raise ParameterError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
    options = dict(parameters or {})
    if task == "regression":
        options.setdefault("loss", "squared")
    names = [field.name for field in fields(Parameters)]
    refuse_unknown_names("parameters: there is no parameter", options, names)
    try:
        chosen = Parameters(**options)
    except TypeError as error:
        raise ParameterError(f"parameters: {error}") from None
    if chosen.binary != (task != "regression"):
        fitting = "'regression'" if task != "regression" else "'binary' or 'classes'"
        raise ParameterError(f"loss={chosen.loss!r} does not fit task {task!r}; use task {fitting}")
    if task != "classes":
        if classes:
            raise ParameterError(f"classes are for task 'classes', not {task!r}")
        return Model.for_labels(chosen)
    return Model(chosen, ClassTable(tuple(classes), growing=not classes))


def packed(model: Model) -> bytes:
    """Return a model as a model file."""
    return persistence.pack(model.document() | {"face": FACE}, model.tensors())


def check_servable(model: Model) -> None:
    """Raise an error about a model that cannot learn the rows of requests."""
    if model.only_predicts:
        raise InvalidInputError("this is a compact model, which only predicts")
    for option in ("interactions", "ngrams"):
        if chosen := getattr(model.reading.table, option):
            raise InvalidInputError(
                f"this model was trained with --{option} {chosen[0]}, which applies to files and "
                f"not to the rows of requests; train it without --{option}"
            )


def check_alike(champion: Model, model: Model) -> None:
    """Raise an error about a model that cannot be a version beside the champion."""
    mine, other = champion.table, model.table
    same = (mine is None) == (other is None)
    if same and mine is not None and other is not None:
        same = mine.signs == other.signs and (mine.signs or mine.growing == other.growing)
        same = same and (mine.signs or mine.growing or mine.labels == other.labels)
    if not same:
        raise InvalidInputError("a version must have the task and the classes of the champion")


class Part(msgspec.Struct, frozen=True):
    """Some rows of a record that has been written: the numbers of its events, and the rows."""

    seq: int
    rows: Rows

    @property
    def end(self) -> int:
        """The number of the event after its last one."""
        return self.seq + self.rows.count


class Answer(msgspec.Struct, frozen=True):
    """Predictions of a version."""

    version: int
    seq: int  # the number of the next event to be learned
    raw: list[list[float]]  # of each row
    labels: list[Any]
    probabilities: list[list[float]] | None  # of each row
    classes: tuple[str, ...]  # by number
    order: list[int] | None  # the numbers of the classes sorted by label, unless they are
    intervals: list[tuple[float, float]] | None = None
    wanted: list[bool] | None = None  # whether labels are worth asking for

    def sorted_raw(self, row: int) -> list[float]:
        """Return the raw predictions of a row, those of classes in the order of their labels."""
        raw, order = self.raw[row], self.order
        if order is None:
            return raw
        return [-raw[0]] if len(order) == 2 else [raw[number] for number in order]

    def shares(self, row: int) -> dict[str, float]:
        """Return the probability of each class for a row, in the order of their labels."""
        shares = self.probabilities[row] if self.probabilities else []
        if self.order is None:
            return dict(zip(self.classes, shares, strict=True))
        return {self.classes[number]: shares[number] for number in self.order}


class Live:
    """A version in memory.

    Parameters
    ----------
    info : Version
        Its entry in the database.
    model : Model
        The model in its current state.
    next_ : int
        The number of the next event to be learned.
    """

    def __init__(self, info: Version, model: Model, next_: int) -> None:
        self.info = info
        self.model = model
        self.next = next_
        self.monitor = Monitor()
        self.columns = Columns()  # of what it has learned as champion
        self.refused = 0  # events that this version cannot use
        self.refusal = ""  # why it could not use the last of them
        self._lock = threading.Lock()  # of model and next, between learning and predicting
        self._words: tuple[ClassTable | None, tuple[str, ...], list[int] | None] = (None, (), None)

    def summary(self) -> dict[str, Any]:
        """Return what it is and how well it predicts, as values that JSON can hold."""
        loss = self.model.progress.loss
        return {
            "role": self.info.role,
            "origin": self.info.origin,
            "learned": loss.rows,
            "mean_loss": loss.average if np.isfinite(loss.average) else None,
            "problem": self.problem,
            "refused": self.refused,
        }

    # -- learning and predicting -----------------------------------------------------------------

    def learn(self, parts: Sequence[Part]) -> None:
        """Learn records in the order of the log, except those it has learned already."""
        for part in _joined(
            part for record in parts if record.seq >= self.next for part in _cut(record)
        ):
            self._learn(part)

    def _learn(self, parts: list[Part]) -> None:
        rows = _together(parts)
        try:
            with self._lock:
                rest: Rows | None = rows
                while rest is not None:
                    rest = self._learn_some(rest)
                self.next = parts[-1].end
        except InvalidInputError as error:  # nothing was learned
            if len(parts) > 1:
                for part in parts:
                    self._learn([part])
                return
            # Rows are checked before they are written, but a shadow may be stricter.
            self.refused += rows.count
            self.refusal = str(error)
            self.next = parts[0].end

    def _learn_some(self, rows: Rows) -> Rows | None:
        """Learn rows up to one that would overflow the weights; return those after it."""
        rest = None
        try:
            learned = self.model.learn(rows.x, rows.y, rows.weights, offset=rows.offsets)
        except DivergenceError as error:
            self.refused += 1
            self.refusal = str(error)
            learned = error.learned  # type: ignore[attr-defined]
            rest = (
                _slice(rows, error.rows_done, rows.count) if error.rows_done < rows.count else None
            )
            rows = _slice(rows, 0, len(learned))
        served = self._served(learned, rows.served)
        self.model.update_progress(served, rows.weights)
        self.monitor.update(self.model, served)
        if self.info.role == CHAMPION:
            self.columns.add(rows.x)
        return rest

    def explain(self, row: Any, label: str | None, offset: float | None = None) -> dict[str, Any]:
        """Return a prediction and what each feature, and the offset, adds to it."""
        with self._lock:
            tokens = self._classes_to_explain(label, "explain")
            if label is None and self.model.outputs > 1:
                label = token_of(self.model.labels(self.model.predict([row]))[0])
            chosen = None if label is None else tokens[label]
            parts = self.model.explain(row, chosen)
            if (offsets := self.model.offsets(offset, 1)) is not None:
                parts["(offset)"] = float(offsets[0])
        sums = {"raw": sum(parts.values()), "label": label, "version": self.info.version}
        return sums | {"parts": [[str(name), part] for name, part in parts.items()]}

    def curves(self, label: str | None) -> dict[str, Any]:
        """Return the curves of all columns, of one class or of all."""
        with self._lock:
            tokens = self._classes_to_explain(label, "inspect")
            if label is None and self.model.outputs > self.model.CLASSES_SHOWN:
                raise InvalidInputError(
                    f"label is missing: there are {self.model.outputs} classes, whose curves are "
                    "returned one at a time"
                )
            chosen = None if label is None else tokens[label]
            columns = as_data(self.model, chosen)
            about = {"version": self.info.version, "unit": self.model.unit(chosen)}
        return about | {"columns": columns}

    def _classes_to_explain(self, label: str | None, command: str) -> dict[str, Any]:
        """Return the classes by their texts, if the model is not too large to be explained."""
        if self.model.stats()["features"] > EXPLAINED:
            raise InvalidInputError(
                f"models with more than {EXPLAINED:,} features are not explained here: download "
                f"the version and use 'sonline {command}'"
            )
        tokens = {token_of(known): known for known in self.model.known_labels}
        if label is not None and label not in tokens:
            raise InvalidInputError(f"label must be one of {', '.join(list(tokens)[:20])}")
        return tokens

    @property
    def problem(self) -> str | None:
        """Which events it could not learn."""
        if not self.refused:
            return None
        return f"events that could not be learned: {self.refused}; the last one: {self.refusal}"

    def _served(self, learned: LearnResult, served: Sequence[Served | None] | None) -> LearnResult:
        """Return the result of learning, with the predictions that were served if there are any."""
        if served is None or len(learned.class_counts) > 1:
            return learned
        name = str(self.info.version)
        stored = [
            (row, predictions[name])
            for row, predictions in enumerate(served)
            if predictions is not None and len(predictions.get(name, ())) == learned.raw.shape[0]
        ]
        if not stored:
            return learned
        raw = learned.raw.copy()
        for row, values in stored:
            raw[:, row] = values
        return replace(learned, raw=raw)

    def predict(self, rows: Rows) -> Answer:
        """Return predictions of rows."""
        if _is_plain(rows):
            return self._predict_one(rows.x[0])
        with self._lock:
            model = self.model
            raw = model.predict(rows.x, offset=rows.offsets)
            table, seq = model.table, self.next
            labels, shares = self._labelled(raw)
            intervals = wanted = None
            if rows.interval is not None:
                intervals = model.predicted(rows.x, False, rows.interval, rows.offsets)[1].tolist()
            if rows.wants_label:
                wanted = asking.wanted(model, rows.x).tolist()
        classes = self._classes(table)
        more = (intervals, wanted)
        return Answer(self.info.version, seq, raw.T.tolist(), labels, shares, *classes, *more)

    def _predict_one(self, x: Any) -> Answer:
        """Return the prediction of a mapping: the same bits, in less time."""
        with self._lock:
            model = self.model
            raw = model.predict_one(x)
            table, seq = model.table, self.next
            if table is not None and model.classes == 2 and model.probabilistic:
                labels = [table.labels[raw[0] > 0]]
                shares: list[list[float]] | None = [probabilities_one(raw, 2, np.exp)]
            else:
                labels, shares = self._labelled(np.array(raw)[:, np.newaxis])
        return Answer(self.info.version, seq, [raw], labels, shares, *self._classes(table))

    def _labelled(self, raw: Floats) -> tuple[list[Any], list[list[float]] | None]:
        """Return labels and probabilities for raw predictions."""
        model = self.model
        if model.table is not None and not model.classes:
            return [None] * raw.shape[1], None
        shares = model.probabilities(raw).T.tolist() if model.probabilistic else None
        return model.labels(raw), shares

    def _classes(self, table: ClassTable | None) -> tuple[tuple[str, ...], list[int] | None]:
        """Return the classes as words, and their order by label unless it is this one."""
        labels, words, order = self._words
        if table is not labels:
            words = () if table is None else tuple(map(token_of, table.labels))
            numbers = [] if table is None else table.order.tolist()
            order = None if numbers == [*range(len(numbers))] else numbers
            self._words = table, words, order
        return words, order

    def raw(self, rows: Rows) -> list[list[float]]:
        """Return raw predictions of rows."""
        with self._lock:
            if _is_plain(rows):
                return [self.model.predict_one(rows.x[0])]
            raw: list[list[float]] = self.model.predict(rows.x, offset=rows.offsets).T.tolist()
            return raw

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause learning and predicting."""
        with self._lock:
            yield

    # -- snapshots -------------------------------------------------------------------------------

    def content(self) -> tuple[int, dict[str, Any], persistence.Tensors]:
        """Return the number of the next event, and the content of a model file, as it is now."""
        with self._lock:
            return self.next, self.model.document() | {"face": FACE}, self.model.tensors()

    @classmethod
    def load(cls, info: Version, database: DatabaseView) -> tuple[Live, int]:
        """Load the newest good snapshot, and the first event that is needed to restore the ids.

        Raises
        ------
        RecoveryError
            If there is none.
        """
        reasons = []
        for snapshot, data in database.snapshots(info.version):
            try:
                if isinstance(data, StoreError):
                    raise data
                model = Model.from_bytes(data)
            except (ModelFileError, StoreError) as error:
                reasons.append(brief(error))
                continue
            return cls(info, model, snapshot.next), snapshot.keep_from
        raise RecoveryError(
            database.path,
            f": version {info.version} has no good snapshot ({'; '.join(reasons)})",
            "restore the file from a copy",
        )


def _is_plain(rows: Rows) -> bool:
    """Return whether this is one mapping and nothing but its prediction is asked for."""
    if rows.count > 1 or not isinstance(rows.x, list) or rows.offsets is not None:
        return False
    return rows.interval is None and not rows.wants_label


def _cut(part: Part) -> Iterator[Part]:
    """Yield the rows of a record in slices, the same ones whenever it is learned."""
    rows = part.rows
    if rows.count <= SLICE:
        yield part
        return
    for start in range(0, rows.count, SLICE):
        yield Part(part.seq + start, _slice(rows, start, min(start + SLICE, rows.count)))


def _slice(rows: Rows, start: int, end: int) -> Rows:
    """Return some of the rows."""
    # An Arrow table has the method `slice`, all others take slices.
    x = rows.x.slice(start, end - start) if hasattr(rows.x, "slice") else rows.x[start:end]
    return Rows(
        x,
        end - start,
        rows.ids[start:end],
        rows.y[start:end],
        None if rows.weights is None else rows.weights[start:end],
        None if rows.offsets is None else rows.offsets[start:end],
        None if rows.served is None else rows.served[start:end],
    )


def _joined(parts: Iterator[Part]) -> Iterator[list[Part]]:
    """Yield parts that can be learned with one call; batches are loops, so nothing changes."""
    return grouped(
        parts,
        lambda part: part.rows.count,
        lambda part: isinstance(part.rows.x, list) and isinstance(part.rows.y, list),
    )


def grouped(
    items: Iterable[Item],
    rows: Callable[[Item], int],
    plain: Callable[[Item], bool],
    follows: Callable[[Item, Item], bool] = lambda before, item: True,
) -> Iterator[list[Item]]:
    """Yield groups of up to `SLICE` rows; an item that is not plain is a group of its own.

    An item that does not follow the one before begins another group.
    """
    group: list[Item] = []
    count = 0
    for item in items:
        joins = group and plain(group[0]) and plain(item) and follows(group[-1], item)
        if group and not (joins and count + rows(item) <= SLICE):
            yield group
            group, count = [], 0
        group.append(item)
        count += rows(item)
    if group:
        yield group


def _together(parts: list[Part]) -> Rows:
    if len(parts) == 1:
        return parts[0].rows
    every = [part.rows for part in parts]
    counts = [rows.count for rows in every]
    return Rows(
        [x for rows in every for x in rows.x],
        sum(counts),
        (),
        [y for rows in every for y in rows.y],
        joined_column([rows.weights for rows in every], counts, 1.0),
        joined_column([rows.offsets for rows in every], counts, 0.0),
        [s for rows in every for s in (rows.served or [None] * rows.count)],
    )
