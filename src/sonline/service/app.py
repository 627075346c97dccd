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

from sonline.service.admission import at_once
from sonline.service.answers import (
    Answers,
    EndOfTurn,
    Later,
    as_json,
    error_response,
    failure,
)
from sonline.service.bodies import Limits
from sonline.service.metrics import Metrics
from sonline.service.model_handlers import ModelHandlers
from sonline.service.openapi import document
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
    answers = Answers(Guard(service.store, tokens_required, rate), metrics)
    rows = RowHandlers(service, reader, metrics)
    models = ModelHandlers(service, reader, metrics)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.start()
        service.put_off_with(EndOfTurn())
        sampling = asyncio.create_task(_sample(service, reader))
        try:
            yield
        finally:
            service.put_off_with(at_once)
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling
            await run_in_threadpool(service.close)

    def answered(
        scope: str | None, handler: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[Any], Awaitable[Response | Reply]]:
        return lambda request: answers(request, scope, handler)

    def route(path: str, scope: str | None, **methods: Callable[[Request], Any]) -> Route:
        async def endpoint(request: Request) -> Response | Reply:
            return await answers(request, scope, methods[request.method.lower()])

        return Route(path, endpoint, methods=[method.upper() for method in methods])

    model = "/v1/models/{name}"
    version = model + "/versions/{version}"
    frequent = {
        "predict": ("predict", rows.predict, rows.predict_one),
        "learn": ("learn", rows.learn, rows.learn_one),
        "label": ("learn", rows.label, rows.label_one),
    }
    routes = [
        *(
            route(f"{model}/{name}", scope, post=many)
            for name, (scope, many, _) in frequent.items()
        ),
        route("/healthz", None, get=_healthy),
        route("/readyz", None, get=lambda _: _ready(service)),
        route("/metrics", "predict", get=models.prometheus),
        route("/openapi.json", None, get=lambda _: _openapi(limits)),
        route("/v1/models", "predict", get=models.models),
        route("/v1/models", "admin", post=models.create),
        route(model, "predict", get=models.model),
        route(f"{model}/stats", "predict", get=models.stats),
        route(f"{model}/events", "predict", get=models.events),
        route(f"{model}/versions", "admin", post=models.add_version),
        route(f"{model}/rollback", "admin", post=models.roll_back),
        route(f"{model}/snapshot", "admin", post=models.snapshot),
        route(version, "admin", delete=models.remove_version),
        route(f"{version}/promote", "admin", post=models.promote),
        route(f"{version}/file", "admin", get=models.download),
        *_pages(),
    ]
    app = QuickStarlette(
        {name: answered(scope, handler) for name, (scope, handler, _) in frequent.items()},
        {name: _single(answers, scope, handler) for name, (scope, _, handler) in frequent.items()},
        routes=_one_per_path(routes),
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.state.service = service
    return app


def _single(
    answers: Answers, scope: str, handler: Callable[[Any, bytes], Reply | Later]
) -> Callable[[Call, bytes, Deliver], None]:
    """Return the function that answers a request with one row."""

    def answer(call: Call, body: bytes, deliver: Deliver) -> None:
        answers.now(call, scope, handler, body, deliver)

    return answer


def _one_per_path(routes: list[Route]) -> list[Route]:
    """Combine the methods of each path, so that other methods are answered with 405."""
    by_path: dict[str, list[Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    merged = []
    for path, some in by_path.items():
        if len(some) == 1:
            merged += some
            continue
        ends = {method: route.endpoint for route in some for method in route.methods or ()}

        def chosen(ends: dict[str, Any]) -> Callable[[Request], Awaitable[Response]]:
            async def endpoint(request: Request) -> Response:
                answer: Response = await ends[request.method](request)
                return answer

            return endpoint

        merged.append(Route(path, chosen(ends), methods=list(ends)))
    return merged


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        allowed = (getattr(error, "headers", None) or {}).get("Allow", "another method")
        return error_response(405, f"this path takes {allowed}, not {request.method}")
    return error_response(status, {404: "there is no such path"}.get(status, "refused"))


async def _failed(request: Request, error: Exception) -> Response:
    return failure(request, error)


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
