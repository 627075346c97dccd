"""Requests and replies: what the handlers see of ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from sonline.service.bodies import encode

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
JSON, FILE = "application/json", "application/octet-stream"
_JSON = (b"content-type", JSON.encode())


class Request:
    """A request of HTTP.

    Parameters
    ----------
    scope : mapping
        ASGI scope.
    receive : callable
        Returns the next piece of the body.
    parameters : dict
        Those of the path, such as the name of a model.
    """

    __slots__ = ("_headers", "_scope", "method", "parameters", "path", "receive")

    def __init__(self, scope: Scope, receive: Receive, parameters: dict[str, str]) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.parameters = parameters
        self.receive = receive
        self._scope = scope
        self._headers: dict[bytes, bytes] = dict(scope["headers"])

    def header(self, name: bytes) -> str | None:
        """Return a header as text; None if it is not there."""
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def client(self) -> str:
        """The address of the client."""
        address = self._scope.get("client")
        return address[0] if address else "?"

    @property
    def query(self) -> dict[str, str]:
        """The parameters after the question mark."""
        text = self._scope["query_string"]
        return dict(parse_qsl(text.decode("latin-1"))) if text else {}


class Reply:
    """A response with a body, or with pieces of one that are sent as they are made."""

    __slots__ = ("body", "headers", "pieces", "status")

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        kind: str = JSON,
        headers: dict[str, str] | None = None,
        pieces: AsyncIterator[bytes] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.pieces = pieces
        self.headers = [_JSON if kind is JSON else (b"content-type", kind.encode())]
        if pieces is None:
            self.headers.append((b"content-length", b"%d" % len(body)))
        if headers:
            for name, value in headers.items():
                self.headers.append((name.encode(), value.encode("latin-1")))

    async def send(self, receive: Receive, send: Send, head_only: bool = False) -> None:
        """Send it, or its head only."""
        start = {"type": "http.response.start", "status": self.status, "headers": self.headers}
        await send(start)
        if self.pieces is not None and not head_only:
            await self._send_pieces(receive, send)
        await send({"type": "http.response.body", "body": b"" if head_only else self.body})

    async def _send_pieces(self, receive: Receive, send: Send) -> None:
        """Send the pieces until there are no more, or the client has gone away."""
        gone = asyncio.ensure_future(_gone(receive))
        try:
            while self.pieces is not None:
                piece = asyncio.ensure_future(anext(self.pieces, None))
                await asyncio.wait((gone, piece), return_when=asyncio.FIRST_COMPLETED)
                if gone.done() or (data := await piece) is None:
                    piece.cancel()
                    break
                await send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            gone.cancel()


async def _gone(receive: Receive) -> None:
    """Wait until the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def as_json(content: Any, status: int = 200) -> Reply:
    """Return a response with JSON."""
    return Reply(encode(content), status)


def error_reply(
    status: int, message: str, headers: dict[str, str] | None = None, **where: Any
) -> Reply:
    """Return an error as JSON; ``where`` are the row and the field, if it is about one row."""
    return Reply(encode({"error": message[:1000], **where}), status, headers=headers)
