"""The requests that `benchmarks.service` sends, and connections to send them."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from typing import Any

import numpy as np

FEATURES = 10
NAME = "bench"


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


def learn_requests(kind: str, batch: int) -> list[bytes]:
    every = rows(20_000)
    requests = []
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
            media = "application/json" if batch == 1 and kind == "lines" else "application/x-ndjson"
        requests.append(request("learn", body, media))
    return requests


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
        position = head.index(b"content-length:")
        length = int(head[position + 15 :].split(b"\r\n")[0])
        missing = length - (len(text) - end - 4)
        while missing > 0:
            missing -= len(self._socket.recv(65536))
        return int(text[9:12])


def load(  # noqa: PLR0917 - as they are read
    port: int,
    requests: list[bytes],
    connections: int,
    seconds: float,
    pause: float = 0.0,
    start: int = 0,
) -> tuple[int, float, list[float]]:
    """Send requests from several connections; how many were answered, in what time, each."""
    stop = time.perf_counter() + seconds
    answered = [0] * connections
    latencies: list[list[float]] = [[] for _ in range(connections)]

    def run(number: int) -> None:
        connection, position = Connection(port), start + number
        while time.perf_counter() < stop:
            started = time.perf_counter()
            status = connection.send(requests[position % len(requests)])
            if status == 200:
                answered[number] += 1
                latencies[number].append(time.perf_counter() - started)
            elif status == 429:
                time.sleep(0.01)
            else:
                raise SystemExit(f"status {status}")
            position += connections
            if pause:  # since the request before
                time.sleep(max(0.0, started + pause - time.perf_counter()))

    started = time.perf_counter()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(answered), time.perf_counter() - started, sorted(itertools.chain(*latencies))


def split(request_: bytes) -> bytes:
    """Return the body of a request."""
    return request_.partition(b"\r\n\r\n")[2]
