"""Handlers of the most frequent requests: predict, learn and label."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from sonline.service import arrow, bodies
from sonline.service.answers import Later, log
from sonline.service.bodies import (
    LabelRow,
    Learned,
    LearnedMany,
    LearnRow,
    Prediction,
    PredictRow,
    Rows,
)
from sonline.service.metrics import Metrics
from sonline.service.outcomes import Outcome, Promise
from sonline.service.quick import Reply
from sonline.service.reading import ARROW, JSON, LINES, MANY, Reader
from sonline.service.service import Service
from sonline.service.versions import Answer

LARGE = 1 << 16  # bytes of a body that is decoded in another thread
_MANY_ROWS = 200
Value = TypeVar("Value")


class RowHandlers:
    """Handlers of requests with rows or labels.

    Those that end with ``_one`` take a small JSON body with one row, and never wait: they return
    a `Later` if the answer depends on the disk.
    """

    def __init__(self, service: Service, reader: Reader, metrics: Metrics) -> None:
        self._service = service
        self._reader = reader
        self._limits = reader.limits
        self._metrics = metrics
        self._turn = asyncio.Lock()

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, request: Any, body: bytes) -> Reply | Later:
        """Predict a row."""
        started = time.perf_counter()
        engine = self._service.engine(request.path_params["name"])
        row = bodies.decode_one(body, PredictRow)
        answer, stored = engine.predict(bodies.rows_to_predict([row], self._limits.features))
        reply = Reply(_encoded(answer, row.id, 0))
        return self._timed(request, reply, 1, started, stored)

    async def predict(self, request: Any) -> Reply | Later:
        """Predict one row or many."""
        body, kind = await self._reader.read(request, (JSON, *MANY, ARROW))
        if kind == JSON and len(body) <= LARGE:
            return self.predict_one(request, body)
        started = time.perf_counter()
        engine = self._service.engine(request.path_params["name"])
        rows = await self._in_turn(len(body) > LARGE, self._rows_to_predict, body, kind)
        answer, stored = await self._in_turn(rows.count > _MANY_ROWS, engine.predict, rows)
        if kind == JSON:
            reply = Reply(_encoded(answer, rows.ids[0], 0))
        else:
            lines = [_encoded(answer, id_, n) for n, id_ in enumerate(rows.ids)]
            reply = Reply(b"\n".join(lines) + b"\n", LINES.encode())
        return self._timed(request, reply, rows.count, started, stored)

    def _timed(
        self, request: Any, reply: Reply, rows: int, started: float, stored: Promise | None
    ) -> Reply | Later:
        """Count a prediction and its time; return the reply, or when the rows are on disk."""
        name, seconds = request.path_params["name"], time.perf_counter() - started
        self._service.watched[name].latencies.append(seconds)
        self._metrics.predicted(name, rows, seconds)
        return reply if stored is None else _when_stored(request, stored, reply)

    def _rows_to_predict(self, body: bytes, kind: str) -> Rows:
        if kind == ARROW:
            return arrow.read(body, labelled=False, limits=self._limits)
        if kind == JSON:
            decoded = [bodies.decode_one(body, PredictRow)]
        else:
            decoded = bodies.decode_lines(body, PredictRow, self._limits)
        return bodies.rows_to_predict(decoded, self._limits.features)

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, request: Any, body: bytes) -> Later:
        """Learn a row."""
        engine = self._service.writer(request.path_params["name"])
        return self._later(request, JSON, engine.learn(self._rows_to_learn(body, JSON)))

    async def learn(self, request: Any) -> Later:
        """Learn one row or many."""
        body, kind = await self._reader.read(request, (JSON, *MANY, ARROW))
        if kind == JSON and len(body) <= LARGE:
            return self.learn_one(request, body)
        engine = self._service.writer(request.path_params["name"])
        rows = await self._in_turn(len(body) > LARGE, self._rows_to_learn, body, kind)
        promise = await self._in_turn(rows.count > _MANY_ROWS, engine.learn, rows)
        return self._later(request, kind, promise)

    def _rows_to_learn(self, body: bytes, kind: str) -> Rows:
        if kind == ARROW:
            return arrow.read(body, labelled=True, limits=self._limits)
        if kind == JSON:
            line = bodies.decode_one(body, LearnRow)
            return bodies.rows_to_learn([line], bodies.one_line(body), self._limits.features)
        lines = bodies.decode_lines(body, LearnRow, self._limits)
        return bodies.rows_to_learn(lines, body, self._limits.features)

    def label_one(self, request: Any, body: bytes) -> Later:
        """Learn a row that was predicted, with its label."""
        engine = self._service.writer(request.path_params["name"])
        return self._later(request, JSON, engine.label([bodies.decode_one(body, LabelRow)]))

    async def label(self, request: Any) -> Later:
        """Learn rows that were predicted, with their labels."""
        body, kind = await self._reader.read(request, (JSON, *MANY))
        if kind == JSON:
            return self.label_one(request, body)
        engine = self._service.writer(request.path_params["name"])
        large = len(body) > LARGE
        labels = await self._in_turn(large, bodies.decode_lines, body, LabelRow, self._limits)
        promise = await self._in_turn(len(labels) > _MANY_ROWS, engine.label, labels)
        return self._later(request, kind, promise)

    def _later(self, request: Any, kind: str, promise: Promise) -> Later:
        name = request.path_params["name"]

        def reply(outcome: Outcome) -> Reply:
            self._metrics.acknowledged(name, outcome)
            if outcome.delays:
                self._service.watched[name].delays.extend(outcome.delays)
            seq, duplicates = outcome.seq, outcome.duplicates
            if kind == JSON:
                return Reply(bodies.encode(Learned(seq, duplicates > 0)))
            return Reply(
                bodies.encode(LearnedMany(outcome.learned, duplicates, outcome.unknown, seq))
            )

        return Later(promise, reply)

    async def _in_turn(self, large: bool, work: Callable[..., Value], *values: Any) -> Value:
        """Do large amounts of work in another thread, where other requests need not wait for it.

        Smaller amounts are done here, for one body in each turn of the event loop, so requests with
        a single row wait for one of them at most.
        """
        if large:
            return await run_in_threadpool(work, *values)
        async with self._turn:
            return work(*values)


def _when_stored(request: Any, promise: Promise, reply: Reply) -> Reply | Later:
    """Return a reply at once or, with ?durable=1, when the rows to be labelled are on disk."""
    if request.query_params.get("durable", "") in ("1", "true"):
        return Later(promise, lambda _: reply)
    promise.add_done_callback(_report)
    return reply


def _encoded(answer: Answer, id_: str | None, row: int) -> bytes:
    shares = None if answer.probabilities is None else answer.shares(row)
    raw, version, seq = answer.sorted_raw(row), answer.version, answer.seq - 1
    return bodies.encode(Prediction(answer.labels[row], raw, version, seq, id_, shares))


def _report(promise: Promise) -> None:
    """Log a warning that rows were predicted but could not be stored."""
    error = promise.exception()
    if error is not None:
        log.warning("rows not kept", extra={"facts": {"reason": str(error)}})
