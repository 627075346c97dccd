"""The interface over HTTP: every answer, and for every bad request a 4xx with a message."""

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from helpers_service import NAME, assert_same_bits, drawn, lines, one_pass
from starlette.testclient import TestClient

from sonline import OnlineLearner
from sonline.errors import InvalidInputError
from sonline.model import Model, Reading
from sonline.read_options import ReadOptions
from sonline.service import bodies, create_app, security
from sonline.service.bodies import Limits
from sonline.service.settings import Settings

MODEL = f"/v1/models/{NAME}"
NDJSON = {"content-type": "application/x-ndjson"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


@pytest.fixture
def client(tmp_path):
    app = create_app(tmp_path, tokens_required=False)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        client.folder = tmp_path
        assert client.post("/v1/models", json={"name": NAME}).status_code == 201
        yield client


def learned(client) -> int:
    while client.get(MODEL).json()["lag"]:
        time.sleep(0.005)
    described = client.get(MODEL).json()
    return described["versions"][str(described["champion"])]["learned"]


def model_of(client) -> Model:
    learned(client)
    return client.app.service.engine(NAME).versions[1].model


def arrow(table) -> bytes:
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_one_row_is_predicted_labelled_and_learned(client):
    answer = client.post(f"{MODEL}/predict", json={"id": "a", "x": {"f": 1.5, "colour": "red"}})
    assert answer.status_code == 200
    assert answer.json() == {
        "id": "a",
        "prediction": -1,
        "raw": [0.0],
        "version": 1,
        "seq": 0,
        "probabilities": {"-1": 0.5, "1": 0.5},
    }
    first = client.post(f"{MODEL}/label", json={"id": "a", "y": 1})
    assert (first.status_code, first.json()["duplicate"]) == (200, False)
    again = client.post(f"{MODEL}/label", json={"id": "a", "y": 1})
    assert again.json() == {"seq": first.json()["seq"], "duplicate": True}
    assert client.post(f"{MODEL}/label", json={"id": "b", "y": 1}).status_code == 404
    body = {"id": "c", "x": [[3, 1.0], [7, 2.5]], "y": -1, "weight": 2.0}
    assert client.post(f"{MODEL}/learn", json=body).status_code == 200
    assert learned(client) == 2
    assert_same_bits(model_of(client), one_pass(client.folder / "models"))


def test_json_may_have_line_breaks_and_gaps(client):
    body = json.dumps({"x": {"f": 1.5, "gone": None, "flag": True}, "y": 1}, indent=2)
    headers = {"content-type": "application/json"}
    assert client.post(f"{MODEL}/learn", content=body, headers=headers).status_code == 200
    assert learned(client) == 1
    assert model_of(client).names() == ["f", "flag"]


@pytest.fixture
def strict(client):
    """Return the path of a model that refuses missing values."""
    new = {"name": "strict", "parameters": {"missing": "refuse"}}
    assert client.post("/v1/models", json=new).status_code == 201
    return "/v1/models/strict"


@pytest.mark.parametrize("path", ["learn", "predict"])
@pytest.mark.parametrize("kind", ["json", "lines", "arrow"])
def test_a_null_is_refused_if_the_model_asks_for_it(client, strict, kind, path):
    pa = pytest.importorskip("pyarrow")
    label = {"y": 1} if path == "learn" else {}
    good, bad = ({"x": {"f": 1.5, "gone": value}, **label} for value in (2.0, None))
    table = pa.table({"f": [1.5, 1.5], "gone": [2.0, None]} | {k: [v, v] for k, v in label.items()})
    content, headers = {
        "json": (bodies.encode(bad), {"content-type": "application/json"}),
        "lines": (lines([good, bad]), NDJSON),
        "arrow": (arrow(table), ARROW),
    }[kind]
    answer = client.post(f"{strict}/{path}", content=content, headers=headers)
    assert answer.status_code == 400
    assert "'gone' has no value" in answer.json()["error"]
    assert ("row 2: " in answer.json()["error"]) == (kind != "json")
    engine = client.app.service.engine("strict")
    assert (engine.database.next, len(engine.waiting)) == (1, 0)
    assert client.post(f"{MODEL}/{path}", content=content, headers=headers).is_success
    assert client.post(f"{strict}/{path}", json=good).is_success


@pytest.mark.parametrize("kind", ["json", "arrow"])
def test_a_shadow_that_refuses_missing_values_does_not_learn_them(client, kind):
    pa = pytest.importorskip("pyarrow")
    client.post(f"{MODEL}/versions", json={"parameters": {"missing": "refuse"}})
    for number, gone in enumerate([2.0, None, 3.0]):
        row = {"f": 1.5, "gone": gone}
        if kind == "json":
            content, headers = lines([{"id": f"{number}", "x": row}]), NDJSON
        else:
            columns = {name: pa.array([value], pa.float64()) for name, value in row.items()}
            content, headers = arrow(pa.table({"id": [f"{number}"], **columns})), ARROW
        asked = client.post(f"{MODEL}/predict?durable=1", content=content, headers=headers)
        assert asked.is_success
        assert client.post(f"{MODEL}/label", json={"id": f"{number}", "y": 1}).is_success
    assert learned(client) == 3
    champion, shadow = client.app.service.engine(NAME).versions.values()
    assert (shadow.model.progress.loss.rows, shadow.refused) == (2, 1)
    assert_same_bits(champion.model, one_pass(client.folder / "models"))
    assert champion.model.names() == ["f", "gone"]


def test_many_rows_as_lines(client):
    rows = drawn(700)
    sent = client.post(f"{MODEL}/learn", content=lines(rows[:500]), headers=NDJSON)
    assert sent.json() == {"learned": 500, "duplicates": 0, "unknown": [], "seq": 1}
    assert learned(client) == 500  # acknowledged is not learned yet
    asked = [{"id": row["id"], "x": row["x"]} for row in rows[500:]]
    answers = client.post(f"{MODEL}/predict?durable=1", content=lines(asked), headers=NDJSON)
    report = [json.loads(line) for line in answers.text.splitlines()]
    assert [learner["id"] for learner in report] == [row["id"] for row in rows[500:]]
    right = [
        learner["prediction"] == row["y"] for learner, row in zip(report, rows[500:], strict=True)
    ]
    assert np.mean(right) > 0.8
    labels = [{"id": row["id"], "y": row["y"]} for row in rows[500:]] + [{"id": "no", "y": 1}]
    sent = client.post(f"{MODEL}/label", content=lines(labels), headers=NDJSON).json()
    assert (sent["learned"], sent["unknown"]) == (200, ["no"])
    assert learned(client) == 700
    assert_same_bits(model_of(client), one_pass(client.folder / "models"))


def test_many_rows_as_arrow(client):
    pa = pytest.importorskip("pyarrow")
    rows = drawn(600)
    table = pa.table(
        {
            "id": [row["id"] for row in rows],
            "y": [row["y"] for row in rows],
            "weight": [2.0 if row["y"] == 1 else 1.0 for row in rows],
            **{f"f{j}": [row["x"][f"f{j}"] for row in rows] for j in range(4)},
            "colour": pa.array([row["x"]["colour"] for row in rows]).dictionary_encode(),
        }
    )
    sent = client.post(f"{MODEL}/learn", content=arrow(table), headers=ARROW)
    assert sent.json()["learned"] == 600
    again = client.post(f"{MODEL}/learn", content=arrow(table.slice(590)), headers=ARROW)
    assert again.json()["duplicates"] == 10
    assert learned(client) == 600
    learner = OnlineLearner()
    learner.learn(
        table.select(["f0", "f1", "f2", "f3", "colour"]),
        np.array(table["y"]),
        np.array(table["weight"]),
    )
    assert_same_bits(model_of(client), learner.model)
    asked = table.select(["id", "f0", "colour"]).slice(0, 5)
    asked = asked.set_column(0, "id", pa.array(list("abcde")))
    answers = client.post(f"{MODEL}/predict", content=arrow(asked), headers=ARROW)
    assert len(answers.text.splitlines()) == 5
    assert client.post(f"{MODEL}/label", json={"id": "c", "y": 1}).status_code == 200


def test_arrow_with_indices_and_values(client):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"y": [1, -1], "indices": [[0, 7], []], "values": [[1.0, 2.0], []]})
    assert client.post(f"{MODEL}/learn", content=arrow(table), headers=ARROW).status_code == 200
    assert learned(client) == 2
    assert model_of(client).features() == [0, 7]


