"""Requests with a single row, without the objects that Starlette makes for each request.

Routing, middleware and the objects of a request take longer than a prediction. Starlette
handles all other requests.
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
Deliver: TypeAlias = Callable[["Response | Reply"], None]

_ACTIONS = ("predict", "learn", "label")


@lru_cache(maxsize=1024)
def target(path: str) -> tuple[str, str] | None:
    """Return the model and the action of a path; None for all other paths.

    Examples
    --------
    >>> target("/v1/models/clicks/learn"), target("/v1/models")
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
    """The headers of a request, decoded when they are needed."""

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw: dict[bytes, bytes] = dict(raw)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a header as text."""
        value = self.raw.get(name.encode())
        return default if value is None else value.decode("latin-1")


class Call:
    """A request with the attributes of Starlette's that the handlers use."""

    __slots__ = ("_address", "_scope", "headers", "method", "path_params", "receive")

    def __init__(
        self,
        scope: Scope,
        name: str,
        headers: _Headers,
        address: tuple[str, int] | None,
        receive: Receive | None = None,
    ) -> None:
        self._scope = scope
        self._address = address
        self.receive = receive
        self.method = "POST"
        self.path_params = {"name": name}
        self.headers = headers

    @property
    def client(self) -> _Client | None:
        """The address of the client."""
        return None if self._address is None else _Client(self._address[0])

    @property
    def url(self) -> _Url:
        """The path."""
        return _Url(self._scope["path"])

    @property
    def query_params(self) -> dict[str, str]:
        """The parameters after the question mark."""
        query = self._scope["query_string"]
        return dict(parse_qsl(query.decode("latin-1"))) if query else {}


class Single:
    """The head of requests with a single row, which differ only in their bodies.

    Parameters
    ----------
    scope : mapping
        ASGI scope.
    name : str
        Name of the model.
    headers : _Headers
        Headers of the scope.
    answer : callable
        Takes a call, a body and a function that delivers the response.
    """

    __slots__ = ("_answer", "_headers", "_name", "forwarded", "scope")

    def __init__(
        self,
        scope: Scope,
        name: str,
        headers: _Headers,
        answer: Callable[[Call, bytes, Deliver], None],
    ) -> None:
        self.scope = scope
        self.forwarded = any(key.startswith(b"x-forwarded-") for key in headers.raw)
        self._name = name
        self._headers = headers
        self._answer = answer

    def __call__(self, address: tuple[str, int] | None, body: bytes, deliver: Deliver) -> None:
        """Answer a request of a client, now or later."""
        self._answer(Call(self.scope, self._name, self._headers, address), body, deliver)


class Reply:
    """A JSON body with status 200: a Starlette response that takes less time."""

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
        await send_response(self, send)


async def send_response(response: Response | Reply, send: Send) -> None:
    """Send a response that is not a stream."""
    start = {
        "type": "http.response.start",
        "status": response.status_code,
        "headers": response.raw_headers,
    }
    await send(start)
    await send({"type": "http.response.body", "body": response.body})


class QuickStarlette(Starlette):
    """An application that answers the three frequent requests before all routes and middleware.

    Parameters
    ----------
    answers : dict
        A coroutine function for each of the three, by name; they raise no errors.
    single : dict
        A function for each of the three that answers a small JSON body with one row. It takes the
        call, the body and a function that delivers the answer, and raises no errors.
    **rest
        Of Starlette.
    """

    def __init__(
        self,
        answers: dict[str, Callable[[Any], Awaitable[Response | Reply]]],
        single: dict[str, Callable[[Call, bytes, Deliver], None]],
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self._answers = answers
        self._single = single
        self.heads: dict[bytes, tuple[int, Single]] = {}  # of requests, for `QuickProtocol`

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        match = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            match = target(scope["path"])
        if match is None:
            return await super().__call__(scope, receive, send)
        name, action = match
        headers, address = _Headers(scope["headers"]), scope.get("client")
        response = await self._answers[action](Call(scope, name, headers, address, receive))
        return await send_response(response, send)

    def single(self, scope: Scope) -> Single | None:
        """Return the answerer of small bodies after this head; None if Starlette must handle them.

        Parameters
        ----------
        scope : mapping
            ASGI scope of a request with the method POST.
        """
        match = target(scope["path"])
        if match is None:
            return None
        name, action = match
        headers = _Headers(scope["headers"])
        raw = headers.raw
        if raw.get(b"content-type") != b"application/json" or b"content-encoding" in raw:
            return None
        return Single(scope, name, headers, self._single[action])
