"""The engine of one model: events are checked, written, acknowledged, then learned.

.. code-block:: text

   request -> admission (checks, ids) -> queue -> a writer: one transaction for a group -> answer
                                                        |
                                                        v
                                      a learner: every version, in the order written -> snapshots

Writers and learners are threads that all models share (`sonline.service.pool`). Models depend on
the events on disk alone: after a kill, the service has the same models, bit for bit, as without it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from sonline import persistence
from sonline.errors import InvalidInputError
from sonline.model import Model
from sonline.service.admission import Admission, Ticket
from sonline.service.bodies import LabelRow, Rows
from sonline.service.database import Database
from sonline.service.gathering import Gathering
from sonline.service.outcomes import Outcome, Promise, UnavailableError
from sonline.service.pending import Waiting
from sonline.service.pool import LEARNERS, SAVERS, WRITERS
from sonline.service.records import AS_ARROW, CHAMPION, SHADOW, StoreError, Version, brief
from sonline.service.replay import learn_records
from sonline.service.settings import Settings
from sonline.service.versions import Answer, Live, Part, check_alike, check_servable, packed

_GATHER_SECONDS = 0.03  # that a few events wait for others: learning them together is cheaper
_GATHERED_EVENTS = 256
log = logging.getLogger("sonline.service")


class Engine:
    """The file and the versions of one model.

    Parameters
    ----------
    database : Database
        Its file.
    settings : Settings
        Settings of the engine.
    """

    def __init__(self, database: Database, settings: Settings = Settings()) -> None:  # noqa: B008
        self.name = database.path.stem
        self.settings = settings
        self.database = database
        self.admission = Admission(settings)
        self.versions: dict[int, Live] = {}
        self.champion = 0
        self.replayed, self.to_replay = 0, 0
        self.failure: str | None = None  # why it cannot learn any more
        self.events = 0  # learned since the start
        self.groups = 0
        self._write_error: str | None = None  # why the last group could not be written
        self._save_error: str | None = None  # why the last snapshot could not be written
        self._gate = self.admission.gate
        self._changed = threading.Condition(self._gate)  # of everything below
        self._gathering = Gathering()
        self._expected = 0  # requests that the writer waits for
        self._written: deque[Ticket] = deque()
        self._learned_to = 1  # the number of the next event to be learned
        self._replayed = self._closing = False
        self._writing = self._learning = self._saving = self._ticking = False  # in a shared thread
        self._asked: list[Promise[int]] = []  # snapshots that were requested
        self._saved_at, self._saved_events = time.monotonic(), 0
        self._changing = threading.RLock()  # held while the list of versions changes
        self.admission.queued = self._queued
        # Calls a function that wakes a writer, at once or a moment later.
        self.wake: Callable[[Callable[[], None]], None] = lambda work: work()

    # -- start and stop --------------------------------------------------------------------------

    def start(self, wait: bool = False) -> None:
        """Load the snapshots, and replay the events after them in a thread.

        Raises
        ------
        RecoveryError
            If all snapshots of a version are damaged.
        """
        database = self.database
        self.admission.clock.begin(database.time)
        end = self.admission.next = database.next
        froms = [end]
        for info in database.about.versions:
            live, keep_from = Live.load(info, database)
            self.versions[info.version] = live
            if live.next < database.about.first:
                raise StoreError(database.path, f": events from {live.next} on are no longer there")
            froms += [live.next, keep_from]
            if info.role == CHAMPION:
                self.champion = info.version
        self._replay_from = max(min(froms), database.about.first)
        self.to_replay = end - self._replay_from
        self._learning = True
        LEARNERS.submit(self._replay)
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all events have been replayed."""
        with self._gate:
            self._changed.wait_for(lambda: self._replayed or self.failure, timeout)
        if self.failure is not None:
            raise UnavailableError(self.failure)

    @property
    def ready(self) -> bool:
        """Whether events are admitted."""
        return self.admission.closed is None

    @property
    def waiting(self) -> Waiting:
        """Rows that wait for their labels."""
        return self.admission.waiting

    @property
    def disk(self) -> str | None:
        """Why the last group or snapshot could not be written."""
        return self._write_error or self._save_error

    @property
    def problem(self) -> str | None:
        """Why it cannot learn or write, or which events the champion could not learn."""
        live = self.versions.get(self.champion)
        return self.failure or self.disk or (live.problem if live else None)

    @property
    def lag(self) -> int:
        """How many events wait to be learned."""
        return self.admission.held if self._replayed else self.to_replay - self.replayed

    def close(self) -> None:
        """Write and learn all admitted events, write a snapshot, and stop."""
        with self._gate:
            if self._closing:
                return
            self._closing = True
            self.admission.closed = "the service is stopping"
            self._changed.notify_all()
            self._changed.wait_for(self._idle)
            if self._replayed and self.failure is None:
                self._save(now=True)
                self._changed.wait_for(lambda: not self._saving)
            for promise in self._asked:
                promise.set_exception(UnavailableError("the service is stopping"))
        self.database.release()

    def _idle(self) -> bool:
        """Return whether nothing is being written, learned or saved, or waits for it."""
        left = self._written and self.failure is None
        return not (self._writing or self._learning or self._saving or left)

    # -- requests --------------------------------------------------------------------------------

    def predict(self, rows: Rows) -> tuple[Answer, Promise[Outcome] | None]:
        """Predict rows; those with an id are kept until their labels arrive.

        The promise is done when they are on disk.
        """
        if not self._replayed:
            raise UnavailableError("the events are being replayed; try again later")
        answer = self.versions[self.champion].predict(rows)
        if not rows.identified:
            return answer, None
        served = {str(answer.version): answer.raw}
        for version, live in self.versions.items():
            if version != answer.version:
                with suppress(InvalidInputError):  # a shadow may be stricter
                    served[str(version)] = live.raw(rows)
        return answer, self.admission.keep(rows, served)

    def learn(self, rows: Rows) -> Promise[Outcome]:
        """Admit rows with labels; see `Admission.learn`."""
        if rows.encoding == AS_ARROW and self.ready:
            # Only the model knows whether its features have names or indices.
            first = rows.x.slice(0, 1) if hasattr(rows.x, "slice") else rows.x[:1]
            self.versions[self.champion].model.rows(first, add=False)
        return self.admission.learn(rows)

    def label(self, labels: Sequence[LabelRow]) -> Promise[Outcome]:
        """Admit the labels of rows that wait; see `Admission.label`."""
        return self.admission.label(labels)

    # -- writing ---------------------------------------------------------------------------------

    def _queued(self) -> None:
        """Wake a writer; the gate is held."""
        if not self._writing:
            self._writing = True
            self.wake(lambda: WRITERS.submit(self._write))
        elif self._expected and len(self.admission.queue) >= self._expected:
            self._changed.notify_all()

    def _write(self) -> None:
        """Write everything in the queue, one group after the other."""
        queue, gathering = self.admission.queue, self._gathering
        while True:
            with self._gate:
                if not queue:
                    self._writing = False
                    self._changed.notify_all()
                    return
                expected = gathering.expected()
                if len(queue) < expected and not self._closing:
                    self._expected = expected
                    self._changed.wait_for(
                        lambda: len(queue) >= self._expected or self._closing, gathering.seconds
                    )
                    self._expected = 0
                    gathering.ended(len(queue) >= expected)
                group = self.admission.next_group()
            started = time.monotonic()
            records = [ticket.record for ticket in group if ticket.record is not None]
            try:
                if records:
                    self.database.append(records, self.admission.clock.now())
                    self.groups += 1
            except BaseException as error:  # noqa: BLE001 - the clients wait for an answer
                if isinstance(error, StoreError):
                    self._write_error = brief(error)
                    self._log("events not written", error)
                else:
                    self._fail(error)
                self.admission.withdraw(group, self.database.next, error)
                continue
            self._write_error = None
            with self._gate:
                self._written.extend(ticket for ticket in group if ticket.record is not None)
                gathering.written(len(group) + len(queue), time.monotonic() - started)
                self._wake_learner()
            for ticket in group:
                ticket.promise.set_result(ticket.outcome)

    # -- learning --------------------------------------------------------------------------------

    def _wake_learner(self) -> None:
        """Wake a learner, a moment later if there is little to learn; the gate is held."""
        asked = self._asked and not self._saving
        if self._learning or self.failure or not (self._written or asked):
            return
        self._learning = True
        count = sum(ticket.record.count for ticket in self._written if ticket.record)
        few = count < _GATHERED_EVENTS and not (self._closing or asked)
        LEARNERS.submit(self._learn_next, _GATHER_SECONDS if few else 0.0)

    def _learn_next(self) -> None:
        """Learn what has been written, and let other models learn before the rest."""
        with self._gate:
            tickets = list(self._written)
            self._written.clear()
        try:
            self._learn(tickets)
            self._save()
        except BaseException as error:  # noqa: BLE001 - readiness says so
            self._fail(error)
            return
        with self._gate:
            self._learning = False
            self._wake_learner()
            self._tick_later()
            self._changed.notify_all()

    def _tick_later(self) -> None:
        if not (self._ticking or self._closing):
            self._ticking = True
            settings = self.settings
            LEARNERS.submit(self._tick, min(settings.snapshot_seconds, settings.idle_seconds))

    def _tick(self) -> None:
        """Write a snapshot if it is due, and close the files of a model that nobody uses."""
        with self._gate:
            self._ticking = False
            if self._closing or self.failure is not None:
                return
            due = not self._learning and self._snapshot_is_due()
            if due:
                self._learning = True
            elif self._idle() and self.database.unused >= self.settings.idle_seconds:
                self.database.release()
                if self.events == self._saved_events:
                    return
            self._tick_later()
        if due:
            self._learn_next()

    def _fail(self, error: BaseException) -> None:
        """Stop admitting events."""
        self._log("model stopped", error)
        with self._gate:
            self.failure = self.admission.closed = f"{type(error).__name__}: {brief(error)}"
            self._learning = False
            self._written.clear()
            self._changed.notify_all()

    def _log(self, what: str, error: BaseException) -> None:
        """Log an error with the path of its file, which is not for clients."""
        log.error(what, extra={"facts": {"model": self.name, "reason": str(error)}})

    def _learn(self, tickets: list[Ticket]) -> None:
        parts: list[Part] = []
        for ticket in tickets:
            assert ticket.record is not None  # noqa: S101 - only those are written
            seq = self._learned_to
            self._learned_to += ticket.record.count
            if ticket.rows is not None:
                parts.append(Part(seq, ticket.rows))
                self.events += ticket.rows.count
        for live in self.versions.values():
            live.learn(parts)
            live.next = max(live.next, self._learned_to)
        self.admission.learned(tickets)

    def _replay(self) -> None:
        """Learn the events after the snapshots, and restore the ids."""
        try:
            self._replay_events()
        except BaseException as error:  # noqa: BLE001 - readiness says so
            self._fail(error)

    def _replay_events(self) -> None:
        records = self.database.read(self._replay_from)
        versions = self.versions.values()
        for _, end in learn_records(records, versions, self.admission.replay):
            if self._closing:
                raise UnavailableError("stopped while the events were being replayed")
            self.replayed = end - self._replay_from
        self.database.release()
        with self._gate:
            self._learned_to = self.admission.next
            for live in versions:
                live.next = max(live.next, self._learned_to)
            self.replayed = self.to_replay
            self.admission.open(self.versions[self.champion].model)
            if self._closing:
                self.admission.closed = "the service is stopping"
            self._replayed, self._learning = True, False
            self._changed.notify_all()

    # -- snapshots -------------------------------------------------------------------------------

    def snapshot(self) -> Promise[int]:
        """Ask for a snapshot of all versions; the result is the number of events that it holds."""
        with self._gate:
            if self.admission.closed is not None:
                raise UnavailableError(self.admission.closed)
            promise: Promise[int] = Promise()
            self._asked.append(promise)
            self._wake_learner()
            return promise

    def _snapshot_is_due(self) -> bool:
        new = self.events - self._saved_events
        return new >= self.settings.snapshot_events or (
            new > 0 and time.monotonic() - self._saved_at >= self.settings.snapshot_seconds
        )

    def _save(self, now: bool = False) -> None:
        """Write snapshots if they are due: by time, by number of events, or because of `snapshot`.

        The versions are copied here, and written in another thread.
        """
        with self._gate:
            if self._saving or not (self._asked or now or self._snapshot_is_due()):
                return
            self._saving = True
            requests, self._asked = self._asked, []
        self._saved_at, self._saved_events = time.monotonic(), self.events
        first, _ = self.admission.first_needed()
        last = self._learned_to - 1
        contents = [(live.info.version, *live.content()) for live in self.versions.values()]

        def write() -> None:
            self._save_error = None
            try:
                for version, next_, document, tensors in contents:
                    data = persistence.pack(document, tensors)
                    self.database.put_snapshot(version, next_, min(first, next_), data)
                self._remove_old_events()
            except Exception as error:  # noqa: BLE001 - the clients wait for an answer
                self._save_error = brief(error)
                self._log("snapshot not written", error)
            for promise in requests:
                if self._save_error is None:
                    promise.set_result(last)
                else:
                    message = f"no snapshot could be written: {self._save_error}"
                    promise.set_exception(UnavailableError(message))
            with self._gate:
                self._saving = False
                self._wake_learner()
                self._changed.notify_all()

        SAVERS.submit(write)

    def _remove_old_events(self) -> None:
        """Remove old events that neither a snapshot nor a row that waits needs."""
        age = self.settings.keep_seconds
        needed = [snapshot.next for snapshot in self.database.about.snapshots]
        self.database.drop_before(
            min(self.admission.first_needed()[1], *needed),
            keep_bytes=self.settings.keep_bytes,
            older_than=None if age is None else self.admission.clock.now() - age,
        )

    # -- versions --------------------------------------------------------------------------------

    def add_version(self, model: Model, origin: str) -> int:
        """Add a shadow that learns from now on, and return its number."""
        check_alike(self.versions[self.champion].model, model)
        check_servable(model)
        with self._changing:
            if len(self.versions) >= self.settings.versions:
                raise InvalidInputError(
                    f"a model has at most {self.settings.versions} versions; remove one first"
                )
            data = packed(model)
            with self._gate:
                if self.admission.closed is not None:
                    raise UnavailableError(self.admission.closed)
                start, before = self.admission.barrier()
                number = self.database.about.next_version
                info = Version(number, SHADOW, origin, time.time(), start)
                self.versions = {**self.versions, number: Live(info, model, start)}
            try:
                before.result()  # a version must not be ahead of the events on disk
                self.database.add_version(info, data)
            except BaseException:
                self._forget(number)
                raise
        return number

    def _forget(self, version: int) -> None:
        with self._gate:
            self.versions = {n: live for n, live in self.versions.items() if n != version}

    def promote(self, version: int) -> None:
        """Make a version the champion; the previous champion continues as a shadow."""
        with self._changing:
            live = self.versions.get(version)
            if live is None:
                raise InvalidInputError(f"there is no version {version}")
            if version == self.champion:
                return
            self.database.promote(version)
            with self._gate:
                for info in self.database.about.versions:
                    self.versions[info.version].info = info
                self.champion = version
                self.admission.check_with(live.model)
                if self._replayed and self.failure is None and not self._closing:
                    self.admission.closed = None

    def roll_back(self) -> int:
        """Make the previous champion the champion again, and return its number."""
        with self._changing:
            previous = self.database.about.previous
            if previous is None or previous not in self.versions:
                raise InvalidInputError("there is no version to roll back to")
            self.promote(previous)
        return previous

    def remove_version(self, version: int) -> None:
        """Remove a shadow."""
        with self._changing:
            if version == self.champion:
                raise InvalidInputError(
                    "the champion cannot be removed; promote another version first"
                )
            if version not in self.versions:
                raise InvalidInputError(f"there is no version {version}")
            self.database.remove_version(version)
            self._forget(version)
