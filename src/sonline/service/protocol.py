"""HTTP by uvicorn, with less work for a request with a single row.

uvicorn starts a task for each request, which reads the body and sends the response through
coroutines. A request with one of the three frequent paths that arrives in one piece needs no task:
it is answered as soon as the parser has seen its end, with one write. A client sends the same head
again and again, so the parsed head is cached: the next request with the same bytes up to the
body, and a body of the same length, is the same request but for the body. Many clients send head
and body in two pieces; a known head waits a moment for its body. Everything else is left to
uvicorn: parsing, keep-alive, pipelining and flow control. With a version of uvicorn that starts its
tasks in another way, all requests go the usual way.
"""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from collections.abc import Sized
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.responses import Response
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sonline.service.quick import QuickStarlette, Reply, Scope, Single, target

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

MOST = 1 << 16  # bytes of a body that is decoded in the event loop
HEADS = 1024  # heads that are kept
_LONGEST = 4096  # bytes of a head that is kept
_MOMENT = 1.0  # seconds that a known head waits for its body; uvicorn has its own limits
_END = b"\r\n\r\n"
log = logging.getLogger("sonline.service")


class _Cycle:
    """A request and its response, as far as `HttpToolsProtocol` looks at it."""

    __slots__ = ("disconnected", "keep_alive", "response_complete", "response_started")

    def __init__(self) -> None:
        self.disconnected = self.response_started = self.response_complete = False
        self.keep_alive = True

    @property
    def message_event(self) -> _Cycle:
        """Nobody waits for the rest of the body."""
        return self

    def set(self) -> None:
        """Do nothing."""


Cycle: TypeAlias = "RequestResponseCycle | _Cycle"


class QuickProtocol(HttpToolsProtocol):
    """The protocol of uvicorn for an application with `QuickStarlette.single`."""

    def __init__(self, config: Any, *values: Any, **rest: Any) -> None:
        super().__init__(config, *values, **rest)
        app = config.app
        quick = isinstance(app, QuickStarlette) and not config.access_log
        self._single = app.single if quick else None
        # By head, with the length of the body; shared by all connections.
        self._heads: dict[bytes, tuple[int, Single]] = app.heads if quick else {}
        self._head: tuple[bytes, TimerHandle] | None = None  # a known head that waits for its body
        self._between = True  # no request is incomplete
        self._piece: bytes | None = None  # the bytes being parsed, if they start with a request
        self._parsing = False
        self._whole: RequestResponseCycle | None = None  # a request that may arrive in one piece
        self._date: tuple[Any, bytes] = (None, b"")  # headers of all responses, and their bytes
        self._forwarded: ProxyHeadersMiddleware | None = None
        if config.proxy_headers:
            self._forwarded = ProxyHeadersMiddleware(_nothing, config.forwarded_allow_ips)

    def connection_made(self, transport: Any) -> None:
        """Open a connection."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)

    def data_received(self, data: bytes) -> None:
        """Answer a request whose head is known, or parse a piece of one."""
        if self._head is not None:
            data = self._head[0] + data
            self._head[1].cancel()
            self._head = None
        if self._between:
            end = data.find(_END) + len(_END)
            cached = self._heads.get(data[:end])
            if cached is not None and self._free():
                rest = len(data) - end
                if rest == cached[0]:
                    self._unset_keepalive_if_required()
                    cycle: Any = _Cycle()
                    self.cycle = cycle
                    self._answer(cached[1], cycle, data[end:])
                    return
                if not rest:
                    self._unset_keepalive_if_required()
                    self._head = data, self.loop.call_later(_MOMENT, self._parse_head)
                    return
            self._piece = data
        self._parse(data)

    def _parse_head(self) -> None:
        """Parse a head whose body has not arrived."""
        if self._head is not None:
            (data, timer), self._head = self._head, None
            timer.cancel()
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        self._parsing = True
        super().data_received(data)
        self._parsing, self._piece = False, None
        if self._whole is not None:  # there is more to come
            cycle, self._whole = self._whole, None
            super()._start_asgi_task(cycle, self.app)

    def _free(self) -> bool:
        """Return whether the previous request has been answered, and its response sent."""
        before = self.cycle
        answered = before is None or (before.response_complete and before.keep_alive)
        return answered and not self.flow.write_paused

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a head that waits."""
        if self._head is not None:
            self._head[1].cancel()
            self._head = None
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection, or finish the current request first."""
        self._parse_head()
        super().shutdown()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._between = False
        super().on_message_begin()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        scope = cycle.scope
        # A request that had to wait for its turn is started later, and not by the parser.
        single = self._parsing and self._single is not None and app is self.app
        if single and scope["method"] == "POST" and target(scope["path"]):
            self._whole = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """Answer a request that has arrived in one piece."""
        super().on_message_complete()
        self._between = True
        cycle, self._whole = self._whole, None
        piece, self._piece = self._piece, None
        if cycle is None:
            return
        single = None
        if self._single is not None and len(cycle.body) <= MOST and not self.flow.write_paused:
            single = self._single(cycle.scope)
        if single is None:
            super()._start_asgi_task(cycle, self.app)
            return
        body = bytes(cycle.body)
        if piece is not None and cycle.keep_alive and not self.expect_100_continue:
            self._keep_head(piece, body, single)
        self._answer(single, cycle, body)

    def _keep_head(self, piece: bytes, body: bytes, single: Single) -> None:
        """Cache the head of a request that arrived in one piece, if it has the body's length."""
        end = len(piece) - len(body)
        lengths = [value for name, value in single.scope["headers"] if name == b"content-length"]
        if lengths != [str(len(body)).encode()] or end > _LONGEST or piece.find(_END) + 4 != end:
            return
        if len(self._heads) >= HEADS:
            self._heads.clear()
        self._heads[piece[:end]] = len(body), single

    def _answer(self, single: Single, cycle: Cycle, body: bytes) -> None:
        address = self.client
        if single.forwarded and address is not None and self._forwarded is not None:
            address = _client_of_proxy(self._forwarded, {**single.scope, "client": address})
        single(address, body, partial(self._deliver, cycle))

    def _deliver(self, cycle: Cycle, response: Response | Reply) -> None:
        cycle.response_started = cycle.response_complete = True
        if cycle.disconnected or self.transport.is_closing():
            return
        headers = self.server_state.default_headers
        if self._date[0] is not headers:
            self._date = headers, _lines(headers)
        self.transport.write(
            b"".join(
                (
                    STATUS_LINE[response.status_code],
                    self._date[1],
                    _lines(response.raw_headers),
                    b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n",
                    response.body,
                )
            )
        )
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def _lines(headers: Any) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


class _Flow(FlowControl):
    """Flow control that reads nothing while requests of the same connection wait for their turn.

    uvicorn continues to read after each response, so a client that sends requests without reading
    the responses would fill the memory.
    """

    def __init__(self, transport: Any, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        """Read, unless requests wait; the last of them calls this again."""
        if not self._pipeline:
            super().resume_reading()


def _client_of_proxy(middleware: ProxyHeadersMiddleware, scope: Scope) -> Any:
    """Return the address of the client as a trusted proxy gives it, by uvicorn's middleware."""
    setting = middleware(scope, None, None)  # type: ignore[arg-type]
    try:
        setting.send(None)
    except StopIteration:
        pass
    else:
        setting.close()
    return scope["client"]


async def _nothing(*_: Any) -> None:
    pass