def test_arrow_that_would_fill_the_memory_is_refused(client):
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    table = pa.table({"y": [1] * 1000, "f": [0.0] * 1000})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    packed = client.post(f"{MODEL}/learn", content=bytes(sink.getvalue()), headers=ARROW)
    assert (packed.status_code, "compressed" in packed.json()["error"]) == (400, True)
    empty = pa.table({"y": pa.array([1] * 100), "f": pa.nulls(100)})
    assert client.post(f"{MODEL}/learn", content=arrow(empty), headers=ARROW).status_code == 200
    wide = pa.table({"y": pa.nulls(10_000_000)})
    assert client.post(f"{MODEL}/learn", content=arrow(wide), headers=ARROW).status_code == 413
    word = pa.DictionaryArray.from_arrays(pa.array([0] * 1000), pa.array(["w" * 1_000_000]))
    long = pa.table({"y": [1] * 1000, "f": word})
    assert client.post(f"{MODEL}/learn", content=arrow(long), headers=ARROW).status_code == 413
    runs = pa.RunEndEncodedArray.from_arrays([1000], ["w" * 1_000_000])
    for column in (runs, pa.array(["w"] * 1000).cast(pa.string_view())):
        table = pa.table({"y": [1] * 1000, "f": column})
        answer = client.post(f"{MODEL}/learn", content=arrow(table), headers=ARROW)
        assert (answer.status_code, "plain columns" in answer.json()["error"]) == (400, True)


