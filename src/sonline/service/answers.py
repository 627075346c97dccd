"""Answers: checks access, turns errors into status codes, and counts requests."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from sonline.errors import InvalidInputError, SonlineError
from sonline.service import bodies
from sonline.service.follower import ReadOnlyError
from sonline.service.metrics import Metrics
from sonline.service.outcomes import BusyError, Outcome, Promise, UnavailableError, UnknownIdError
from sonline.service.quick import Deliver, Reply
from sonline.service.reading import JSON
from sonline.service.security import DeniedError, Guard
from sonline.service.service import UnknownModelError

log = logging.getLogger("sonline.service")

_STATUS: dict[type[Exception], int] = {  # the first that fits; all others are 503
    UnknownIdError: 404,
    UnknownModelError: 404,
    bodies.TooLargeError: 413,
    bodies.MediaTypeError: 415,
    ReadOnlyError: 421,
    BusyError: 429,
    UnavailableError: 503,
    ValueError: 400,
}


class Later(NamedTuple):
    """An answer that waits until an event is on disk."""

    promise: Promise
    reply: Callable[[Outcome], Reply]


Answer: TypeAlias = Response | Reply
Handler: TypeAlias = Callable[[Any], Awaitable[Answer | Later]]


class Bridge:
    """Calls functions in the event loop when promises of other threads are done.

    The loop is woken once for all promises of a group.
    """

    def __init__(self) -> None:
        self._done: deque[tuple[Callable[[Promise], None], Promise]] = deque()
        self._woken = False

    def then(self, promise: Promise, call: Callable[[Promise], None]) -> None:
        """Call a function with a promise when it is done."""
        loop = asyncio.get_running_loop()

        def finish(done: Promise) -> None:
            self._done.append((call, done))
            if not self._woken:
                self._woken = True
                loop.call_soon_threadsafe(self._flush)

        promise.add_done_callback(finish)

    async def wait(self, promise: Promise) -> Outcome:
        """Return the outcome of a promise."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.then(promise, lambda _: None if waiter.done() else waiter.set_result(None))
        await waiter
        return promise.result()

    def _flush(self) -> None:
        self._woken = False  # set first: functions added from now on wake the loop again
        while self._done:
            call, done = self._done.popleft()
            call(done)


class EndOfTurn:
    """Defers functions to the end of a turn of the event loop, if its thread adds them.

    All requests that arrived together are in the queue by then, so the thread that writes is woken
    once, and need not compete with this one for the interpreter.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def __call__(self, call: Callable[[], None]) -> bool:
        """Return whether the function will be called."""
        if threading.get_ident() != self._thread:
            return False
        self._loop.call_soon(call)
        return True


class Answers:
    """Answers requests with handlers.

    Parameters
    ----------
    guard : Guard
        Checks whether a request is allowed.
    metrics : Metrics
        Counts.
    """

    def __init__(self, guard: Guard, metrics: Metrics) -> None:
        self.guard = guard
        self.metrics = metrics
        self.bridge = Bridge()

    async def __call__(self, request: Any, scope: str | None, handler: Handler) -> Answer:
        """Return the answer of a handler, or an error that says why there is none."""
        started, client = time.perf_counter(), ""
        try:
            if scope is not None:
                client = self.guard.check(request, scope)
            answer = await handler(request)
            if isinstance(answer, Later):
                answer = answer.reply(await self.bridge.wait(answer.promise))
        except Exception as error:  # noqa: BLE001 - unexpected errors are answered with 500
            answer = self._failure(request, error)
        return self._counted(request, answer, started, client)

    def now(
        self,
        request: Any,
        scope: str,
        handler: Callable[[Any, bytes], Reply | Later],
        body: bytes,
        deliver: Deliver,
    ) -> None:
        """Deliver the same without a coroutine: at once, or when an event is on disk."""
        started, client = time.perf_counter(), ""
        answer: Answer | Later
        try:
            client = self.guard.check(request, scope)
            answer = handler(request, body)
        except Exception as error:  # noqa: BLE001 - as above
            answer = self._failure(request, error)
        if not isinstance(answer, Later):
            deliver(self._counted(request, answer, started, client))
            return
        later = answer

        def finish(promise: Promise) -> None:
            answer: Answer
            try:
                answer = later.reply(promise.result())
            except Exception as error:  # noqa: BLE001 - as above
                answer = self._failure(request, error)
            deliver(self._counted(request, answer, started, client))

        self.bridge.then(later.promise, finish)

    @staticmethod
    def _failure(request: Any, error: Exception) -> Response:
        expected = isinstance(error, (SonlineError, ClientDisconnect))
        return refusal(error) if expected else failure(request, error)

    def _counted(self, request: Any, answer: Answer, started: float, client: str) -> Answer:
        """Count a request, and write those that were refused to the log."""
        seconds = time.perf_counter() - started
        self.metrics.answered(request.method, answer.status_code, seconds)
        # Too many requests would be too many lines; /metrics counts them.
        if answer.status_code < 400 or answer.status_code == 429:
            return answer
        if log.isEnabledFor(logging.INFO):
            facts = {
                "method": request.method,
                "path": request.url.path[:200],
                "status": answer.status_code,
                "client": client or (request.client.host if request.client else ""),
                "seconds": round(seconds, 6),
            }
            log.info("request", extra={"facts": facts})
        return answer


def refusal(error: Exception) -> Response:
    """Return the answer to a request that raised an error of sonline, or was broken off."""
    if isinstance(error, ClientDisconnect):
        return error_response(400, "the client closed the connection")
    retry: float | None
    if isinstance(error, DeniedError):
        status, retry = error.status, error.retry
    else:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 503)
        retry = 1.0 if status in (429, 503) else None
    # Python counts rows from 0, files and users from 1.
    message, where = str(error), {}
    if isinstance(error, InvalidInputError) and error.row is not None:
        message, where = error.numbered(1), {"row": error.row + 1, "field": error.field}
    response = error_response(status, message, **where)
    if retry is not None:
        response.headers["retry-after"] = f"{max(1, round(retry))}"
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def failure(request: Any, error: Exception) -> Response:
    """Return the answer to a request that raised an unexpected error, which goes to the log."""
    log.error("error", exc_info=error, extra={"facts": {"path": request.url.path[:200]}})
    return error_response(500, "internal error; see the log of the service")


def error_response(status: int, message: str, **where: Any) -> Response:
    """Return an error as JSON; ``where`` are the row and the field, if it is about one row."""
    return as_json({"error": message[:1000], **where}, status)


def as_json(content: Any, status: int = 200) -> Response:
    """Return an answer as JSON."""
    return Response(bodies.encode(content), status, media_type=JSON)
