"""A model in a process that only predicts: it learns the events that another process writes.

Any number of such processes may answer predictions beside the one that writes. Each starts with the
newest snapshots and then reads the events as they are written. So it has the same models as the
writer, bit for bit, after at most `POLL` seconds and the time it takes to learn. It writes nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from sonline.errors import SonlineError
from sonline.service.admission import rows_of
from sonline.service.bodies import Rows
from sonline.service.outcomes import Outcome, Promise, UnavailableError
from sonline.service.pending import Waiting
from sonline.service.pool import LEARNERS
from sonline.service.records import CHAMPION, KEEP, Record, brief
from sonline.service.replay import learn_records
from sonline.service.versions import Answer, Live
from sonline.service.view import DatabaseView

POLL = 0.02  # seconds between looks at a file that has changed within `_ACTIVE` seconds
_ACTIVE = 10.0
_CHECK = 0.5  # seconds between looks at other files, and at the lists of versions
log = logging.getLogger("sonline.service")


class ReadOnlyError(SonlineError):
    """A request for the process that writes."""


class Follower:
    """The versions of one model, learned from the file that another process writes.

    Parameters
    ----------
    database : DatabaseView
        Its file.
    """

    def __init__(self, database: DatabaseView) -> None:
        self.name = database.path.stem
        self.database = database
        self.versions: dict[int, Live] = {}
        self.champion = 0
        self.failure: str | None = None  # why the events cannot be followed
        self.events = 0  # learned since the start
        self.groups = 0
        self.lag = 0  # events on disk that are not learned yet
        self.waiting = Waiting(0.0, 0)  # rows wait for labels where the events are written
        self._next = 0  # the number of the next event; 0: load the snapshots first
        self._caught_up = False
        self._checked = self._changed = 0.0
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Follow the events."""
        LEARNERS.submit(self._poll)

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until it has caught up."""
        self._ready.wait(timeout)

    def close(self) -> None:
        """Stop."""
        self._closing.set()
        self._stopped.wait(10 * _CHECK)

    @property
    def ready(self) -> bool:
        """Whether it predicts, and is up to date."""
        return self._caught_up and self.failure is None

    @property
    def problem(self) -> str | None:
        """Why the events cannot be followed, or which events the champion could not learn."""
        live = self.versions.get(self.champion)
        return self.failure or (None if live is None else live.problem)

    def predict(self, rows: Rows) -> tuple[Answer, Promise[Outcome] | None]:
        """Predict rows, which must have no id."""
        if not self._caught_up:
            raise UnavailableError(self.failure or "the events are being replayed; try again later")
        if rows.identified:
            raise ReadOnlyError(
                "this process only predicts and keeps no rows for later labels: leave the id out, "
                "or send this request to the process that writes"
            )
        return self.versions[self.champion].predict(rows), None

    def _poll(self) -> None:
        if self._closing.is_set():
            self._stopped.set()
            return
        now = time.monotonic()
        try:
            if now - self._checked >= _CHECK or self.database.changed():
                self._checked = now
                self._update()
        except Exception as error:  # noqa: BLE001 - readiness says so
            # Start again from the newest snapshots: events may have been removed from the file.
            known = isinstance(error, (SonlineError, OSError))
            failure = brief(error) if known else repr(error)
            if failure != self.failure:
                facts = {"model": self.name, "reason": str(error) if known else repr(error)}
                log.warning("events not followed", extra={"facts": facts})
            self.failure = failure
            self.database = DatabaseView(self.database.path)
            self._next, self._checked, delay = 0, 0.0, _CHECK
        else:
            self.failure = None
            self._caught_up = True
            self._ready.set()
            delay = POLL if now - self._changed < _ACTIVE else _CHECK
        LEARNERS.submit(self._poll, delay)

    def _update(self) -> None:
        """Load new versions, look up the champion, and learn new events."""
        database = self.database
        database.refresh()
        infos = {info.version: info for info in database.about.versions}
        loaded = self.versions if self._next else {}
        versions = {
            number: loaded[number] if number in loaded else Live.load(info, database)[0]
            for number, info in infos.items()
        }
        for number, live in versions.items():
            live.info = infos[number]
        start = min(live.next for live in versions.values())
        self._next = min(self._next or start, start)
        self.versions = versions
        self.champion = next(n for n, info in infos.items() if info.role == CHAMPION)
        if self._next < database.next:
            self._changed = time.monotonic()
            self._learn_new(database.next)

    def _learn_new(self, end: int) -> None:
        learned = self.versions[self.champion].next
        self.lag = end - self._next
        records = self.database.read(self._next)
        for parts, next_ in learn_records(records, self.versions.values(), _labelled):
            self.events += sum(part.rows.count for part in parts if part.seq >= learned)
            self._next = next_
            self.lag = max(0, end - next_)
            if self._closing.is_set():
                return
        self._next = self.database.next = max(end, self._next)
        for live in self.versions.values():  # the last events may be lost
            live.next = max(live.next, self._next)
        self.lag = 0


def _labelled(records: Sequence[Record]) -> Rows | None:
    return None if records[0].kind == KEEP else rows_of(records)