def test_damaged_arrow_is_refused(client):
    pa = pytest.importorskip("pyarrow")
    body = arrow(pa.table({"y": [1, 1], "f": [0.5, 1.5], "g": ["a", "b"]}))
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(body)
        for position in rng.integers(0, len(body), rng.integers(1, 5)):
            damaged[position] = rng.integers(256)
        answer = client.post(f"{MODEL}/learn", content=bytes(damaged), headers=ARROW)
        assert answer.status_code in (200, 400, 413), answer.text


BAD = [
    (b"", 400),
    (b"{", 400),
    (b"[]", 400),
    (b"null", 400),
    (b'{"x": {"f": 1}}', 400),
    (b'{"x": {"f": 1}, "y": null}', 400),
    (b'{"x": {"f": 1}, "y": [1]}', 400),
    (b'{"x": {"f": [1]}, "y": 1}', 400),
    (b'{"x": {"f": 1e999}, "y": 1}', 400),
    (b'{"x": {"f": NaN}, "y": 1}', 400),
    (b'{"x": {"f": 1}, "y": 1e999}', 400),
    (b'{"x": {"f": 1}, "y": 1, "weight": -1}', 400),
    (b'{"x": {"f": 1}, "y": 1, "label": 1}', 400),
    (b'{"x": {"f": 1}, "y": 1, "served": {"1": [5]}}', 400),
    (b'{"x": {"f": 1}, "y": 1, "id": ""}', 400),
    (b'{"x": {"f": 1}, "y": 1, "id": 5}', 400),
    (b'{"x": [[1]], "y": 1}', 400),
    (b'{"x": [[1, 2], [1, 3]], "y": 1}', 400),
    (b'{"x": {"\\ud800": 1}, "y": 1}', 400),
    (b'{"x": {"f": "\xff"}, "y": 1}', 400),
    (b'{"x":' * 10_000, 400),
    (b'{"x": {"f": 1' + b"0" * 5000 + b'}, "y": 1}', 400),
]


@pytest.mark.parametrize(("body", "status"), BAD)
@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_bad_bodies_are_refused_and_nothing_is_learned(client, body, status, kind):
    for path in ("learn", "label", "predict"):
        if path == "predict" and b'"x": {"f": 1}' in body:
            continue
        answer = client.post(f"{MODEL}/{path}", content=body, headers={"content-type": kind})
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]
        assert "Traceback" not in answer.text
    assert learned(client) == 0
    assert client.app.service.engine(NAME).database.next == 1


def test_a_bad_row_is_named(client):
    rows = [{"x": {"f": 1}, "y": 1}] * 3 + [{"x": {"f": []}, "y": 1}]
    answer = client.post(f"{MODEL}/learn", content=lines(rows), headers=NDJSON)
    assert answer.json()["error"].startswith("row 4: ")


