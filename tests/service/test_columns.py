"""Features that change, and what features add to a prediction."""

import numpy as np
import pytest
from helpers_http import MODEL, NDJSON
from helpers_service import NAME, drawn, lines
from starlette.testclient import TestClient

from sonline.model import Model
from sonline.service import create_app, versions
from sonline.service.columns import COUNTED_FEATURES, Columns
from sonline.service.records import StoreError


def test_a_feature_that_moves_and_one_that_is_missing_come_first():
    rng = np.random.default_rng(0)
    columns = Columns()
    assert columns.values() == []
    for number in range(200):
        late = number >= 180
        rows = [
            {"same": value, "moved": value + 5 * late, "word": "x"}
            | ({} if late else {"gone": value})
            for value in rng.normal(size=16).tolist()
        ]
        columns.add(rows)
    first, second, *others = columns.values()
    name, now, before, mean, mean_before, apart = first
    assert (name, now, before) == ("moved", pytest.approx(1), pytest.approx(1))
    assert mean - mean_before > 2
    assert apart > 1
    assert second[0] == "gone"
    assert second[1] < 0.6 * second[2]
    assert {one[0] for one in others} == {"same", "word"}
    assert [one[3:] for one in others if one[0] == "word"] == [[None, None, None]]


def test_the_same_from_tables_and_matrices():
    pa = pytest.importorskip("pyarrow")
    sparse = pytest.importorskip("scipy.sparse")
    X = np.random.default_rng(0).normal(size=(100, 2))
    by_name, by_table, by_index = Columns(), Columns(), Columns()
    by_name.add([{"0": a, "1": b} for a, b in X.tolist()])
    by_table.add(pa.table({"0": X[:, 0], "1": X[:, 1]}))
    by_index.add(sparse.csr_matrix(X))
    assert by_name.values() == by_table.values() == by_index.values()
    assert by_name.rows == 15  # of 100
    by_name.add([{str(n): 1.0 for n in range(2 * COUNTED_FEATURES)}])
    assert len(by_name._features) == COUNTED_FEATURES


def test_numbers_that_are_missing_are_not_there():
    pa = pytest.importorskip("pyarrow")
    columns = Columns()
    columns.add(pa.table({"f": [1.0, float("nan"), 3.0, None]}))
    assert columns.values() == [["f", 0.5, 0.5, 2.0, 2.0, 0.0]]


def test_predictions_are_explained(tmp_path, monkeypatch):
    app = create_app(tmp_path, tokens_required=False)
    with TestClient(app, base_url="http://localhost") as client:
        client.post("/v1/models", json={"name": NAME})
        client.post(f"{MODEL}/learn", content=lines(drawn(300)), headers=NDJSON)
        row = {"x": drawn(1, seed=7)[0]["x"]}
        while client.get(MODEL).json()["lag"]:
            pass
        predicted = client.post(f"{MODEL}/predict", json=row).json()
        answer = client.post(f"{MODEL}/explain", json=row).json()
        assert answer["raw"] == pytest.approx(predicted["raw"][0], abs=1e-5)
        assert {name for name, _ in answer["parts"]} >= {"(intercept)", "f0", "f1"}
        sizes = [abs(part) for _, part in answer["parts"]]
        assert sizes == sorted(sizes, reverse=True)
        other = client.post(f"{MODEL}/explain?label=-1", json=row).json()
        assert other["raw"] == pytest.approx(-answer["raw"])
        for path, message in (("?label=7", "label must be one of -1, 1"), ("", "f0")):
            body = row if path else {"x": {"f0": [1]}}
            refused = client.post(f"{MODEL}/explain{path}", json=body)
            assert refused.status_code == 400
            assert message in refused.json()["error"]
        figures = client.get(f"{MODEL}/stats").json()
        assert {one[0] for one in figures["inside"]["columns"]} >= {"f0", "colour"}
        monkeypatch.setattr(versions, "EXPLAINED", 3)
        refused = client.post(f"{MODEL}/explain", json=row)
        assert (refused.status_code, "sonline explain" in refused.json()["error"]) == (400, True)
        client.post("/v1/models", json={"name": "c", "task": "classes"})
        for label in ("a", "b", "c"):
            client.post("/v1/models/c/learn", json={"x": {label: 1}, "y": label})
        while client.get("/v1/models/c").json()["lag"]:
            pass
        monkeypatch.setattr(versions, "EXPLAINED", 20)
        answer = client.post("/v1/models/c/explain", json={"x": {"b": 1}}).json()
        assert answer["label"] in ("a", "b", "c")


