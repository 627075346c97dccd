"""Reading the bodies of requests, with limits on their size and on the time they take."""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache
from typing import Any

from sonline.errors import SonlineError
from sonline.service.bodies import Limits, MediaTypeError, TooLargeError
from sonline.service.exchange import FILE, LINES, Receive, Request
from sonline.service.security import DeniedError

MANY = (LINES, "application/jsonl", "application/ndjson")
BODY_SECONDS = 30.0
MODEL_BYTES = 256 << 20  # of a model file


class DisconnectError(SonlineError):
    """The client closed the connection before its request was complete."""


class Reader:
    """Reads bodies.

    Parameters
    ----------
    limits : Limits
        How large they may be.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        # Requests whose body is being read, and since when; None: it took too long.
        self._reading: dict[asyncio.Task[Any], float | None] = {}

    async def read(self, request: Request, kinds: tuple[str, ...]) -> tuple[bytes, str]:
        """Return the body of a request and its type, both checked.

        Raises
        ------
        MediaTypeError, TooLargeError, DeniedError
            If it has another type, is too large, or took too long.
        """
        kind = media_type(request.header(b"content-type") or "")
        if kind not in kinds:
            raise MediaTypeError(f"content-type must be one of {', '.join(kinds)}; got {kind!r}")
        if (request.header(b"content-encoding") or "identity").lower() != "identity":
            raise MediaTypeError("compressed bodies are not supported")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - called by one
        self._reading[task] = time.monotonic()
        try:
            limit = MODEL_BYTES if kind == FILE else self.limits.body
            return await _pieces(request.receive, limit), kind
        except asyncio.CancelledError:
            if self._reading[task] is not None:
                raise
            task.uncancel()
            raise DeniedError(408, f"the body took longer than {BODY_SECONDS:g} s") from None
        finally:
            del self._reading[task]

    def stop_slow(self) -> None:
        """Refuse requests whose body takes too long; cheaper than a timer for each."""
        now = time.monotonic()
        for task, started in self._reading.items():
            if started is not None and now - started > BODY_SECONDS:
                self._reading[task] = None
                task.cancel()


@lru_cache(maxsize=256)
def media_type(header: str) -> str:
    """Return a content type without its parameters.

    Examples
    --------
    >>> media_type("Application/JSON; charset=utf-8")
    'application/json'
    """
    return header.partition(";")[0].strip().lower()


async def _pieces(receive: Receive, limit: int) -> bytes:
    """Return the body of a request."""
    pieces, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectError("the client closed the connection")
        piece = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(piece)
        if size > limit:
            raise TooLargeError(f"at most {limit} bytes in a body")
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
