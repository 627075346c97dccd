"""A model in a process that only predicts: it learns from the log that another process writes.

Any number of such processes may answer predictions beside the one that writes. Each starts with the
newest snapshots and then follows the log. So it has the same models as the writer, bit for bit,
after at most `POLL` seconds and the time it takes to learn. It writes nothing.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from sonline.errors import SonlineError
from sonline.service.admission import rows_of
from sonline.service.bodies import Rows
from sonline.service.frames import KEEP, SUFFIX
from sonline.service.outcomes import Promise, UnavailableError
from sonline.service.pending import Waiting
from sonline.service.store import CHAMPION, Store
from sonline.service.tail import Tail
from sonline.service.versions import Answer, Live, Part

POLL = 0.02  # seconds between checks of the log
_CHECK = 1.0  # seconds between checks of the list of versions
_TOGETHER = 64  # records that are learned at a time


class ReadOnlyError(SonlineError):
    """A request for the process that writes."""


class Follower:
    """The versions of one model, learned from the log of another process.

    Parameters
    ----------
    name : str
        Name of the model.
    folder : Path
        Folder with its log and snapshots.
    store : Store
        Database with its versions.
    """

    def __init__(self, name: str, folder: Path, store: Store) -> None:
        self.name = name
        self.folder = folder
        self.versions: dict[int, Live] = {}
        self.champion = 0
        self.failure: str | None = None  # why the log cannot be followed
        self.disk: str | None = None
        self.events = 0  # learned since the start
        self.groups = 0
        self.lag = 0  # events on disk that are not learned yet
        self.waiting = Waiting(0.0, 0)  # rows wait for labels where the log is written
        self._store = store
        self._snapshots = folder / "snapshots"
        self._tail: Tail | None = None
        self._caught_up = False
        self._checked = 0.0
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"{name}-follow", daemon=True)

    def start(self) -> None:
        """Follow the log in a thread."""
        self._thread.start()

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until it has caught up with the log."""
        self._ready.wait(timeout)

    def close(self) -> None:
        """Stop."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._close_tail()

    def _close_tail(self) -> None:
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    @property
    def ready(self) -> bool:
        """Whether it predicts, and is up to date."""
        return self._caught_up and self.failure is None

    @property
    def problem(self) -> str | None:
        """Why the log cannot be followed, or which events the champion could not learn."""
        live = self.versions.get(self.champion)
        return self.failure or self.disk or (None if live is None else live.problem)

    @property
    def log_bytes(self) -> int:
        """Bytes of the log."""
        return sum(path.stat().st_size for path in (self.folder / "log").glob(f"*{SUFFIX}"))

    def predict(self, rows: Rows) -> tuple[Answer, Promise | None]:
        """Predict rows, which must have no id."""
        if not self._caught_up:
            raise UnavailableError(self.failure or "the log is being replayed; try again later")
        if rows.identified:
            raise ReadOnlyError(
                "this process only predicts and keeps no rows for later labels: leave the id out, "
                "or send this request to the process that writes"
            )
        return self.versions[self.champion].predict(rows), None

    def _loop(self) -> None:
        while not self._closing.is_set():
            try:
                self._check_versions()
                learned = self._learn_new()
            except (SonlineError, OSError) as error:
                # Start again from the newest snapshots: events may have been removed from the log.
                self.failure = str(error)
                self._close_tail()
                self._closing.wait(_CHECK)
                continue
            self.failure = None
            self._caught_up = True
            self._ready.set()
            if not learned:
                self._closing.wait(POLL)

    def _check_versions(self) -> None:
        """Load new versions, and look up the champion."""
        now = time.monotonic()
        if self._tail is not None and now - self._checked < _CHECK:
            return
        self._checked = now
        infos = {info.version: info for info in self._store.versions(self.name)}
        loaded = {} if self._tail is None else self.versions
        versions = {
            number: loaded[number] if number in loaded else Live.load(info, self._snapshots)[0]
            for number, info in infos.items()
        }
        for number, live in versions.items():
            live.info = infos[number]
        if self._tail is None or min(live.next for live in versions.values()) < self._tail.next:
            self._close_tail()
            start = min(live.next for live in versions.values())
            self._tail = Tail(self.folder / "log", start)
        self.versions = versions
        self.champion = next(n for n, info in infos.items() if info.role == CHAMPION)

    def _learn_new(self) -> bool:
        """Learn the new events of the log, and return whether there were any."""
        tail = self._tail
        assert tail is not None  # noqa: S101 - opened with the versions
        start, end, parts = tail.next, tail.end(), []
        self.lag = end - start
        for record in tail.read():
            if record.kind != KEEP:
                parts.append(Part(record.seq, rows_of(record)))
            if len(parts) >= _TOGETHER:
                self._learn(parts, record.end)
                self.lag, parts = max(0, end - record.end), []
            if self._closing.is_set():
                return True
        self._learn(parts, tail.next)
        self.lag = 0
        return tail.next > start

    def _learn(self, parts: list[Part], next_: int) -> None:
        learned = self.versions[self.champion].next
        self.events += sum(part.rows.count for part in parts if part.seq >= learned)
        for live in self.versions.values():
            live.learn(parts)
            if live.error is None:
                live.next = max(live.next, next_)
