"""The three requests that come by the thousand, without routing and without objects for them.

What Starlette does for a request takes longer than a prediction. Everything else goes its way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.responses import Response

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_ACTIONS = ("predict", "learn", "label")


@lru_cache(maxsize=1024)
def _parse(path: str) -> tuple[str, str] | None:
    """Return the model and the action of a path; None if it is another one.

    Examples
    --------
    >>> _parse("/v1/models/clicks/learn"), _parse("/v1/models")
    (('clicks', 'learn'), None)
    """
    parts = path.split("/")
    if len(parts) != 5 or parts[:3] != ["", "v1", "models"] or parts[4] not in _ACTIONS:
        return None
    return (parts[3], parts[4]) if parts[3] else None


class _Client(NamedTuple):
    host: str


class _Url(NamedTuple):
    path: str


class _Headers:
    """The headers of a request, decoded when they are asked for."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Any) -> None:
        self._raw: dict[bytes, bytes] = dict(raw)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a header as text."""
        value = self._raw.get(name.encode())
        return default if value is None else value.decode("latin-1")


class Call:
    """A request as the handlers see it: what they need of Starlette's."""

    __slots__ = ("_scope", "headers", "method", "path_params", "receive")

    def __init__(self, scope: Scope, receive: Receive, name: str) -> None:
        self._scope = scope
        self.receive = receive
        self.method = "POST"
        self.path_params = {"name": name}
        self.headers = _Headers(scope["headers"])

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


class Reply:
    """A body of JSON with status 200: what a Starlette response is, in less time."""

    __slots__ = ("body", "media_type")
    status_code = 200

    def __init__(self, body: bytes, media_type: bytes = b"application/json") -> None:
        self.body = body
        self.media_type = media_type

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers."""
        return [
            (b"content-length", str(len(self.body)).encode()),
            (b"content-type", self.media_type),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, where Starlette has routed the request."""
        await _send(self, send)


async def _send(response: Response | Reply, send: Send) -> None:
    start = {
        "type": "http.response.start",
        "status": response.status_code,
        "headers": response.raw_headers,
    }
    await send(start)
    await send({"type": "http.response.body", "body": response.body})


class QuickStarlette(Starlette):
    """An application that answers the three requests before all routes and middleware.

    Parameters
    ----------
    answers : dict
        What answers each of the three, by name.
    failed : callable
        Answers if that raises an error that nobody expected.
    **rest
        Of Starlette.
    """

    def __init__(
        self,
        answers: dict[str, Callable[[Any], Awaitable[Response | Reply]]],
        failed: Callable[[Any, Exception], Awaitable[Response]],
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self._answers = answers
        self._failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
            return await super().__call__(scope, receive, send)
        target = _parse(scope["path"])
        if target is None:
            return await super().__call__(scope, receive, send)
        name, action = target
        call = Call(scope, receive, name)
        response: Response | Reply
        try:
            response = await self._answers[action](call)
        except Exception as error:  # noqa: BLE001 - answered with 500, and written to the log
            response = await self._failed(call, error)
        return await _send(response, send)
