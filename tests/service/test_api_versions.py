"""Versions over HTTP: shadows, promotion, numbers."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers_http import MODEL, NDJSON, learned
from helpers_service import NAME, assert_same_bits, drawn, lines
from starlette.testclient import TestClient

from sonline.model import Model
from sonline.service import create_app
from sonline.service.settings import Settings


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
