"""The engine of one model: events are checked, written to the log, acknowledged, then learned.

.. code-block:: text

   request -> admission (checks, ids) -> queue -> writer thread: one frame, one fdatasync -> answer
                                                        |
                                                        v
                                       learner thread: every version, in log order -> snapshots

Models depend on the log alone: after a kill, the service has the same models, bit for bit, as
without it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from sonline.errors import InvalidInputError
from sonline.model import Model
from sonline.service.admission import Admission, Ticket
from sonline.service.bodies import LabelRow, Rows
from sonline.service.frames import ARROW, LogError
from sonline.service.log import Log
from sonline.service.outcomes import Promise, UnavailableError
from sonline.service.pending import Waiting
from sonline.service.saver import Saver
from sonline.service.settings import Settings
from sonline.service.store import CHAMPION, SHADOW, Store, Version
from sonline.service.versions import Answer, Live, Part, check_servable

_GATHER = 0.005  # seconds that a group waits at most for clients that are about to send again
_MANY = 64  # requests that are enough for a group
_REST = 0.03  # seconds that a few events wait for others: learning them together is cheaper
_ENOUGH = 256  # events that are learned at once


class Gathering:
    """How many requests a group waits for (group commit).

    Clients that were answered with the group before are about to send again, so a group waits for
    them, for at most as long as it takes to write one. A client that is alone waits for nobody. If
    the clients do not come, the next groups do not wait: one, then two, four and so on.

    Examples
    --------
    >>> gathering = Gathering()
    >>> gathering.written(requests=8, seconds=0.002)
    >>> gathering.expected(), gathering.seconds
    (8, 0.002)
    >>> gathering.ended(complete=False)
    >>> gathering.expected(), gathering.expected()
    (1, 8)
    """

    def __init__(self) -> None:
        self.seconds = 0.0  # that the next group may wait
        self._requests = 1  # in the group before, and in the queue when it was written
        self._skip = self._skipped = 0  # groups that do not wait

    def written(self, requests: int, seconds: float) -> None:
        """Note how many requests there were when a group was written, and how long that took."""
        self._requests = min(requests, _MANY)
        self.seconds = min(seconds, _GATHER)

    def expected(self) -> int:
        """Return how many requests the next group waits for."""
        if self._skipped < self._skip:
            self._skipped += 1
            return 1
        return self._requests

    def ended(self, complete: bool) -> None:
        """Note whether these requests arrived."""
        self._skip = 0 if complete else min(max(1, 2 * self._skip), _MANY)
        self._skipped = 0


class Engine:
    """The log, the versions and the threads of one model.

    Parameters
    ----------
    name : str
        Name of the model.
    folder : Path
        Folder for its log and snapshots.
    store : Store
        Database with its versions.
    settings : Settings
        Settings of the engine.
    open_log : callable
        Opens the log; tests replace it to simulate failing disks.
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
        self.admission = Admission(settings)
        self.versions: dict[int, Live] = {}
        self.champion = 0
        self.replayed, self.to_replay = 0, 0
        self.failure: str | None = None  # why it cannot learn any more
        self._write_error: str | None = None  # why the last group could not be written
        self.events = 0  # learned since the start
        self.groups = 0
        self._gate = self.admission.gate
        self._wake_writer = self.admission.wake
        self._wake_learner = threading.Condition(self._gate)
        self._written: deque[Ticket] = deque()
        self._learned_to = 1  # the number of the next event to be learned
        self._replayed = False
        self._closing = False
        self._writer_done = False
        self._changing = threading.Lock()  # held while the list of versions changes
        self._saver = Saver(name, self._snapshots, self.admission)
        self._threads: list[threading.Thread] = []

    # -- start and stop --------------------------------------------------------------------------

    @classmethod
    def create(
        cls, name: str, folder: Path, store: Store, model: Model, origin: str, **rest: Any
    ) -> Engine:
        """Create a model; its first snapshot is written before its name is stored."""
        engine = cls(name, folder, store, **rest)
        live = Live(Version(name, 1, CHAMPION, origin, time.time(), 1), model, 1, engine._snapshots)
        live.write(*live.content(1))
        store.add_model(name, origin, 1)
        return engine

    def start(self, wait: bool = False) -> None:
        """Open the log and replay it in a thread.

        Raises
        ------
        LogError, RecoveryError
            If the log or all snapshots are damaged.
        """
        self.log = self._open_log(self.folder / "log", segment_bytes=self.settings.segment_bytes)
        self.admission.clock.begin(self.log.time)
        end = self.admission.next = self.log.next
        froms = [end]
        for info in self._store.versions(self.name):
            live, keep_from = Live.load(info, self._snapshots)
            self.versions[info.version] = live
            froms.append(keep_from)
            if info.role == CHAMPION:
                self.champion = info.version
            if live.next > end:
                raise LogError(
                    f"{self.folder}: version {info.version} learned {live.next - 1} events, the "
                    f"log ends with event {end - 1}; restore the log from a copy"
                )
        self._replay_from = max(
            min(froms + [live.next for live in self.versions.values()]), self.log.first
        )
        for live in self.versions.values():
            if live.next < self.log.first:
                raise LogError(
                    f"{self.folder}: events from {live.next} on are no longer in the log"
                )
        self.to_replay = end - self._replay_from
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
            self._wake_writer.wait_for(lambda: self._replayed or self.failure, timeout)
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
        return self._write_error or self._saver.error

    @property
    def problem(self) -> str | None:
        """Why it cannot learn or write, or which events the champion could not learn."""
        live = self.versions.get(self.champion)
        return self.failure or self.disk or (None if live is None else live.problem)

    @property
    def log_bytes(self) -> int:
        """Bytes of the log."""
        return self.log.size

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
            self._wake_writer.notify_all()
            self._wake_learner.notify_all()
        for thread in self._threads:
            thread.join()
        if self._replayed and self.failure is None:
            self._save(now=True)
        self._saver.close()
        if self._threads:
            self.log.close()

    # -- requests --------------------------------------------------------------------------------

    def predict(self, rows: Rows) -> tuple[Answer, Promise | None]:
        """Predict rows; those with an id are kept until their labels arrive.

        The promise is done when they are on disk.
        """
        if not self._replayed:
            raise UnavailableError("the log is being replayed; try again later")
        answer = self.versions[self.champion].predict(rows)
        if not rows.identified:
            return answer, None
        served = {str(answer.version): answer.raw}
        for version, live in self.versions.items():
            if version != answer.version and live.error is None:
                with suppress(InvalidInputError):  # a shadow may be stricter
                    served[str(version)] = live.raw(rows)
        return answer, self.admission.keep(rows, served)

    def learn(self, rows: Rows) -> Promise:
        """Admit rows with labels; see `Admission.learn`."""
        if rows.encoding == ARROW and self.ready:
            # Only the model knows whether its features have names or indices.
            first = rows.x.slice(0, 1) if hasattr(rows.x, "slice") else rows.x[:1]
            self.versions[self.champion].model.rows(first, add=False)
        return self.admission.learn(rows)

    def label(self, labels: Sequence[LabelRow]) -> Promise:
        """Admit the labels of rows that wait; see `Admission.label`."""
        return self.admission.label(labels)

    # -- the writer ------------------------------------------------------------------------------

    def _write_loop(self) -> None:
        queue, gathering = self.admission.queue, Gathering()
        while True:
            with self._gate:
                self._wake_writer.wait_for(lambda: queue or self._closing)
                expected = gathering.expected()
                if len(queue) < expected and not self._closing:
                    self.admission.wake_at = expected
                    self._wake_writer.wait_for(
                        lambda: len(queue) >= self.admission.wake_at or self._closing,
                        gathering.seconds,
                    )
                    self.admission.wake_at = 1
                    gathering.ended(len(queue) >= expected)
                if not queue:
                    self._writer_done = True
                    self._wake_learner.notify_all()
                    return
                group = self.admission.next_group()
            started = time.monotonic()
            records = [ticket.record for ticket in group if ticket.record is not None]
            try:
                if records:
                    self.log.append(records, self.admission.clock.now())
                    self.groups += 1
            except LogError as error:
                self._write_error = str(error)
                self.admission.withdraw(group, self.log.next, error)
                continue
            except BaseException as error:  # noqa: BLE001 - the clients wait for an answer
                self._fail(error)
                self.admission.withdraw(group, self.log.next, error)
                continue
            self._write_error = None
            with self._gate:
                self._written.extend(ticket for ticket in group if ticket.record is not None)
                self._wake_learner.notify_all()
                gathering.written(len(group) + len(queue), time.monotonic() - started)
            for ticket in group:
                ticket.future.set_result(ticket.outcome)

    # -- the learner -----------------------------------------------------------------------------

    def _learn_loop(self) -> None:
        try:
            self._replay()
        except BaseException as error:  # noqa: BLE001 - readiness says so
            self._fail(error)
            return
        while True:
            with self._gate:
                self._wake_learner.wait_for(
                    lambda: self._written or self._saver.asked or (self._closing and self._idle()),
                    timeout=1.0,
                )
                if self._closing and self._idle():
                    return
                count = sum(ticket.record.count for ticket in self._written if ticket.record)
                few = count < _ENOUGH and not (self._closing or self._saver.asked)
            if few and self._written:
                time.sleep(_REST)
            with self._gate:
                tickets = list(self._written)
                self._written.clear()
            try:
                self._learn(tickets)
                self._save()
            except BaseException as error:  # noqa: BLE001 - readiness says so
                self._fail(error)
                return

    def _fail(self, error: BaseException) -> None:
        """Stop admitting events."""
        with self._gate:
            self.failure = self.admission.closed = f"{type(error).__name__}: {error}"
            self._wake_writer.notify_all()

    def _idle(self) -> bool:
        return self._writer_done and not self._written

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
            if live.error is None:
                live.next = max(live.next, self._learned_to)
        self._check_champion()
        self.admission.learned(tickets)

    def _check_champion(self) -> None:
        """Stop admitting events if the champion cannot learn any more."""
        error = self.versions[self.champion].error
        if error is not None and self.ready:
            self.admission.closed = f"version {self.champion} cannot learn any more: {error}"

    def _replay(self) -> None:
        """Learn the events after the snapshots, and restore the ids."""
        parts: list[Part] = []
        versions = self.versions.values()
        for record in self.log.read(self._replay_from):
            if self._closing:
                raise UnavailableError("stopped while the log was being replayed")
            decoded = self.admission.replay(record)
            if decoded is not None and any(version.next <= record.seq for version in versions):
                parts.append(Part(record.seq, decoded))
            if len(parts) >= 64:
                self._replay_parts(parts)
                parts = []
            self.replayed = record.end - self._replay_from
        self._replay_parts(parts)
        with self._gate:
            self._learned_to = self.admission.next
            for live in versions:
                if live.error is None:
                    live.next = max(live.next, self._learned_to)
            self.replayed = self.to_replay
            self.admission.open(self.versions[self.champion].model)
            self._check_champion()
            if self._closing:
                self.admission.closed = "the service is stopping"
            self._replayed = True
            self._wake_writer.notify_all()

    def _replay_parts(self, parts: list[Part]) -> None:
        for live in self.versions.values():
            live.learn(parts)

    # -- snapshots -------------------------------------------------------------------------------

    def snapshot(self) -> Future[int]:
        """Ask for a snapshot of all versions; the result is the number of events that it holds."""
        with self._gate:
            if self.admission.closed is not None:
                raise UnavailableError(self.admission.closed)
            self._wake_learner.notify_all()
            return self._saver.ask()

    def _save(self, now: bool = False) -> None:
        self._saver.save(self.log, self.versions, self.events, self._learned_to - 1, now=now)

    # -- versions --------------------------------------------------------------------------------

    def add_version(self, model: Model, origin: str) -> int:
        """Add a shadow that learns from now on, and return its number."""
        champion = self.versions[self.champion].model
        mine, other = champion.table, model.table
        same = (mine is None) == (other is None)
        if same and mine is not None and other is not None:
            same = mine.signs == other.signs and (mine.signs or mine.growing == other.growing)
            same = same and (mine.signs or mine.growing or mine.labels == other.labels)
        if not same:
            raise InvalidInputError("a version must have the task and the classes of the champion")
        check_servable(model)
        with self._changing:
            if len(self.versions) >= self.settings.versions:
                raise InvalidInputError(
                    f"a model has at most {self.settings.versions} versions; remove one first"
                )
            version = self._store.next_version(self.name)
            with self._gate:
                if self.admission.closed is not None:
                    raise UnavailableError(self.admission.closed)
                start, before = self.admission.barrier()
                info = Version(self.name, version, SHADOW, origin, time.time(), start)
                live = Live(info, model, start, self._snapshots)
            before.result()  # a version must not be ahead of the log
            live.write(*live.content(start))
            self._store.add_version(self.name, version, origin, start)
            with self._gate:
                self.versions = {**self.versions, version: live}
        return version

    def promote(self, version: int) -> None:
        """Make a version the champion; the previous champion continues as a shadow."""
        with self._changing:
            self._promote(version)

    def _promote(self, version: int) -> None:
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
            for other in self.versions.values():
                other.info = infos[other.info.version]
            self.champion = version
            self.admission.check_with(live.model)
            if self._replayed and self.failure is None and not self._closing:
                self.admission.closed = None

    def roll_back(self) -> int:
        """Make the previous champion the champion again, and return its number."""
        with self._changing:
            previous = self._store.previous(self.name)
            if previous is None or previous not in self.versions:
                raise InvalidInputError("there is no version to roll back to")
            self._promote(previous)
        return previous

    def remove_version(self, version: int) -> None:
        """Remove a shadow."""
        with self._changing:
            if version == self.champion:
                raise InvalidInputError(
                    "the champion cannot be removed; promote another version first"
                )
            live = self.versions.get(version)
            if live is None:
                raise InvalidInputError(f"there is no version {version}")
            self._store.remove_version(self.name, version)
            with self._gate:
                self.versions = {n: other for n, other in self.versions.items() if n != version}
            live.remove()
