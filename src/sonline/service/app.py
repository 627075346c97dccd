"""The service as an ASGI application: routes, errors and pages, on Starlette."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sonline.errors import SonlineError
from sonline.service.admission import BusyError, Settings, UnavailableError, UnknownIdError
from sonline.service.bodies import Limits, MediaTypeError, TooLargeError
from sonline.service.follower import ReadOnlyError
from sonline.service.handlers import Api, as_json, log
from sonline.service.metrics import Metrics
from sonline.service.openapi import document
from sonline.service.quick import QuickStarlette, Reply
from sonline.service.security import DeniedError, Guard
from sonline.service.service import Service, UnknownModelError


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
        Where models, logs and tokens are; made if it is not there. One process at a time.
    settings : Settings, optional
        How long things are kept, and how often snapshots are made.
    limits : Limits, optional
        How large bodies may be.
    tokens_required : bool, default=True
        Whether every request needs a token. If not, requests to localhost need none as long as
        none has been made.
    rate : float, default=0
        Requests a second of each token; 0 is no limit.
    follow : bool, default=False
        Only answer predictions, by models that follow the logs of the process that writes.
    service : Service, optional
        One that has been opened, and is closed by the application.

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
    guard = Guard(service.store, tokens_required, rate)
    metrics = Metrics(service)
    api = Api(service, guard, limits, metrics)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.start()
        sampling = asyncio.create_task(_sample(service, api))
        try:
            yield
        finally:
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling
            await run_in_threadpool(service.close)

    def checked(
        scope: str | None, handler: Callable[[Request], Any]
    ) -> Callable[[Request], Awaitable[Response | Reply]]:
        return lambda request: _answered(request, api, scope, handler)

    def route(path: str, scope: str | None, **methods: Callable[[Request], Any]) -> Route:
        async def endpoint(request: Request) -> Response | Reply:
            return await checked(scope, methods[request.method.lower()])(request)

        return Route(path, endpoint, methods=[method.upper() for method in methods])

    model = "/v1/models/{name}"
    version = model + "/versions/{version:int}"
    often = {
        "predict": checked("predict", api.predict),
        "learn": checked("learn", api.learn),
        "label": checked("learn", api.label),
    }
    routes = [
        route(f"{model}/predict", "predict", post=api.predict),
        route(f"{model}/learn", "learn", post=api.learn),
        route(f"{model}/label", "learn", post=api.label),
        route("/healthz", None, get=_healthy),
        route("/readyz", None, get=lambda _: _ready(service)),
        route("/metrics", "predict", get=api.prometheus),
        route("/openapi.json", None, get=lambda _: _openapi(limits)),
        route("/v1/models", "predict", get=api.models),
        route("/v1/models", "admin", post=api.create),
        route(model, "predict", get=api.model),
        route(f"{model}/stats", "predict", get=api.stats),
        route(f"{model}/events", "predict", get=api.events),
        route(f"{model}/versions", "admin", post=api.add_version),
        route(f"{model}/rollback", "admin", post=api.roll_back),
        route(f"{model}/snapshot", "admin", post=api.snapshot),
        route(version, "admin", delete=api.remove_version),
        route(f"{version}/promote", "admin", post=api.promote),
        route(f"{version}/file", "admin", get=api.download),
        *_pages(),
    ]
    app = QuickStarlette(
        often,
        _failed,
        routes=_one_per_path(routes),
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.state.service = service
    return app


def _one_per_path(routes: list[Route]) -> list[Route]:
    """Put methods of one path together, so that the others are answered with 405."""
    by_path: dict[str, list[Route]] = {}
    for one in routes:
        by_path.setdefault(one.path, []).append(one)
    merged = []
    for path, some in by_path.items():
        if len(some) == 1:
            merged += some
            continue
        ends = {method: one.endpoint for one in some for method in one.methods or ()}

        def chosen(ends: dict[str, Any]) -> Callable[[Request], Awaitable[Response]]:
            async def endpoint(request: Request) -> Response:
                answer: Response = await ends[request.method](request)
                return answer

            return endpoint

        merged.append(Route(path, chosen(ends), methods=list(ends)))
    return merged


_STATUS: dict[type[Exception], int] = {  # the first that fits; all others are 503
    UnknownIdError: 404,
    UnknownModelError: 404,
    TooLargeError: 413,
    MediaTypeError: 415,
    ReadOnlyError: 421,
    BusyError: 429,
    UnavailableError: 503,
    ValueError: 400,
}


async def _answered(
    request: Request, api: Api, scope: str | None, handler: Callable[[Request], Any]
) -> Response | Reply:
    """Check who asks, and turn errors into answers."""
    started, client = time.perf_counter(), ""
    retry: float | None = None
    try:
        if scope is not None:
            client = api.guard.check(request, scope)
        response: Response | Reply = await handler(request)
    except DeniedError as error:
        retry = error.retry
        response = _error(error.status, str(error))
    except ClientDisconnect:
        response = _error(400, "the client went away")
    except SonlineError as error:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 503)
        response = _error(status, str(error))
        retry = 1.0 if status in (429, 503) else None
    seconds = time.perf_counter() - started
    api.metrics.answered(request.method, response.status_code, seconds)
    if isinstance(response, Reply):
        return response
    if retry is not None:
        response.headers["retry-after"] = f"{max(1, round(retry))}"
    if response.status_code == 401:
        response.headers["www-authenticate"] = "Bearer"
    # Too many requests would be too many lines; /metrics counts them.
    refused = response.status_code >= 400 and response.status_code != 429
    if refused and log.isEnabledFor(logging.INFO):
        facts = {
            "method": request.method,
            "path": request.url.path[:200],
            "status": response.status_code,
            "client": client,
            "seconds": round(seconds, 6),
        }
        log.info("request", extra={"facts": facts})
    return response


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _error(status, {404: "no such path", 405: "no such method here"}.get(status, "refused"))


async def _failed(request: Request, error: Exception) -> Response:
    log.error("error", exc_info=error, extra={"facts": {"path": request.url.path[:200]}})
    return _error(500, "an error of the service; its log says more")


async def _sample(service: Service, api: Api) -> None:
    """Look at the models, and for bodies that come too slowly, once a second."""
    while True:
        api.stop_slow_bodies()
        if service.follow:
            await run_in_threadpool(service.refresh)
        for watched in list(service.watched.values()):
            watched.sample()
        await asyncio.sleep(1.0)


async def _healthy(request: Request) -> Response:
    return as_json({"healthy": True})


async def _ready(service: Service) -> Response:
    models = {
        name: {"ready": engine.ready, "lag": engine.lag, "problem": engine.failure or engine.disk}
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


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": message[:1000]}, status)
