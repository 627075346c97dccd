"""Files that are lost, cut, damaged or older: all events are there, or the start is refused."""

import shutil

import pytest
from helpers_service import NAME, drawn, to_learn

from sonline.errors import ParameterError, SonlineError
from sonline.service.database import Database
from sonline.service.records import StoreError
from sonline.service.service import ConflictError, Service
from sonline.service.versions import new_model

EVENTS = 300


def learned(service) -> int:
    return service.engine(NAME).versions[1].model.stats()["rounds"]


@pytest.fixture(params=["killed", "stopped"])
def folders(tmp_path, request):
    """Return the folder of a service that was killed or stopped, and a copy with fewer events."""
    live, older = tmp_path / "live", tmp_path / "older"
    service = Service(live)
    service.start()
    engine = service.create(NAME, new_model(), "test")
    for number in range(6):
        engine.learn(to_learn(drawn(EVENTS // 6, number, f"{number}-"))).result()
        if number == 2:
            shutil.copytree(live, older)
    if request.param == "killed":
        shutil.copytree(live, tmp_path / "data")
        service.close()
    else:
        service.close()
        shutil.copytree(live, tmp_path / "data")
    return tmp_path / "data", older


def damages(older):
    """Yield how a file may be harmed: a name, and a function of its path."""
    yield "lost", lambda path: path.unlink()
    yield "empty", lambda path: path.write_bytes(b"")
    yield "half", lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    yield "cut", lambda path: path.write_bytes(path.read_bytes()[:-1])

    def flip(path, position):
        data = bytearray(path.read_bytes())
        if data:
            data[position % len(data)] ^= 0x10
        path.write_bytes(data)

    for position in (-1, 0, 30, 110, 1000, 4100, 8200, -3000, -7000):
        yield f"flipped {position}", lambda path, at=position: flip(path, at)

    def restore(path):
        copy = older / path.relative_to(older.parent / "data")
        shutil.copy(copy, path) if copy.exists() else path.unlink()

    yield "older", restore


def files_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def start(folder) -> str | None:
    """Start a service, which must have all events; return why it refuses to, if it does."""
    try:
        service = Service(folder)
        try:
            service.start(wait=True)
            assert learned(service) == EVENTS
        finally:
            service.close()
    except (SonlineError, OSError) as error:
        return str(error)
    return None


def test_no_file_can_be_lost_or_damaged_silently(folders, tmp_path):
    data, older = folders
    for name in files_of(data):
        for kind, damage in damages(older):
            trial = tmp_path / "trial"
            shutil.copytree(data, trial)
            shutil.rmtree(data)
            shutil.copytree(trial, data)
            damage(data / name)
            before = {path: (data / path).read_bytes() for path in files_of(data)}
            refused = start(data)
            if refused is not None:
                assert str(data) in refused, (name, kind)
                after = {path: (data / path).read_bytes() for path in files_of(data)}
                kept = [path for path in before if path.suffix in (".db", ".db-wal", ".end")]
                assert all(before[path] == after.get(path) for path in kept), (name, kind)
            shutil.rmtree(data)
            trial.rename(data)


def test_what_is_there_is_never_deleted(folders):
    """Not even if a model of this name is created again."""
    data, _ = folders
    path = data / "models" / f"{NAME}.db"
    content = path.read_bytes()
    with pytest.raises(StoreError, match="move it away"):
        Database.create(path, b"model")
    assert path.read_bytes() == content
    (data / "tokens.db").unlink()
    with pytest.raises(StoreError, match=r"tokens.db is missing.*--accept-loss tokens.db"):
        Service(data)
    service = Service(data, accept_loss=["tokens.db"])
    service.start(wait=True)
    assert learned(service) == EVENTS
    with pytest.raises(ConflictError):
        service.create(NAME, new_model(), "test")
    service.close()


def test_a_damaged_database_is_named(folders):
    data, _ = folders
    for path in data.rglob("*.db"):
        path.write_bytes(b"this is no database" * 100)
    with pytest.raises(SonlineError, match=r"\.db"):
        Service(data).start()


def test_the_loss_of_what_is_not_there_is_refused(folders):
    data, _ = folders
    with pytest.raises(ParameterError, match=rf"--accept-loss other.* no such model.*{NAME}"):
        Service(data, accept_loss=["other"]).start()
