"""What can be asked with a prediction: offsets, intervals, and whether a label is wanted."""

import json
import time

import numpy as np
import pytest
from helpers_http import ARROW, NDJSON, arrow
from helpers_service import assert_same_bits, lines
from starlette.testclient import TestClient

from sonline import OnlineLearner
from sonline.service import create_app

COUNTS = "/v1/models/counts"


def created(client, name, task, **parameters):
    new = {"name": name, "task": task, "parameters": parameters}
    assert client.post("/v1/models", json=new).status_code == 201
    return f"/v1/models/{name}"


def settled(client, path):
    """Return the model once it has learned all events."""
    while client.get(path).json()["lag"]:
        time.sleep(0.005)
    return client.app.service.engine(path.rpartition("/")[2]).versions[1].model


def claims(count):
    rng = np.random.default_rng(0)
    age, offset = rng.uniform(20, 70, count), np.log(rng.uniform(0.1, 1, count))
    y = rng.poisson(np.exp(1 - 0.03 * age + offset)).astype(float)
    rows = [
        {"x": {"age": a}, "y": label, "offset": o}
        for a, label, o in zip(age.tolist(), y.tolist(), offset.tolist(), strict=True)
    ]
    return age, offset, y, rows


def test_offsets_of_all_bodies_and_of_late_labels(client):
    pa = pytest.importorskip("pyarrow")
    age, offset, y, rows = claims(400)
    path = created(client, "counts", "regression", loss="poisson")
    assert client.post(f"{path}/learn", json=rows[0]).is_success
    for part in (rows[1:50], rows[50:150]):
        assert client.post(f"{path}/learn", content=lines(part), headers=NDJSON).is_success
    table = pa.table({"age": age, "offset": offset, "y": y})
    body = arrow(table.slice(150, 150))
    assert client.post(f"{path}/learn", content=body, headers=ARROW).is_success
    settled(client, path)
    for number, row in enumerate(rows[300:350]):  # rows that wait for their labels
        asked = {"id": f"a{number}", "x": row["x"], "offset": row["offset"]}
        assert client.post(f"{path}/predict?durable=1", json=asked).is_success
        assert client.post(f"{path}/label", json={"id": asked["id"], "y": row["y"]}).is_success
    body = arrow(table.slice(350).select(["age", "offset"]).append_column(
        "id", pa.array([f"b{number}" for number in range(50)])))  # fmt: skip
    assert client.post(f"{path}/predict?durable=1", content=body, headers=ARROW).is_success
    labels = [{"id": f"b{number}", "y": row["y"]} for number, row in enumerate(rows[350:])]
    assert client.post(f"{path}/label", content=lines(labels), headers=NDJSON).is_success
    model, learner = settled(client, path), OnlineLearner(loss="poisson")
    learner.learn([row["x"] for row in rows], y, offset=offset)
    assert_same_bits(model, learner.model)
    for number in (0, 1):
        asked = {"x": rows[number]["x"], "offset": offset[number]}
        answer = client.post(f"{path}/predict", json=asked).json()
        expected = learner.predict([rows[number]["x"]], offset=offset[[number]])
        assert answer["prediction"] == expected[0]
        assert answer["raw"][0] == pytest.approx(np.log(expected[0]))
        explained = client.post(f"{path}/explain", json=asked).json()
        assert ["(offset)", offset[number]] in explained["parts"]
        assert explained["raw"] == pytest.approx(answer["raw"][0], abs=1e-4)


