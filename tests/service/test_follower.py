"""Processes that only read: they follow the log and have the bits of the process that writes."""

import json
import subprocess
import time
from contextlib import contextmanager

import httpx
import pytest
from helpers_service import NAME, assert_same_bits, drawn, lines, make, served, to_learn, to_predict
from starlette.testclient import TestClient

from sonline.service import create_app
from sonline.service.bodies import LabelRow
from sonline.service.follower import Follower, ReadOnlyError
from sonline.service.records import StoreError
from sonline.service.service import InUseError, Service
from sonline.service.settings import Settings
from sonline.service.versions import new_model
from sonline.service.view import DatabaseView

MODEL = f"/v1/models/{NAME}"


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def follow(folder, engine):
    follower = Follower(DatabaseView(folder / f"{NAME}.db"))
    follower.start()
    follower.wait_ready(20)
    wait_for(lambda: caught_up(follower, engine))
    return follower


@contextmanager
def read_only(folder, mounted):
    """Mount a folder a second time, where nothing can be written."""
    commands = (
        ["mount", "--bind", str(folder), str(mounted)],
        ["mount", "-o", "remount,ro,bind", str(mounted)],
    )
    try:
        for command in commands:
            if subprocess.run(command, capture_output=True).returncode:  # noqa: PLW1510
                pytest.skip("mounting a folder is not allowed here")
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], capture_output=True)  # noqa: PLW1510


def caught_up(follower, engine):
    """Return whether all that the writer has learned is known to the follower."""
    if engine.lag or follower.versions.keys() != engine.versions.keys():
        return False
    return all(follower.versions[n].next == live.next for n, live in engine.versions.items())


def test_a_follower_has_the_bits_of_the_writer(tmp_path):
    engine = make(tmp_path, settings=Settings(snapshot_events=300))
    engine.learn(to_learn(drawn(500))).result()
    follower = follow(tmp_path, engine)
    assert_same_bits(follower.versions[1].model, engine.versions[1].model)
    for turn in range(20):  # with rows that wait
        rows = drawn(50, seed=turn, prefix=f"{turn}-")
        engine.predict(to_predict([{"id": r["id"], "x": r["x"]} for r in rows[:5]]))
        engine.learn(to_learn(rows[5:])).result()
        engine.label([LabelRow(row["id"], row["y"]) for row in rows[:5]]).result()
    wait_for(lambda: caught_up(follower, engine))
    assert follower.lag == 0
    assert_same_bits(follower.versions[1].model, engine.versions[1].model)
    x = to_predict([{"x": row["x"]} for row in drawn(10, 99)])
    assert follower.predict(x)[0].raw == engine.predict(x)[0].raw
    with pytest.raises(ReadOnlyError, match="only predicts"):
        follower.predict(to_predict([{"id": "a", "x": {"f": 1.0}}]))
    follower.close()
    engine.close()


def test_a_follower_takes_over_versions_and_promotions(tmp_path):
    engine = make(tmp_path)
    follower = follow(tmp_path, engine)
    engine.learn(to_learn(drawn(100))).result()
    version = engine.add_version(new_model(parameters={"sketch": "none"}), "test")
    engine.learn(to_learn(drawn(100, 1, "more"))).result()
    engine.promote(version)
    wait_for(lambda: follower.champion == version and caught_up(follower, engine))
    for number, live in engine.versions.items():
        assert_same_bits(follower.versions[number].model, live.model)
    engine.roll_back()
    engine.remove_version(version)
    wait_for(lambda: follower.champion == 1 and caught_up(follower, engine))
    follower.close()
    engine.close()


def test_a_follower_that_is_too_late_begins_with_the_newest_snapshot(tmp_path):
    engine = make(tmp_path, settings=Settings(keep_bytes=0, remembered=0))
    engine.learn(to_learn(drawn(50))).result()
    follower = follow(tmp_path, engine)
    follower.database.read = lambda start: (_ for _ in ()).throw(StoreError(tmp_path, " no more"))
    for turn in range(1, 10):
        rows = [{k: row[k] for k in ("x", "y")} for row in drawn(50, turn)]
        engine.learn(to_learn(rows)).result()
        engine.snapshot().result()
    wait_for(lambda: caught_up(follower, engine))
    assert engine.database.about.first > 1
    assert_same_bits(follower.versions[1].model, engine.versions[1].model)
    follower.close()
    engine.close()


def test_a_follower_goes_on_after_any_error(tmp_path, monkeypatch):
    engine = make(tmp_path)
    follower = follow(tmp_path, engine)
    with monkeypatch.context() as broken:
        broken.setattr(DatabaseView, "refresh", lambda _: {}["a fault"])
        engine.learn(to_learn(drawn(10))).result()
        wait_for(lambda: follower.problem == "KeyError('a fault')")
        assert not follower.ready
    wait_for(lambda: follower.ready and caught_up(follower, engine))
    follower.close()
    engine.close()


