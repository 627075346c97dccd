"""The log: whole groups or nothing, and damage is named."""

import errno
import os

import numpy as np
import pytest

from sonline.service import frames as module
from sonline.service.frames import LEARN, LINES, LogError, Record
from sonline.service.log import DiskFullError, Log


def record(payload: bytes, count: int = 1) -> Record:
    return Record(LEARN, LINES, count, payload)


def filled(folder, groups: int = 20, **settings) -> Log:
    log = Log(folder, **settings)
    for number in range(groups):
        log.append([record(b"%d-%d" % (number, part), 2) for part in range(3)], float(number))
    log.close()
    return log


def payloads(folder) -> list[bytes]:
    return [record.payload for record in Log(folder).read(1)]


def test_events_are_numbered_and_read_in_order(tmp_path):
    filled(tmp_path, 5)
    log = Log(tmp_path)
    assert [record.seq for record in log.read(1)] == list(range(1, 31, 2))
    assert [record.seq for record in log.read(8, 13)] == [7, 9, 11]
    assert (log.next, log.first, log.time) == (31, 1, 4.0)


def test_segments_follow_one_another(tmp_path):
    filled(tmp_path, 20, segment_bytes=200)
    assert len(list(tmp_path.glob("*.log"))) > 3
    assert payloads(tmp_path) == [b"%d-%d" % (n, part) for n in range(20) for part in range(3)]


@pytest.mark.parametrize("seed", range(5))
def test_a_torn_tail_is_cut_and_the_log_continues(tmp_path, seed):
    """Whatever is left of the last group, the groups before it are all there."""
    filled(tmp_path, 4)
    path = next(tmp_path.glob("*.log"))
    whole = path.read_bytes()
    sizes = [segment.size for segment in filled(tmp_path / "three", 3).segments]
    chance = np.random.default_rng(seed)
    cut = int(chance.integers(sizes[0] + 1, len(whole)))
    path.write_bytes(whole[:cut] + bytes(int(chance.integers(64))))
    log = Log(tmp_path)
    assert [segment.payload for segment in log.read(1)][-1] == b"2-2"
    assert log.cut > 0
    log.append([record(b"more")], 9.0)
    log.close()
    assert payloads(tmp_path)[-1] == b"more"


def test_every_damaged_byte_before_the_last_group_is_noticed(tmp_path):
    log = filled(tmp_path, 3)
    path = log.segments[0].path
    whole = path.read_bytes()
    last = len(whole) - (len(whole) - module.HEADER) // 3
    for position in range(0, last, 7):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        if position < len(module.MAGIC):
            # Nothing of the file is known then: without a good frame it is one that was just made.
            with pytest.raises(LogError, match="damaged at byte 0"):
                Log(tmp_path)
        elif position < module.HEADER:
            continue  # another salt: no checksum fits, as after a damage of everything
        else:
            with pytest.raises(LogError, match=r"damaged at byte \d+, after event \d+"):
                Log(tmp_path)


def test_a_missing_segment_is_noticed(tmp_path):
    filled(tmp_path, 20, segment_bytes=200)
    sorted(tmp_path.glob("*.log"))[1].unlink()
    with pytest.raises(LogError, match="missing"):
        Log(tmp_path)


def test_a_damaged_segment_that_is_not_the_last_is_never_cut(tmp_path):
    filled(tmp_path, 20, segment_bytes=200)
    path = sorted(tmp_path.glob("*.log"))[1]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(LogError, match="damaged at byte"):
        Log(tmp_path)


def test_a_payload_that_looks_like_a_frame_is_no_frame(tmp_path):
    """A client could send the bytes of another log; they must not stop a start after a crash."""
    other = filled(tmp_path / "other", 1).segments[0].path.read_bytes()[module.HEADER :]
    log = filled(tmp_path / "log", 1)
    forged = module.FRAME.pack(module.MARK, *module.FRAME.unpack_from(other)[1:3], 7, 6, 0.0)
    log.append([record(forged + other[module.FRAME.size :] + other)], 1.0)
    log.close()
    path = log.segments[0].path
    path.write_bytes(path.read_bytes()[:-1])
    assert Log(tmp_path / "log").next == 7


class Disk:
    """A disk with few bytes left."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, handle: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(handle, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 5, 40, 100, 121])
def test_a_full_disk_keeps_nothing_and_recovers(tmp_path, room):
    disk = Disk(1 << 20)
    log = Log(tmp_path, write=disk.write)
    log.append([record(b"first")], 1.0)
    disk.room = room
    with pytest.raises(DiskFullError, match="cannot be written"):
        log.append([record(b"x" * 200)], 2.0)
    assert log.next == 2
    assert payloads(tmp_path) == [b"first"]
    disk.room = 1 << 20
    assert log.append([record(b"second")], 3.0) == 2
    log.close()
    assert payloads(tmp_path) == [b"first", b"second"]


def test_a_disk_that_is_full_from_the_start(tmp_path):
    disk = Disk(7)
    log = Log(tmp_path, write=disk.write)
    with pytest.raises(DiskFullError):
        log.append([record(b"first")], 1.0)
    assert Log(tmp_path).next == 1
    disk.room = 1 << 20
    log.append([record(b"first")], 1.0)
    log.close()
    assert payloads(tmp_path) == [b"first"]


def test_events_that_could_not_be_synchronised_are_removed(tmp_path):
    failing = [False]

    def sync(handle: int) -> None:
        if failing[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fdatasync(handle)

    log = Log(tmp_path, sync=sync)
    log.append([record(b"first")], 1.0)
    failing[0] = True
    with pytest.raises(LogError):
        log.append([record(b"second")], 2.0)
    failing[0] = False
    log.append([record(b"third")], 3.0)
    log.close()
    assert payloads(tmp_path) == [b"first", b"third"]


def test_old_segments_go_when_nothing_needs_them(tmp_path):
    filled(tmp_path, 20, segment_bytes=200)
    log = Log(tmp_path, segment_bytes=200)
    assert log.drop_before(1, keep_bytes=0, older_than=None) == 0
    assert log.drop_before(50, keep_bytes=0, older_than=None) > 0
    assert log.first <= 50
    assert Log(tmp_path).first == log.first
    with pytest.raises(LogError, match="begins with event"):
        list(log.read(1))
    before = log.first
    assert log.drop_before(log.next, keep_bytes=1 << 30, older_than=10.0) > 0
    assert log.first > before
