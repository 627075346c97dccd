"""Many models: those that nobody uses have no threads and no open files."""

import os
import threading
import time
from pathlib import Path

import httpx
import pytest
from helpers_service import drawn, served, to_learn
from starlette.testclient import TestClient

from sonline.service import create_app, engine
from sonline.service.records import End, StoreError
from sonline.service.service import Service
from sonline.service.settings import Settings
from sonline.service.versions import new_model

FILES = Path("/proc/self/fd")
MODELS = int(os.environ.get("SONLINE_MODELS", "100"))


def open_files() -> int:
    return len(list(FILES.iterdir()))


@pytest.mark.skipif(not FILES.exists(), reason="counts the files in /proc")
def test_idle_models_have_no_threads_and_no_files(tmp_path):
    service = Service(tmp_path, Settings(idle_seconds=0.2))
    service.start()
    files = open_files()
    for number in range(MODELS):
        service.create(f"m{number}", new_model(), "test")
    waits = [
        service.writer(f"m{number}").learn(to_learn(drawn(1, number))) for number in range(MODELS)
    ]
    assert all(wait.result().learned == 1 for wait in waits)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("sonline-")]
    assert len(threads) <= 4 + max(2, os.cpu_count() or 1) + 1
    until = time.monotonic() + 20
    while open_files() > files + 2 and time.monotonic() < until:
        time.sleep(0.1)
    assert open_files() <= files + 2
    rows = to_learn(drawn(1, 1, "again"))
    assert service.writer("m3").learn(rows).result().seq == 2  # it opens its file again
    before = [len(watched.history) for watched in service.watched.values()]
    for _ in range(5):
        service.sample()
    after = [len(watched.history) for watched in service.watched.values()]
    assert after[0] - before[0] < 5  # samples of a model that nobody uses are not taken
    service.close()


def test_the_number_of_models_is_limited(tmp_path):
    app = create_app(tmp_path, tokens_required=False, settings=Settings(models=2))
    with TestClient(app, base_url="http://localhost") as client:
        answers = [client.post("/v1/models", json={"name": f"m{n}"}) for n in range(3)]
        assert [answer.status_code for answer in answers] == [201, 201, 409]
        assert answers[-1].json()["error"] == "there are 2 models, as many as --models allows"
        again = client.post("/v1/models", json={"name": "m1"})
        assert (again.status_code, "already is a model" in again.json()["error"]) == (409, True)


def test_a_model_that_cannot_be_written_is_503_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    app = create_app(tmp_path, tokens_required=False)
    with TestClient(app, base_url="http://localhost") as client:
        with monkeypatch.context() as patch:
            patch.setattr("sonline.service.database.os.fsync", full, raising=False)
            patch.setattr("sonline.service.records.os.fsync", full)
            answer = client.post("/v1/models", json={"name": "m"})
        assert answer.status_code == 503
        assert "No space left" in answer.json()["error"]
        assert client.post("/v1/models", json={"name": "m"}).status_code == 201
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["m.db", "m.end"]


def test_what_an_interrupted_creation_left_is_removed_at_start(tmp_path):
    service = Service(tmp_path)
    service.start()
    service.create("m", new_model(), "test")
    service.close()
    models = tmp_path / "models"
    for name in ("n.new", "n.new-wal", "n.new-shm"):
        (models / name).write_bytes(b"half")
    End(models / "n.end").write("0" * 16, 0)
    again = Service(tmp_path)
    again.start(wait=True)
    assert [*again.engines] == ["m"]
    again.create("n", new_model(), "test")
    again.close()
    assert {path.stem for path in models.iterdir()} == {"m", "n", "n.end"}  # kept under a name
    assert not list(models.glob("*.new*"))


def test_a_folder_of_another_version_is_refused(tmp_path):
    (tmp_path / "models" / "clicks" / "log").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"tokens.db is missing"):
        Service(tmp_path)
    service = Service(tmp_path, accept_loss=["tokens.db"])
    with pytest.raises(StoreError, match="another version of sonline; move it away"):
        service.start()
    service.close()


def test_two_services_do_not_share_a_folder(tmp_path):
    with served("--data", str(tmp_path)) as process:
        httpx.post(f"{process.url}v1/models", json={"name": "m"}).raise_for_status()
        for path in tmp_path.iterdir():
            if path.name not in ("models", "tokens.db"):
                path.unlink()  # whatever marks the folder as used
        with pytest.raises(Exception, match="served by another process"):
            Service(tmp_path)


def test_a_model_whose_events_cannot_be_read_is_not_ready(tmp_path, monkeypatch):
    service = Service(tmp_path)
    service.start()
    service.create("m", new_model(), "test")
    service.close()

    def unreadable(*_):
        raise StoreError(tmp_path / "m.db", ": no")

    monkeypatch.setattr(engine.Database, "read", unreadable)
    again = Service(tmp_path)
    again.start()
    with pytest.raises(Exception, match=r"StoreError: m\.db: no"):
        again.engine("m").wait_ready(5)
    assert not again.ready
    again.close()
