"""Connections of HTTP: pieces of requests, slow clients, clients that go away, and limits."""

import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
import uvicorn
from helpers_service import NAME, drawn, make

from sonline.service import bodies, connections, create_app
from sonline.service.security import Guard
from sonline.service.server import config_of
from sonline.service.versions import Live

MODEL = f"/v1/models/{NAME}"
ROW = {"x": {"f": 1.5, "colour": "red"}}


@contextmanager
def running(folder):
    """Serve a folder with one model in a thread."""
    app = create_app(folder, tokens_required=False)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    server = uvicorn.Server(config_of(app))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        connection = Connection(listening.getsockname()[1])
        assert connection.ask("/v1/models", {"name": NAME})[0] == 201
        connection.service = app.service
        connection.app = app
        connection.server = server
        yield connection
    finally:
        connection.close()
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def connection(tmp_path):
    with running(tmp_path) as connection:
        yield connection


def request(path, content, *, version="1.1", chunked=False, **headers):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    named = {"host": "localhost", "content-type": "application/json"} | headers
    if chunked:
        named["transfer-encoding"] = "chunked"
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        named["content-length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"POST {path} HTTP/{version}\r\n{lines}\r\n".encode() + body


class Connection:
    """A connection of HTTP that sends bytes as they are."""

    def __init__(self, port):
        self.port = port
        self._open()

    def _open(self, **options):
        self.socket = socket.socket()
        for name, value in options.items():
            self.socket.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(20)
        self.socket.connect(("127.0.0.1", self.port))
        self.file = self.socket.makefile("rb")

    def again(self, **options):
        self.close()
        self._open(**options)

    def close(self):
        self.file.close()
        self.socket.close()

    def ask(self, path, content, **rest):
        self.socket.sendall(request(path, content, **rest))
        return self.answer()

    def answer(self):
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name] = value
        if status == 100:
            return self.answer()
        return status, json.loads(self.file.read(int(headers["content-length"])))


def test_a_request_is_answered_the_same_in_one_piece_and_in_many(connection):
    path = f"{MODEL}/predict"
    expected = connection.ask(path, ROW)
    assert expected[0] == 200
    assert connection.ask(path, ROW, chunked=True) == expected
    assert connection.ask(path, ROW, expect="100-continue") == expected
    whole = request(path, ROW)
    for pieces in ([whole[:-1], whole[-1:]], [whole[n : n + 1] for n in range(len(whole))]):
        for piece in pieces:
            connection.socket.sendall(piece)
            time.sleep(0.001)
        assert connection.answer() == expected
    connection.socket.sendall(whole * 3 + request("/v1/models", {"name": "Bad name"}) + whole)
    assert [connection.answer()[0] for _ in range(5)] == [200, 200, 200, 400, 200]
    for rest in ({"connection": "close"}, {"version": "1.0"}):
        assert connection.ask(path, ROW, **rest) == expected
        assert connection.file.read() == b""  # closed
        connection.again()


