"""Admission of events: they are checked, their ids are looked up, and they are queued for the log.

Everything that decides whether an event counts happens here, before it is written, and is undone if
it cannot be written. So the log alone decides which events are learned.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from sonline.errors import InvalidInputError
from sonline.labels import ClassTable
from sonline.model import Model, Reading
from sonline.parameters import Parameters
from sonline.service import arrow, bodies
from sonline.service.bodies import LabelRow, LoggedRow, Rows
from sonline.service.clock import Clock
from sonline.service.outcomes import (
    BusyError,
    Outcome,
    Promise,
    UnavailableError,
    UnknownIdError,
)
from sonline.service.pending import PendingRow, Remembered, Waiting
from sonline.service.records import AS_ARROW, AS_LINES, KEEP, LEARN, Record, brief
from sonline.service.settings import Settings

_ROWS_IN_A_LOOP = 8  # checked one by one, which is faster for a few
NO_LIMITS = bodies.Limits(*[1 << 62] * 4)  # events in the log were checked before they were written


@lru_cache(maxsize=64)
def _checker(parameters: Parameters) -> Model:
    """Return an empty model that checks the rows of all models with these parameters."""
    return Model(parameters)


class Ticket(msgspec.Struct):
    """A request in the queue, and how to undo it if it cannot be written."""

    record: Record | None
    rows: Rows | None
    outcome: Outcome
    promise: Promise[Outcome]
    table: ClassTable | None  # the classes before this request
    size: int = 0
    added: Sequence[str] = ()  # ids that are now remembered
    stored: Sequence[str] = ()  # ids of rows that now wait for a label
    taken: Sequence[tuple[str, PendingRow]] = ()  # rows that no longer wait
    reading: Reading | None = None  # with the types of columns before this request, if it has some


class Admission:
    """Admits events to the log of one model.

    Parameters
    ----------
    settings : Settings
        Bounds.

    Attributes
    ----------
    closed : str, optional
        Why no events are admitted; None while they are.
    gate : lock
        Held while anything here changes.
    queued : callable
        Called when something was queued.
    next : int
        The number of the next event.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.waiting = Waiting(settings.label_seconds, settings.label_bytes)
        self.remembered = Remembered(settings.remembered)
        self.clock = Clock()
        self.closed: str | None = "the service is starting"
        self.next = 1
        self.held = 0  # events admitted and not yet learned
        self.gate = threading.RLock()
        self.queue: deque[Ticket] = deque()
        self.queued: Callable[[], None] = lambda: None
        self._held_bytes = 0
        self._checked_rows = self._checked_labels = _checker(Parameters())

    # -- rows and labels -------------------------------------------------------------------------

    def keep(self, rows: Rows, served: dict[str, list[list[float]]]) -> Promise[Outcome]:
        """Keep rows with an id until their labels arrive, with the predictions of each version."""
        logged = [
            LoggedRow(
                x=x,
                id=name,
                offset=None if rows.offsets is None else float(rows.offsets[row]),
                served={version: lines[row] for version, lines in served.items()},
            )
            for row, (name, x) in enumerate(zip(rows.ids, bodies.as_json(rows.x), strict=True))
            if name is not None
        ]
        payload = b"\n".join(map(bodies.encode, logged))
        with self.gate:
            self._check_open(len(logged))
            replaced = self._keep(logged, self.next, self.clock.now())
            record = Record(KEEP, AS_LINES, len(logged), payload)
            names = [str(row.id) for row in logged]
            return self._admit(record, None, Outcome(), stored=names, taken=replaced)

    def _keep(
        self, rows: Sequence[LoggedRow], seq: int, now: float
    ) -> list[tuple[str, PendingRow]]:
        """Let rows wait for their labels; return those that had their ids, to undo it."""
        replaced = []
        for number, row in enumerate(rows):
            name, x, served = str(row.id), bodies.encode(row.x), bodies.encode(row.served)
            before = self.waiting.keep(name, PendingRow(seq + number, now, x, served, row.offset))
            if before is not None and before.seq < seq:
                replaced.append((name, before))
        return replaced

    def learn(self, rows: Rows) -> Promise[Outcome]:
        """Admit rows with labels; the promise is done when they are on disk.

        Raises
        ------
        InvalidInputError
            If a row or label cannot be used; then nothing was admitted.
        BusyError, UnavailableError
            If no events are admitted now.
        """
        self._check_open(rows.count)
        types = self._check_rows(rows)
        with self.gate:
            self._check_open(rows.count)
            if not rows.identified:
                return self._take_in(rows, Outcome(), types)
            new, outcome = self._new_rows(rows)
            joined = [name for row in new if (name := rows.ids[row]) and name in self.waiting]
            if len(new) < rows.count or joined:
                rows = self._chosen(rows, new, joined)
            if not rows.count:
                return self._admit(None, None, outcome)
            return self._take_in(rows, outcome, types)

    def _check_rows(self, rows: Rows) -> dict[str, str]:
        """Raise an error about rows that cannot be learned: an empty model predicts them.

        Returns the types of columns that are new.
        """
        model = self._checked_rows
        self._checked_labels.offsets(rows.offsets, rows.count)
        if rows.count == 1 and isinstance(rows.x, list):
            model.predict_one(rows.x[0])
            return {}
        if rows.count <= _ROWS_IN_A_LOOP and isinstance(rows.x, list):  # faster for a few
            with suppress(InvalidInputError):  # which `predict` raises with the number of the row
                for row in rows.x:
                    model.core.predict_one(row)
                return {}
        checked = model.rows(rows.x, add=False)
        model.predict(checked)
        return checked.types

    def _note_types(self, rows: Rows, types: Mapping[str, str]) -> Reading | None:
        """Remember the types of columns, which later events must have; the gate is held.

        Returns what was known before, to undo it.
        """
        if not types:
            return None
        before = self._checked_rows.reading
        if any(before.columns.get(name, kind) != kind for name, kind in types.items()):
            self._check_rows(rows)  # other events came first, and it says which column differs
        self._set_reading(replace(before, columns={**types, **before.columns}))
        return before

    def _set_reading(self, reading: Reading) -> None:
        self._checked_rows = Model(self._checked_rows.parameters)
        self._checked_rows.reading = reading

    def label(self, labels: Sequence[LabelRow]) -> Promise[Outcome]:
        """Admit the labels of rows that wait; the promise is done when they are on disk.

        Raises
        ------
        UnknownIdError
            If no row waits under any of the ids, and none has been learned.
        InvalidInputError, BusyError, UnavailableError
            As for `learn`.
        """
        with self.gate:
            self._check_open(len(labels))
            now = self.clock.now()
            self.waiting.expire(now)
            outcome, rows, seen = Outcome(), [], set()
            for label in labels:
                if label.id in seen or self.remembered.get(label.id) is not None:
                    outcome.duplicates += 1
                    outcome.seq = outcome.seq or self.remembered.get(label.id) or 0
                elif label.id in self.waiting:
                    seen.add(label.id)
                    rows.append(label)
                else:
                    outcome.unknown.append(label.id)
            if not rows:
                if not outcome.duplicates:
                    raise UnknownIdError(
                        f"no row waits for a label under {outcome.unknown[0]!r}: no "
                        "prediction had this id, or it expired; send x and y to /learn"
                    )
                return self._admit(None, None, outcome)
            return self._take_in(self._joined(rows), outcome)

    def _joined(self, labels: Sequence[LabelRow]) -> Rows:
        """Return rows that wait, with their labels; they stay until they are checked."""
        lines = []
        for label in labels:
            row = self.waiting.peek(label.id)
            about = {"id": label.id, "y": label.y, "weight": label.weight, "offset": row.offset}
            head = msgspec.json.encode(about)
            lines.append(head[:-1] + b',"x":' + row.x + b',"served":' + row.served + b"}")
        payload = b"\n".join(lines)
        return _logged_rows(payload)

    def _new_rows(self, rows: Rows) -> tuple[list[int], Outcome]:
        """Return which rows are learned: those with a new id."""
        outcome = Outcome()
        new: list[int] = []
        seen: set[str] = set()
        for row, name in enumerate(rows.ids):
            if name is None:
                new.append(row)
            elif name in seen or (seq := self.remembered.get(name)) is not None:
                outcome.duplicates += 1
                outcome.seq = outcome.seq or (0 if name in seen else seq or 0)
            else:
                seen.add(name)
                new.append(row)
        return new, outcome

    def _chosen(self, rows: Rows, new: list[int], joined: list[str]) -> Rows:
        """Return some of the rows, with the predictions served for those that wait."""
        if not new:
            return Rows([], 0, [])
        if rows.encoding == AS_ARROW:
            if len(new) == rows.count:
                return rows
            payload = arrow.chosen(rows.payload, new)
            return arrow.read(payload, labelled=True, limits=NO_LIMITS)
        payload = bodies.chosen_lines(rows.payload, new)
        if joined:
            decoded = bodies.decode_lines(payload, LoggedRow, NO_LIMITS)
            for row in decoded:
                if row.id in joined:
                    row.served = msgspec.json.decode(self.waiting.peek(str(row.id)).served)
            payload = b"\n".join(map(bodies.encode, decoded))
        return _logged_rows(payload)

    def _take_in(
        self, rows: Rows, outcome: Outcome, types: Mapping[str, str] = MappingProxyType({})
    ) -> Promise[Outcome]:
        """Record ids, classes and types of columns of rows that will be learned, and queue them."""
        table = self._checked_labels.table
        grown = table
        if not self._labels_known(rows):
            _refuse_blank(rows.y)
            try:
                _, grown = self._checked_labels.targets(rows.y)
            except InvalidInputError as error:
                raise _about(rows.y, self._checked_labels, error) from None
        if grown is not None and len(grown) > self.settings.classes:
            raise InvalidInputError(f"a model has at most {self.settings.classes} classes")
        before = self._note_types(rows, types)
        names, taken = self._note_ids(rows, outcome) if rows.identified else ((), ())
        self._checked_labels.table = grown
        outcome.seq, outcome.learned = self.next, rows.count
        record = Record(LEARN, rows.encoding, rows.count, rows.payload)
        return self._admit(
            record, rows, outcome, added=names, taken=taken, table=table, reading=before
        )

    def _note_ids(
        self, rows: Rows, outcome: Outcome
    ) -> tuple[Sequence[str], Sequence[tuple[str, PendingRow]]]:
        """Remember ids and remove rows that waited; return both, to undo it."""
        names, taken, now = [], [], self.clock.now()
        for number, name in enumerate(rows.ids):
            if name is None:
                continue
            names.append(name)
            self.remembered.add(name, self.next + number)
            row = self.waiting.take(name, now)
            if row is not None:
                taken.append((name, row))
                outcome.delays.append(now - row.time)
        return names, taken

    def _labels_known(self, rows: Rows) -> bool:
        """Return whether these are a few labels of known classes, which need no other check."""
        table = self._checked_labels.table
        if (
            rows.count > _ROWS_IN_A_LOOP
            or table is None
            or table.undecided
            or not isinstance(rows.y, list)
        ):
            return False
        return all(type(label) is not bool and label in table.numbers for label in rows.y)

    def _admit(
        self,
        record: Record | None,
        rows: Rows | None,
        outcome: Outcome,
        table: ClassTable | None = None,
        **undo: Any,
    ) -> Promise[Outcome]:
        # A duplicate waits, too: the first copy may not be on disk yet.
        promise: Promise[Outcome] = Promise()
        before = table if rows is not None else self._checked_labels.table
        ticket = Ticket(record, rows, outcome, promise, before, **undo)
        if record is not None:
            ticket.size = len(record.payload)
            self.next += record.count
            self.held += record.count
            self._held_bytes += ticket.size
        self.queue.append(ticket)
        self.queued()
        return promise

    def _check_open(self, count: int) -> None:
        if self.closed is not None:
            raise UnavailableError(self.closed)
        over = self.held and self.held + count > self.settings.backlog
        if over or self._held_bytes > self.settings.backlog_bytes:
            raise BusyError(f"{self.held} events wait to be learned; try again later")

    def open(self, model: Model) -> None:
        """Admit events for a model that has learned everything admitted so far."""
        with self.gate:
            self.check_with(model)
            self._checked_labels.table = model.table
            self.closed = None

    def check_with(self, model: Model) -> None:
        """Check rows and labels as a model does, with empty models that know its classes.

        The classes are those after all events that were admitted, learned or not.
        """
        table = self._checked_labels.table
        self._checked_labels = Model(model.parameters)
        self._checked_labels.table = table
        if model.reading == Reading():
            self._checked_rows = _checker(model.parameters)
        else:  # whose columns may be refused
            self._checked_rows = Model(model.parameters)
            self._checked_rows.reading = model.reading

    def first_needed(self) -> tuple[int, int]:
        """Return the first event needed to restore the ids, and the first with a row that waits."""
        with self.gate:
            waiting = self.waiting.first_seq or self.next
            return min(waiting, self.remembered.first_seq or self.next), waiting

    def barrier(self) -> tuple[int, Promise[Outcome]]:
        """Return the number of the next event, and a promise that all before it are on disk."""
        with self.gate:
            return self.next, self._admit(None, None, Outcome())

    # -- to the log ------------------------------------------------------------------------------

    def next_group(self) -> list[Ticket]:
        """Take the requests that queued up while the last group was written, up to a size."""
        group = [self.queue.popleft()]
        size = group[0].size
        while self.queue and size + self.queue[0].size <= self.settings.group_bytes:
            group.append(self.queue.popleft())
            size += group[-1].size
        return group

    def learned(self, tickets: Sequence[Ticket]) -> None:
        """Count events as learned."""
        with self.gate:
            for ticket in tickets:
                self.held -= 0 if ticket.record is None else ticket.record.count
                self._held_bytes -= ticket.size

    def withdraw(self, group: list[Ticket], next_: int, error: BaseException) -> None:
        """Undo a group that could not be written, and everything admitted after it."""
        with self.gate:
            group += self.queue
            self.queue.clear()
            returned: dict[str, PendingRow] = {}
            for ticket in reversed(group):
                for name in ticket.added:
                    self.remembered.discard(name)
                for name in ticket.stored:
                    self.waiting.forget(name)
                    returned.pop(name, None)
                returned.update(ticket.taken)
                if ticket.record is not None:
                    self.held -= ticket.record.count
                    self._held_bytes -= ticket.size
            if returned:
                self.waiting.give_back(returned.items())
            self._checked_labels.table = group[0].table
            first = next((one.reading for one in group if one.reading is not None), None)
            if first is not None:
                self._set_reading(first)
            self.next = next_
        for ticket in group:
            ticket.promise.set_exception(UnavailableError(brief(error)))

    # -- replaying -------------------------------------------------------------------------------

    def replay(self, records: Sequence[Record]) -> Rows | None:
        """Restore the ids of records that belong together; return the rows if they have labels."""
        first = records[0]
        if first.kind == KEEP:
            decoded = bodies.decode_lines(first.payload, LoggedRow, NO_LIMITS)
            self._keep(decoded, first.seq, first.time)
            return None
        rows = rows_of(records)
        for number, name in enumerate(rows.ids):
            if name is not None:
                self.waiting.forget(name)
                self.remembered.add(name, first.seq + number)
        return rows


def _refuse_blank(labels: Any) -> None:
    for row, label in enumerate(labels if isinstance(labels, list) else ()):
        if isinstance(label, str) and not label.strip():
            raise InvalidInputError("there is no label", argument="y", row=row)


def _about(labels: Any, model: Model, error: InvalidInputError) -> InvalidInputError:
    """Return an error about labels, in the terms of the service."""
    if model.task == "binary" and isinstance(labels, list):
        for row, label in enumerate(labels):
            if label not in {-1, 0, 1}:
                return InvalidInputError(
                    f"labels of a model with task 'binary' are -1 and 1, or 0 and 1; got "
                    f"{label!r}. Create a model with task 'classes' for other labels",
                    argument="y",
                    row=row,
                )
    return error


def rows_of(records: Sequence[Record]) -> Rows:
    """Return the rows of records with labels."""
    if records[0].encoding == AS_ARROW:
        return arrow.read(records[0].payload, labelled=True, limits=NO_LIMITS)
    return _logged_rows(b"\n".join([record.payload for record in records]))


def _logged_rows(payload: bytes) -> Rows:
    decoded = bodies.decode_lines(payload, LoggedRow, NO_LIMITS)
    return bodies.rows_to_learn(decoded, payload, NO_LIMITS.features)