def test_other_bodies_paths_and_methods(client):
    row = {"x": {"f": 1}, "y": 1}
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    body = gzip.compress(json.dumps(row).encode())
    assert client.post(f"{MODEL}/learn", content=body, headers=packed).status_code == 415
    plain = {"content-type": "text/plain"}
    assert client.post(f"{MODEL}/learn", content=b"{}", headers=plain).status_code == 415
    assert client.post(f"{MODEL}/learn").status_code == 415
    assert client.get(f"{MODEL}/learn").status_code == 405
    assert client.delete("/v1/models").status_code == 405
    assert client.get("/nothing").status_code == 404
    for name in ("../../etc", "..%2f..%2fetc", "%2e%2e", "UPPER", "a" * 100, "a.b", "a%00b"):
        assert client.get(f"/v1/models/{name}").status_code == 404
        assert client.post(f"/v1/models/{name}/predict", json={"x": {}}).status_code in (404, 405)
    for name in ("../x", "", "a/b", ".", "A", "a" * 64, "x\u0000", "\u00fc"):
        assert client.post("/v1/models", json={"name": name}).status_code == 400
    assert client.post("/v1/models", json={"name": NAME}).status_code == 409
    for wrong in (
        {"task": "guess"},
        {"parameters": {"loss": "wrong"}},
        {"parameters": {"unknown": 1}},
        {"parameters": {"sketch_size": "many"}},
        {"task": "regression", "parameters": {"loss": "logistic"}},
        {"task": "classes", "classes": ["a", "a"]},
        {"classes": ["a", "b"]},
        {"extra": 1},
    ):
        answer = client.post("/v1/models", json={"name": "new", **wrong})
        assert answer.status_code == 400, (wrong, answer.text)
    assert [learner["name"] for learner in client.get("/v1/models").json()["models"]] == [NAME]


