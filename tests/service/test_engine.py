"""Events are checked, written, acknowledged, learned: once each, in the order of the log."""

import itertools
import shutil
import sqlite3
import threading
import time

import numpy as np
import pytest
from helpers_service import (
    NAME,
    assert_same_bits,
    drawn,
    last_snapshot,
    make,
    one_pass,
    opened,
    to_learn,
    to_predict,
)

from sonline import OnlineLearner
from sonline.errors import InvalidInputError
from sonline.service import arrow
from sonline.service.bodies import LabelRow, Limits
from sonline.service.engine import Engine
from sonline.service.outcomes import BusyError, UnavailableError, UnknownIdError
from sonline.service.records import StoreError
from sonline.service.settings import Settings
from sonline.service.versions import RecoveryError, new_model


def settled(engine):
    """Wait until all that was admitted has been learned."""
    while engine.lag:
        time.sleep(0.002)
    return engine.versions[engine.champion].model


def test_learning_is_one_pass_over_the_log(tmp_path):
    engine = make(tmp_path)
    rows = drawn(1500)
    for start in range(0, 1500, 70):
        engine.learn(to_learn(rows[start : start + 70])).result()
    model = settled(engine)
    assert_same_bits(model, one_pass(tmp_path))
    assert model.stats()["rounds"] == 1500
    engine.close()


def test_a_restart_changes_nothing(tmp_path):
    """Not even with snapshots in between."""
    engine = make(tmp_path, settings=Settings(snapshot_events=100))
    rows = drawn(1000)
    for start in range(0, 500, 10):
        engine.learn(to_learn(rows[start : start + 10])).result()
    engine.close()
    assert last_snapshot(tmp_path).stats()["rounds"] == 500
    engine = make(tmp_path)
    assert engine.to_replay > 0  # ids are read, nothing is learned again
    engine.learn(to_learn(rows[500:])).result()
    model = settled(engine)
    assert model.stats()["rounds"] == 1000
    assert_same_bits(model, one_pass(tmp_path))
    assert model.progress.loss.rows == 1000
    engine.close()


def test_without_its_last_snapshot_it_replays_more(tmp_path):
    engine = make(tmp_path)
    engine.learn(to_learn(drawn(300))).result()
    engine.snapshot().result()
    engine.learn(to_learn(drawn(300, 1, "f"))).result()
    engine.close()
    spoil = "update snapshots set data = x'00' where next > ?"
    database = opened(tmp_path)
    database._connect().execute(spoil, (301,))
    database.release()
    engine = make(tmp_path)
    assert_same_bits(engine.versions[1].model, one_pass(tmp_path))
    engine.close()
    database._connect().execute(spoil, (0,))
    database.release()
    with pytest.raises(RecoveryError, match="no good snapshot"):
        make(tmp_path)


def test_duplicates_are_answered_again_and_learned_once(tmp_path):
    engine = make(tmp_path)
    rows = drawn(10)
    first = engine.learn(to_learn(rows)).result()
    again = engine.learn(to_learn(rows[5:] + drawn(2, 1, "n") + rows[5:6])).result()
    assert (first.learned, first.duplicates) == (10, 0)
    assert (again.learned, again.duplicates) == (2, 6)
    only = engine.learn(to_learn(rows[3:4])).result()
    assert (only.learned, only.duplicates, only.seq) == (0, 1, 4)
    engine.close()
    engine = make(tmp_path)  # it knows them after a restart, too
    assert engine.learn(to_learn(rows)).result().duplicates == 10
    assert settled(engine).stats()["rounds"] == 12
    engine.close()


