"""The interface over HTTP: every answer, and for every bad request a 4xx with a message."""

import json
import time
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
from helpers_http import ARROW, MODEL, NDJSON, arrow, learned, model_of
from helpers_service import NAME, assert_same_bits, drawn, lines, one_pass
from starlette.testclient import TestClient

from sonline import OnlineLearner
from sonline.model import Reading
from sonline.read_options import ReadOptions
from sonline.service import bodies, create_app, security
from sonline.service.bodies import Limits
from sonline.service.settings import Settings


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


def test_late_labels_of_arrow_rows_are_as_at_once(client):
    """The rows wait as JSON, which has no decimals and no nanoseconds."""
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    times = pd.date_range("2024-01-01", periods=40, freq="h") + pd.Timedelta(7, "ns")
    columns = {
        "price": pa.array([Decimal(n) / 4 if n % 5 else None for n in range(40)]),
        "when": pa.array(times, pa.timestamp("ns")),
        "day": pa.array(times.date),
        "flag": pa.array([n % 3 == 0 for n in range(40)]),
        "word": pa.array(["a", "b"] * 20).dictionary_encode(),
        "number": pa.array(np.linspace(0, 1, 40, dtype=np.float32)),
    }
    y = [1, -1, -1, 1] * 10
    client.post("/v1/models", json={"name": "late"})
    assert client.post(
        f"{MODEL}/learn", content=arrow(pa.table(columns | {"y": y})), headers=ARROW
    ).is_success
    ids = [f"a{n}" for n in range(40)]
    body = arrow(pa.table(columns | {"id": ids}))
    path = "/v1/models/late"
    assert client.post(f"{path}/predict?durable=1", content=body, headers=ARROW).is_success
    labels = [{"id": name, "y": label} for name, label in zip(ids, y, strict=True)]
    assert client.post(f"{path}/label", content=lines(labels), headers=NDJSON).is_success
    while client.get(path).json()["lag"]:
        time.sleep(0.005)
    late = client.app.service.engine("late").versions[1].model
    assert late.weights_of() == pytest.approx(model_of(client).weights_of(), rel=1e-5)


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


def test_requests_of_other_sites_are_refused(client):
    assert client.get(MODEL, headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get(MODEL, headers={"origin": "http://["}).status_code == 403
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
    members = [name for name, *_ in stats["inside"]["members"]]
    assert len(set(members)) == len(members) > 1
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
