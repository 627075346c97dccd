"""The three requests that come by the thousand, without routing and without objects for them.

What Starlette does for a request takes longer than a prediction. Everything else goes its way.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.responses import Response

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_PATH = re.compile(r"/v1/models/([^/]+)/(predict|learn|label)")


class _Client(NamedTuple):
    host: str


class _Url(NamedTuple):
    path: str


class Call:
    """A request as the handlers see it: what they need of Starlette's."""

    __slots__ = ("_receive", "_scope", "headers", "method", "path_params")

    def __init__(self, scope: Scope, receive: Receive, name: str) -> None:
        self._scope = scope
        self._receive = receive
        self.method = "POST"
        self.path_params = {"name": name}
        self.headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }

    @property
    def client(self) -> _Client | None:
        """Who asks."""
        client = self._scope.get("client")
        return None if client is None else _Client(client[0])

    @property
    def url(self) -> _Url:
        """What is asked for."""
        return _Url(self._scope["path"])

    @property
    def query_params(self) -> dict[str, str]:
        """What stands behind the question mark."""
        query = self._scope["query_string"]
        return dict(parse_qsl(query.decode("latin-1"))) if query else {}

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return


class Quick:
    """Middleware that answers the three requests.

    Parameters
    ----------
    app : ASGI application
        For all other requests.
    answers : dict
        What answers each of the three, by name.
    failed : callable
        Answers if that raises an error that nobody expected.
    """

    def __init__(
        self,
        app: Asgi,
        answers: dict[str, Callable[[Any], Awaitable[Response]]],
        failed: Callable[[Any, Exception], Awaitable[Response]],
    ) -> None:
        self._app = app
        self._answers = answers
        self._failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
            return await self._app(scope, receive, send)
        found = _PATH.fullmatch(scope["path"])
        if found is None:
            return await self._app(scope, receive, send)
        name, kind = found.groups()
        call = Call(scope, receive, name)
        try:
            response = await self._answers[kind](call)
        except Exception as error:  # noqa: BLE001 - answered with 500, and written to the log
            response = await self._failed(call, error)
        start = {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": response.raw_headers,
        }
        await send(start)
        return await send({"type": "http.response.body", "body": response.body})