def test_curves_of_columns(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = [{"age": age, "flat": flat} for age, flat in rng.normal(size=(600, 2)).tolist()]
    app = create_app(tmp_path, tokens_required=False)
    with TestClient(app, base_url="http://localhost") as client:
        for task in ("binary", "classes", "regression"):
            model = f"/v1/models/{task}"
            client.post("/v1/models", json={"name": task, "task": task})
            assert client.get(f"{model}/curves").json()["columns"] == []
            body = []
            for row in rows:
                y = row["age"] ** 2
                label = {"binary": int(y > 1), "classes": "abc"[(y > 0.3) + (y > 1)]}.get(task, y)
                body.append({"x": row, "y": label})
            client.post(f"{model}/learn", content=lines(body), headers=NDJSON)
            while client.get(model).json()["lag"]:
                pass
        answer = client.get("/v1/models/binary/curves").json()
        assert answer["unit"] == "in log odds of 1"
        first, second = answer["columns"]
        assert (first["feature"], second["feature"]) == ("age", "flat")
        [curve] = first["curves"]
        parts = dict(zip(curve["values"], curve["contributions"], strict=True))
        assert parts[min(parts)] > parts[0.0] < parts[max(parts)]
        assert sum(first["rows"]) == 600
        assert all(0 < height <= 1 for *_, height in first["bars"])
        other = client.get("/v1/models/binary/curves?label=0").json()["columns"][0]["curves"][0]
        assert other["contributions"] == pytest.approx([-part for part in curve["contributions"]])
        [three, _] = client.get("/v1/models/classes/curves").json()["columns"]
        assert [curve["label"] for curve in three["curves"]] == ["a", "b", "c"]
        numbers = client.get("/v1/models/regression/curves").json()
        assert numbers["unit"] == "in the unit of the target"
        inside = client.get("/v1/models/regression/stats").json()["inside"]
        assert [column["feature"] for column in inside["curves"]] == ["age", "flat"]
        refused = client.get("/v1/models/binary/curves?label=7")
        assert (refused.status_code, "one of 0, 1" in refused.json()["error"]) == (400, True)
        monkeypatch.setattr(Model, "CLASSES_SHOWN", 2)
        refused = client.get("/v1/models/classes/curves")
        assert (refused.status_code, "label is missing" in refused.json()["error"]) == (400, True)
        monkeypatch.setattr(versions, "EXPLAINED", 1)
        refused = client.get("/v1/models/binary/curves")
        assert (refused.status_code, "sonline inspect" in refused.json()["error"]) == (400, True)


def arrow_body(**columns):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"y": [0, 1] * 3, **columns})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_what_is_acknowledged_is_learned_whatever_the_types_of_columns(tmp_path, monkeypatch):
    """Types of columns are those of the events admitted so far, learned or not."""
    kind = {"content-type": "application/vnd.apache.arrow.stream"}
    app = create_app(tmp_path, tokens_required=False)
    with TestClient(app, base_url="http://localhost") as client:
        client.post("/v1/models", json={"name": NAME})
        engine = app.service.engines[NAME]

        def learn(**columns):
            content = arrow_body(**columns)
            return client.post(f"{MODEL}/learn", content=content, headers=kind)

        monkeypatch.setattr(engine, "_wake_learner", lambda: None)  # nothing is learned yet
        assert learn(c=["2024-01-01"] * 6).status_code == 200
        for values in ([1.0] * 6, ["2024-01-01"] * 5 + ["soon"], ["a"] * 6):
            refused = learn(c=values)
            assert (refused.status_code, "'c'" in refused.json()["error"]) == (400, True)
        assert learn(d=[1.0] * 6, y=["no label"] * 6).status_code == 400
        with monkeypatch.context() as full:  # an event that is not written has no types
            full.setattr(
                engine.database,
                "append",
                lambda *_: (_ for _ in ()).throw(StoreError(tmp_path, "no")),
            )
            assert learn(d=[1.0] * 6).status_code == 503
        assert learn(d=["a"] * 6, c=["2024-01-02"] * 6).status_code == 200
        assert learn(d=[1.0] * 6).status_code == 400
        monkeypatch.undo()
        assert learn(d=["b"] * 6).status_code == 200
        while client.get(MODEL).json()["lag"]:
            pass
        version = client.get(MODEL).json()["versions"]["1"]
        assert (version["learned"], version["refused"]) == (18, 0)
