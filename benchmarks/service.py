"""``python -m benchmarks.service``: the service beside FastAPI with River, with the same bodies.

Both run as processes of their own at the same time and are asked in turn, round by round, so that
a busy machine slows down both. The load comes over loopback from connections that are kept open.
Ratios mean something, the figures themselves depend on the machine. FastAPI with River keeps
nothing on disk, remembers no ids and has no metrics.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

from benchmarks.service_load import NAME, Connection, learn_requests, load, request, rows, split
from sonline.service import bodies
from sonline.service.bodies import LabelRow
from sonline.service.database import Database
from sonline.service.engine import Engine
from sonline.service.memory import collect_less, return_large_blocks
from sonline.service.settings import Settings
from sonline.service.versions import new_model, packed

PEER = """
import json
import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel
from river import linear_model, preprocessing

app = FastAPI()
model = preprocessing.StandardScaler() | linear_model.LogisticRegression()

class Row(BaseModel):
    x: dict[str, float]
    y: int | None = None

@app.post("/v1/models/bench/predict")
async def predict(row: Row):
    return {"probabilities": model.predict_proba_one(row.x)}

@app.post("/v1/models/bench/learn")
async def learn(request: Request):
    rows = [Row.model_validate_json(line) for line in (await request.body()).splitlines()]
    for row in rows:
        model.learn_one(row.x, row.y == 1)
    return {"learned": len(rows)}

uvicorn.run(app, port=PORT, log_level="warning", access_log=False)
"""


@contextmanager
def sonline() -> Iterator[tuple[int, int]]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sonline", "serve", "--data", folder, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
                new = request("", json.dumps({"name": NAME}).encode(), "application/json")
                made = new.replace(f"/{NAME}/ ".encode(), b" ")
                assert Connection(port).send(made) == 201
                yield port, process.pid
            finally:
                process.send_signal(signal.SIGTERM)


@contextmanager
def peer(python: str) -> Iterator[tuple[int, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = PEER.replace("PORT", str(port))
    with subprocess.Popen([python, "-c", code]) as process:
        try:
            while True:
                try:
                    Connection(port)
                    break
                except ConnectionRefusedError:
                    time.sleep(0.1)
            yield port, process.pid
        finally:
            process.send_signal(signal.SIGTERM)


def cpu(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def engine(folder: Path, **settings: Any) -> Iterator[Engine]:
    path = folder / f"{NAME}.db"
    if path.exists():
        database = Database(path)
        database.open()
    else:
        database = Database.create(path, packed(new_model()))
    made = Engine(database, Settings(**settings))
    made.start(wait=True)
    yield made  # not closed, as if killed: no snapshot


# No snapshots, and no limit to the events that wait to be learned.
FILLING: dict[str, Any] = {
    "snapshot_events": 1 << 60,
    "snapshot_seconds": 1e9,
    "backlog": 1 << 60,
    "backlog_bytes": 1 << 60,
}


def replay(events: int, batch: int) -> None:
    """Print how long a start takes that has to learn all events, sent in requests of one size."""
    lines = [json.dumps(row) for row in rows(1000)]
    with tempfile.TemporaryDirectory() as name:
        with engine(Path(name), **FILLING) as first:
            waits: deque[Any] = deque()
            for start in range(0, events, batch):
                payload = "\n".join(lines[start % 1000 :][:batch]).encode()
                decoded = bodies.decode_lines(payload, bodies.LearnRow)
                waits.append(first.learn(bodies.rows_to_learn(decoded, payload)))
                while len(waits) > 20_000 // batch:
                    waits.popleft().result()
            for wait in waits:
                wait.result()
            while first.lag:
                time.sleep(0.01)
        started, used = time.perf_counter(), time.process_time()
        with engine(Path(name)) as again:
            took, used = time.perf_counter() - started, time.process_time() - used
            print(
                f"{again.to_replay:,} events in requests of {batch:,}: replayed in {took:.1f} s, "
                f"{used:.1f} s of CPU, {again.database.size / 1e6:.0f} MB"
            )


def memory(events: int) -> None:
    """Print the memory of a process while predictions get their labels 1,000 events later."""
    return_large_blocks()  # as `sonline serve` does
    collect_less()
    part, names = rows(1000), iter(range(1 << 60))
    late: deque[list[LabelRow]] = deque()
    with tempfile.TemporaryDirectory() as name, engine(Path(name), keep_bytes=1 << 28) as made:
        for turn in range(events // len(part)):
            ids = [f"{next(names):x}" for _ in part]
            made.predict(bodies.Rows([row["x"] for row in part], len(part), ids))
            late.append([LabelRow(i, row["y"]) for i, row in zip(ids, part, strict=True)])
            if len(late) > 1:
                made.label(late.popleft()).result()
            if (turn + 1) % max(1, events // len(part) // 10) == 0:
                print(f"{(turn + 1) * len(part):>12,} events: {resident():.0f} MB")


def resident() -> float:
    """Return the memory of this process in megabytes."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer", default=sys.executable, help="a Python with fastapi and river")
    parser.add_argument("--replay", type=int, help="only this: replay so many events")
    parser.add_argument("--memory", type=int, help="only this: memory over so many events")
    parser.add_argument("--threads", action="store_true", help="only this: where the time goes")
    options = parser.parse_args()
    if options.threads:
        where_the_time_goes()
        return
    if options.replay or options.memory:
        if options.replay:
            for batch in (1000, 1):
                replay(options.replay, batch)
        if options.memory:
            memory(options.memory)
        return
    ask = [
        request("predict", json.dumps({"x": row["x"]}).encode(), "application/json")
        for row in rows(2000)
    ]
    hundreds = learn_requests("lines", 100)
    singles, singles_of_peer = learn_requests("lines", 1), learn_requests("peer", 1)
    loads = [
        Load("predict, single, 4 connections", ask, ask, 1, 4),
        Load("learn, single, 1 connection", singles, singles_of_peer, 1, 1),
        Load("learn, single, 8 connections", singles, singles_of_peer, 1, 8),
        Load("learn, single, 32 connections", singles, singles_of_peer, 1, 32),
        Load("learn, single, 128 connections", singles, singles_of_peer, 1, 128),
        Load("learn, JSON lines of 100, 32 connections", hundreds, hundreds, 100, 32),
        Load("learn, the same with ids", with_ids(options), None, 100, 32),
        Load("learn, Arrow of 1,000, 8 connections", learn_requests("arrow", 1000), None, 1000, 8),
        Load("learn, Arrow of 5,000, 4 connections", learn_requests("arrow", 5000), None, 5000, 4),
    ]
    with sonline() as mine, peer(options.peer) as other:
        for turn, load in itertools.product(range(options.rounds + 1), loads):
            load.run(mine, other, options.seconds, warm_up=turn == 0)
        for load in loads:
            load.report()
        beside(mine[0], ask, options.seconds * options.rounds)
    where_the_time_goes()


