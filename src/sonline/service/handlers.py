"""The handlers of the interface: bodies in, answers out."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from sonline import persistence
from sonline.errors import InvalidInputError
from sonline.labels import token_of
from sonline.model import Model
from sonline.service import arrow, bodies
from sonline.service.admission import Outcome, Promise
from sonline.service.bodies import (
    LabelRow,
    LearnRow,
    Limits,
    MediaTypeError,
    PredictRow,
    Rows,
    TooLargeError,
)
from sonline.service.metrics import Metrics
from sonline.service.quick import Receive, Reply
from sonline.service.security import DeniedError, Guard
from sonline.service.service import Service, UnknownModelError
from sonline.service.versions import Answer, new_model

JSON, LINES = "application/json", "application/x-ndjson"
ARROW, FILE = "application/vnd.apache.arrow.stream", "application/octet-stream"
MANY = (LINES, "application/jsonl", "application/ndjson")
_LARGE = 1 << 16  # bytes of a body that is decoded in another thread
_MODEL_BYTES = 256 << 20
_BODY_SECONDS = 30.0
_MANY_ROWS = 200

log = logging.getLogger("sonline.service")
Value = TypeVar("Value")


class Bridge:
    """Futures of other threads for the event loop, which is woken once for all of a group."""

    def __init__(self) -> None:
        self._done: deque[tuple[asyncio.Future[Outcome], Promise]] = deque()
        self._woken = False

    async def wait(self, future: Promise) -> Outcome:
        """Return the result of a future."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Outcome] = loop.create_future()

        def finish(done: Promise) -> None:
            self._done.append((waiter, done))
            if not self._woken:
                self._woken = True
                loop.call_soon_threadsafe(self._flush)

        future.add_done_callback(finish)
        return await waiter

    def _flush(self) -> None:
        self._woken = False  # before: what is added from now on wakes the loop again
        while self._done:
            waiter, done = self._done.popleft()
            if waiter.done():  # whoever waited has gone
                continue
            error = done.exception()
            if error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(done.result())


class NewModel(msgspec.Struct, forbid_unknown_fields=True):
    """The body that makes a model."""

    name: str
    task: str = "binary"
    classes: list[str | int | float] = msgspec.field(default_factory=list)
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)


class NewVersion(msgspec.Struct, forbid_unknown_fields=True):
    """The body that makes a shadow with other parameters."""

    parameters: dict[str, Any] = msgspec.field(default_factory=dict)


