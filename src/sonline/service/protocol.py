"""HTTP by uvicorn, with less work for a request with a single row.

uvicorn starts a task for each request, which reads the body and sends the response through
coroutines. A request with one of the three frequent paths that arrives in one piece needs no task:
it is answered as soon as the parser has seen its end. Everything about HTTP is left to uvicorn:
parsing, keep-alive, pipelining, flow control, and the bytes of the response. With a version of
uvicorn that uvicorn that starts its tasks in another way, all requests go the usual way.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Generator, Sized
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sonline.service.quick import QuickStarlette, Reply, Scope, send_response, target

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

MOST = 1 << 16  # bytes of a body that is decoded in the event loop
log = logging.getLogger("sonline.service")


class QuickProtocol(HttpToolsProtocol):
    """The protocol of uvicorn for an application with `QuickStarlette.answer_single`."""

    def __init__(self, config: Any, *values: Any, **rest: Any) -> None:
        super().__init__(config, *values, **rest)
        app = config.app
        self._answer = app.answer_single if isinstance(app, QuickStarlette) else None
        self._parsing = False
        self._whole: RequestResponseCycle | None = None  # a request that may arrive in one piece
        self._forwarded: ProxyHeadersMiddleware | None = None
        if config.proxy_headers:
            self._forwarded = ProxyHeadersMiddleware(_nothing, config.forwarded_allow_ips)

    def connection_made(self, transport: Any) -> None:
        """Open a connection."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        scope = cycle.scope
        # A request that had to wait for its turn is started later, and not by the parser.
        single = self._parsing and self._answer is not None and app is self.app
        if single and scope["method"] == "POST" and target(scope["path"]):
            self._whole = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """Answer a request that has arrived in one piece."""
        super().on_message_complete()
        cycle, self._whole = self._whole, None
        if cycle is None:
            return
        if len(cycle.body) > MOST or not self._answered(cycle):
            super()._start_asgi_task(cycle, self.app)

    def data_received(self, data: bytes) -> None:
        """Parse a piece of a request."""
        self._parsing = True
        super().data_received(data)
        self._parsing = False
        if self._whole is not None:  # there is more to come
            cycle, self._whole = self._whole, None
            super()._start_asgi_task(cycle, self.app)

    def _answered(self, cycle: RequestResponseCycle) -> bool:
        scope: Any = cycle.scope
        if self._forwarded is not None and self.client is not None:
            _client_of_proxy(self._forwarded, scope)
        assert self._answer is not None  # noqa: S101 - or no request would be kept for it
        return self._answer(scope, bytes(cycle.body), partial(self._deliver, cycle))

    def _deliver(self, cycle: RequestResponseCycle, response: Response | Reply) -> None:
        sending: Coroutine[Any, Any, None] = send_response(response, cycle.send)  # type: ignore[arg-type]
        try:
            waits_for = sending.send(None)
        except StopIteration:
            return
        except Exception:
            log.exception("the response could not be sent")
            cycle.transport.close()
            return
        task = self.loop.create_task(_rest(sending, waits_for))  # the client reads too slowly
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)


class _Flow(FlowControl):
    """Flow control that reads nothing while requests of the same connection wait for their turn.

    uvicorn reads on after each response, so a client that sends requests without reading the
    responses would fill the memory.
    """

    def __init__(self, transport: Any, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        """Read, unless requests wait; the last of them calls this again."""
        if not self._pipeline:
            super().resume_reading()


def _client_of_proxy(middleware: ProxyHeadersMiddleware, scope: Scope) -> None:
    """Set the address of the client as a trusted proxy gives it, by uvicorn's middleware."""
    if any(name.startswith(b"x-forwarded-") for name, _ in scope["headers"]):
        setting = middleware(scope, None, None)  # type: ignore[arg-type]
        try:
            setting.send(None)
        except StopIteration:
            return
        setting.close()


async def _nothing(*_: Any) -> None:
    pass


class _Started:
    """A coroutine that has run up to the first future it waits for."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            yield self._waits_for
        except BaseException as error:
            with suppress(StopIteration):
                self._coroutine.throw(error)
            raise
        yield from self._coroutine.__await__()


async def _rest(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _Started(coroutine, waits_for)
