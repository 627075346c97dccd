"""The service as an ASGI application: one route and one handler for each operation."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from sonline.service.answers import Answers, Handler, log
from sonline.service.bodies import Limits
from sonline.service.exchange import Receive, Reply, Request, Scope, Send, as_json, error_reply
from sonline.service.metrics import Metrics
from sonline.service.model_handlers import ModelHandlers
from sonline.service.openapi import OPERATIONS, document
from sonline.service.reading import BodyReader
from sonline.service.row_handlers import RowHandlers
from sonline.service.security import Guard
from sonline.service.service import Service
from sonline.service.settings import Settings

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def create_app(
    folder: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    limits: Limits | None = None,
    tokens_required: bool = True,
    rate: float = 0.0,
    follow: bool = False,
    service: Service | None = None,
) -> App:
    """Return the service as an ASGI application.

    Parameters
    ----------
    folder : path-like
        For models and tokens; created if missing. One process at a time.
    settings : Settings, optional
        How long rows and events are kept, and how often snapshots are written.
    limits : Limits, optional
        How large bodies may be.
    tokens_required : bool, default=True
        Whether every request needs a token. If not, requests to localhost need none until the first
        token is created.
    rate : float, default=0
        Requests per second and token; 0 is no limit.
    follow : bool, default=False
        Only predict, with models that follow the process that writes.
    service : Service, optional
        An open one, which the application will close.

    Examples
    --------
    >>> import tempfile
    >>> from starlette.testclient import TestClient
    >>> from sonline.service import create_app
    >>> app = create_app(tempfile.mkdtemp(), tokens_required=False)
    >>> with TestClient(app, base_url="http://localhost") as client:
    ...     made = client.post("/v1/models", json={"name": "clicks"})
    ...     learned = client.post("/v1/models/clicks/learn", json={"x": {"price": 3.5}, "y": 1})
    ...     client.post("/v1/models/clicks/predict", json={"x": {"price": 3.5}}).json()["version"]
    1
    """
    service = service or Service(Path(folder), settings or Settings(), follow=follow)
    return App(service, limits or Limits(), Guard(service.tokens, tokens_required, rate))


class App:
    """The service as an ASGI application.

    Parameters
    ----------
    service : Service
        Started and closed with the application.
    limits : Limits
        How large bodies may be.
    guard : Guard
        Checks whether requests are allowed.
    """

    def __init__(self, service: Service, limits: Limits, guard: Guard) -> None:
        self.service = service
        self._guard = guard
        reader = BodyReader(limits)
        self.each_second: Callable[[], None] = lambda: None  # for the server
        metrics = Metrics(service)
        self._answers = Answers(guard, metrics)
        rows = RowHandlers(service, reader, metrics)
        models = ModelHandlers(service, reader, metrics)

        async def healthy(_: Request) -> Reply:
            return as_json({"healthy": True})

        async def openapi(_: Request) -> Reply:
            return as_json(document(limits))

        others: dict[str, Handler] = {"healthy": healthy, "ready": self._ready, "openapi": openapi}
        self._routes: dict[tuple[str, ...], dict[str, tuple[str | None, Handler]]] = {}
        for operation in OPERATIONS:
            owner = rows if hasattr(rows, operation.id) else models
            handler = others.get(operation.id) or getattr(owner, operation.id)
            path = tuple(operation.path.split("/"))
            self._routes.setdefault(path, {})[operation.method] = operation.scope, handler
        for address, page in _pages().items():
            self._routes[tuple(address.split("/"))] = {"GET": (None, page)}
        self._match = lru_cache(maxsize=1024)(self._find)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and stop with the server."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._live(receive, send)
            else:
                await send({"type": "websocket.close"})
            return
        method = scope["method"]
        methods, parameters = self._match(scope["path"].removeprefix(scope.get("root_path", "")))
        chosen = methods.get("GET" if method == "HEAD" else method)
        if chosen is not None:
            reply = await self._answers(Request(scope, receive, parameters), *chosen)
        elif methods:
            allowed = ", ".join(methods)
            message = f"this path takes {allowed}, not {method[:20]}"
            reply = error_reply(405, message, {"allow": allowed})
        else:
            reply = error_reply(404, "there is no such path")
        await reply.send(receive, send, head_only=method == "HEAD")

    def _find(self, path: str) -> tuple[dict[str, tuple[str | None, Handler]], dict[str, str]]:
        """Return the methods of a path, none if there is no such path, and its parameters."""
        parts = path.split("/")
        for pattern, methods in self._routes.items():
            if len(pattern) == len(parts) and all(
                want == part or (want[:1] == "{" and part)
                for want, part in zip(pattern, parts, strict=True)
            ):
                pairs = zip(pattern, parts, strict=True)
                return methods, {want[1:-1]: part for want, part in pairs if want[:1] == "{"}
        return {}, {}

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start with the server, and stop with it."""
        await receive()
        try:
            self.service.start()
        except BaseException as error:
            await asyncio.to_thread(self.service.close)
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        def soon(work: Callable[[], None]) -> None:
            """Wake a writer when all requests that arrived together are in the queue."""
            loop.call_soon(work) if threading.get_ident() == thread else work()

        self.service.wake_with(soon)
        sampling = asyncio.create_task(self._sample())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.service.wake_with(lambda work: work())
        sampling.cancel()
        with suppress(asyncio.CancelledError):
            await sampling
        await asyncio.to_thread(self.service.close)
        await send({"type": "lifespan.shutdown.complete"})

    async def _sample(self) -> None:
        """Sample the models, and close slow connections, once a second."""
        while True:
            self.each_second()
            try:
                if self.service.follow:
                    await asyncio.to_thread(self.service.refresh)
                self.service.sample()
            except Exception:  # noqa: BLE001 - the next second may be better
                log.exception("error")
            await asyncio.sleep(1.0)

    async def _ready(self, request: Request) -> Reply:
        """Return whether all models are ready; which they are is for those who may know."""
        ready = self.service.ready
        content: dict[str, object] = {"ready": ready}
        if self._guard.allows(request, "predict"):
            content["models"] = {
                name: {"ready": engine.ready, "lag": engine.lag, "problem": engine.problem}
                for name, engine in self.service.engines.items()
            }
        return as_json(content, 200 if ready else 503)


def _pages() -> dict[str, Handler]:
    """Return a handler for each file of the page."""
    pages: dict[str, Handler] = {}
    for file in files("sonline.service").joinpath("page").iterdir():
        kind = _TYPES.get(Path(file.name).suffix)
        if kind is None:
            continue

        async def page(_: Request, content: bytes = file.read_bytes(), kind: str = kind) -> Reply:
            return Reply(content, kind=kind, headers=_PAGE_HEADERS)

        path = {"index.html": "/", "api.html": "/docs"}.get(file.name, f"/page/{file.name}")
        pages[path] = page
    return pages
