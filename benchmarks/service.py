"""``python -m benchmarks.service``: the service beside FastAPI with River, with the same bodies.

Both run as processes of their own, one after the other; the load comes over loopback from
connections that are kept open. Ratios of one run mean something, the figures themselves depend on
the machine. FastAPI with River keeps nothing on disk.
"""

from __future__ import annotations

import argparse
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sonline.service import bodies
from sonline.service.admission import Settings
from sonline.service.bodies import LabelRow
from sonline.service.engine import Engine
from sonline.service.store import Store
from sonline.service.versions import new_model

FEATURES = 10
NAME = "bench"
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


def rows(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(count, FEATURES)).round(4)
    labels = np.where(values[:, 0] + values[:, 1] > 0, 1, -1)
    return [
        {"x": {f"f{j}": v for j, v in enumerate(row.tolist())}, "y": int(y)}
        for row, y in zip(values, labels, strict=True)
    ]


def request(path: str, body: bytes, kind: str) -> bytes:
    head = (
        f"POST /v1/models/{NAME}/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def learn_requests(kind: str, batch: int, peer: bool = False) -> list[bytes]:
    every = rows(20_000)
    found = []
    for start in range(0, len(every), batch):
        part = every[start : start + batch]
        if kind == "arrow":
            import pyarrow as pa  # noqa: PLC0415 - an extra

            columns: dict[str, Any] = {"y": [row["y"] for row in part]}
            columns |= {f"f{j}": [row["x"][f"f{j}"] for row in part] for j in range(FEATURES)}
            table, sink = pa.table(columns), pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            body, media = bytes(sink.getvalue()), "application/vnd.apache.arrow.stream"
        else:
            body = "\n".join(map(json.dumps, part)).encode()
            media = "application/x-ndjson" if batch > 1 or peer else "application/json"
        found.append(request("learn", body, media))
    return found


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> int:
        """Send a request and read the answer; its status."""
        self._socket.sendall(data)
        text = b""
        while (end := text.find(b"\r\n\r\n")) < 0:
            piece = self._socket.recv(65536)
            if not piece:
                raise ConnectionError("closed")
            text += piece
        head = text[:end].lower()
        place = head.index(b"content-length:")
        length = int(head[place + 15 :].split(b"\r\n")[0])
        missing = length - (len(text) - end - 4)
        while missing > 0:
            missing -= len(self._socket.recv(65536))
        return int(text[9:12])


def load(
    port: int, requests: list[bytes], connections: int, seconds: float, pause: float = 0.0
) -> tuple[int, float, list[float]]:
    """Send requests from several connections; how many were answered, in what time, each."""
    stop = time.perf_counter() + seconds
    answered = [0] * connections
    latencies: list[list[float]] = [[] for _ in range(connections)]

    def run(number: int) -> None:
        connection, place = Connection(port), number
        while time.perf_counter() < stop:
            started = time.perf_counter()
            status = connection.send(requests[place % len(requests)])
            if status == 200:
                answered[number] += 1
                latencies[number].append(time.perf_counter() - started)
            elif status == 429:
                time.sleep(0.01)
            else:
                raise SystemExit(f"status {status}")
            place += connections
            if pause:
                time.sleep(pause)

    started = time.perf_counter()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(answered), time.perf_counter() - started, sorted(itertools.chain(*latencies))


@contextmanager
def sonline() -> Iterator[tuple[int, int]]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sonline.cli", "serve", "--data", folder, "--port", "0"]
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
def peer() -> Iterator[tuple[int, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = PEER.replace("PORT", str(port))
    with subprocess.Popen([sys.executable, "-c", code]) as process:
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


def measured(  # noqa: PLR0917 - called in one place
    name: str, port: int, pid: int, requests: list[bytes], batch: int, seconds: float, many: int
) -> tuple[float, float]:
    before = cpu(pid)
    count, took, latencies = load(port, requests, many, seconds)
    used = cpu(pid) - before
    rate, each = count * batch / took, used / max(count * batch, 1) * 1e6
    p50, p99 = (latencies[int(len(latencies) * share)] * 1e3 for share in (0.5, 0.99))
    print(
        f"{name:42} {rate:>9,.0f} rows/s {each:>7.1f} µs of CPU a row   "
        f"p50 {p50:.2f} ms  p99 {p99:.2f} ms"
    )
    return rate, each


@contextmanager
def engine(folder: Path, **settings: Any) -> Iterator[Engine]:
    store = Store(folder / "store.db")
    if NAME in store.names():
        made = Engine(NAME, folder / NAME, store, Settings(**settings))
    else:
        made = Engine.create(
            NAME, folder / NAME, store, new_model(), "bench", settings=Settings(**settings)
        )
    made.start(wait=True)
    try:
        yield made
    finally:
        store.close()  # as if killed: no snapshot


def replay(events: int) -> None:
    """Print how long a start takes that has to learn all of the log."""
    part = rows(1000)
    payload = "\n".join(map(json.dumps, part)).encode()
    with tempfile.TemporaryDirectory() as name:
        with engine(Path(name), snapshot_events=1 << 60, snapshot_seconds=1e9) as first:
            for _ in range(events // len(part)):
                decoded = bodies.decode_lines(payload, bodies.LearnRow)
                first.learn(bodies.rows_to_learn(decoded, payload)).result()
        started, used = time.perf_counter(), time.process_time()
        with engine(Path(name)) as again:
            took, used = time.perf_counter() - started, time.process_time() - used
            print(f"{again.to_replay:,} events replayed in {took:.1f} s, {used:.1f} s of CPU")


def memory(events: int) -> None:
    """Print the memory of a process while predictions get their labels 1,000 events later."""
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
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--replay", type=int, help="only this: replay so many events")
    parser.add_argument("--memory", type=int, help="only this: memory over so many events")
    given = parser.parse_args()
    if given.replay or given.memory:
        if given.replay:
            replay(given.replay)
        if given.memory:
            memory(given.memory)
        return
    seconds = given.seconds
    ask = [
        request("predict", json.dumps({"x": row["x"]}).encode(), "application/json")
        for row in rows(2000)
    ]
    found: dict[str, tuple[float, float]] = {}
    for name, served in (("sonline", sonline), ("FastAPI + River", peer)):
        with served() as (port, pid):
            kinds = [
                ("learn, JSON lines of 100", "lines", 100, 4),
                ("learn, single", "lines", 1, 16),
            ]
            if name == "sonline":
                kinds.insert(1, ("learn, Arrow of 1,000", "arrow", 1000, 4))
            for label, kind, batch, many in kinds:
                requests = learn_requests(kind, batch, peer=name != "sonline")
                found[f"{name}: {label}"] = measured(
                    f"{name}: {label}", port, pid, requests, batch, seconds, many
                )
            found[f"{name}: predict, single"] = measured(
                f"{name}: predict, single", port, pid, ask, 1, seconds, 4
            )
            if name == "sonline":
                beside(port, ask, seconds)
    for label in ("learn, JSON lines of 100", "learn, single", "predict, single"):
        mine, other = found[f"sonline: {label}"], found[f"FastAPI + River: {label}"]
        rate, each = mine[0] / other[0], other[1] / mine[1]
        print(f"ratio, {label}: {rate:.1f} by rows/s, {each:.1f} by CPU")


def beside(port: int, ask: list[bytes], seconds: float) -> None:
    """Predict while about 50,000 events a second are learned."""
    teach = learn_requests("lines", 100)
    learner = threading.Thread(target=load, args=(port, teach, 1, seconds, 0.0015))
    learner.start()
    _, _, latencies = load(port, ask, 1, seconds, 0.002)
    learner.join()
    p50, p99 = (latencies[int(len(latencies) * share)] * 1e3 for share in (0.5, 0.99))
    print(f"{'sonline: predict while learning':42} p50 {p50:.2f} ms  p99 {p99:.2f} ms")


if __name__ == "__main__":
    main()