class Api:
    """The handlers of a service."""

    def __init__(self, service: Service, guard: Guard, limits: Limits, metrics: Metrics) -> None:
        self.service = service
        self.guard = guard
        self.limits = limits
        self.metrics = metrics
        self._bridge = Bridge()
        self._turn = asyncio.Lock()
        # Requests whose body is being read, and since when; None: it took too long.
        self._reading: dict[asyncio.Task[Any], float | None] = {}

    # -- predicting and learning -----------------------------------------------------------------

    async def predict(self, request: Request) -> Response | Reply:
        """Predict one row or many."""
        started = time.perf_counter()
        name = request.path_params["name"]
        engine = self.service.engine(name)
        body, kind = await self._body(request, (JSON, *MANY, ARROW))
        rows = await self._decoded(body, self._rows_to_predict, kind)
        answer, kept = await self._work(kind, rows.count, engine.predict, rows)
        if kept is not None:
            if request.query_params.get("durable", "") in ("1", "true"):
                await self._bridge.wait(kept)
            else:
                kept.add_done_callback(_report)
        if kind == JSON:
            response = Reply(bodies.encode(_answer(answer, rows.ids[0], 0)))
        else:
            lines = [bodies.encode(_answer(answer, id_, n)) for n, id_ in enumerate(rows.ids)]
            response = Reply(b"\n".join(lines) + b"\n", LINES.encode())
        seconds = time.perf_counter() - started
        self.service.watched[name].latencies.append(seconds)
        self.metrics.predicted(name, rows.count, seconds)
        return response

    def _rows_to_predict(self, body: bytes, kind: str) -> Rows:
        if kind == ARROW:
            return arrow.read(body, labelled=False, limits=self.limits)
        if kind == JSON:
            decoded = [bodies.decode_one(body, PredictRow)]
        else:
            decoded = bodies.decode_lines(body, PredictRow, self.limits)
        x = [bodies.features(row.x, self.limits.features) for row in decoded]
        return Rows(x, len(x), [row.id for row in decoded])

    async def learn(self, request: Request) -> Response | Reply:
        """Learn one row or many."""
        engine = self.service.writer(request.path_params["name"])
        body, kind = await self._body(request, (JSON, *MANY, ARROW))
        rows = await self._decoded(body, self._rows_to_learn, kind)
        future = await self._work(kind, rows.count, engine.learn, rows)
        return self._learned(request, kind, await self._bridge.wait(future))

    def _rows_to_learn(self, body: bytes, kind: str) -> Rows:
        if kind == ARROW:
            return arrow.read(body, labelled=True, limits=self.limits)
        if kind == JSON:
            line = bodies.decode_one(body, LearnRow)
            return bodies.rows_to_learn([line], bodies.one_line(body), self.limits.features)
        lines = bodies.decode_lines(body, LearnRow, self.limits)
        return bodies.rows_to_learn(lines, body, self.limits.features)

    async def label(self, request: Request) -> Response | Reply:
        """Learn rows that were predicted, with their labels."""
        engine = self.service.writer(request.path_params["name"])
        body, kind = await self._body(request, (JSON, *MANY))
        labels = await self._decoded(body, self._labels, kind)
        future = await self._work(kind, len(labels), engine.label, labels)
        return self._learned(request, kind, await self._bridge.wait(future))

    def _labels(self, body: bytes, kind: str) -> list[LabelRow]:
        if kind == JSON:
            return [bodies.decode_one(body, LabelRow)]
        return bodies.decode_lines(body, LabelRow, self.limits)

    def _learned(self, request: Request, kind: str, outcome: Outcome) -> Reply:
        name = request.path_params["name"]
        self.metrics.acknowledged(name, outcome)
        self.service.watched[name].delays.extend(outcome.delays)
        if kind == JSON:
            answer: Any = {"seq": outcome.seq, "duplicate": outcome.duplicates > 0}
        else:
            answer = {
                "learned": outcome.learned,
                "duplicates": outcome.duplicates,
                "unknown": outcome.unknown,
                "seq": outcome.seq,
            }
        return Reply(bodies.encode(answer))

    # -- models and versions ---------------------------------------------------------------------

    async def models(self, request: Request) -> Response:
        """List the models."""
        return as_json({"models": [self._described(name) for name in self.service.engines]})

    async def model(self, request: Request) -> Response:
        """Describe a model."""
        self.service.engine(request.path_params["name"])
        return as_json(self._described(request.path_params["name"]))

    def _described(self, name: str) -> dict[str, Any]:
        engine = self.service.engine(name)
        versions = {
            str(number): {
                "role": live.info.role,
                "origin": live.info.origin,
                "task": live.model.task,
                "classes": [token_of(label) for label in live.model.known_labels],
                "learned": live.model.progress.loss.rows,
                "mean_loss": _finite(live.model.progress.loss.average),
                "problem": live.error,
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

    async def create(self, request: Request) -> Response:
        """Make a model."""
        body, kind = await self._body(request, (JSON, FILE), most=_MODEL_BYTES)
        if kind == FILE:
            name, origin = request.query_params.get("name", ""), "file"
            model = await run_in_threadpool(_loaded, body)
        else:
            wanted = _decode(body, NewModel)
            name, origin = wanted.name, "parameters"
            model = new_model(wanted.task, wanted.classes, wanted.parameters)
        await run_in_threadpool(self.service.create, name, model, origin)
        return as_json(self._described(name), 201)

    async def add_version(self, request: Request) -> Response:
        """Add a shadow."""
        engine = self.service.writer(request.path_params["name"])
        body, kind = await self._body(request, (JSON, FILE), most=_MODEL_BYTES)
        if kind == FILE:
            model = await run_in_threadpool(_loaded, body)
        else:
            parameters = _decode(body, NewVersion).parameters
            champion = engine.versions[engine.champion].model
            task = champion.task
            fixed = champion.known_labels if task == "classes" and not champion.growing else ()
            given = {"loss": champion.parameters.loss} | parameters
            model = new_model(task, fixed, given)
        version = await run_in_threadpool(
            engine.add_version, model, "file" if kind == FILE else "parameters"
        )
        return as_json({"version": version}, 201)

    async def remove_version(self, request: Request) -> Response:
        """Remove a shadow."""
        engine = self.service.writer(request.path_params["name"])
        await run_in_threadpool(engine.remove_version, request.path_params["version"])
        return Response(status_code=204)

    async def promote(self, request: Request) -> Response:
        """Let another version answer."""
        engine = self.service.writer(request.path_params["name"])
        await run_in_threadpool(engine.promote, request.path_params["version"])
        return as_json({"champion": engine.champion})

    async def roll_back(self, request: Request) -> Response:
        """Let the version answer that did before."""
        engine = self.service.writer(request.path_params["name"])
        await run_in_threadpool(engine.roll_back)
        return as_json({"champion": engine.champion})

    async def snapshot(self, request: Request) -> Response:
        """Write snapshots now."""
        engine = self.service.writer(request.path_params["name"])
        events = await asyncio.wrap_future(engine.snapshot())
        return as_json({"events": events})

    async def download(self, request: Request) -> Response:
        """Return a version as a model file."""
        name, version = request.path_params["name"], request.path_params["version"]
        engine = self.service.engine(name)
        live = engine.versions.get(version)
        if live is None:
            raise UnknownModelError(f"there is no version {version}")

        def content() -> bytes:
            text, tensors = live.content(1)
            return persistence.pack(text | {"face": {"name": "OnlineLearner"}}, tensors)

        named = {"content-disposition": f'attachment; filename="{name}-{version}.son"'}
        return Response(await run_in_threadpool(content), media_type=FILE, headers=named)

    # -- watching --------------------------------------------------------------------------------

    async def stats(self, request: Request) -> Response:
        """Return what the page shows, once."""
        watched = self.service.watched[self.service.engine(request.path_params["name"]).name]
        inside = await run_in_threadpool(watched.look) if watched.engine.ready else {}
        return as_json({"now": watched.sample(), "inside": inside})

    async def events(self, request: Request) -> Response:
        """Send samples to the page as they are made."""
        watched = self.service.watched[self.service.engine(request.path_params["name"]).name]

        async def stream() -> AsyncIterator[bytes]:
            yield _event("history", list(watched.history))
            while not self.service.stopping.is_set():
                if watched.engine.ready:
                    yield _event("inside", await run_in_threadpool(watched.look))
                if watched.history:
                    yield _event("sample", watched.history[-1])
                await asyncio.sleep(1.0)

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)

    async def prometheus(self, request: Request) -> Response:
        """Return the metrics in the text format of Prometheus."""
        return Response(self.metrics.text(), media_type=self.metrics.media_type)

    # -- bodies ----------------------------------------------------------------------------------

    async def _body(
        self, request: Request, kinds: tuple[str, ...], most: int | None = None
    ) -> tuple[bytes, str]:
        """Return the body and its type, both checked."""
        headers = request.headers
        kind = _media_type(headers.get("content-type", ""))
        if kind not in kinds:
            raise MediaTypeError(f"content-type must be one of {', '.join(kinds)}; got {kind!r}")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise MediaTypeError("compressed bodies are not taken")
        limit = most if kind == FILE and most is not None else self.limits.body
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - called by one
        self._reading[task] = time.monotonic()
        try:
            return await _read(request.receive, limit), kind
        except asyncio.CancelledError:
            if self._reading[task] is not None:
                raise
            task.uncancel()
            raise DeniedError(408, f"the body took longer than {_BODY_SECONDS:g} s") from None
        finally:
            del self._reading[task]

    def stop_slow_bodies(self) -> None:
        """Answer requests whose body has not come in time; cheaper than a timer for each."""
        now = time.monotonic()
        for task, started in self._reading.items():
            if started is not None and now - started > _BODY_SECONDS:
                self._reading[task] = None
                task.cancel()

    async def _decoded(
        self, body: bytes, decode: Callable[[bytes, str], Value], kind: str
    ) -> Value:
        return await self._in_turn(kind, len(body) > _LARGE, decode, body, kind)

    async def _work(self, kind: str, count: int, work: Callable[[Any], Value], rows: Any) -> Value:
        return await self._in_turn(kind, count > _MANY_ROWS, work, rows)

    async def _in_turn(
        self, kind: str, large: bool, work: Callable[..., Value], *values: Any
    ) -> Value:
        """Do a single row at once, and many in another thread, where they keep nobody waiting.

        Some rows are done here, one body in each turn of the event loop: single rows that come
        meanwhile do not wait for all of them.
        """
        if large:
            return await run_in_threadpool(work, *values)
        if kind == JSON:
            return work(*values)
        async with self._turn:
            return work(*values)


@lru_cache(maxsize=256)
def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


async def _read(receive: Receive, limit: int) -> bytes:
    """Return the body of a request."""
    pieces, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(piece)
        if size > limit:
            raise TooLargeError(f"at most {limit} bytes in a body")
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _answer(answer: Answer, id_: str | None, row: int) -> dict[str, Any]:
    content: dict[str, Any] = {
        "prediction": answer.labels[row],
        "raw": answer.sorted_raw(row),
        "version": answer.version,
        "seq": answer.seq - 1,
    }
    if id_ is not None:
        content["id"] = id_
    if answer.probabilities is not None:
        content["probabilities"] = answer.shares(row)
    return content


def _loaded(body: bytes) -> Model:
    model = Model.from_bytes(body)
    model.face = {}
    return model


def _decode(body: bytes, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{error}") from None


def as_json(content: Any, status: int = 200) -> Response:
    """Return an answer."""
    return Response(bodies.encode(content), status, media_type=JSON)


def _event(kind: str, content: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(content)}\n\n".encode()


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def _report(future: Promise) -> None:
    """Note in the log that rows were predicted and could not be kept."""
    error = future.exception()
    if error is not None:
        log.warning("rows not kept", extra={"facts": {"reason": str(error)}})
