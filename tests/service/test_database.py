"""The file of a model: whole groups or nothing, damage is named, and losses must be accepted."""

import shutil
import sqlite3
import stat

import numpy as np
import pytest

from sonline.service.database import Database
from sonline.service.records import (
    AS_LINES,
    LEARN,
    SHADOW,
    DamagedError,
    Record,
    StoreError,
    Version,
)
from sonline.service.view import DatabaseView


def record(payload: bytes, count: int = 1) -> Record:
    return Record(LEARN, AS_LINES, count, payload)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clicks.db"


def filled(path, groups: int = 20) -> Database:
    database = Database.create(path, b"model")
    for number in range(groups):
        database.append([record(b"%d-%d" % (number, part), 2) for part in range(3)], float(number))
    return database


def reopened(path, accept_loss: bool = False) -> Database:
    database = Database(path)
    database.open(accept_loss)
    return database


def payloads(database) -> list[bytes]:
    return [record.payload for record in database.read(database.about.first)]


def test_events_are_numbered_and_read_in_order(path):
    filled(path, 5).release()
    database = reopened(path)
    assert [record.seq for record in database.read(1)] == list(range(1, 31, 2))
    assert [record.seq for record in database.read(8)][:2] == [7, 9]
    assert (database.next, database.about.first, database.time) == (31, 1, 4.0)


def test_only_the_owner_can_read_the_files(path):
    filled(path, 1)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_every_flipped_byte_is_noticed_or_changes_nothing(path):
    filled(path, 30).release()
    whole, expected = path.read_bytes(), payloads(reopened(path))
    for position in np.random.default_rng(0).integers(0, len(whole), 300):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        try:
            database = reopened(path)
        except DamagedError:
            continue
        assert payloads(database) == expected
        assert [data for _, data in database.snapshots(1)] == [b"model"]


@pytest.mark.parametrize("suffix", [".db", ".db-wal"])
def test_every_cut_is_noticed(path, suffix, tmp_path):
    filled(path)
    copy = tmp_path / "copy"
    for share in (0.0, 0.1, 0.5, 0.9, 0.999):
        shutil.copytree(path.parent, copy, ignore=shutil.ignore_patterns("copy", "*-shm"))
        file = copy / f"clicks{suffix}"
        file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
        if file.stat().st_size == path.with_suffix(suffix).stat().st_size:
            continue
        with pytest.raises(DamagedError, match="--accept-loss clicks"):
            reopened(copy / "clicks.db")
        shutil.rmtree(copy)


def test_an_older_copy_is_noticed_and_can_be_accepted(path, tmp_path):
    database = filled(path, 5)
    database.release()
    shutil.copy(path, tmp_path / "older.db")
    database.append([record(b"more", 4)], 9.0)
    database.release()
    shutil.copy(tmp_path / "older.db", path)
    with pytest.raises(DamagedError, match="ends with event 30, but 34 were acknowledged"):
        reopened(path)
    database = reopened(path, accept_loss=True)
    assert (len(payloads(database)), database.next, database.about.lost) == (15, 35, [(31, 35)])
    assert database.append([record(b"next")], 10.0) == 35  # no number is used twice
    database.release()
    again = reopened(path)
    assert [entry.seq for entry in again.read(29)] == [29, 35]
    assert len(list(path.parent.glob("clicks.db.lost-1"))) == 1  # nothing is deleted


def test_a_damaged_event_is_named_and_those_before_it_can_be_kept(path):
    filled(path, 3).release()
    with sqlite3.connect(path) as connection:
        connection.execute("update events set payload = x'00' where seq = 9")
    connection.close()
    with pytest.raises(DamagedError, match=r"damaged \(event 9\)"):
        reopened(path)
    database = reopened(path, accept_loss=True)
    assert payloads(database) == [b"0-0", b"0-1", b"0-2", b"1-0"]
    assert database.next == 19
    assert [data for _, data in database.snapshots(1)] == [b"model"]


def test_a_missing_event_is_noticed(path):
    filled(path, 3).release()
    with sqlite3.connect(path) as connection:
        connection.execute("delete from events where seq = 9")
    connection.close()
    with pytest.raises(DamagedError, match="the events from 9 to 10 are missing"):
        reopened(path)


def test_the_file_of_another_model_is_noticed(path, tmp_path):
    filled(path, 1).release()
    other = tmp_path / "other.db"
    filled(other, 5).release()
    shutil.copy(other, path)
    with pytest.raises(DamagedError, match=r"clicks.end belongs to another file"):
        reopened(path)


@pytest.fixture
def full():
    """Return a function that fills the disk of a database, or frees it."""

    def fill(database, pages):
        database._connect().execute(f"pragma max_page_count={pages}")

    return fill


def test_a_full_disk_keeps_nothing_and_recovers(path, full):
    database = filled(path, 1)
    full(database, 1)
    with pytest.raises(StoreError, match="No space left"):
        database.append([record(b"x" * 50_000)], 2.0)
    assert database.next == 7
    # SQLite may leave a group there that it could not synchronize, and find it after a crash.
    assert path.with_name("clicks.db-wal").stat().st_size == 0
    assert payloads(reopened(path)) == [b"0-0", b"0-1", b"0-2"]
    full(database, 1 << 30)
    assert database.append([record(b"second")], 3.0) == 7
    database.release()
    assert payloads(reopened(path))[-1] == b"second"


def test_old_events_are_removed_when_nothing_needs_them(path):
    database = filled(path)
    database.drop_before(1, keep_bytes=0, older_than=None)
    assert database.about.first == 1
    database.drop_before(50, keep_bytes=0, older_than=None)
    assert database.about.first == 49
    database.release()
    database = reopened(path)
    with pytest.raises(StoreError, match="first event here is 49"):
        list(database.read(1))
    database.drop_before(database.next, keep_bytes=1 << 30, older_than=10.0)
    assert database.about.first == 61


def test_events_that_were_removed_meanwhile_are_not_skipped(path):
    """As a process that follows would, which knows an older beginning."""
    database = filled(path)
    view = DatabaseView(path)
    view.refresh()
    database.drop_before(50, keep_bytes=0, older_than=None)
    with pytest.raises(StoreError, match="the events from 9 to 48 are missing"):
        list(view.read(9))
    assert next(view.read(49)).seq == 49


def test_unfinished_snapshots_and_creations_leave_nothing(path):
    database = filled(path, 1)
    database._put_parts(1, 5, b"unfinished")  # as if it was killed before the snapshot was listed
    assert [data for _, data in database.snapshots(1)] == [b"model"]
    for next_ in (3, 7):
        database.put_snapshot(1, next_, 1, b"model %d" % next_)
    assert [data for _, data in database.snapshots(1)] == [b"model 7", b"model 3"]
    held = database._connect().execute("select version, next from snapshots").fetchall()
    assert sorted(held) == [(1, 3), (1, 7)]
    database.put_snapshot(2, 7, 1, b"of a version that was removed")
    assert [snapshot.version for snapshot in database.about.snapshots] == [1, 1]
    assert not list(path.parent.glob("*.new*"))


def test_large_snapshots_have_parts_and_a_damaged_one_is_not_used(path):
    database = filled(path, 1)
    large = np.random.default_rng(0).bytes(9 << 20)
    database.add_version(Version(2, SHADOW, "test", 0.0, 7), large)
    assert [data for _, data in database.snapshots(2)] == [large]
    database._connect().execute("delete from snapshots where version = 2 and part = 1")
    (_, error), *_ = database.snapshots(2)
    assert isinstance(error, StoreError)