def test_requests_of_other_sites_are_refused(client):
    assert client.get(MODEL, headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get(MODEL, headers={"host": "evil.example"}).status_code == 421
    assert client.get(MODEL, headers={"origin": "http://localhost"}).status_code == 200


def test_limits(tmp_path):
    limits = Limits(body=2000, rows=5, features=3)
    app = create_app(tmp_path, limits=limits, tokens_required=False)
    with TestClient(app, base_url="http://localhost") as client:
        client.post("/v1/models", json={"name": NAME})
        row = {"x": {"f": 1}, "y": 1}
        many = client.post(f"{MODEL}/learn", content=lines([row] * 6), headers=NDJSON)
        assert many.status_code == 413
        wide = {"x": {f"f{j}": 1 for j in range(4)}, "y": 1}
        assert client.post(f"{MODEL}/learn", json=wide).status_code == 413
        large = {"x": {"f" * 3000: 1}, "y": 1}
        assert client.post(f"{MODEL}/learn", json=large).status_code == 413
        assert client.post(f"{MODEL}/learn", content=lines([row] * 5), headers=NDJSON).is_success


def test_tokens_and_scopes(tmp_path, monkeypatch):
    seconds = [1000.0]
    monkeypatch.setattr(security, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    app = create_app(tmp_path)
    tokens = {scope: app.service.tokens.add([scope]) for scope in ("predict", "learn", "admin")}
    stored = (tmp_path / "tokens.db").read_bytes()
    assert all(text.partition(".")[2].encode() not in stored for text in tokens.values())
    with TestClient(app, base_url="http://service.example") as client:
        headers = {name: {"authorization": f"Bearer {text}"} for name, text in tokens.items()}
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", headers={"authorization": "Bearer no"}).status_code == 401
        wrong = {"authorization": headers["admin"]["authorization"][:-1] + "-"}
        assert client.get("/v1/models", headers=wrong).status_code == 401
        new = {"name": NAME}
        assert client.post("/v1/models", json=new, headers=headers["learn"]).status_code == 403
        assert client.post("/v1/models", json=new, headers=headers["admin"]).status_code == 201
        row = {"x": {"f": 1}, "y": 1}
        assert (
            client.post(f"{MODEL}/learn", json=row, headers=headers["predict"]).status_code == 403
        )
        assert client.post(f"{MODEL}/learn", json=row, headers=headers["learn"]).is_success
        x = {"x": {"f": 1}}
        assert client.post(f"{MODEL}/predict", json=x, headers=headers["learn"]).status_code == 403
        assert client.post(f"{MODEL}/predict", json=x, headers=headers["predict"]).is_success
        assert client.get("/metrics").status_code == 401
        for public in ("/healthz", "/readyz", "/", "/openapi.json"):
            assert client.get(public).status_code == 200
        # Whoever guesses is slowed down: five wrong tokens a second, of which two were above.
        guess = {"authorization": "Bearer son_a.b"}
        answers = [client.get("/v1/models", headers=guess) for _ in range(8)]
        assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 5
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert client.get("/v1/models", headers=headers["predict"]).is_success
        seconds[0] += 0.21
        answers = [client.get("/v1/models", headers=guess) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [401, 429]


def test_rates(tmp_path):
    app = create_app(tmp_path, tokens_required=False, rate=3)
    with TestClient(app, base_url="http://localhost") as client:
        statuses = [client.get("/v1/models").status_code for _ in range(8)]
        assert statuses[:3] == [200, 200, 200]
        assert 429 in statuses


def test_versions(client):
    client.post(f"{MODEL}/learn", content=lines(drawn(300)), headers=NDJSON)
    learned(client)
    made = client.post(f"{MODEL}/versions", json={"parameters": {"sketch": "none"}})
    assert made.json() == {"version": 2}
    file = client.get(f"{MODEL}/versions/1/file")
    assert Model.from_bytes(file.content).stats()["rounds"] == 300
    raw = {"content-type": "application/octet-stream"}
    assert client.post(f"{MODEL}/versions", content=file.content, headers=raw).json() == {
        "version": 3
    }
    assert client.post(f"{MODEL}/versions", content=b"junk", headers=raw).status_code == 400
    client.post(f"{MODEL}/learn", content=lines(drawn(100, 1, "n")), headers=NDJSON)
    assert learned(client) == 400
    versions = client.get(MODEL).json()["versions"]
    assert [versions[n]["learned"] for n in "123"] == [400, 100, 400]  # the file had its own 300
    assert versions["2"]["role"] == "shadow"
    engine = client.app.service.engine(NAME)
    assert_same_bits(engine.versions[1].model, engine.versions[3].model)
    assert client.post(f"{MODEL}/versions/3/promote").json() == {"champion": 3}
    assert client.post(f"{MODEL}/predict", json={"x": {}}).json()["version"] == 3
    assert client.post(f"{MODEL}/rollback").json() == {"champion": 1}
    assert client.delete(f"{MODEL}/versions/1").status_code == 400
    assert client.delete(f"{MODEL}/versions/2").status_code == 204
    assert client.post(f"{MODEL}/versions/2/promote").status_code == 400
    assert client.get(f"{MODEL}/versions/9/file").status_code == 404
    assert client.post(f"{MODEL}/snapshot").json() == {"events": 400}
    again = client.post("/v1/models?name=copy", content=file.content, headers=raw)
    assert again.json()["versions"]["1"]["origin"] == "file"


def test_the_number_of_versions_is_limited(tmp_path):
    settings = Settings(versions=3)
    app = create_app(tmp_path, tokens_required=False, settings=settings)
    with TestClient(app, base_url="http://localhost") as client:
        client.post("/v1/models", json={"name": NAME})
        with ThreadPoolExecutor(8) as many:  # at the same moment
            answers = list(many.map(lambda _: client.post(f"{MODEL}/versions", json={}), range(8)))
        assert sorted(answer.status_code for answer in answers) == [201] * 2 + [400] * 6
        made = sorted(entry.json()["version"] for entry in answers if entry.is_success)
        assert made == [2, 3]
        refused = next(answer for answer in answers if not answer.is_success)
        assert refused.json()["error"] == "a model has at most 3 versions; remove one first"
        assert client.delete(f"{MODEL}/versions/2").status_code == 204
        assert client.post(f"{MODEL}/versions", json={}).status_code == 201


def test_the_number_of_a_version_is_not_used_again(client):
    for _ in range(2):
        client.post(f"{MODEL}/versions", json={})
    client.post(f"{MODEL}/versions/3/promote")
    client.post(f"{MODEL}/versions/1/promote")  # roll back would promote 3
    assert client.delete(f"{MODEL}/versions/3").status_code == 204
    assert client.post(f"{MODEL}/versions", json={}).json() == {"version": 4}
    answer = client.post(f"{MODEL}/rollback")
    assert answer.status_code == 400
    assert "no version to roll back to" in answer.json()["error"]
    assert [*client.get(MODEL).json()["versions"]] == ["1", "2", "4"]


@pytest.mark.parametrize(
    "number", ["-1", "0", "9", "1.5", "x", "%31x", "9" * 30, "9" * 5000, "\u0663"]
)
def test_odd_numbers_of_versions(client, number):
    path = f"{MODEL}/versions/{number}"
    for answer in (
        client.get(f"{path}/file"),
        client.post(f"{path}/promote"),
        client.delete(path),
    ):
        assert answer.status_code in (400, 404), answer.text
        assert answer.json()["error"]


def test_metrics_and_stats(client):
    client.post(f"{MODEL}/predict", json={"id": "a", "x": {"f": 1}})
    client.post(f"{MODEL}/label", json={"id": "a", "y": 1})
    client.post(f"{MODEL}/learn", content=lines(drawn(300)), headers=NDJSON)
    learned(client)
    text = client.get("/metrics").text
    for line in (
        f'sonline_learned_total{{model="{NAME}"}} 301.0',
        f'sonline_acknowledged_total{{model="{NAME}"}} 301.0',
        f'sonline_label_delay_seconds_count{{model="{NAME}"}} 1.0',
        f'sonline_ready{{model="{NAME}"}} 1.0',
    ):
        assert line in text
    stats = client.get(f"{MODEL}/stats").json()
    assert stats["now"]["versions"]["1"]["learned"] == 301
    assert stats["now"]["versions"]["1"]["error"] < stats["now"]["versions"]["1"]["prior"]
    assert len(stats["inside"]["members"]) > 1
    assert len(stats["inside"]["spectrum"]) > 1
    assert sum(count for _, _, count in stats["inside"]["calibration"]) > 100
    assert stats["inside"]["weights"][0][0].startswith(("f0", "f1"))


def test_too_much_waiting_is_answered_with_429(tmp_path):
    app = create_app(tmp_path, tokens_required=False, settings=Settings(backlog=10))
    with TestClient(app, base_url="http://localhost") as client:
        client.post("/v1/models", json={"name": NAME})
        app.service.engine(NAME).admission.held = 10
        answer = client.post(f"{MODEL}/learn", json={"x": {}, "y": 1})
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        app.service.engine(NAME).admission.held = 0


def test_a_folder_is_served_once(tmp_path, client):
    with pytest.raises(Exception, match="another process"):
        create_app(tmp_path)


def test_regression_and_classes(client):
    for name, task, labels in (
        ("price", "regression", [1.5, 9.5]),
        ("word", "classes", ["a", "b"]),
    ):
        client.post("/v1/models", json={"name": name, "task": task})
        path = f"/v1/models/{name}"
        assert client.post(f"{path}/predict", json={"x": {"f": 1}}).status_code == 200
        rows = [{"x": {f"f{n % 2}": 1.0}, "y": labels[n % 2]} for n in range(60)]
        assert client.post(f"{path}/learn", content=lines(rows), headers=NDJSON).is_success
        while client.get(path).json()["lag"]:
            time.sleep(0.005)
        answer = client.post(f"{path}/predict", json={"x": {"f1": 1.0}}).json()
        assert answer["prediction"] == (pytest.approx(9.5, abs=1) if task == "regression" else "b")
        assert client.get(f"{path}/stats").status_code == 200
        wrong = {"x": {"f": 1.0}, "y": "text" if task == "regression" else 3}
        assert client.post(f"{path}/learn", json=wrong).status_code == 400


def test_errors_speak_of_the_service_and_not_of_python(client):
    def error(path, **body):
        answer = client.post(path, json=body)
        assert answer.status_code == 400
        return answer.json()["error"]

    for label in ("no", 3):
        message = error(f"{MODEL}/learn", x={"f": 1.0}, y=label)
        assert f"got {label!r}" in message
        assert "task 'classes'" in message
        assert "SONClassifier" not in message
    message = error("/v1/models", name="other", parameters={"sketchsize": 3})
    assert message == "parameters: there is no parameter 'sketchsize'; did you mean 'sketch_size'?"
    message = error(f"{MODEL}/versions", parameters={"qqq": 3})
    assert message.startswith("parameters: there is no parameter 'qqq'; there are ")
    answer = client.get(f"{MODEL}/learn")
    assert answer.status_code == 405
    assert answer.json()["error"] == "this path takes POST, not GET"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"x": {"a": [1]}, "y": 1}', "x: feature 'a' is an array; a value is a number, text"),
        (b'{"x": {"a": {}}, "y": 1}', "x: feature 'a' is an object"),
        (b'{"x": {"a": NaN}, "y": 1}', "x: feature 'a' is not a number (NaN); leave it out"),
        (b'{"x": {"a": 1e999}, "y": 1}', "x: feature 'a' is infinite"),
        (b'{"x": [[1, 2, 3]], "y": 1}', "x: expected pairs of index and number such as [3, 1.0]"),
        (b'{"x": 3, "y": 1}', "x: expected features by name, or pairs of index and number"),
        (b'{"x": {"a": 1}, "y": null}', "y: a label is a number, text, true or false; got null"),
        (b'{"x": {"a": 1}, "y": NaN}', "y: the label is not a number (NaN)"),
        (b'{"x": {"a": 1}}', "the field 'y' is missing"),
        (b'{"x": {"a": 1}, "y": 1, "label": 1}', "there is no field 'label'; the fields are 'x'"),
        (b'{"x": {"a": 1}, "y": 1, "id": 7}', "id: an id is text, got the number 7"),
        (b'{"x": {"a": 1}, "y": 1, "id": ""}', "id: an id has 1 to 200 characters"),
        (b'{"x": {"a": 1}, "y": 1, "weight": "2"}', "weight: a weight is a number of 0 or more"),
        (b'{"x": {"a": 1}, "y": 1, "weight": 1e30}', "weight: 1e+30 in row 1; a weight is at most"),
        (b"[1]", "expected an object with 'x', 'y', 'id', 'weight', got an array"),
        (b'{"x": {"a": 1} "y": 1}', "not valid JSON: expecting ',' delimiter at character 16"),
        (b'{"x": {"a": "\xff"}, "y": 1}', "the body is not UTF-8 text"),
        (b'{"x": {"\\ud800": 1}, "y": 1}', "not valid Unicode"),
    ],
)
def test_errors_name_the_field_and_say_what_is_allowed(client, body, message):
    headers = {"content-type": "application/json"}
    answer = client.post(f"{MODEL}/learn", content=body, headers=headers)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert "$" not in answer.json()["error"]
    lines_of = b'{"x": {"a": 1}, "y": 1}\n' + body
    answer = client.post(f"{MODEL}/learn", content=lines_of, headers=NDJSON)
    assert "row 2" in answer.json()["error"]
    assert message.partition(" in row")[0] in answer.json()["error"]