def test_a_client_that_reads_late_gets_every_answer(connection):
    many = 4000
    asked = request(f"{MODEL}/predict", json.dumps(ROW).encode() + b" " * 4000) * 100
    connection.again(SO_RCVBUF=4096)
    sender = threading.Thread(
        target=lambda: [connection.socket.sendall(asked) for _ in range(many // 100)]
    )
    sender.start()
    sender.join(1.0)
    assert sender.is_alive()  # the service has stopped reading: nobody takes its answers
    assert all(connection.answer()[0] == 200 for _ in range(many))
    sender.join()
    assert connection.ask(f"{MODEL}/predict", ROW)[0] == 200  # it reads again


def test_a_body_that_comes_while_the_service_stops_is_answered(tmp_path):
    with running(tmp_path) as connection:
        row = ROW | {"y": 1}
        assert connection.ask(f"{MODEL}/learn", row)[0] == 200
        head, body = request(f"{MODEL}/learn", row).split(b"\r\n\r\n")
        connection.socket.sendall(head + b"\r\n\r\n")
        time.sleep(0.02)
        connection.server.should_exit = True
        time.sleep(0.2)
        connection.socket.sendall(body)
        assert connection.answer()[0] == 200
        assert connection.file.read() == b""  # closed


def test_a_client_that_goes_away_before_its_answer(connection):
    for row in drawn(20):
        connection.socket.sendall(request(f"{MODEL}/learn", row))
        connection.again()
    assert connection.ask(f"{MODEL}/learn", ROW | {"y": 1})[0] == 200
    engine = connection.service.writer(NAME)
    while engine.lag:
        time.sleep(0.01)
    assert engine.events == 21


def test_an_unexpected_error_is_answered_with_500(connection, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("secret of the service")

    with monkeypatch.context() as patch:
        patch.setattr(Live, "predict", broken)
        status, answer = connection.ask(f"{MODEL}/predict", ROW)
    assert status == 500
    assert "secret" not in answer["error"]
    assert "secret of the service" in caplog.text
    assert connection.ask(f"{MODEL}/predict", ROW)[0] == 200


def test_the_address_behind_a_proxy_is_that_of_the_client(connection, monkeypatch):
    seen = []
    check = Guard.check

    def noted(self, request, scope):
        seen.append(request.client)
        return check(self, request, scope)

    monkeypatch.setattr(Guard, "check", noted)
    forwarded = {"x-forwarded-for": "203.0.113.7"}
    assert connection.ask(f"{MODEL}/predict", ROW)[0] == 200
    for _ in range(2):
        assert connection.ask(f"{MODEL}/predict", ROW, **forwarded)[0] == 200
    assert connection.ask("/v1/models", {"name": "other"}, **forwarded)[0] == 201
    assert seen == ["127.0.0.1", *["203.0.113.7"] * 3]


def test_a_lone_client_does_not_wait_for_others(tmp_path):
    """A group is written at once if the one before had a single request."""
    engine = make(tmp_path)
    waits = []
    wait_for = engine._changed.wait_for
    engine._changed.wait_for = lambda ready, timeout=None: (
        waits.append(timeout),
        wait_for(ready, timeout),
    )[1]
    rows = [json.dumps({"x": row["x"], "y": row["y"]}).encode() for row in drawn(50)]
    for row in rows:
        decoded = bodies.decode_one(row, bodies.LearnRow)
        engine.learn(bodies.rows_to_learn([decoded], row)).result()
    assert engine.groups == 50
    assert not waits
    engine.close()


@contextmanager
def left_open(port, count, sent=b"POST /v1/models HTTP/1.1\r\nhost: local"):
    """Yield connections with half of a request, which is never continued."""
    with ExitStack() as stack:
        address = ("127.0.0.1", port)
        slow = [stack.enter_context(socket.create_connection(address)) for _ in range(count)]
        for one in slow:
            one.sendall(sent)
        yield slow


def read_to_the_end(connection):
    connection.settimeout(10)
    data = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            data += piece
    return data


@pytest.mark.parametrize("first", [b"", request("/v1/models", b"{}")])
def test_a_head_that_does_not_arrive_in_time_ends_the_connection(connection, monkeypatch, first):
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0.5)
    sent = first + b"POST /v1/models HTTP/1.1\r\nhost: local"
    with left_open(connection.port, 5, sent) as slow:
        for one in slow:
            answer = read_to_the_end(one)
            assert answer.startswith(b"HTTP/1.1 400") if first else not answer
    connection.again()
    assert connection.ask(f"{MODEL}/predict", ROW)[0] == 200


def test_a_body_that_does_not_arrive_in_time_ends_the_connection(connection, monkeypatch):
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.5)
    head, body = request(f"{MODEL}/learn", ROW | {"y": 1}).split(b"\r\n\r\n")
    with left_open(connection.port, 3, head + b"\r\n\r\n" + body[:5]) as slow:
        assert not any(read_to_the_end(one) for one in slow)
    assert connection.ask(f"{MODEL}/predict", ROW)[0] == 200


def test_half_sent_requests_do_not_shut_others_out(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS", 20)
    with running(tmp_path) as connection, left_open(connection.port, 50) as slow:
        connection.again()
        assert connection.ask(f"{MODEL}/predict", ROW)[0] == 200
        assert not any(read_to_the_end(one) for one in slow[:31])  # the oldest are closed


def test_connections_beyond_the_limit_are_refused_if_all_are_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS", 3)
    with running(tmp_path) as connection:
        connection.close()
        body = b"content-type: application/json\r\ncontent-length: 9\r\n\r\n{"
        head = b"POST /v1/models HTTP/1.1\r\nhost: localhost\r\n"
        with left_open(connection.port, 3, head + body):
            time.sleep(0.2)  # they are being answered
            with socket.create_connection(("127.0.0.1", connection.port)) as one:
                one.settimeout(10)
                with one.makefile("rb") as file:
                    answer = file.read()
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"too many connections" in answer
        time.sleep(0.1)
        connection.again()
        assert connection.ask(f"{MODEL}/predict", ROW)[0] == 200
