"""What the service says about requests that it cannot answer."""

import gzip
import json
import time

import pytest
from helpers_http import ARROW, MODEL, NDJSON, arrow, learned
from helpers_service import NAME, lines

from sonline.errors import InvalidInputError

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
        (
            b'{"x": {"a": 1}, "y": 1, "weight": 1e30}',
            "the weight 1e+30 is not a number from 0 to 1e+09",
        ),
        (b"[1]", "expected an object with 'x', 'y', 'id', 'weight', 'offset', got an array"),
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
        assert (answer.status_code, "from 0 to 1e+09" in answer.json()["error"]) == (400, True)
    assert client.post(f"{MODEL}/label", json={"id": "a", "y": 1, "weight": 1e9}).is_success


def test_events_that_could_not_be_learned_are_a_problem(client):
    live = client.app.service.engine(NAME).versions[1]

    def refuse(*_, **__):
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


@pytest.mark.parametrize(
    ("field", "value"), [("id", '"a"'), ("weight", 2), ("offset", 1), ("y", 1)]
)
def test_a_field_that_occurs_twice_is_refused(client, field, value):
    body = f'{{"x": {{"age": 1}}, "y": 1, "{field}": {value}, "{field}": {value}}}'
    for content, headers in ((body, {"content-type": "application/json"}), (body, NDJSON)):
        answer = client.post(f"{MODEL}/learn", content=content, headers=headers)
        assert answer.status_code == 400
        assert f"{field!r} occurs twice" in answer.json()["error"]


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


@pytest.mark.parametrize("name", ["durable", "wants_label"])
def test_a_switch_that_is_neither_on_nor_off_is_refused(client, name):
    answer = client.post(f"{MODEL}/predict?{name}=yes", json={"id": "q", "x": {"f": 1.0}})
    assert answer.status_code == 400
    assert answer.json()["error"] == f"{name} must be 1 or 0, got 'yes'"
    assert client.post(f"{MODEL}/label", json={"id": "q", "y": 1}).status_code == 404