def test_a_weight_that_would_decide_the_mean_loss_is_refused_everywhere(client):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"y": [1, -1], "f": [0.5, 1.5], "weight": [1.0, 1e30]})
    refused = [client.post(f"{MODEL}/learn", content=arrow(table), headers=ARROW)]
    client.post(f"{MODEL}/predict?durable=1", json={"id": "a", "x": {"f": 1.0}})
    refused.append(client.post(f"{MODEL}/label", json={"id": "a", "y": 1, "weight": 1e30}))
    for answer in refused:
        assert (answer.status_code, "at most 1e+09" in answer.json()["error"]) == (400, True)
    assert client.post(f"{MODEL}/label", json={"id": "a", "y": 1, "weight": 1e9}).is_success


def test_names_of_models_are_for_those_with_a_token(tmp_path):
    app = create_app(tmp_path)
    with TestClient(app, base_url="http://localhost") as client:
        token = {"authorization": f"Bearer {app.service.tokens.add(['admin'])}"}
        assert client.post("/v1/models", json={"name": NAME}, headers=token).status_code == 201
        assert client.get("/readyz").json() == {"ready": True}
        known = client.get("/readyz", headers=token).json()
        assert known["models"][NAME]["ready"] is True


def test_head_is_get_without_a_body(client):
    for path in ("/healthz", "/v1/models", f"{MODEL}/events"):  # the last one would not end
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
    assert client.head("/v1/models/other").status_code == 404


