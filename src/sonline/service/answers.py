"""Answers: checks access, turns errors into status codes, and counts requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from sonline.errors import InvalidInputError, SonlineError
from sonline.service import bodies
from sonline.service.exchange import Reply, Request, error_reply
from sonline.service.follower import ReadOnlyError
from sonline.service.metrics import Metrics
from sonline.service.outcomes import BusyError, Promise, Result, UnavailableError, UnknownIdError
from sonline.service.reading import DisconnectError
from sonline.service.records import brief
from sonline.service.security import DeniedError, Guard
from sonline.service.service import ConflictError, UnknownModelError

log = logging.getLogger("sonline.service")

_STATUS: dict[type[Exception], int] = {  # the first that fits; all others are 503
    UnknownIdError: 404,
    UnknownModelError: 404,
    ConflictError: 409,
    bodies.TooLargeError: 413,
    bodies.MediaTypeError: 415,
    ReadOnlyError: 421,
    BusyError: 429,
    UnavailableError: 503,
    ValueError: 400,
    DisconnectError: 400,
}


class Later(NamedTuple):
    """An answer that waits until something is on disk."""

    promise: Promise[Any]
    reply: Callable[[Any], Reply]


Handler: TypeAlias = Callable[[Request], Awaitable[Reply | Later]]


class Bridge:
    """Waits in the event loop for promises of other threads.

    The loop is woken once for all promises of a group.
    """

    def __init__(self) -> None:
        self._done: deque[asyncio.Future[None]] = deque()
        self._woken = False

    async def wait(self, promise: Promise[Result]) -> Result:
        """Return the result of a promise."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def finish(_: Promise[Result]) -> None:
            self._done.append(waiter)
            if not self._woken:
                self._woken = True
                loop.call_soon_threadsafe(self._flush)

        promise.add_done_callback(finish)
        await waiter
        return promise.result()

    def _flush(self) -> None:
        self._woken = False  # set first: promises that are done from now on wake the loop again
        while self._done:
            waiter = self._done.popleft()
            if not waiter.done():  # the client may have gone away
                waiter.set_result(None)


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
        self._bridge = Bridge()

    async def __call__(self, request: Request, scope: str | None, handler: Handler) -> Reply:
        """Return the answer of a handler, or an error that says why there is none."""
        started, client = time.perf_counter(), ""
        try:
            if scope is not None:
                client = self.guard.check(request, scope)
            answer = await handler(request)
            if isinstance(answer, Later):
                answer = answer.reply(await self._bridge.wait(answer.promise))
        except SonlineError as error:
            answer = refusal(error)
        except Exception:
            log.exception("error", extra={"facts": {"path": request.path[:200]}})
            answer = error_reply(500, "internal error; see the log of the service")
        seconds = time.perf_counter() - started
        self.metrics.answered(request.method, answer.status, seconds)
        # Too many requests would be too many lines; /metrics counts them.
        if answer.status >= 400 and answer.status != 429:
            facts = {
                "method": request.method,
                "path": request.path[:200],
                "status": answer.status,
                "client": client or request.client,
                "seconds": round(seconds, 6),
            }
            log.info("request", extra={"facts": facts})
        return answer


def refusal(error: SonlineError) -> Reply:
    """Return the answer to a request that raised an error of sonline."""
    retry: float | None
    if isinstance(error, DeniedError):
        status, retry = error.status, error.retry
    else:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 503)
        retry = 1.0 if status in (429, 503) else None
    # Python counts rows from 0, files and users from 1.
    message, where = brief(error), {}
    if isinstance(error, InvalidInputError) and error.row is not None:
        message, where = error.numbered(1), {"row": error.row + 1, "field": error.field}
    headers = {} if retry is None else {"retry-after": f"{max(1, round(retry))}"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return error_reply(status, message, headers, **where)
