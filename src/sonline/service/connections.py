"""Connections: how many there may be, how long they may wait, and how much they may send ahead.

uvicorn has no such limits. It makes its protocols with ``Config.http``; here each is wrapped by one
that knows when a request is being answered.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import OrderedDict
from typing import Any

from sonline.service.exchange import Message, Receive, Scope, Send

WAIT_SECONDS = 20.0  # for the head of a request, the first one or the next
BODY_SECONDS = 30.0  # from the head of a request to the end of its body
CONNECTIONS = 10_000
_RESERVED = 100  # file descriptors that are not for connections
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b'connection: close\r\ncontent-length: 33\r\n\r\n{"error": "too many connections"}'
)


def most_connections() -> int:
    """Return how many connections there may be, with as many file descriptors as are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + _RESERVED
    if soft not in (resource.RLIM_INFINITY, -1) and soft < wanted:
        soft = wanted if hard in (resource.RLIM_INFINITY, -1) else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(10, soft - _RESERVED)
    return CONNECTIONS


class Connections:
    """All connections of a server.

    Parameters
    ----------
    app : callable
        ASGI application.
    limit : int
        How many connections there may be. If there are more, the one that has waited longest for a
        request is closed; if none waits, the new one is refused.
    """

    def __init__(self, app: Any, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._open: dict[Any, Connection] = {}  # by the address of the client
        self._waiting: OrderedDict[Connection, None] = OrderedDict()  # for a request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note that a request has begun, and answer it."""
        connection = self._open.get(scope.get("client"))
        if connection is None:
            await self._app(scope, receive, send)
            return
        self._waiting.pop(connection, None)
        connection.answers = True
        connection.begun += 1
        connection.since = time.monotonic()

        async def wanted() -> Message:
            connection.wants = True
            if connection.stopped:
                connection.deliver_soon()
            try:
                return await receive()
            finally:
                connection.wants = False

        try:
            await self._app(scope, wanted, send)
        finally:
            connection.answers = False
            if connection.client in self._open:
                connection.since = time.monotonic()
                self._waiting[connection] = None
                if connection.stopped:
                    connection.deliver_soon()

    def opened(self, connection: Connection) -> bool:
        """Note a new connection, and return whether it may stay."""
        if len(self._open) >= self._limit:
            if not self._waiting:
                return False
            self._waiting.popitem(last=False)[0].abort()
        self._open[connection.client] = connection
        self._waiting[connection] = None
        return True

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        if self._open.get(connection.client) is connection:
            del self._open[connection.client]
        self._waiting.pop(connection, None)

    def close_slow(self) -> None:
        """Close connections whose client sends nothing, or a body that takes too long."""
        now = time.monotonic()
        for connection in list(self._open.values()):
            limit = BODY_SECONDS if connection.answers else WAIT_SECONDS
            if (connection.wants or not connection.answers) and now - connection.since > limit:
                self._waiting.pop(connection, None)
                connection.abort()  # even if the client has not read the last response


class Connection(asyncio.Protocol):
    """A connection of uvicorn that `Connections` knows.

    Bytes that arrive while a request is answered are kept until they are wanted, and meanwhile
    nothing more is read. uvicorn would read on, so a client that sends requests without reading the
    responses would fill the memory.

    Parameters
    ----------
    connections : Connections
        All of them.
    protocol : asyncio.Protocol
        The one of uvicorn.
    """

    def __init__(self, connections: Connections, protocol: Any) -> None:
        self._connections = connections
        self._protocol = protocol
        self._kept = b""
        self.stopped = False  # nothing is read
        self.begun = 0  # requests
        self._paused = False  # by uvicorn
        self.client: Any = None
        self.answers = self.wants = False  # a request is being answered, and waits for its body
        self.since = time.monotonic()  # the request began, or the last one ended

    def connection_made(self, transport: Any) -> None:
        """Open a connection, or refuse it."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.client = tuple(peer[:2]) if isinstance(peer, (tuple, list)) else self
        if self._connections.opened(self):
            self._protocol.connection_made(_Transport(transport, self))
        else:
            self.client = None
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        if self.client is not None:
            self._connections.closed(self)
            self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, or keep them until they are wanted."""
        if self._kept or (self.answers and not self.wants):
            self._kept += data
            self._stop()
        else:
            self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Note that the client sends nothing more."""
        ends: bool | None = self._protocol.eof_received()
        return ends

    def pause_writing(self) -> None:
        """Send nothing: the client does not read."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Send on."""
        self._protocol.resume_writing()

    def deliver_soon(self) -> None:
        """Pass on what was kept and read on, unless uvicorn goes on with what it has."""
        soon = asyncio.get_running_loop().call_soon
        soon(soon, self._deliver, self.begun)  # uvicorn begins the next request meanwhile

    def _deliver(self, begun: int) -> None:
        if not (self.wants or (begun == self.begun and not self.answers)):
            return
        kept, self._kept = self._kept, b""
        if kept:
            self._protocol.data_received(kept)
        if not self._paused:
            self.stopped = False
            self._transport.resume_reading()

    def _stop(self) -> None:
        self.stopped = True
        self._transport.pause_reading()

    def pause_reading(self) -> None:
        """Read nothing: uvicorn has enough."""
        self._paused = True
        self._stop()

    def resume_reading(self) -> None:
        """Read on when uvicorn has nothing left."""
        self._paused = False
        self.deliver_soon()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()


class _Transport:
    """A transport that reads when its connection allows it, and sends head and body together."""

    def __init__(self, transport: Any, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection
        self._head = b""  # of a response whose body will follow
        self.pause_reading = connection.pause_reading
        self.resume_reading = connection.resume_reading
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Send bytes, with those before them."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif self._connection.answers:
            self._head = data
            asyncio.get_running_loop().call_soon(self._send_head)
        else:
            self._transport.write(data)

    def _send_head(self) -> None:
        if self._head and not self._transport.is_closing():
            self._transport.write(self._head)
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