def where_the_time_goes() -> None:
    """Print the processor time of each thread for a row, without the server of HTTP."""
    from sonline.service.app import create_app  # noqa: PLC0415 - an extra

    every = rows(20_000)
    ask = [json.dumps({"x": row["x"]}).encode() for row in every[:2000]]
    loads = {
        "predict, single": ("predict", "application/json", 1, ask, 4),
        "learn, single": (
            "learn",
            "application/json",
            1,
            [*map(split, learn_requests("lines", 1)[:2000])],
            16,
        ),
        "learn, JSON lines of 100": (
            "learn",
            "application/x-ndjson",
            100,
            [*map(split, learn_requests("lines", 100))],
            4,
        ),
        "learn, Arrow of 1,000": (
            "learn",
            "application/vnd.apache.arrow.stream",
            1000,
            [*map(split, learn_requests("arrow", 1000))],
            4,
        ),
    }

    async def call(app: Any, path: str, kind: str, body: bytes) -> int:
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", kind.encode())],
            "client": ("127.0.0.1", 1),
        }
        answers = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            answers.append(message)

        await app(scope, receive, send)
        return int(answers[0]["status"])

    async def run(folder: str) -> None:
        app = create_app(folder, tokens_required=False)
        app.service.start()
        await call(app, "/v1/models", "application/json", json.dumps({"name": NAME}).encode())
        made = app.service.writer(NAME)
        groups: list[tuple[float, float]] = []

        def timed(*values: Any, append: Any = made.database.append) -> None:
            wall, used = time.perf_counter(), time.thread_time()
            append(*values)
            groups.append((time.perf_counter() - wall, time.thread_time() - used))

        made.database.append = timed  # type: ignore[assignment, method-assign]

        async def worker(path: str, kind: str, some: list[bytes]) -> None:
            for body in some:
                while await call(app, f"/v1/models/{NAME}/{path}", kind, body) == 429:
                    await asyncio.sleep(0.01)

        for name, (path, kind, batch, every_body, many) in loads.items():
            each: dict[str, list[float]] = {}
            groups.clear()
            for turn in range(6):
                before = thread_times()
                await asyncio.gather(
                    *(worker(path, kind, every_body[n::many]) for n in range(many))
                )
                while made.lag:
                    await asyncio.sleep(0.005)
                for thread, used in thread_times().items():
                    if turn:
                        took = (used - before.get(thread, 0.0)) / (len(every_body) * batch)
                        each.setdefault(thread, []).append(took * 1e6)
            shown = {
                "requests": each.get("MainThread"),
                "decoding": each.get("asyncio"),
                "writing": each.get("sonline-write"),
                "learning": each.get("sonline-learn"),
            }
            texts = [
                f"{what} {np.median(values):.2f}"
                for what, values in shown.items()
                if values and np.median(values) >= 0.005
            ]
            print(f"{name + ', µs of CPU a row':58} {', '.join(texts)}")
            if groups:
                wall, used = np.median(np.array(groups), axis=0) * 1e6
                rows_ = 6 * len(every_body) * batch / len(groups)
                took_ = f"{wall:.0f} µs, {used:.0f} µs of CPU"
                print(f"{name + ', transaction':58} {took_} for a group of {rows_:,.0f} rows")
        app.service.close()

    with tempfile.TemporaryDirectory() as folder:
        collect_less()  # as `sonline serve` does
        asyncio.run(run(folder))


