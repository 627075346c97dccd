"""The service as an ASGI application: routes, errors and pages, on Starlette."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


from sonline.service.answers import Answers, Handler, as_json, error_response, failure
from sonline.service.bodies import Limits
from sonline.service.metrics import Metrics
from sonline.service.model_handlers import ModelHandlers
from sonline.service.openapi import OPERATIONS, document
from sonline.service.quick import Call, Deliver, QuickStarlette, Reply
from sonline.service.reading import Reader
from sonline.service.row_handlers import RowHandlers
from sonline.service.security import Guard
from sonline.service.service import Service
from sonline.service.settings import Settings


def create_app(
    folder: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    limits: Limits | None = None,
    tokens_required: bool = True,
    rate: float = 0.0,
    follow: bool = False,
    service: Service | None = None,
) -> Starlette:
    """Return the service as an ASGI application.

    Parameters
    ----------
    folder : path-like
        For models, logs and tokens; created if missing. One process at a time.
    settings : Settings, optional
        How long rows and the log are kept, and how often snapshots are written.
    limits : Limits, optional
        How large bodies may be.
    tokens_required : bool, default=True
        Whether every request needs a token. If not, requests to localhost need none until the first
        token is created.
    rate : float, default=0
        Requests per second and token; 0 is no limit.
    follow : bool, default=False
        Only predict, with models that follow the logs of the process that writes.
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
    limits = limits or Limits()
    service = service or Service(Path(folder), settings or Settings(), follow=follow)
    metrics, reader = Metrics(service), Reader(limits)
    answers = Answers(Guard(service.tokens, tokens_required, rate), metrics)
    rows = RowHandlers(service, reader, metrics)
    models = ModelHandlers(service, reader, metrics)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.start()

        sampling = asyncio.create_task(_sample(service, reader))
        try:
            yield
        finally:

            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling
            await run_in_threadpool(service.close)

    handlers: dict[str, Handler] = {
        "healthy": _healthy,
        "ready": lambda _: _ready(service),
        "openapi": lambda _: _openapi(limits),
        "metrics": models.metrics,
        "models": models.models,
        "create": models.create,
        "model": models.model,
        "predict": rows.predict,
        "learn": rows.learn,
        "label": rows.label,
        "stats": models.stats,
        "events": models.events,
        "add_version": models.add_version,
        "roll_back": models.roll_back,
        "snapshot": models.snapshot,
        "remove_version": models.remove_version,
        "promote": models.promote,
        "download": models.download,
    }
    singles = {"predict": rows.predict_one, "learn": rows.learn_one, "label": rows.label_one}
    scopes = {operation.id: operation.scope for operation in OPERATIONS}

    def answered(action: str) -> Callable[[Any], Awaitable[Response | Reply]]:
        return lambda request: answers(request, scopes[action], handlers[action])

    def single(action: str) -> Callable[[Call, bytes, Deliver], None]:
        scope, handler = str(scopes[action]), singles[action]
        return lambda call, body, deliver: answers.now(call, scope, handler, body, deliver)

    by_path: dict[str, dict[str, Callable[[Any], Awaitable[Response | Reply]]]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = answered(operation.id)
    app = QuickStarlette(
        {action: answered(action) for action in singles},
        {action: single(action) for action in singles},
        routes=[*(_route(path, methods) for path, methods in by_path.items()), *_pages()],
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused, Exception: failure},
    )
    app.state.service = service
    return app


def _route(path: str, methods: dict[str, Callable[[Any], Awaitable[Response | Reply]]]) -> Route:
    """Return the route of a path; HEAD is GET without the body, other methods get a 405."""

    async def endpoint(request: Request) -> Response | Reply:
        if request.method != "HEAD":
            return await methods[request.method](request)
        answer = await methods["GET"](request)
        head = Response(status_code=answer.status_code)
        head.raw_headers = answer.raw_headers
        return head

    return Route(path, endpoint, methods=list(methods))


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        allowed = (getattr(error, "headers", None) or {}).get("Allow", "another method")
        return error_response(405, f"this path takes {allowed}, not {request.method}")
    return error_response(status, {404: "there is no such path"}.get(status, "refused"))


async def _sample(service: Service, reader: Reader) -> None:
    """Sample the models, and refuse bodies that take too long, once a second."""
    while True:
        reader.stop_slow()
        if service.follow:
            await run_in_threadpool(service.refresh)
        for watched in list(service.watched.values()):
            watched.sample()
        await asyncio.sleep(1.0)


async def _healthy(request: Request) -> Response:
    return as_json({"healthy": True})


async def _ready(service: Service) -> Response:
    models = {
        name: {"ready": engine.ready, "lag": engine.lag, "problem": engine.problem}
        for name, engine in service.engines.items()
    }
    return as_json({"ready": service.ready, "models": models}, 200 if service.ready else 503)


async def _openapi(limits: Limits) -> Response:
    return as_json(document(limits))


_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def _pages() -> list[Route]:
    """Return a route for each file of the page."""
    routes = []
    for file in files("sonline.service").joinpath("page").iterdir():
        kind = _TYPES.get(Path(file.name).suffix)
        if kind is None:
            continue
        headers = {
            "content-security-policy": _POLICY,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cache-control": "no-cache",
        }
        content = file.read_bytes()

        def page(
            _: Request, content: bytes = content, kind: str = kind, headers: Any = headers
        ) -> Response:
            return Response(content, media_type=kind, headers=headers)

        path = {"index.html": "/", "api.html": "/docs"}.get(file.name, f"/page/{file.name}")
        routes.append(Route(path, page))
    return routes