def test_labels_come_later_and_in_any_order(tmp_path):
    engine = make(tmp_path)
    rows = drawn(40)
    engine.learn(to_learn(drawn(200, 1, "before"))).result()
    settled(engine)
    answer, _ = engine.predict(to_predict([{"id": r["id"], "x": r["x"]} for r in rows]))
    engine.learn(to_learn(drawn(200, 2, "between"))).result()
    order = np.random.default_rng(0).permutation(40)
    for number in order[:20]:
        outcome = engine.label([LabelRow(rows[number]["id"], rows[number]["y"])]).result()
        assert outcome.learned == 1
    engine.close()
    engine = make(tmp_path)  # the others are still waited for
    assert len(engine.waiting) == 20
    rest = [LabelRow(rows[number]["id"], rows[number]["y"]) for number in order[20:]]
    outcome = engine.label([*rest, rest[0], LabelRow("never", 1)]).result()
    assert (outcome.learned, outcome.duplicates, outcome.unknown) == (20, 1, ["never"])
    with pytest.raises(UnknownIdError, match="'never'"):
        engine.label([LabelRow("never", 1)])
    assert engine.label(rest[:1]).result().duplicates == 1
    assert_same_bits(settled(engine), one_pass(tmp_path))
    assert [len(row) for row in answer.raw] == [1] * 40
    engine.close()


def test_delayed_labels_evaluate_the_prediction_that_was_served(tmp_path):
    engine = make(tmp_path)
    served = []
    rows = drawn(60)
    for start in range(0, 60, 20):
        part = rows[start : start + 20]
        answer, _ = engine.predict(to_predict([{"id": r["id"], "x": r["x"]} for r in part]))
        served += [row[0] for row in answer.raw]
        engine.label([LabelRow(r["id"], r["y"]) for r in part]).result()
        settled(engine)
    labels = np.array([row["y"] for row in rows])
    expected = np.log1p(np.exp(-labels * np.array(served))).mean()
    assert engine.versions[1].model.progress.loss.average == pytest.approx(expected, rel=1e-12)
    engine.close()


@pytest.mark.parametrize(("delay", "count"), [(1, 80), (100, 1500), (1000, 2500)])
def test_late_labels_give_the_same_model_as_the_learner(tmp_path, delay, count):
    """The blend of a service is that of an `OnlineLearner` whose labels come as late."""
    rows, block = drawn(count), min(delay, 50)
    engine, learner = make(tmp_path), OnlineLearner()
    served, expected = [], []
    for start in range(0, count, block):
        part = rows[start : start + block]
        asked = to_predict([{"id": row["id"], "x": row["x"]} for row in part])
        served += [raw for (raw,) in engine.predict(asked)[0].raw]
        expected += learner.predict([row["x"] for row in part]).tolist()
        late = rows[max(start - delay, 0) : max(start - delay + block, 0)]
        if late:
            engine.label([LabelRow(row["id"], row["y"]) for row in late])
            learner.learn([row["x"] for row in late], [row["y"] for row in late])
            settled(engine)
    assert served == expected
    assert_same_bits(engine.versions[1].model, learner.model)
    engine.close()


def test_rows_wait_no_longer_than_they_may(tmp_path):
    engine = make(tmp_path, settings=Settings(label_seconds=10))
    engine.predict(to_predict([{"id": "a", "x": {"f": 1}}]))
    engine.admission.clock._offset += 11
    with pytest.raises(UnknownIdError):
        engine.label([LabelRow("a", 1)])
    assert engine.waiting.expired == 1
    engine.close()


def test_rows_that_wait_are_bounded_in_bytes(tmp_path):
    engine = make(tmp_path, settings=Settings(label_bytes=20_000))
    for number in range(500):
        engine.predict(to_predict([{"id": f"{number}", "x": {"f": 1.0}}]))
    assert engine.waiting.bytes <= 20_000
    assert engine.waiting.evicted > 400
    assert engine.label([LabelRow("499", 1)]).result().learned == 1
    engine.close()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"x": {"f": 1e30}, "y": 1}, "too large"),
        ({"x": {"f": 1}, "y": 3}, "task 'classes'"),
        ({"x": {"f": 1}, "y": "yes"}, "got 'yes'"),
        ({"x": {"f": 1}, "y": 1, "weight": -1}, "from 0 to 1e"),
        ({"x": [[1, 2.0], [1, 3.0]], "y": 1}, "twice"),
        ({"x": [[-1, 2.0]], "y": 1}, "index -1"),
    ],
)
def test_a_bad_row_changes_nothing(tmp_path, row, message):
    engine = make(tmp_path)
    before = engine.database.next
    with pytest.raises(InvalidInputError, match=message):
        engine.learn(to_learn([*drawn(3), row]))
    assert engine.database.next == before
    assert engine.learn(to_learn(drawn(3))).result().learned == 3
    assert settled(engine).stats()["rounds"] == 3
    engine.close()