@pytest.mark.parametrize("option", ["interactions", "ngrams"])
def test_models_with_options_for_files_are_refused(client, tmp_path, option):
    data, path = tmp_path / "a.csv", tmp_path / "m.son"
    data.write_text("a,city,label\n" + "1.5,new york,1\n2.5,rome,0\n" * 20)
    chosen = {"interactions": ["a*city"], "ngrams": ["city:2"]}[option]
    learner = OnlineLearner()
    learner.learn_stream(data, **{option: chosen})
    learner.save(path)
    headers = {"content-type": "application/octet-stream"}
    for where in ("/v1/models?name=new", f"{MODEL}/versions"):
        answer = client.post(where, content=path.read_bytes(), headers=headers)
        assert (answer.status_code, f"with --{option}" in answer.json()["error"]) == (400, True)


def test_an_older_folder_with_such_a_model_refuses_to_learn(client):
    """Rows that are acknowledged and never learned are lost."""
    engine = client.app.service.engine(NAME)
    live = engine.versions[1]
    live.model.reading = Reading("name", {}, ReadOptions(interactions=["a*b"]))
    engine.admission.check_with(live.model)
    row = {"x": {"a": 1.0, "b": 2.0}, "y": 1}
    answer = client.post(f"{MODEL}/learn", json=row)
    assert (answer.status_code, "interactions" in answer.json()["error"]) == (400, True)
    many = client.post(f"{MODEL}/learn", content=lines([row] * 20), headers=NDJSON)
    assert many.status_code == 400


