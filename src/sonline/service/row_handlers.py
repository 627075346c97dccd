"""Handlers of the most frequent requests: predict, learn and label."""

from __future__ import annotations

import asyncio
import time

from sonline.errors import InvalidInputError
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
from sonline.service.exchange import ARROW, JSON, LINES, Reply, Request, as_json
from sonline.service.metrics import Metrics
from sonline.service.outcomes import Outcome, Promise, UnavailableError
from sonline.service.reading import ROW_LINES, BodyReader
from sonline.service.service import Service
from sonline.service.versions import Answer, Live

LARGE_BODY = 1 << 16  # bytes that are decoded, checked and predicted in another thread


class RowHandlers:
    """Handlers of requests with rows or labels."""

    def __init__(self, service: Service, reader: BodyReader, metrics: Metrics) -> None:
        self._service = service
        self._reader = reader
        self._limits = reader.limits
        self._metrics = metrics

    async def predict(self, request: Request) -> Reply | Later:
        """Predict one row or many."""
        body, kind = await self._reader.read(request, (JSON, *ROW_LINES, ARROW))
        started, name = time.perf_counter(), request.parameters["name"]
        engine = self._service.engine(name)
        durable = _is_set(request.query, "durable")
        if len(body) <= LARGE_BODY:
            rows = self._rows_to_predict(body, kind, request.query)
            answer, stored = engine.predict(rows)
        else:  # other requests need not wait for it
            rows = await asyncio.to_thread(self._rows_to_predict, body, kind, request.query)
            answer, stored = await asyncio.to_thread(engine.predict, rows)
        if kind == JSON:
            reply = Reply(_encoded(answer, rows.ids[0], 0))
        else:
            lines = [_encoded(answer, id_, n) for n, id_ in enumerate(rows.ids)]
            reply = Reply(b"\n".join(lines) + b"\n", kind=LINES)
        seconds = time.perf_counter() - started
        self._service.watched[name].latencies.append(seconds)
        self._metrics.predicted(name, rows.count, seconds)
        return reply if stored is None else _when_stored(durable, stored, reply)

    async def explain(self, request: Request) -> Reply:
        """Explain the prediction of one row; nothing is kept."""
        body, _ = await self._reader.read(request, (JSON,))
        row = bodies.decode_one(body, PredictRow)
        x, label = bodies.features(row.x, self._limits.features), request.query.get("label")
        live = self._champion(request)
        explained = await asyncio.to_thread(live.explain, x, label, row.offset)
        return as_json(explained)

    async def curves(self, request: Request) -> Reply:
        """Return what each column adds to predictions, as a function of its value."""
        live, label = self._champion(request), request.query.get("label")
        return as_json(await asyncio.to_thread(live.curves, label))

    def _champion(self, request: Request) -> Live:
        engine = self._service.engine(request.parameters["name"])
        live = engine.versions.get(engine.champion)
        if live is None:
            raise UnavailableError("the events are being replayed; try again later")
        return live

    def _rows_to_predict(self, body: bytes, kind: str, query: dict[str, str]) -> Rows:
        if kind == ARROW:
            rows = arrow.read(body, labelled=False, limits=self._limits)
        else:
            decoded = self._decoded(body, kind, PredictRow)
            rows = bodies.rows_to_predict(decoded, self._limits.features)
        if query:
            rows.wants_label = _is_set(query, "wants_label")
            if "interval" in query:
                try:
                    rows.interval = float(query["interval"])
                except ValueError:
                    raise InvalidInputError(
                        f"interval must be a number between 0 and 1, got {query['interval'][:20]!r}"
                    ) from None
        return rows

    async def learn(self, request: Request) -> Later:
        """Learn one row or many."""
        body, kind = await self._reader.read(request, (JSON, *ROW_LINES, ARROW))
        engine = self._service.writer(request.parameters["name"])
        if len(body) <= LARGE_BODY:
            promise = engine.learn(self._rows_to_learn(body, kind))
        else:
            rows = await asyncio.to_thread(self._rows_to_learn, body, kind)
            promise = await asyncio.to_thread(engine.learn, rows)
        return self._later(request, kind, promise)

    def _rows_to_learn(self, body: bytes, kind: str) -> Rows:
        if kind == ARROW:
            return arrow.read(body, labelled=True, limits=self._limits)
        rows = self._decoded(body, kind, LearnRow)
        payload = bodies.one_line(body) if kind == JSON else body
        return bodies.rows_to_learn(rows, payload, self._limits.features)

    async def label(self, request: Request) -> Later:
        """Learn rows that were predicted, with their labels."""
        body, kind = await self._reader.read(request, (JSON, *ROW_LINES))
        engine = self._service.writer(request.parameters["name"])
        if len(body) <= LARGE_BODY:
            promise = engine.label(self._decoded(body, kind, LabelRow))
        else:
            labels = await asyncio.to_thread(self._decoded, body, kind, LabelRow)
            promise = await asyncio.to_thread(engine.label, labels)
        return self._later(request, kind, promise)

    def _decoded(self, body: bytes, kind: str, row: type[bodies.Kind]) -> list[bodies.Kind]:
        if kind == JSON:
            return [bodies.decode_one(body, row)]
        return bodies.decode_lines(body, row, self._limits)

    def _later(self, request: Request, kind: str, promise: Promise[Outcome]) -> Later:
        name = request.parameters["name"]

        def reply(outcome: Outcome) -> Reply:
            self._metrics.acknowledged(name, outcome)
            if outcome.delays:
                self._service.watched[name].delays.extend(outcome.delays)
            seq, duplicates = outcome.seq, outcome.duplicates
            if kind == JSON:
                return as_json(Learned(seq, duplicates > 0))
            return as_json(LearnedMany(outcome.learned, duplicates, outcome.unknown, seq))

        return Later(promise, reply)


def _when_stored(durable: bool, promise: Promise[Outcome], reply: Reply) -> Reply | Later:
    """Return a reply at once or, with ?durable=1, when the rows to be labelled are on disk."""
    if durable:
        return Later(promise, lambda _: reply)
    promise.add_done_callback(_report)
    return reply


def _is_set(query: dict[str, str], name: str) -> bool:
    value = query.get(name, "0")
    if value not in {"0", "1", "false", "true"}:
        raise InvalidInputError(f"{name} must be 1 or 0, got {value[:80]!r}")
    return value in {"1", "true"}


def _encoded(answer: Answer, id_: str | None, row: int) -> bytes:
    shares = None if answer.probabilities is None else answer.shares(row)
    raw, version, seq = answer.sorted_raw(row), answer.version, answer.seq - 1
    interval = None if answer.intervals is None else answer.intervals[row]
    wanted = None if answer.wanted is None else answer.wanted[row]
    label = answer.labels[row]
    return bodies.encode(Prediction(label, raw, version, seq, id_, shares, interval, wanted))


def _report(promise: Promise[Outcome]) -> None:
    """Log a warning that rows were predicted but could not be stored."""
    error = promise.exception()
    if error is not None:
        log.warning("rows not kept", extra={"facts": {"reason": str(error)}})
