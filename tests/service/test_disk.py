"""Real disks: one that is full (a small tmpfs), and one that is slow."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from helpers_service import (
    NAME,
    assert_same_bits,
    drawn,
    last_snapshot,
    lines,
    logged,
    make,
    one_pass,
    served,
    to_learn,
)

HEADERS = {"content-type": "application/x-ndjson"}


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder with room for 3 MB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0  # noqa: PLW1510
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a tmpfs is not allowed here")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_full_disk_is_answered_with_503_and_nothing_is_lost(small_disk):
    data = ("--data", str(small_disk))
    filler = small_disk / "filler"
    acknowledged, refused = [], 0
    with served(*data) as process:
        learn = f"{process.url}v1/models/{NAME}/learn"
        httpx.post(f"{process.url}v1/models", json={"name": NAME}).raise_for_status()
        filler.write_bytes(bytes(2_300_000))
        for turn in range(40):
            rows = drawn(200, turn, f"{turn}-")
            answer = httpx.post(learn, content=lines(rows), headers=HEADERS)
            if answer.status_code == 200:
                acknowledged += [row["id"] for row in rows]
                continue
            assert answer.status_code == 503
            assert answer.json()["error"] == f"{NAME}.db cannot be written: No space left on device"
            assert int(answer.headers["retry-after"]) >= 1
            refused += 1
        assert refused
        assert acknowledged
        assert httpx.post(learn.replace("/learn", "/predict"), json={"x": {"f0": 1.0}}).is_success
        snapshot = httpx.post(learn.replace("/learn", "/snapshot"))
        assert snapshot.status_code in (200, 503)
        assert str(small_disk) not in snapshot.text + httpx.get(f"{process.url}readyz").text
        filler.unlink()
        rows = drawn(200, 99, "after-")
        assert httpx.post(learn, content=lines(rows), headers=HEADERS).status_code == 200
        acknowledged += [row["id"] for row in rows]
        assert httpx.get(f"{process.url}readyz").status_code == 200
    assert f"{small_disk}/models/{NAME}.db cannot be written" in process.errors
    assert logged(small_disk / "models")[3] == acknowledged
    with served(*data):
        pass
    assert_same_bits(last_snapshot(small_disk / "models"), one_pass(small_disk / "models"))


def slow(engine, seconds):
    """Make an engine whose disk takes some time for each group."""
    append = engine.database.append

    def wait(*values):
        time.sleep(seconds)
        return append(*values)

    engine.database.append = wait
    return engine


def test_a_slow_disk_makes_groups_larger_and_keeps_predictions_quick(tmp_path):
    engine = slow(make(tmp_path), 0.1)
    rows = [{k: row[k] for k in ("x", "y")} for row in drawn(200)]
    futures = [engine.learn(to_learn([row])) for row in rows]
    predicted = 0
    while not futures[-1].done():
        engine.predict(to_learn(rows[:1]))
        predicted += 1
        time.sleep(0.001)
    assert predicted > 3 * engine.groups  # none waits for the disk
    assert [future.result().seq for future in futures] == list(range(1, 201))
    assert engine.groups < 10  # 200 alone would take 20 s
    while engine.lag:
        time.sleep(0.005)
    assert_same_bits(engine.versions[1].model, one_pass(tmp_path))
    engine.close()


def test_clients_that_wait_for_their_answers_share_a_group(tmp_path):
    """Otherwise one half of them sends while the other half is written."""
    clients, each = 8, 15
    engine = slow(make(tmp_path), 0.02)

    def client(number):
        for row in drawn(each, number, f"{number}-"):
            engine.learn(to_learn([row])).result()

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    assert engine.groups < 1.6 * each  # two halves would need twice as many groups as events each
    engine.close()
    assert len(logged(tmp_path)[3]) == clients * each