def test_offsets_survive_a_restart(tmp_path):
    _, offset, y, rows = claims(60)
    with TestClient(
        create_app(tmp_path, tokens_required=False), base_url="http://localhost"
    ) as client:
        path = created(client, "counts", "regression", loss="poisson")
        client.post(f"{path}/learn", content=lines(rows[:40]), headers=NDJSON)
        asked = {"id": "a", "x": rows[40]["x"], "offset": rows[40]["offset"]}
        assert client.post(f"{path}/predict?durable=1", json=asked).is_success
    with TestClient(
        create_app(tmp_path, tokens_required=False), base_url="http://localhost"
    ) as client:
        while not client.get("/readyz").json()["ready"]:
            time.sleep(0.005)
        assert client.post(f"{COUNTS}/label", json={"id": "a", "y": y[40]}).is_success
        model, learner = settled(client, COUNTS), OnlineLearner(loss="poisson")
        learner.learn([row["x"] for row in rows[:41]], y[:41], offset=offset[:41])
        assert_same_bits(model, learner.model)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ("far", "offset: an offset is a number, got text"),
        ([1], "offset: an offset is a number, got an array"),
        (77, "the offset 77 is not a finite number of at most 50 in size"),
    ],
)
def test_offsets_that_cannot_be_used(client, offset, message):
    path = created(client, "counts", "regression", loss="poisson")
    row = {"x": {"age": 20.0}, "offset": offset}
    for kind, body in (("predict", row), ("learn", row | {"y": 1}), ("explain", row)):
        answer = client.post(f"{path}/{kind}", json=body)
        assert answer.status_code == 400
        assert message in answer.json()["error"], kind
    assert settled(client, path).stats()["rounds"] == 0
    answer = client.post("/v1/models/clicks/learn", json={"x": {}, "y": 1, "offset": 1})
    assert "an offset needs a loss for numbers" in answer.json()["error"]
    answer = client.post("/v1/models/clicks/predict", json={"x": {}, "offset": 1})
    assert "an offset needs a loss for numbers" in answer.json()["error"]


def test_intervals(client):
    rng = np.random.default_rng(0)
    values = rng.normal(size=500)
    x, y = [{"a": v} for v in values.tolist()], (values + rng.normal(size=500)).tolist()
    path = created(client, "numbers", "regression")
    first = client.post(f"{path}/predict?interval=0.9", json={"x": x[0]}).json()
    assert first["interval"] == [None, None]  # nothing is known
    rows = [{"x": row, "y": label} for row, label in zip(x, y, strict=True)]
    client.post(f"{path}/learn", content=lines(rows), headers=NDJSON)
    settled(client, path)
    learner = OnlineLearner(loss="squared")
    learner.learn(x, y)
    expected = learner.predict(x[:5], interval=0.9)[1]
    answer = client.post(f"{path}/predict?interval=0.9", json={"x": x[0]}).json()
    assert answer["interval"] == expected[0].tolist()
    body = lines([{"x": row} for row in x[:5]])
    answers = client.post(f"{path}/predict?interval=0.9", content=body, headers=NDJSON)
    found = [json.loads(line)["interval"] for line in answers.text.splitlines()]
    assert found == expected.tolist()
    assert "interval" not in client.post(f"{path}/predict", json={"x": x[0]}).json()
    for wrong in ("2", "0", "nan", "much"):
        answer = client.post(f"{path}/predict?interval={wrong}", json={"x": x[0]})
        assert answer.status_code == 400
        assert "between 0 and 1" in answer.json()["error"]
    answer = client.post("/v1/models/clicks/predict?interval=0.9", json={"x": {}})
    assert "interval is for numbers" in answer.json()["error"]


def test_labels_that_are_wanted(client):
    rng = np.random.default_rng(0)
    x = [{"a": v} for v in rng.normal(size=600).tolist()]
    path = "/v1/models/clicks"
    assert client.post(f"{path}/predict?wants_label=1", json={"x": x[0]}).json()["wants_label"]
    rows = [{"x": row, "y": 1 if row["a"] > 0 else -1} for row in x]
    client.post(f"{path}/learn", content=lines(rows), headers=NDJSON)
    settled(client, path)
    learner = OnlineLearner()
    learner.learn(x, [row["y"] for row in rows])
    body = lines([{"x": row} for row in x])
    answers = client.post(f"{path}/predict?wants_label=1", content=body, headers=NDJSON)
    wanted = [json.loads(line)["wants_label"] for line in answers.text.splitlines()]
    assert wanted == learner.wants_labels(x).tolist()
    assert 0 < sum(wanted) < 300
    assert "wants_label" not in client.post(f"{path}/predict", json={"x": x[0]}).json()
    created(client, "numbers", "regression")
    answer = client.post("/v1/models/numbers/predict?wants_label=1", json={"x": {}})
    assert answer.status_code == 400
    assert "needs classes" in answer.json()["error"]