def thread_times() -> dict[str, float]:
    """Return the processor time of each thread, those with the same name together."""
    times: dict[str, float] = {}
    for thread in threading.enumerate():
        assert thread.ident is not None
        used = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        name = thread.name.rstrip("_-0123456789")
        times[name] = times.get(name, 0.0) + used
    return times


def with_ids(options: argparse.Namespace) -> list[bytes]:
    """Return more rows with ids than are sent, so that none comes twice."""
    count = int(400_000 * options.seconds * (options.rounds + 1) / 8)
    bodies_ = []
    every = rows(20_000)
    for start in range(0, count, 100):
        part = every[start % 20_000 :][:100]
        text = "\n".join(json.dumps(row | {"id": f"{start + j}"}) for j, row in enumerate(part))
        bodies_.append(request("learn", text.encode(), "application/x-ndjson"))
    return bodies_


def learned(port: int) -> float:
    """Wait until all events have been learned, not only written; return how long that took."""
    started = time.perf_counter()
    while json.loads(urlopen(f"http://localhost:{port}/v1/models/{NAME}").read())["lag"]:
        time.sleep(0.01)
    return time.perf_counter() - started


class Load:
    """Requests of one kind, to one service or to both in turn."""

    def __init__(
        self, name: str, mine: list[bytes], other: list[bytes] | None, batch: int, connections: int
    ) -> None:
        self.name = name
        self._requests = {"sonline": mine, "FastAPI + River": other}
        self._batch = batch
        self._connections = connections
        self._sent = 0
        self._rates: dict[str, list[float]] = {}
        self._times: dict[str, list[float]] = {}
        self._latencies: dict[str, list[float]] = {}

    def run(
        self, mine: tuple[int, int], other: tuple[int, int], seconds: float, warm_up: bool
    ) -> None:
        for (service, requests), (port, pid) in zip(
            self._requests.items(), (mine, other), strict=True
        ):
            if requests is None:
                continue
            before = cpu(pid)
            start = self._sent if service == "sonline" else 0
            count, took, latencies = load(port, requests, self._connections, seconds, start=start)
            if service == "sonline":
                self._sent += count + self._connections
                took += learned(port)
            if warm_up or not count:
                continue
            each = (cpu(pid) - before) / (count * self._batch)
            self._rates.setdefault(service, []).append(count * self._batch / took)
            self._times.setdefault(service, []).append(each)
            self._latencies.setdefault(service, []).extend(latencies)

    def report(self) -> None:
        for service, rates in self._rates.items():
            latencies = sorted(self._latencies[service])
            p50, p99 = (latencies[int(len(latencies) * share)] * 1e3 for share in (0.5, 0.99))
            print(
                f"{service + ': ' + self.name:58} {np.median(rates):>9,.0f} rows/s "
                f"{np.median(self._times[service]) * 1e6:>7.1f} µs of CPU a row   "
                f"p50 {p50:.2f} ms  p99 {p99:.2f} ms"
            )
        if len(self._rates) == 2:
            rates, times = (
                [a / b for a, b in zip(*each.values(), strict=True)]
                for each in (self._rates, self._times)
            )
            print(
                f"{'ratio: ' + self.name:58} {np.median(rates):>9.2f} by rows/s "
                f"({min(rates):.2f} to {max(rates):.2f}), {1 / np.median(times):.2f} by CPU "
                f"({1 / max(times):.2f} to {1 / min(times):.2f})"
            )


def beside(port: int, ask: list[bytes], seconds: float) -> None:
    """Predict alone, and while about 50,000 events a second are learned."""
    for what in ("alone", "while learning"):
        rate = ""
        if what == "alone":
            _, _, latencies = load(port, ask, 1, seconds, 0.002)
        else:  # from another process, which does not keep the one that measures waiting
            with ProcessPoolExecutor(1, get_context("spawn")) as others:
                teaching = others.submit(teach, port, seconds + 2.0)
                time.sleep(1.0)
                _, _, latencies = load(port, ask, 1, seconds, 0.002)
                rate = f", {teaching.result():,.0f} events/s"
        p50, p99 = (latencies[int(len(latencies) * share)] * 1e3 for share in (0.5, 0.99))
        print(f"{f'sonline: predict {what}{rate}':58} p50 {p50:.2f} ms  p99 {p99:.2f} ms")


def teach(port: int, seconds: float) -> float:
    """Send about 50,000 events a second; how many were acknowledged."""
    count, took, _ = load(port, learn_requests("lines", 100), 16, seconds, 0.032)
    return count * 100 / took


if __name__ == "__main__":
    main()