def test_labels_that_contradict_events_on_their_way_are_refused(tmp_path):
    """After -1, 0 is no label; also before the -1 has been learned."""
    engine = make(tmp_path)
    engine.learn(to_learn([{"x": {"f": 1}, "y": 1}, {"x": {"f": 1}, "y": -1}]))
    with pytest.raises(InvalidInputError, match="write this label as one of them"):
        engine.learn(to_learn([{"x": {"f": 1}, "y": 0}]))
    engine.close()


def test_a_full_disk_acknowledges_nothing_and_recovers(tmp_path):
    engine = make(tmp_path)
    engine.learn(to_learn(drawn(50))).result()
    engine.predict(to_predict([{"id": "waits", "x": {"f0": 1.0}}]))[1].result()
    append = engine.database.append

    def full(*_):
        raise StoreError(tmp_path / "clicks.db", " cannot be written: No space left")

    engine.database.append = full
    for _ in range(3):
        future = engine.learn(to_learn(drawn(20, 1, "lost")))
        with pytest.raises(UnavailableError, match="No space left"):
            future.result()
        with pytest.raises(UnavailableError):
            engine.label([LabelRow("waits", 1)]).result()
    assert engine.disk
    engine.database.append = append
    assert engine.learn(to_learn(drawn(20, 1, "lost"))).result().learned == 20
    assert engine.label([LabelRow("waits", 1)]).result().learned == 1
    assert engine.disk is None
    assert settled(engine).stats()["rounds"] == 71
    assert_same_bits(settled(engine), one_pass(tmp_path))
    engine.close()
    assert_same_bits(make(tmp_path).versions[1].model, one_pass(tmp_path))


def test_too_much_waiting_is_refused(tmp_path):
    free = threading.Event()
    engine = make(tmp_path, settings=Settings(backlog=100))
    engine.learn(to_learn(drawn(1))).result()
    settled(engine)
    append = engine.database.append

    def slow(*values):
        free.wait()
        return append(*values)

    engine.database.append = slow
    futures = [engine.learn(to_learn(drawn(40, n, f"r{n}-"))) for n in (1, 2)]
    with pytest.raises(BusyError, match="wait to be learned"):
        engine.learn(to_learn(drawn(40, 3, "r3-")))
    free.set()
    assert [future.result().learned for future in futures] == [40, 40]
    assert settled(engine).stats()["rounds"] == 81
    engine.close()


