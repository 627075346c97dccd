"""The engine of one model: events are checked, written to the log, acknowledged, then learnt.

.. code-block:: text

   request -> admit (checks, ids) -> queue -> writer thread: one frame, one fdatasync -> answer
                                                    |
                                                    v
                                       learner thread: every version, in log order -> snapshots

Everything that decides whether an event counts happens before it is written. So what is learnt
follows from the log alone: a service that was killed has the same bits as one that was not.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sonline.errors import InvalidInputError, SonlineError
from sonline.labels import ClassTable
from sonline.model import Model
from sonline.service import bodies
from sonline.service.bodies import LabelRow, LoggedRow, Rows
from sonline.service.log import ARROW, KEEP, LEARN, LINES, Log, LogError, Record
from sonline.service.pending import Kept, Remembered, Waiting
from sonline.service.store import CHAMPION, Store, Version
from sonline.service.versions import Answer, Live, Part, next_of, snapshots


@dataclass(frozen=True)
class Settings:
    """How an engine works; sizes in bytes, times in seconds."""

    label_seconds: float = 86400.0  # how long a row waits for its label
    label_bytes: int = 256 << 20  # of all rows that wait
    remembered: int = 200_000  # ids that are recognised when they come again
    classes: int = 1000
    backlog: int = 100_000  # events that may wait to be learnt
    backlog_bytes: int = 64 << 20
    group_bytes: int = 8 << 20  # of a frame
    snapshot_events: int = 1_000_000
    snapshot_seconds: float = 300.0
    segment_bytes: int = 64 << 20
    keep_bytes: int = 10 << 30  # of the log
    keep_seconds: float | None = None


_GATHER = 0.001  # seconds that a group waits for more, if several requests come at a time
_MANY = 64  # requests that are enough for a group
_FEW = 8  # rows


class BusyError(SonlineError):
    """Too much is waiting to be learnt."""


class UnavailableError(SonlineError):
    """The engine is starting, stopping, or cannot write."""


class UnknownIdError(InvalidInputError):
    """No row waits for a label under this id."""


@dataclass
class Outcome:
    """What became of a request with labels."""

    seq: int = 0  # the number of the first event; of a duplicate, that of the first time
    learnt: int = 0
    duplicates: int = 0
    unknown: list[str] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)  # seconds that labels took


@dataclass
class _Ticket:
    """A request on its way to the log, and how to undo it if it does not get there."""

    record: Record | None
    rows: Rows | None
    outcome: Outcome
    future: Future[Outcome]
    table: ClassTable | None  # of the classes, before it
    size: int = 0
    added: Sequence[str] = ()  # ids now remembered
    kept: Sequence[str] = ()  # ids now waiting
    taken: Sequence[tuple[str, Kept]] = ()  # rows that waited


class Engine:
    """The log, the versions and the threads of one model.

    Parameters
    ----------
    name : str
        Of the model.
    folder : Path
        For its log and snapshots.
    store : Store
        Knows its versions.
    settings : Settings
        How it works.
    open_log : callable
        Opens the log; tests put failing disks there.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        store: Store,
        settings: Settings = Settings(),  # noqa: B008 - frozen
        *,
        open_log: Callable[..., Log] = Log,
    ) -> None:
        self.name = name
        self.settings = settings
        self.folder = folder
        self._store = store
        self._open_log = open_log
        self._snapshots = folder / "snapshots"
        self.waiting = Waiting(settings.label_seconds, settings.label_bytes)
        self.remembered = Remembered(settings.remembered)
        self.versions: dict[int, Live] = {}
        self.champion = 0
        self.replayed, self.to_replay = 0, 0
        self.failure: str | None = None  # why nothing can be learnt any more
        self.disk: str | None = None  # why the last group could not be written
        self.events = 0  # learnt since the start
        self.groups = 0
        self._gate = threading.RLock()  # of everything that admission uses
        self._queue: deque[_Ticket] = deque()
        self._written: deque[_Ticket] = deque()
        self._wake_writer = threading.Condition(self._gate)
        self._wake_learner = threading.Condition(self._gate)
        self._held = 0  # events admitted and not yet learnt
        self._held_bytes = 0
        self._ready = False
        self._closing = False
        self._writer_done = False
        self._wanted: list[Future[int]] = []  # snapshots that were asked for
        self._saving: threading.Thread | None = None
        self._saved_at = time.monotonic()
        self._saved_events = 0
        self._clock = _Clock()
        self._threads: list[threading.Thread] = []

    # -- start and stop --------------------------------------------------------------------------

    @classmethod
    def create(
        cls, name: str, folder: Path, store: Store, model: Model, origin: str, **rest: Any
    ) -> Engine:
        """Make a new model: its first snapshot is written before its name is known."""
        engine = cls(name, folder, store, **rest)
        live = Live(Version(name, 1, CHAMPION, origin, time.time(), 1), model, 1, engine._snapshots)
        live.write(*live.content(1))
        store.add_model(name, origin, 1)
        return engine

    def start(self, wait: bool = False) -> None:
        """Open the log and begin to replay it, in a thread.

        Raises
        ------
        LogError, RecoveryError
            If the log or all snapshots are damaged.
        """
        self.log = self._open_log(self.folder / "log", segment_bytes=self.settings.segment_bytes)
        self._clock.begin(self.log.time)
        self._next = self.log.next
        froms = [self._next]
        for info in self._store.versions(self.name):
            live, keep_from = Live.load(info, self._snapshots)
            self.versions[info.version] = live
            froms.append(keep_from)
            if info.role == CHAMPION:
                self.champion = info.version
            if live.next > self._next:
                raise LogError(
                    f"{self.folder}: version {info.version} has learnt {live.next - 1} events, the "
                    f"log ends with event {self._next - 1}; restore the log from a copy"
                )
        self._replay_from = max(
            min(froms + [live.next for live in self.versions.values()]), self.log.first
        )
        for live in self.versions.values():
            if live.next < self.log.first:
                raise LogError(
                    f"{self.folder}: events from {live.next} on are no longer in the log"
                )
        self.to_replay = self._next - self._replay_from
        names = {"write": self._write_loop, "learn": self._learn_loop}
        for task, loop in names.items():
            thread = threading.Thread(target=loop, name=f"{self.name}-{task}", daemon=True)
            self._threads.append(thread)
            thread.start()
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until the log has been replayed."""
        with self._gate:
            self._wake_writer.wait_for(lambda: self._ready or self.failure is not None, timeout)
        if self.failure is not None:
            raise UnavailableError(self.failure)

    @property
    def ready(self) -> bool:
        """Whether events can be taken."""
        return self._ready and self.failure is None and not self._closing

    @property
    def lag(self) -> int:
        """How many events wait to be learnt."""
        return self._held if self._ready else self.to_replay - self.replayed

    def close(self) -> None:
        """Write and learn what was admitted, make a snapshot, and stop."""
        with self._gate:
            if self._closing:
                return
            self._closing = True
            self._wake_writer.notify_all()
            self._wake_learner.notify_all()
        for thread in self._threads:
            thread.join()
        if self._saving is not None:
            self._saving.join()
        if self._ready and self.failure is None:
            self._save_now()
        if self._threads:
            self.log.close()

    # -- admission -------------------------------------------------------------------------------

    def predict(self, rows: Rows, durable: bool = False) -> tuple[Answer, Future[Outcome] | None]:
        """Predict rows; those with an id are kept until their labels come.

        The future is done when they are on disk.
        """
        if not self._ready:
            raise UnavailableError("the log is being replayed; try again soon")
        answer = self.versions[self.champion].predict(rows.x)
        if not rows.identified:
            return answer, None
        kept = self._kept_rows(rows, answer)
        with self._gate:
            self._check_open(len(kept))
            return answer, self._keep(kept)

    def _kept_rows(self, rows: Rows, answer: Answer) -> list[LoggedRow]:
        served = {str(answer.version): answer.raw.T.tolist()}
        for version, live in list(self.versions.items()):
            if version != answer.version and live.error is None:
                served[str(version)] = live.raw(rows.x).T.tolist()
        return [
            LoggedRow(
                x=_as_features(x),
                id=name,
                served={version: lines[row] for version, lines in served.items()},
            )
            for row, (name, x) in enumerate(zip(rows.ids, _mappings(rows.x), strict=True))
            if name is not None
        ]

    def _keep(self, kept: list[LoggedRow]) -> Future[Outcome]:
        now = self._clock.now()
        for place, row in enumerate(kept):
            assert row.id is not None  # noqa: S101 - chosen so
            one = Kept(self._next + place, now, bodies.encode(row.x), bodies.encode(row.served))
            self.waiting.keep(row.id, one)
        payload = b"\n".join(map(bodies.encode, kept))
        record = Record(KEEP, LINES, len(kept), payload)
        return self._admit(record, None, Outcome(), kept=[row.id for row in kept if row.id])

    def learn(self, rows: Rows) -> Future[Outcome]:
        """Take in rows with labels; the future is done when they are on disk.

        Raises
        ------
        InvalidInputError
            If a row or label cannot be used; then nothing has been taken in.
        BusyError, UnavailableError
            If nothing can be taken in now.
        """
        if not self._ready:
            raise UnavailableError("the log is being replayed; try again soon")
        self._check_rows(rows)
        if rows.encoding == ARROW:  # features by name, or by index: the model has one of them
            first = rows.x.slice(0, 1) if hasattr(rows.x, "slice") else rows.x[:1]
            self.versions[self.champion].model.rows(first, add=False)
        with self._gate:
            self._check_open(rows.count)
            new, outcome = self._new_rows(rows)
            joined = [name for row in new if (name := rows.ids[row]) and name in self.waiting]
            if len(new) < rows.count or joined:
                rows = self._chosen(rows, new, joined)
            if not rows.count:
                return self._admit(None, None, outcome)
            return self._take_in(rows, outcome)

    def _check_rows(self, rows: Rows) -> None:
        """Raise an error about rows that cannot be learnt: an empty model says what is wrong."""
        if rows.count <= _FEW and isinstance(rows.x, list):  # as quick as it gets, in this thread
            for x in rows.x:
                self._checked_rows.core.predict_one(x)
            return
        self._checked_rows.predict(rows.x)

    def label(self, labels: Sequence[LabelRow]) -> Future[Outcome]:
        """Take in the labels of rows that wait; the future is done when they are on disk.

        Raises
        ------
        UnknownIdError
            If no row waits under any of the ids, and none has been learnt.
        InvalidInputError, BusyError, UnavailableError
            As for `learn`.
        """
        if not self._ready:
            raise UnavailableError("the log is being replayed; try again soon")
        with self._gate:
            self._check_open(len(labels))
            now = self._clock.now()
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
                        f"no row waits for a label under {outcome.unknown[0]!r}: it was not "
                        "predicted with this id, or so long ago that it was forgotten; send x and "
                        "y to /learn"
                    )
                return self._admit(None, None, outcome)
            return self._take_in(self._joined(rows), outcome)

    def _joined(self, labels: Sequence[LabelRow]) -> Rows:
        """Return rows that wait, with their labels; they wait on until they have been checked."""
        lines = []
        for label in labels:
            row = self.waiting.peek(label.id)
            head = msgspec.json.encode({"id": label.id, "y": label.y, "weight": label.weight})
            lines.append(head[:-1] + b',"x":' + row.x + b',"served":' + row.served + b"}")
        payload = b"\n".join(lines)
        return bodies.rows_to_learn(bodies.decode_lines(payload, LoggedRow), payload)

    def _new_rows(self, rows: Rows) -> tuple[list[int], Outcome]:
        """Return which rows are learnt: those whose id has not come yet."""
        outcome = Outcome()
        if not rows.identified:
            return list(range(rows.count)), outcome
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
        """Return some of the rows, with what was predicted for those that wait."""
        if not new:
            return Rows([], 0, [])
        if rows.encoding == ARROW:
            payload = bodies.chosen_arrow(rows.payload, new) if len(new) < rows.count else None
            return rows if payload is None else bodies.read_arrow(payload, labelled=True)
        payload = bodies.chosen_lines(rows.payload, new)
        if joined:
            decoded = bodies.decode_lines(payload, LoggedRow)
            for row in decoded:
                if row.id in joined:
                    row.served = msgspec.json.decode(self.waiting.peek(str(row.id)).served)
            payload = b"\n".join(map(bodies.encode, decoded))
        return bodies.rows_to_learn(bodies.decode_lines(payload, LoggedRow), payload)

    def _take_in(self, rows: Rows, outcome: Outcome) -> Future[Outcome]:
        """Note ids and classes of rows that will be learnt, and send them on."""
        table = self._checked_labels.table
        _, grown = self._checked_labels.targets(rows.y)
        if grown is not None and len(grown) > self.settings.classes:
            raise InvalidInputError(f"a model has at most {self.settings.classes} classes")
        names = [name for name in rows.ids if name is not None]
        now = self._clock.now()
        taken = []
        for name in names:
            row = self.waiting.take(name, now)
            if row is not None:
                taken.append((name, row))
                outcome.delays.append(now - row.time)
        for place, known in enumerate(rows.ids):
            if known is not None:
                self.remembered.add(known, self._next + place)
        self._checked_labels.table = grown
        outcome.seq, outcome.learnt = self._next, rows.count
        record = Record(LEARN, rows.encoding, rows.count, rows.payload)
        return self._admit(record, rows, outcome, added=names, taken=taken, table=table)

    def _admit(
        self,
        record: Record | None,
        rows: Rows | None,
        outcome: Outcome,
        table: ClassTable | None = None,
        **undo: Any,
    ) -> Future[Outcome]:
        # Also a request that adds nothing waits: its first copy may not be on disk yet.
        future: Future[Outcome] = Future()
        before = table if rows is not None else self._checked_labels.table
        ticket = _Ticket(record, rows, outcome, future, before, **undo)
        if record is not None:
            ticket.size = len(record.payload)
            self._next += record.count
            self._held += record.count
            self._held_bytes += ticket.size
        self._queue.append(ticket)
        self._wake_writer.notify_all()
        return future

    def _check_open(self, count: int) -> None:
        if self.failure is not None or self._closing or not self._ready:
            raise UnavailableError(self.failure or "the service is starting or stopping")
        error = self.versions[self.champion].error
        if error is not None:
            raise UnavailableError(f"version {self.champion} cannot learn any more: {error}")
        over = self._held and self._held + count > self.settings.backlog
        if over or self._held_bytes > self.settings.backlog_bytes:
            raise BusyError(f"{self._held} events wait to be learnt; try again soon")

    def _set_checks(self, model: Model, table: ClassTable | None) -> None:
        """Check rows and labels as a model does: by empty ones, which know its classes.

        The classes are those after all events that were admitted, learnt or not.
        """
        self._checked_rows, self._checked_labels = (Model(model.parameters) for _ in range(2))
        self._checked_labels.table = table

    # -- the writer ------------------------------------------------------------------------------

    def _write_loop(self) -> None:
        last = 0  # requests in the group before
        while True:
            with self._gate:
                self._wake_writer.wait_for(lambda: self._queue or self._closing)
                few = 1 < len(self._queue) + last < _MANY and not self._closing
            if few:  # others are about to come: a quick disk need not write each alone
                time.sleep(_GATHER)
            with self._gate:
                if not self._queue:
                    self._writer_done = True
                    self._wake_learner.notify_all()
                    return
                group = self._next_group()
                last = len(group)
            records = [one.record for one in group if one.record is not None]
            try:
                if records:
                    self.log.append(records, self._clock.now())
                    self.groups += 1
            except LogError as error:
                self._withdraw(group, error)
                continue
            except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it
                self.failure = f"the log cannot be written: {error}"
                self._withdraw(group, UnavailableError(self.failure))
                continue
            self.disk = None
            with self._gate:
                self._written.extend(one for one in group if one.record is not None)
                self._wake_learner.notify_all()
            for one in group:
                one.future.set_result(one.outcome)

    def _next_group(self) -> list[_Ticket]:
        """Take what has come while the last group was being written: no need to wait for more."""
        group = [self._queue.popleft()]
        size = group[0].size
        while self._queue and size + self._queue[0].size <= self.settings.group_bytes:
            group.append(self._queue.popleft())
            size += group[-1].size
        return group

    def _withdraw(self, group: list[_Ticket], error: Exception) -> None:
        """Undo a group that is not on disk, and all that was admitted after it."""
        self.disk = str(error)
        with self._gate:
            group += self._queue
            self._queue.clear()
            for ticket in reversed(group):
                for name in ticket.added:
                    self.remembered.discard(name)
                for name in ticket.kept:
                    self.waiting.forget(name)
                for name, row in ticket.taken:
                    self.waiting.give_back(name, row)
                if ticket.record is not None:
                    self._held -= ticket.record.count
                    self._held_bytes -= ticket.size
            self._checked_labels.table = group[0].table
            self._next = self.log.next
        for ticket in group:
            ticket.future.set_exception(UnavailableError(str(error)))

    # -- the learner -----------------------------------------------------------------------------

    def _learn_loop(self) -> None:
        try:
            self._replay()
        except BaseException as error:  # noqa: BLE001 - readiness says so
            with self._gate:
                self.failure = f"{type(error).__name__}: {error}"
                self._wake_writer.notify_all()
            return
        while True:
            with self._gate:
                self._wake_learner.wait_for(
                    lambda: self._written or self._wanted or (self._closing and self._idle()),
                    timeout=1.0,
                )
                if self._closing and self._idle():
                    for wanted in self._wanted:
                        wanted.set_exception(UnavailableError("the service is stopping"))
                    return
                tickets = list(self._written)
                self._written.clear()
            try:
                self._learn(tickets)
                self._save_if_due()
            except BaseException as error:  # noqa: BLE001 - readiness says so
                with self._gate:
                    self.failure = f"{type(error).__name__}: {error}"
                return

    def _idle(self) -> bool:
        return self._writer_done and not self._written

    def _learn(self, tickets: list[_Ticket]) -> None:
        parts: list[Part] = []
        count = size = 0
        for ticket in tickets:
            assert ticket.record is not None  # noqa: S101 - only those are written
            seq = self._learnt_to
            self._learnt_to += ticket.record.count
            if ticket.rows is not None:
                parts.append(Part(seq, ticket.rows))
                self.events += ticket.rows.count
            count += ticket.record.count
            size += ticket.size
        for live in list(self.versions.values()):
            live.learn(parts)
            if live.error is None:
                live.next = max(live.next, self._learnt_to)
        if tickets:
            with self._gate:
                self._held -= count
                self._held_bytes -= size

    def _replay(self) -> None:
        """Learn what the snapshots do not have, and find out which ids wait."""
        parts: list[Part] = []
        for record in self.log.read(self._replay_from):
            decoded = self._note_ids(record)
            if decoded is not None:
                parts.append(Part(record.seq, decoded))
            if len(parts) >= 64:
                self._replay_parts(parts)
                parts = []
            self.replayed = record.end - self._replay_from
        self._replay_parts(parts)
        champion = self.versions[self.champion]
        with self._gate:
            for live in self.versions.values():
                if live.error is None:
                    live.next = max(live.next, self._next)
            self._learnt_to = self._next
            self.replayed = self.to_replay
            self._set_checks(champion.model, champion.model.table)
            self._ready = True
            self._wake_writer.notify_all()

    def _replay_parts(self, parts: list[Part]) -> None:
        for live in self.versions.values():
            live.learn(parts)

    def _note_ids(self, record: Record) -> Rows | None:
        """Take the ids of a record in, and return its rows if they are to be learnt."""
        if record.encoding == ARROW:
            rows = bodies.read_arrow(record.payload, labelled=True)
        else:
            decoded = bodies.decode_lines(record.payload, LoggedRow, _NO_LIMITS)
            if record.kind == KEEP:
                for place, row in enumerate(decoded):
                    x, served = bodies.encode(row.x), bodies.encode(row.served)
                    kept = Kept(record.seq + place, record.time, x, served)
                    self.waiting.keep(str(row.id), kept)
                return None
            rows = bodies.rows_to_learn(decoded, record.payload, _NO_LIMITS.features)
        for place, name in enumerate(rows.ids):
            if name is not None:
                self.waiting.forget(name)
                self.remembered.add(name, record.seq + place)
        return rows if any(live.next <= record.seq for live in self.versions.values()) else None

    # -- snapshots -------------------------------------------------------------------------------

    def snapshot(self) -> Future[int]:
        """Ask for a snapshot of all versions; the number of events that it holds."""
        wanted: Future[int] = Future()
        with self._gate:
            if not self.ready:
                raise UnavailableError(self.failure or "the service is starting or stopping")
            self._wanted.append(wanted)
            self._wake_learner.notify_all()
        return wanted

    def _save_if_due(self) -> None:
        """Copy the versions; writing them is left to another thread."""
        if self._saving is not None and self._saving.is_alive():
            if not self._wanted:
                return
            self._saving.join()
        with self._gate:
            wanted, self._wanted = self._wanted, []
        settings = self.settings
        due = self.events - self._saved_events >= settings.snapshot_events or (
            self.events > self._saved_events
            and time.monotonic() - self._saved_at >= settings.snapshot_seconds
        )
        if not wanted and not due:
            return
        self._saved_at, self._saved_events = time.monotonic(), self.events
        contents = self._contents()

        def save() -> None:
            try:
                for live, content in contents:
                    live.write(*content)
                self._retain()
            except (OSError, SonlineError) as error:
                self.disk = str(error)
                for one in wanted:
                    one.set_exception(UnavailableError(f"no snapshot could be written: {error}"))
                return
            for one in wanted:
                one.set_result(self._learnt_to - 1)

        self._saving = threading.Thread(target=save, name=f"{self.name}-save", daemon=True)
        self._saving.start()

    def _contents(self) -> list[tuple[Live, Any]]:
        with self._gate:
            firsts = [self.waiting.first_seq, self.remembered.first_seq, self._next]
            keep_from = min(seq for seq in firsts if seq is not None)
        every = [live for live in self.versions.values() if live.error is None]
        return [(live, live.content(min(keep_from, live.next))) for live in every]

    def _save_now(self) -> None:
        try:
            for live, content in self._contents():
                live.write(*content)
            self._retain()
        except (OSError, SonlineError) as error:
            self.disk = str(error)

    def _retain(self) -> None:
        """Remove segments that neither a snapshot nor an id needs."""
        settings = self.settings
        older = settings.keep_seconds
        limit = None if older is None else self._clock.now() - older
        with self._gate:
            waiting = self.waiting.first_seq
        needed = [self.log.next if waiting is None else waiting]
        for version in self.versions:
            needed += [next_of(path) for path in snapshots(self._snapshots, version)]
        self.log.drop_before(min(needed), keep_bytes=settings.keep_bytes, older_than=limit)

    # -- versions --------------------------------------------------------------------------------

    def add_version(self, model: Model, origin: str) -> int:
        """Add a shadow that learns from now on; its number."""
        champion = self.versions[self.champion].model
        mine, other = champion.table, model.table
        same = (mine is None) == (other is None)
        if same and mine is not None and other is not None:
            same = mine.signs == other.signs and (mine.signs or mine.growing == other.growing)
            same = same and (mine.signs or mine.growing or mine.labels == other.labels)
        if not same or model.only_predicts:
            raise InvalidInputError(
                "a version must have the task and the classes of the champion, and be able to learn"
            )
        with self._gate:
            if not self.ready:
                raise UnavailableError(self.failure or "the service is starting or stopping")
            version = max(self.versions) + 1
            start = self._next
            before = self._admit(None, None, Outcome())
            info = Version(self.name, version, "shadow", origin, time.time(), start)
            live = Live(info, model, start, self._snapshots)
        before.result()  # a version must not be ahead of the log
        live.write(*live.content(start))
        self._store.add_version(self.name, version, origin, start)
        with self._gate:
            self.versions = {**self.versions, version: live}
        return version

    def promote(self, version: int) -> None:
        """Let a version answer from now on; the champion so far learns on as a shadow."""
        live = self.versions.get(version)
        if live is None:
            raise InvalidInputError(f"there is no version {version}")
        if live.error is not None:
            raise InvalidInputError(f"version {version} cannot learn any more: {live.error}")
        if version == self.champion:
            return
        self._store.promote(self.name, version)
        with self._gate:
            infos = {info.version: info for info in self._store.versions(self.name)}
            for one in self.versions.values():
                one.info = infos[one.info.version]
            self.champion = version
            self._set_checks(live.model, self._checked_labels.table)

    def roll_back(self) -> int:
        """Let the version answer that did before; its number."""
        previous = self._store.previous(self.name)
        if previous is None or previous not in self.versions:
            raise InvalidInputError("there is no version to roll back to")
        self.promote(previous)
        return previous

    def remove_version(self, version: int) -> None:
        """Remove a shadow."""
        if version == self.champion:
            raise InvalidInputError("the champion cannot be removed; promote another version first")
        live = self.versions.get(version)
        if live is None:
            raise InvalidInputError(f"there is no version {version}")
        self._store.remove_version(self.name, version)
        with self._gate:
            self.versions = {n: one for n, one in self.versions.items() if n != version}
        live.remove()


_NO_LIMITS = bodies.Limits(rows=1 << 62, features=1 << 62)


class _Clock:
    """Seconds since 1970 that neither jump nor go back, whatever happens to the clock."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def begin(self, last: float) -> None:
        """Do not go back behind a time."""
        self._offset = max(self._offset, last - time.monotonic())

    def now(self) -> float:
        """Return the time."""
        return time.monotonic() + self._offset


def _mappings(x: Any) -> list[dict[Any, Any]]:
    """Return rows of any kind as mappings, to be kept as JSON."""
    if isinstance(x, list):
        return x
    if hasattr(x, "to_pylist"):
        return [{k: v for k, v in row.items() if v is not None} for row in x.to_pylist()]
    return [
        dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        for row in (x[number] for number in range(x.shape[0]))
    ]


def _as_features(x: dict[Any, Any]) -> bodies.Features:
    """Return a mapping as a row of JSON: features by index are pairs."""
    if x and isinstance(next(iter(x)), int):
        return list(x.items())
    return x