def test_events_that_could_not_be_learned_are_a_problem(client):
    live = client.app.service.engine(NAME).versions[1]

    def refuse(*_):
        raise InvalidInputError("no such row")

    live.model.learn = refuse
    assert client.post(f"{MODEL}/learn", json={"x": {"f": 1.0}, "y": 1}).status_code == 200
    while client.get(MODEL).json()["lag"]:
        time.sleep(0.005)
    problem = "events that could not be learned: 1; the last one: no such row"
    assert client.get(MODEL).json()["versions"]["1"]["problem"] == problem
    assert client.get("/readyz").json()["models"][NAME]["problem"] == problem
    assert client.get(f"{MODEL}/stats").json()["now"]["problem"] == problem
    text = client.get("/metrics").text
    assert f'sonline_refused_total{{model="{NAME}",version="1"}} 1.0' in text


def test_labels_without_a_word_are_refused(client):
    client.post("/v1/models", json={"name": "words", "task": "classes"})
    rows = [{"x": {"f": 1.0}, "y": "a"}, {"x": {"f": 1.0}, "y": " "}]
    answer = client.post("/v1/models/words/learn", content=lines(rows), headers=NDJSON)
    assert (answer.status_code, answer.json()["error"]) == (400, "y, row 2: there is no label")
    assert client.post("/v1/models/words/learn", json={"x": {}, "y": ""}).status_code == 400
    client.post("/v1/models/words/predict?durable=1", json={"id": "a", "x": {"f": 1.0}})
    assert client.post("/v1/models/words/label", json={"id": "a", "y": ""}).status_code == 400
    assert client.post("/v1/models/words/label", json={"id": "a", "y": "b"}).status_code == 200


@pytest.mark.parametrize("path", ["learn", "predict"])
def test_a_key_that_occurs_twice_is_refused(client, path):
    y = ', "y": 1' if path == "learn" else ""
    headers = {"content-type": "application/json"}
    for x in ('{"a": 1, "a": 2}', '{"id": 1, "id": 2}', '{"b": "a:b", "weight":1,"weight":1}'):
        body = f'{{"x": {x}{y}}}'
        answer = client.post(f"{MODEL}/{path}", content=body, headers=headers)
        assert (answer.status_code, "occurs twice" in answer.json()["error"]) == (400, True), body
        several = f'{{"x": {{"a": 1}}{y}, "id": "b"}}\n{body}\n'
        answer = client.post(f"{MODEL}/{path}", content=several, headers=NDJSON)
        assert answer.json()["error"].startswith("row 2: ")
    for x in ('{"a": "b:c", "id": "id", "weight": 2}', '{"a" : 1}', "[[3, 1.0]]"):
        for rest in ("", ', "id": "c"'):
            body = f'{{"x": {x}{y}{rest}}}'
            answer = client.post(f"{MODEL}/{path}", content=body, headers=headers)
            assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"x": {"a": 1.0}, "y": 1, "weight": 1e30}, "weight"),
        ({"x": {"b": 1.0, "a": 1e30}, "y": 1}, "a"),
        ({"x": {"a": 1.0}, "y": 7}, "y"),
    ],
)
def test_answers_about_rows_have_row_and_field(client, bad, field):
    rows = [{"x": {"a": 1.0}, "y": 1}, bad] * 10
    answer = client.post(f"{MODEL}/learn", content=lines(rows), headers=NDJSON)
    about = answer.json()
    assert (answer.status_code, about["row"], about["field"]) == (400, 2, field)
    assert "row 2: " in about["error"]