def test_a_version_that_is_added_while_events_arrive_misses_none(tmp_path):
    engine = make(tmp_path)
    stop = threading.Event()

    def send(name):
        for number in itertools.count():
            if stop.is_set():
                return
            engine.learn(to_learn(drawn(20, number, f"{name}-{number}-"))).result()

    threads = [threading.Thread(target=send, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    added = [engine.add_version(new_model(), "test") for _ in range(5)]
    time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    settled(engine)
    for version in added:
        live = engine.versions[version]
        missed = live.info.start - 1
        assert live.model.stats()["rounds"] == engine.versions[1].model.stats()["rounds"] - missed
    engine.close()


def test_a_shadow_learns_beside_and_can_be_promoted(tmp_path):
    engine = make(tmp_path)
    engine.learn(to_learn(drawn(300))).result()
    version = engine.add_version(new_model(parameters={"sketch": "none"}), "parameters")
    engine.learn(to_learn(drawn(300, 1, "f"))).result()
    settled(engine)
    shadow = engine.versions[version]
    assert shadow.model.stats()["rounds"] == 300
    engine.promote(version)
    assert engine.predict(to_predict([{"x": {"f0": 1.0}}]))[0].version == version
    engine.close()
    engine = make(tmp_path)
    assert engine.champion == version
    assert engine.versions[version].model.stats()["rounds"] == 300
    assert engine.versions[1].model.stats()["rounds"] == 600
    assert engine.roll_back() == 1
    assert engine.predict(to_predict([{"x": {"f0": 1.0}}]))[0].version == 1
    engine.remove_version(version)
    assert list(engine.versions) == [1]
    with pytest.raises(InvalidInputError, match="task"):
        engine.add_version(new_model("regression"), "parameters")
    engine.close()


def test_both_versions_are_evaluated_on_the_predictions_they_served(tmp_path):
    engine = make(tmp_path)
    version = engine.add_version(new_model(), "parameters")
    engine.predict(to_predict([{"id": "a", "x": {"f": 1.0}}]))
    for _ in range(50):
        engine.learn(to_learn([{"x": {"f": 1.0}, "y": 1}, {"x": {"g": 1.0}, "y": -1}])).result()
    settled(engine)
    rows = [engine.versions[v].model.progress.loss.total for v in (1, version)]
    engine.label([LabelRow("a", 1)]).result()
    settled(engine)
    for before, number in zip(rows, (1, version), strict=True):
        after = engine.versions[number].model.progress.loss.total
        assert after - before == pytest.approx(np.log(2))  # both knew nothing then
    engine.close()


def test_regression_and_emerging_classes(tmp_path):
    for task, labels in (("regression", [1.5, 2.5, 3.5]), ("classes", ["a", "b", "c"])):
        folder = tmp_path / task
        engine = make(folder, new_model(task))
        for number in range(30):
            y = labels[number % 3]
            engine.learn(to_learn([{"x": {f"f{number % 3}": 1.0}, "y": y}])).result()
        settled(engine)
        answer, _ = engine.predict(to_predict([{"x": {"f1": 1.0}}]))
        expected = pytest.approx(2.5, abs=0.5) if task == "regression" else "b"
        assert answer.labels[0] == expected
        engine.close()
        again = make(folder)
        assert_same_bits(again.versions[1].model, engine.versions[1].model)
        again.close()


def test_retention_keeps_events_that_snapshots_and_waiting_rows_need(tmp_path):
    settings = Settings(keep_bytes=0, label_seconds=1000)
    engine = make(tmp_path, settings=settings)
    for number in range(40):
        engine.learn(to_learn(drawn(10, number, f"{number}-"))).result()
    for _ in range(3):
        engine.snapshot().result()
        engine.learn(to_learn(drawn(10, _, f"last{_}-"))).result()
    engine.close()
    about = opened(tmp_path).about
    assert 300 < about.first <= about.snapshots[0].next
    engine = make(tmp_path, settings=settings)
    assert engine.versions[1].model.stats()["rounds"] == 430
    engine.close()


def test_steps_of_the_clock_change_nothing(tmp_path, monkeypatch):
    engine = make(tmp_path, settings=Settings(label_seconds=100))
    engine.predict(to_predict([{"id": "a", "x": {"f": 1.0}}]))[1].result()
    monkeypatch.setattr(time, "time", lambda: 1e9)  # years back
    engine.close()
    engine = make(tmp_path, settings=Settings(label_seconds=100))
    assert engine.label([LabelRow("a", 1)]).result().learned == 1
    engine.close()


def test_an_existing_model_continues(tmp_path):
    learner = OnlineLearner()
    rows = drawn(500)
    learner.learn([row["x"] for row in rows], [row["y"] for row in rows])
    learner.save(tmp_path / "model.son")
    model = OnlineLearner.load(tmp_path / "model.son").model
    engine = make(tmp_path / "service", model)
    engine.learn(to_learn(drawn(500, 1, "more"))).result()
    assert_same_bits(settled(engine), one_pass(tmp_path / "service", learner))
    engine.close()


def test_a_copy_made_while_it_learns_can_be_restored(tmp_path):
    """First the number of events, then the file, which may have more of them."""
    settings = Settings(snapshot_events=200)
    engine = make(tmp_path / "first", settings=settings)
    stopped = threading.Event()

    def work():
        for turn in itertools.count():
            engine.learn(to_learn(drawn(5, turn, f"{turn}-"))).result()
            if stopped.is_set():
                return

    worker = threading.Thread(target=work)
    worker.start()
    while engine.events < 1000:
        time.sleep(0.01)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy2(tmp_path / "first" / f"{NAME}.end", copy)
    with (
        sqlite3.connect(tmp_path / "first" / f"{NAME}.db") as source,
        sqlite3.connect(copy / f"{NAME}.db") as target,
    ):
        source.backup(target)
    source.close()
    target.close()
    stopped.set()
    worker.join()
    engine.close()
    again = make(copy, settings=settings)
    assert 1000 <= again.versions[1].model.stats()["rounds"] <= engine.events
    assert_same_bits(again.versions[1].model, one_pass(copy))
    again.close()


def test_larger_limits_than_usual_do_not_stop_a_replay(tmp_path):
    """What is in the log has been checked once; limits are for what comes."""
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    table = pa.table({"y": np.ones(150_000), "f": np.ones(150_000)})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    engine = make(tmp_path)
    rows = arrow.read(bytes(sink.getvalue()), labelled=True, limits=Limits(rows=1_000_000))
    engine.learn(rows).result()
    model = settled(engine)
    again = make(tmp_path)  # as after a kill
    assert_same_bits(again.versions[1].model, model)
    again.close()


def test_labels_of_predictions_that_are_asked_again(tmp_path):
    engine = make(tmp_path)
    for value in (1.0, 2.0):  # the last one counts
        engine.predict(to_predict([{"id": "a", "x": {"f": value}}]))
    assert len(engine.waiting) == 1
    outcome = engine.learn(to_learn([{"id": "a", "x": {"f": 3.0}, "y": 1}])).result()
    assert (outcome.learned, len(engine.waiting), len(outcome.delays)) == (1, 0, 1)
    assert engine.label([LabelRow("a", 1)]).result().duplicates == 1
    engine.close()


def test_it_can_be_stopped_while_it_replays(tmp_path):
    engine = make(tmp_path)
    for number in range(100):
        engine.learn(to_learn(drawn(20, number, f"{number}-"))).result()
    again = Engine(opened(tmp_path))
    again.start()
    again.close()
    engine.close()
    assert make(tmp_path).versions[1].model.stats()["rounds"] == 2000


@pytest.mark.parametrize("task", ["binary", "regression", "classes"])
def test_one_row_is_predicted_as_many_are(tmp_path, task):
    labels = {"binary": [1, -1], "regression": [0.5, 2.5], "classes": ["a", "b", "c"]}[task]
    engine = make(tmp_path, new_model(task))
    rows = drawn(60)
    for count in (0, 1, 2, 60):  # without labels, with one, two, more
        part = [{"x": row["x"], "y": labels[n % len(labels)]} for n, row in enumerate(rows[:count])]
        if part:
            engine.learn(to_learn(part)).result()
            settled(engine)
        many, _ = engine.predict(to_predict([{"x": row["x"]} for row in rows[:5]]))
        for number, row in enumerate(rows[:5]):
            single, _ = engine.predict(to_predict([{"x": row["x"]}]))
            assert single.raw[0] == many.raw[number]
            assert single.labels[0] == many.labels[number]
    engine.close()
