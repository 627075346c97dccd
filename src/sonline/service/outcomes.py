"""Outcomes of events, promises of outcomes, and the errors that refuse events."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from sonline.errors import InvalidInputError, SonlineError

log = logging.getLogger("sonline.service")
Result = TypeVar("Result")


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


class Promise(Generic[Result]):
    """What a request will return once it is on disk: a small future that cannot be cancelled.

    A future of `concurrent.futures` costs more time than everything else that is done for a single
    row. Appending to a list and popping from it are atomic, so each callback is called once, by the
    thread that sees the result first. Errors of callbacks go to the log: the thread that sets the
    result works for other clients, too.

    Examples
    --------
    >>> promise = Promise()
    >>> promise.add_done_callback(lambda done: print(done.result().learned))
    >>> promise.set_result(Outcome(learned=3))
    3
    """

    __slots__ = ("_callbacks", "_error", "_result")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Promise[Result]], None]] = []
        self._result: Result | None = None
        self._error: Exception | None = None

    def set_result(self, result: Result) -> None:
        """Set the result."""
        self._result = result
        self._call()

    def set_exception(self, error: Exception) -> None:
        """Set the reason why there is no result."""
        self._error = error
        self._call()

    def done(self) -> bool:
        """Return whether the result, or the reason why there is none, is set."""
        return self._result is not None or self._error is not None

    def add_done_callback(self, callback: Callable[[Promise[Result]], None]) -> None:
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
            try:
                callback(self)
            except Exception:  # such as an event loop that is closed
                log.exception("error")

    def exception(self) -> Exception | None:
        """Return why there is no result; None if there is one, or none yet."""
        return self._error

    def result(self) -> Result:
        """Wait for the result."""
        if not self.done():
            event = threading.Event()
            self.add_done_callback(lambda _: event.set())
            event.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None  # noqa: S101 - or there is an error
        return self._result
