"""Handlers of the requests about models and versions, and of those that watch them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from sonline import persistence
from sonline.labels import token_of
from sonline.model import Model
from sonline.service import bodies
from sonline.service.answers import Later
from sonline.service.bodies import NewModel, NewVersion
from sonline.service.exchange import FILE, JSON, Reply, Request, as_json
from sonline.service.metrics import Metrics
from sonline.service.reading import BodyReader
from sonline.service.service import Service, UnknownModelError
from sonline.service.versions import new_model


class ModelHandlers:
    """Handlers of requests about models, versions and metrics."""

    def __init__(self, service: Service, reader: BodyReader, metrics: Metrics) -> None:
        self._service = service
        self._reader = reader
        self._metrics = metrics

    # -- models and versions ---------------------------------------------------------------------

    async def models(self, request: Request) -> Reply:
        """List the models."""
        return as_json({"models": [self._described(name) for name in self._service.engines]})

    async def model(self, request: Request) -> Reply:
        """Describe a model."""
        return as_json(self._described(request.parameters["name"]))

    def _described(self, name: str) -> dict[str, Any]:
        engine = self._service.engine(name)
        versions = {
            str(number): live.summary()
            | {
                "task": live.model.task,
                "classes": [token_of(label) for label in live.model.known_labels],
                "parameters": live.model.parameters.as_dict(),
            }
            for number, live in engine.versions.items()
        }
        return {
            "name": name,
            "ready": engine.ready,
            "champion": engine.champion,
            "waiting": len(engine.waiting),
            "lag": engine.lag,
            "versions": versions,
        }

    async def create(self, request: Request) -> Reply:
        """Create a model."""
        body, kind = await self._reader.read(request, (JSON, FILE))
        if kind == FILE:
            name, origin = request.query.get("name", ""), "file"
            model = await asyncio.to_thread(Model.from_bytes, body)
        else:
            request_body = bodies.decode_one(body, NewModel)
            name, origin = request_body.name, "parameters"
            model = new_model(request_body.task, request_body.classes, request_body.parameters)
        await asyncio.to_thread(self._service.create, name, model, origin)
        return as_json(self._described(name), 201)

    async def add_version(self, request: Request) -> Reply:
        """Add a shadow."""
        engine = self._service.writer(request.parameters["name"])
        body, kind = await self._reader.read(request, (JSON, FILE))
        if kind == FILE:
            model = await asyncio.to_thread(Model.from_bytes, body)
        else:
            parameters = bodies.decode_one(body, NewVersion).parameters
            champion = engine.versions[engine.champion].model
            task = champion.task
            fixed = champion.known_labels if task == "classes" and not champion.growing else ()
            chosen = {"loss": champion.parameters.loss} | parameters
            model = new_model(task, fixed, chosen)
        version = await asyncio.to_thread(
            engine.add_version, model, "file" if kind == FILE else "parameters"
        )
        return as_json({"version": version}, 201)

    async def remove_version(self, request: Request) -> Reply:
        """Remove a shadow."""
        engine = self._service.writer(request.parameters["name"])
        await asyncio.to_thread(engine.remove_version, _version(request))
        return Reply(b"", 204)

    async def promote(self, request: Request) -> Reply:
        """Make a version the champion."""
        engine = self._service.writer(request.parameters["name"])
        await asyncio.to_thread(engine.promote, _version(request))
        return as_json({"champion": engine.champion})

    async def roll_back(self, request: Request) -> Reply:
        """Make the previous champion the champion again."""
        engine = self._service.writer(request.parameters["name"])
        await asyncio.to_thread(engine.roll_back)
        return as_json({"champion": engine.champion})

    async def snapshot(self, request: Request) -> Later:
        """Write snapshots now."""
        engine = self._service.writer(request.parameters["name"])
        return Later(engine.snapshot(), lambda events: as_json({"events": events}))

    async def download(self, request: Request) -> Reply:
        """Return a version as a model file."""
        name, version = request.parameters["name"], _version(request)
        engine = self._service.engine(name)
        live = engine.versions.get(version)
        if live is None:
            raise UnknownModelError(f"there is no version {version}")

        def content() -> bytes:
            _, document, tensors = live.content()
            return persistence.pack(document, tensors)

        named = {"content-disposition": f'attachment; filename="{name}-{version}.son"'}
        return Reply(await asyncio.to_thread(content), kind=FILE, headers=named)

    # -- watching --------------------------------------------------------------------------------

    async def stats(self, request: Request) -> Reply:
        """Return the figures of the page, once."""
        watched = self._service.watched[self._service.engine(request.parameters["name"]).name]
        inside = await asyncio.to_thread(watched.look) if watched.engine.ready else {}
        return as_json({"now": watched.state(), "inside": inside})

    async def events(self, request: Request) -> Reply:
        """Send samples to the page every second."""
        watched = self._service.watched[self._service.engine(request.parameters["name"]).name]

        async def stream() -> AsyncIterator[bytes]:
            watched.pages += 1
            try:
                yield _event("history", b"[" + b",".join(watched.history) + b"]")
                while not self._service.stopping.is_set():
                    if watched.engine.ready:
                        inside = await asyncio.to_thread(watched.look)
                        yield _event("inside", bodies.encode(inside))
                    if watched.history:
                        yield _event("sample", watched.history[-1])
                    await asyncio.sleep(1.0)
            finally:
                watched.pages -= 1

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return Reply(b"", kind="text/event-stream", headers=headers, pieces=stream())

    async def metrics(self, request: Request) -> Reply:
        """Return the metrics in the text format of Prometheus."""
        return Reply(self._metrics.text(), kind=self._metrics.media_type)


def _version(request: Request) -> int:
    text: str = request.parameters["version"]
    if not re.fullmatch("[0-9]{1,9}", text):
        raise UnknownModelError(f"there is no version {text[:20]!r}")
    return int(text)


def _event(kind: str, content: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), content)
