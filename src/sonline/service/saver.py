"""Snapshots of the versions of a model: when to write them, and which segments to remove."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from sonline.errors import SonlineError
from sonline.service.admission import Admission
from sonline.service.log import Log
from sonline.service.outcomes import UnavailableError
from sonline.service.versions import Live, next_of, snapshots


class Saver:
    """Writes snapshots in a thread, and removes segments of the log that nobody needs.

    Parameters
    ----------
    name : str
        Of the model.
    folder : Path
        For the snapshots.
    admission : Admission
        Knows which events are needed to restore the ids.
    """

    def __init__(self, name: str, folder: Path, admission: Admission) -> None:
        self.error: str | None = None  # why the last snapshot could not be written
        self._folder = folder
        self._admission = admission
        self._settings = admission.settings
        self._asked: list[Future[int]] = []
        # One thread for all snapshots: each new thread might get its own heap.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-save")
        self._writing: Future[None] | None = None
        self._saved_at = time.monotonic()
        self._saved_events = 0

    @property
    def asked(self) -> bool:
        """Whether a snapshot was requested."""
        return bool(self._asked)

    def ask(self) -> Future[int]:
        """Ask for a snapshot; the result is the number of events that it holds."""
        future: Future[int] = Future()
        self._asked.append(future)
        return future

    def save(
        self, log: Log, versions: Mapping[int, Live], events: int, last: int, *, now: bool = False
    ) -> None:
        """Write snapshots if they are due: by time, by number of events, or because of `ask`.

        Parameters
        ----------
        log : Log
            Whose old segments are removed afterwards.
        versions : mapping
            To be written. They are copied here and written in another thread.
        events : int
            Learned since the start.
        last : int
            The number of the last event learned.
        now : bool, default=False
            Write them in any case, and wait until they are written.
        """
        if self._writing is not None and not self._writing.done():
            if not (self._asked or now):
                return
            self._writing.result()
        settings = self._settings
        due = events - self._saved_events >= settings.snapshot_events or (
            events > self._saved_events
            and time.monotonic() - self._saved_at >= settings.snapshot_seconds
        )
        requests, self._asked = self._asked, []
        if not (requests or now or due):
            return
        self._saved_at, self._saved_events = time.monotonic(), events
        first, _ = self._admission.first_needed()
        good = [live for live in versions.values() if live.error is None]
        contents = [(live, live.content(min(first, live.next))) for live in good]
        numbers = list(versions)

        def write() -> None:
            try:
                for live, content in contents:
                    live.write(*content)
                self._remove_segments(log, numbers)
            except (OSError, SonlineError) as error:
                self.error = str(error)
                for promise in requests:
                    promise.set_exception(
                        UnavailableError(f"no snapshot could be written: {error}")
                    )
                return
            self.error = None
            for promise in requests:
                promise.set_result(last)

        self._writing = self._thread.submit(write)
        if now:
            self._writing.result()

    def _remove_segments(self, log: Log, versions: list[int]) -> None:
        """Remove old segments that neither a snapshot nor a row that waits needs."""
        settings = self._settings
        age = settings.keep_seconds
        older_than = None if age is None else self._admission.clock.now() - age
        needed = [self._admission.first_needed()[1]]
        for version in versions:
            needed += [next_of(path) for path in snapshots(self._folder, version)]
        log.drop_before(min(needed), keep_bytes=settings.keep_bytes, older_than=older_than)

    def close(self) -> None:
        """Finish the current snapshot, and refuse later requests for one."""
        self._thread.shutdown()
        for future in self._asked:
            future.set_exception(UnavailableError("the service is stopping"))
