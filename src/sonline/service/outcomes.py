"""Outcomes of events, promises of outcomes, and the errors that refuse events."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from sonline.errors import InvalidInputError, SonlineError


class BusyError(SonlineError):
    """Too many events wait to be learned."""


class UnavailableError(SonlineError):
    """The engine is starting, stopping, or cannot write."""


class UnknownIdError(InvalidInputError):
    """No row waits for a label under this id."""


class Outcome(msgspec.Struct):
    """The outcome of a request with labels."""

    seq: int = 0  # the number of the first event; for a duplicate, of the original event
    learned: int = 0
    duplicates: int = 0
    unknown: list[str] = []
    delays: list[float] = []  # seconds between predictions and their labels


class Promise:
    """The outcome of a request once it is on disk: a small future.

    A future of `concurrent.futures` costs more time than everything else that is done for a single
    row. Appending to a list and popping from it are atomic, so each callback is called once, by the
    thread that sees the outcome first.

    Examples
    --------
    >>> promise = Promise()
    >>> promise.add_done_callback(lambda done: print(done.result().learned))
    >>> promise.set_result(Outcome(learned=3))
    3
    """

    __slots__ = ("_callbacks", "_error", "_outcome")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Promise], None]] = []
        self._outcome: Outcome | None = None
        self._error: Exception | None = None

    def set_result(self, outcome: Outcome) -> None:
        """Set the outcome."""
        self._outcome = outcome
        self._call()

    def set_exception(self, error: Exception) -> None:
        """Set the reason why there is no outcome."""
        self._error = error
        self._call()

    def done(self) -> bool:
        """Return whether the outcome, or the reason why there is none, is set."""
        return self._outcome is not None or self._error is not None

    def add_done_callback(self, callback: Callable[[Promise], None]) -> None:
        """Call a function with this promise when it is done, in any thread."""
        self._callbacks.append(callback)
        if self.done():
            self._call()

    def _call(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:  # another thread was faster
                return
            callback(self)

    def exception(self) -> Exception | None:
        """Return why there is no outcome; None if there is one, or none yet."""
        return self._error

    def result(self, timeout: float | None = None) -> Outcome:
        """Wait for the outcome."""
        if not self.done():
            event = threading.Event()
            self.add_done_callback(lambda _: event.set())
            if not event.wait(timeout):
                raise TimeoutError
        if self._error is not None:
            raise self._error
        assert self._outcome is not None  # noqa: S101 - or there is an error
        return self._outcome