def test_another_file_and_a_missing_one_are_noticed(tmp_path):
    database = DatabaseView(tmp_path / f"{NAME}.db")
    with pytest.raises(StoreError, match="is missing"):
        database.refresh()
    engine = make(tmp_path)
    engine.learn(to_learn(drawn(10))).result()
    database.refresh()
    engine.close()
    database.next += 1
    with pytest.raises(StoreError, match="restored from a copy"):
        database.refresh()


def test_answers_of_a_follower(tmp_path):
    with pytest.raises(ValueError, match="no service to follow"):
        Service(tmp_path, follow=True)
    writing = create_app(tmp_path, tokens_required=False)
    with TestClient(writing, base_url="http://localhost") as writer:
        with pytest.raises(InUseError, match="--follow"):
            Service(tmp_path)
        reading = create_app(tmp_path, tokens_required=False, follow=True)
        with TestClient(reading, base_url="http://localhost") as reader:
            writer.post("/v1/models", json={"name": NAME})  # after the follower has started
            body = lines(drawn(50))
            headers = {"content-type": "application/x-ndjson"}
            assert writer.post(f"{MODEL}/learn", content=body, headers=headers).status_code == 200
            ask = {"x": {"f0": 1.0}}

            def predict(client):
                return client.post(f"{MODEL}/predict", json=ask)

            for seen in (reader, writer):  # either may be the first to learn the events on disk
                wait_for(lambda client=seen: predict(client).json().get("seq") == 50)
            assert predict(reader).content == predict(writer).content
            assert reader.get("/readyz").status_code == 200
            assert b'sonline_lag{model="clicks"} 0.0' in reader.get("/metrics").content
            assert reader.get(f"{MODEL}/stats").json()["now"]["events"] == 50
            assert reader.get(f"{MODEL}/versions/1/file").status_code == 200
            for path, wrong in {
                f"{MODEL}/predict": ask | {"id": "a"},
                f"{MODEL}/learn": ask | {"y": 1},
                f"{MODEL}/label": {"id": "e1", "y": 1},
                f"{MODEL}/versions": {},
                f"{MODEL}/snapshot": {},
                "/v1/models": {"name": "other"},
            }.items():
                refused = reader.post(path, json=wrong)
                assert (refused.status_code, "only predicts" in refused.text) == (421, True), path


def test_two_processes_follow_a_third(tmp_path):
    data = ("--data", str(tmp_path))
    with served(*data) as writer:
        httpx.post(f"{writer.url}v1/models", json={"name": NAME}).raise_for_status()
        with served(*data, "--follow") as first, served(*data, "--follow") as second:
            headers = {"content-type": "application/x-ndjson"}
            for turn in range(5):
                body = lines(drawn(200, turn, f"{turn}-"))
                httpx.post(f"{writer.url}{MODEL[1:]}/learn", content=body, headers=headers)

            def answer(process):
                asked = httpx.post(f"{process.url}{MODEL[1:]}/predict", json={"x": {"f0": 1.0}})
                return asked.json()

            wait_for(lambda: answer(writer).get("seq") == 1000)
            wait_for(lambda: answer(first) == answer(second) == answer(writer))
    for process in (first, second):
        assert all("message" in json.loads(line) for line in process.errors.splitlines())


def test_a_follower_starts_on_a_read_only_mount(tmp_path):
    written, mounted = tmp_path / "written", tmp_path / "mounted"
    mounted.mkdir()
    service = Service(written)
    service.start()
    engine = service.create(NAME, new_model(), "test")
    engine.learn(to_learn(drawn(50))).result()
    with read_only(written, mounted):
        for open_files in (True, False):  # SQLite removes its log when the writer closes
            if not open_files:
                service.close()
            follower = Service(mounted, follow=True)
            follower.start(wait=True)
            seen = follower.engines[NAME]
            wait_for(lambda seen=seen: seen.events == 50 or seen.versions[1].next == 51)
            assert seen.problem is None
            assert follower.tokens.all() == []
            follower.close()


def test_a_follower_changes_no_file_with_tokens(tmp_path):
    Service(tmp_path).close()
    path = tmp_path / "tokens.db"
    path.chmod(0o640)
    (tmp_path / "models").rmdir()
    before = path.stat()
    follower = Service(tmp_path, follow=True)
    follower.start()
    follower.close()
    now = path.stat()
    assert (now.st_mode, now.st_ctime_ns) == (before.st_mode, before.st_ctime_ns)
    assert [file.name for file in tmp_path.iterdir()] == ["tokens.db"]


def test_what_was_never_a_model_is_forgotten(tmp_path):
    service = Service(tmp_path)
    service.start()
    service.create(NAME, new_model(), "test")
    follower = Service(tmp_path, follow=True)
    follower.start(wait=True)
    models = tmp_path / "models"
    (models / "junk.db").write_bytes(b"no database")
    (models / "no name.db").write_bytes(b"")
    follower.refresh()
    assert set(follower.engines) == {NAME, "junk"}
    assert not follower.ready
    (models / "junk.db").unlink()
    follower.refresh()
    assert set(follower.engines) == set(follower.watched) == {NAME}
    assert follower.ready
    follower.close()
    service.close()
