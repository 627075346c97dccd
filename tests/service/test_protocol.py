"""Requests with a single row, over HTTP: answered without a task, and as all others are."""

import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn
from helpers_service import NAME, drawn, make
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sonline.service import bodies, create_app, protocol
from sonline.service.protocol import QuickProtocol
from sonline.service.security import Guard
from sonline.service.versions import Live

MODEL = f"/v1/models/{NAME}"
ROW = {"x": {"f": 1.5, "colour": "red"}}


@contextmanager
def running(folder):
    """Serve a folder with one model in a thread."""
    app = create_app(folder, tokens_required=False)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    config = uvicorn.Config(app, http=QuickProtocol, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        connection = Connection(listening.getsockname()[1])
        assert connection.ask("/v1/models", {"name": NAME})[0] == 201
        connection.service = app.state.service
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


@pytest.fixture
def tasks(monkeypatch):
    if not hasattr(HttpToolsProtocol, "_start_asgi_task"):
        pytest.skip("this uvicorn starts its tasks in another way")
    started = []
    usual = HttpToolsProtocol._start_asgi_task

    def counted(self, cycle, app):
        started.append(cycle.scope["path"])
        usual(self, cycle, app)

    monkeypatch.setattr(HttpToolsProtocol, "_start_asgi_task", counted)
    return started


def test_a_single_row_needs_no_task(tasks, connection):
    tasks.clear()
    status, predicted = connection.ask(f"{MODEL}/predict", ROW | {"id": "a"})
    assert (status, predicted["id"]) == (200, "a")
    assert connection.ask(f"{MODEL}/predict?durable=1", ROW | {"id": "b"})[0] == 200
    assert connection.ask(f"{MODEL}/learn", ROW | {"y": 1})[0] == 200
    assert connection.ask(f"{MODEL}/label", {"id": "a", "y": 1})[0] == 200
    assert connection.ask(f"{MODEL}/label", {"id": "a", "y": 1})[1]["duplicate"]
    assert connection.ask(f"{MODEL}/label", {"id": "nobody", "y": 1})[0] == 404
    assert connection.ask(f"{MODEL}/learn", {"x": {"f": "a"}, "y": 7})[0] == 400
    assert connection.ask(f"{MODEL}/learn", b"{")[0] == 400
    assert connection.ask("/v1/models/nobody/learn", ROW | {"y": 1})[0] == 404
    assert tasks == []
    lines = {"content-type": "application/x-ndjson"}
    assert connection.ask(f"{MODEL}/learn", ROW | {"y": 1}, **lines)[1]["learned"] == 1
    large = {"x": {f"f{j}": 1.0 for j in range(10_000)}, "y": 1}
    assert connection.ask(f"{MODEL}/learn", large)[0] == 200
    zipped = {"content-encoding": "gzip"}
    assert connection.ask(f"{MODEL}/learn", ROW | {"y": 1}, **zipped)[0] == 415
    assert connection.ask(f"{MODEL}/learn", b"x" * 2_000_000, **{"content-type": "text/plain"})[0]
    assert tasks == [f"{MODEL}/learn"] * 4


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


def test_a_request_of_a_client_that_takes_no_answers_waits_in_a_task(
    tasks, connection, monkeypatch
):
    received = QuickProtocol.data_received

    def full(self, data):
        self.flow.pause_writing()  # as if the socket took nothing more
        self.loop.call_later(0.001, self.flow.resume_writing)
        received(self, data)

    monkeypatch.setattr(QuickProtocol, "data_received", full)
    connection.again()
    for _ in range(10):
        assert connection.ask(f"{MODEL}/predict", ROW)[0] == 200
        assert connection.ask(f"{MODEL}/learn", ROW | {"y": 1})[0] == 200
    assert len(tasks) == 21  # with the one that created the model


@pytest.fixture
def heads(monkeypatch):
    """Return the paths of all heads that were parsed."""
    parsed = []
    complete = HttpToolsProtocol.on_headers_complete

    def noted(self):
        complete(self)
        parsed.append(self.scope["path"])

    monkeypatch.setattr(HttpToolsProtocol, "on_headers_complete", noted)
    return parsed


def test_the_same_head_is_parsed_once(heads, connection):
    rows = [{"x": {"f": value}} for value in (1.25, 2.25, 3.25)]
    heads.clear()
    first = [connection.ask(f"{MODEL}/predict", row)[1] for row in rows]
    assert len(heads) == 1
    connection.again()
    learned = [connection.ask(f"{MODEL}/learn", row | {"y": 1}) for row in rows]
    assert [(status, answer["seq"]) for status, answer in learned] == [(200, 1), (200, 2), (200, 3)]
    assert connection.ask(f"{MODEL}/learn", {"x": {"f": 2.75}, "y": 7})[0] == 400
    assert len(heads) == 2
    while connection.service.writer(NAME).lag:
        time.sleep(0.01)
    second = [connection.ask(f"{MODEL}/predict", row)[1] for row in rows]
    assert len(heads) == 2  # the other connection had asked for it
    assert first[0]["seq"] == 0
    assert second[0]["seq"] == 3
    assert second[0]["raw"] < second[1]["raw"] < second[2]["raw"]


def test_a_head_is_known_only_with_a_body_of_its_length(heads, connection):
    path = f"{MODEL}/predict"
    whole = request(path, {"x": {"f": 1.25}})
    expected = connection.ask(path, {"x": {"f": 1.25}})
    connection.socket.sendall(whole + whole)  # two in one piece
    assert [connection.answer(), connection.answer()] == [expected] * 2
    connection.socket.sendall(whole[:-1])
    time.sleep(0.02)
    connection.socket.sendall(whole[-1:] + whole[:20])
    assert connection.answer() == expected
    connection.socket.sendall(whole[20:])
    assert connection.answer() == expected
    # What looks like a known request is the body of another one.
    inner = request(path, whole, **{"content-type": "text/plain"})
    head, _, _ = inner.partition(b"\r\n\r\n")
    connection.socket.sendall(head + b"\r\n\r\n")
    time.sleep(0.02)
    connection.socket.sendall(whole)
    assert connection.answer()[0] == 415
    time.sleep(0.02)
    heads.clear()
    connection.socket.sendall(whole)
    assert connection.answer() == expected
    assert heads == []


def in_two_pieces(connection, path, content, seconds=0.02):
    """Send the body some time after the head, as many clients do."""
    head, body = request(path, content).split(b"\r\n\r\n")
    connection.socket.sendall(head + b"\r\n\r\n")
    time.sleep(seconds)
    connection.socket.sendall(body)
    return connection.answer()


def test_a_known_head_waits_for_its_body(heads, tasks, connection, monkeypatch):
    path = f"{MODEL}/predict"
    expected = connection.ask(path, {"x": {"f": 1.25}})
    tasks.clear()
    heads.clear()
    assert in_two_pieces(connection, path, {"x": {"f": 1.25}}) == expected
    assert (heads, tasks) == ([], [])
    whole = request(path, {"x": {"f": 1.25}})
    end = whole.index(b"\r\n\r\n") + 4
    for piece in (whole[:end], whole[end : end + 3], whole[end + 3 :] + whole[:end], whole[end:]):
        connection.socket.sendall(piece)
        time.sleep(0.02)
    assert [connection.answer(), connection.answer()] == [expected] * 2
    monkeypatch.setattr(protocol, "_MOMENT", 0.01)
    heads.clear()
    assert in_two_pieces(connection, path, {"x": {"f": 1.25}}, 0.1) == expected
    assert len(heads) == 1  # it took too long: uvicorn parses it, and limits the time of the body
    connection.socket.sendall(whole[:end])
    connection.again()
    assert connection.ask(path, {"x": {"f": 1.25}}) == expected


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


@pytest.mark.parametrize("rest", [{"connection": "close"}, {"version": "1.0"}, {"chunked": True}])
def test_heads_with_another_end_are_parsed_again(heads, connection, rest):
    heads.clear()
    for _ in range(2):
        assert connection.ask(f"{MODEL}/predict", ROW, **rest)[0] == 200
        connection.again()
    assert len(heads) == 2


def test_the_number_of_heads_is_bounded(connection, monkeypatch):
    monkeypatch.setattr(protocol, "HEADS", 10)
    for number in range(35):
        row = ROW | {"id": "a" * (number + 1)}
        assert connection.ask(f"{MODEL}/predict", row)[0] == 200
        assert connection.ask(f"{MODEL}/predict", row, trace=f"{number:02}")[0] == 200
    assert 0 < len(connection.app.heads) <= 10
    assert connection.ask(f"{MODEL}/predict", ROW, padding="a" * 5000)[0] == 200
    assert max(map(len, connection.app.heads)) < 5000


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
        seen.append(request.client.host)
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
    wait_for = engine.admission.wake.wait_for
    engine.admission.wake.wait_for = lambda ready, timeout=None: (
        waits.append(timeout),
        wait_for(ready, timeout),
    )[1]
    rows = [json.dumps({"x": row["x"], "y": row["y"]}).encode() for row in drawn(50)]
    for row in rows:
        decoded = bodies.decode_one(row, bodies.LearnRow)
        engine.learn(bodies.rows_to_learn([decoded], row)).result()
    engine.close()
    assert engine.groups == 50
    assert set(waits) == {None}
