"""Clients that go away, callbacks that fail, and models that are busy: the others go on."""

import asyncio
import threading

import pytest
from helpers_http import MODEL
from helpers_service import drawn, make, to_learn, to_predict
from starlette.testclient import TestClient

from sonline.service import create_app
from sonline.service.bodies import LabelRow
from sonline.service.outcomes import UnavailableError
from sonline.service.pool import Pool
from sonline.service.records import StoreError
from sonline.service.service import Service
from sonline.service.versions import new_model


def closes(engine, seconds=20.0):
    """Return whether an engine, or a service, closes in time."""
    closing = threading.Thread(target=engine.close, daemon=True)
    closing.start()
    closing.join(seconds)
    return not closing.is_alive()


def test_a_client_that_leaves_before_its_snapshot_is_written(tmp_path, monkeypatch):
    app = create_app(tmp_path, tokens_required=False)
    app.service.start()
    engine = app.service.create("clicks", new_model(), "test")
    engine.learn(to_learn(drawn(10))).result()
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"{MODEL}/snapshot",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
    }
    free = threading.Event()
    put_snapshot = engine.database.put_snapshot

    def slow(*content):
        free.wait()
        put_snapshot(*content)

    monkeypatch.setattr(engine.database, "put_snapshot", slow)

    async def leave():
        async def nothing(*_):
            return {"type": "http.request"}

        request = asyncio.create_task(app(scope, nothing, nothing))
        await asyncio.sleep(0.2)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(leave())
    free.set()
    assert closes(app.service)


def test_a_callback_that_fails_does_not_stop_the_writer(tmp_path, caplog):
    """As that of a request whose event loop is closed."""
    engine = make(tmp_path)

    def fail(_):
        raise RuntimeError("Event loop is closed")

    for number in range(3):
        rows = to_learn(drawn(10, number, f"r{number}-"))
        with engine.admission.gate:  # it cannot be written before the callback is there
            promise = engine.learn(rows)
            promise.add_done_callback(fail)
        assert promise.result().learned == 10
    assert closes(engine)
    assert "Event loop is closed" in caplog.text


def test_work_that_ends_late_does_not_hold_up_other_work():
    pool, busy, free, done = Pool("test", 2), threading.Event(), threading.Event(), []
    first = threading.Event()
    pool.submit(first.set)
    first.wait()

    def last():
        done.append(1)
        free.set()

    with pool._changed:  # no thread can begin before both are there
        pool.submit(lambda: (busy.set(), free.wait(10)))
        pool.submit(last)
    assert busy.wait(5)
    assert free.wait(5)
    assert done


def test_what_cannot_start_or_end_leaves_nothing_open(tmp_path, monkeypatch):
    service = Service(tmp_path)
    service.start()
    for name in ("a", "b", "c"):
        service.create(name, new_model(), "test").learn(to_learn(drawn(10))).result()
    ended = [engine.close for engine in service.engines.values()]

    def fail():
        raise OSError("a fault")

    monkeypatch.setattr(service.engines["b"], "close", fail)
    with pytest.raises(OSError, match="a fault"):
        service.close()
    ended[1]()
    assert all(engine.admission.closed for engine in service.engines.values())
    (tmp_path / "models" / "c.db").write_bytes(b"no database")
    app = create_app(tmp_path, tokens_required=False)  # the folder is not locked any more
    with pytest.raises(StoreError, match="not a database"), TestClient(app):
        pass
    assert all(engine.admission.closed for engine in app.service.engines.values())
    Service(tmp_path).close()


def test_a_row_that_waits_stays_if_another_one_of_its_id_cannot_be_written(tmp_path):
    engine = make(tmp_path)
    engine.predict(to_predict([{"id": "a", "x": {"f0": 1.0}}]))[1].result()
    append = engine.database.append

    def full(*_):
        raise StoreError(tmp_path, "No space left")

    engine.database.append = full
    _, stored = engine.predict(to_predict([{"id": "a", "x": {"f0": 2.0}}] * 2))
    with pytest.raises(UnavailableError, match="No space left"):
        stored.result()
    engine.database.append = append
    assert engine.waiting.peek("a").x == b'{"f0":1.0}'
    assert engine.label([LabelRow("a", 1)]).result().learned == 1
    engine.close()


def test_a_row_whose_label_cannot_be_written_expires_in_its_order(tmp_path):
    engine = make(tmp_path)
    for name in "abc":
        engine.predict(to_predict([{"id": name, "x": {"f0": 1.0}}]))[1].result()
    append = engine.database.append

    def full(*_):
        raise StoreError(tmp_path, ": No space left")

    engine.database.append = full
    with pytest.raises(UnavailableError, match="No space left"):
        engine.label([LabelRow(name, 1) for name in "ba"]).result()
    engine.database.append = append
    waiting = engine.waiting
    for name, later in (("a", "b"), ("b", "c")):
        waiting.expire(waiting.peek(later).time + waiting.seconds)
        assert name not in waiting
        assert later in waiting
    engine.close()
