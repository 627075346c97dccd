"""Threads that all models share: an idle model has none of its own."""

from __future__ import annotations

import heapq
import logging
import os
import threading
import time
from collections.abc import Callable
from itertools import count

log = logging.getLogger("sonline.service")


class Pool:
    """A few threads that call functions, at once or after a delay.

    The threads are started when they are needed. Errors go to the log.

    Examples
    --------
    >>> done, pool = threading.Event(), Pool("example", 1)
    >>> pool.submit(done.set)
    >>> done.wait(5)
    True
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads = threads
        self._started = self._idle = 0
        self._numbers = count()  # functions with the same time are called in their order
        self._work: list[tuple[float, int, Callable[[], None]]] = []
        self._changed = threading.Condition()

    def submit(self, work: Callable[[], None], delay: float = 0.0) -> None:
        """Call a function after a delay in seconds."""
        with self._changed:
            heapq.heappush(self._work, (time.monotonic() + delay, next(self._numbers), work))
            if len(self._work) > self._idle and self._started < self._threads:
                self._started += 1
                name = f"{self._name}-{self._started}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
            else:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._work or (wait := self._work[0][0] - time.monotonic()) > 0:
                    self._changed.wait(wait if self._work else None)
                self._idle -= 1
                work = heapq.heappop(self._work)[2]
            try:
                work()
            except Exception:  # the thread goes on for other models
                log.exception("error")
            del work  # it may hold a model


WRITERS = Pool("sonline-write", 4)  # they wait for the disk
LEARNERS = Pool("sonline-learn", max(2, os.cpu_count() or 1))
SAVERS = Pool("sonline-save", 1)  # one: each new thread might get its own heap
