"""The process: how it starts, what it prints, how it ends, and the client that talks to it."""

import gzip
import io
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import httpx
import pytest
from helpers_service import (
    NAME,
    assert_same_bits,
    drawn,
    last_snapshot,
    lines,
    logged,
    one_pass,
    served,
)

from sonline import OnlineLearner
from sonline.cli import main
from sonline.service.client import Client, ServiceError


def run(*arguments, text="", environment=()):
    """Return exit code, output and errors of a command, run in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        redirect_stdout(out),
        redirect_stderr(errors),
        mock.patch.object(sys, "argv", ["sonline", *arguments]),
        mock.patch.object(sys, "stdin", io.StringIO(text)),
        mock.patch.dict(os.environ, dict(environment)),
    ):
        try:
            main()
        except SystemExit as end:
            return end.code or 0, out.getvalue(), errors.getvalue()
    raise AssertionError  # the command line always exits


def test_from_a_model_file_to_an_orderly_end(tmp_path):
    learner = OnlineLearner()
    rows = drawn(300)
    learner.learn([row["x"] for row in rows], [row["y"] for row in rows])
    learner.save(tmp_path / "model.son")
    options = ("--data", str(tmp_path / "data"), "--model", f"{NAME}={tmp_path / 'model.son'}")
    with served(*options) as process, Client(process.url, NAME) as client:
        more = drawn(250, 1, "more")
        assert client.learn_many(more, batch=100) == 250
        assert client.learn_many(more, batch=100) == 0  # sent again, learned once
        assert client.predict({"f0": 2.0}, id="a")["prediction"] == 1
        assert client.label("a", 1)["duplicate"] is False
        assert client.label("a", 1)["duplicate"] is True
        with pytest.raises(ServiceError, match="no row waits"):
            client.label("b", 1)
        assert client.learn({"f0": 1.0}, 1)["duplicate"] is False
        # Sent and not waited for: the end learns it first.
        body = lines(drawn(500, 2, "last"))
        client._http.post(
            f"/v1/models/{NAME}/learn",
            content=body,
            headers={"content-type": "application/x-ndjson"},
        )
    last = last_snapshot(tmp_path / "data" / "models")
    assert last.stats()["rounds"] == 300 + 250 + 1 + 1 + 500
    assert_same_bits(last, one_pass(tmp_path / "data" / "models", learner))
    with served(*options) as process, Client(process.url, NAME) as client:
        assert client.describe()["versions"]["1"]["learned"] == 752  # since it is served


def test_a_killed_service_loses_nothing(tmp_path):
    data = str(tmp_path / "data")
    file = tmp_path / "rows.ndjson"
    file.write_bytes(lines(drawn(3000)))
    with (
        served("--data", data, expected=-signal.SIGKILL, end=signal.SIGKILL) as process,
        Client(process.url, NAME) as client,
    ):
        client._http.post("/v1/models", json={"name": NAME})
        sent = run("client", "learn", NAME, str(file), "--url", process.url)
        assert sent == (0, "3000 learned\n", "")
    assert len(logged(tmp_path / "data" / "models")[3]) == 3000
    with served("--data", data) as process, Client(process.url, NAME) as client:
        while not client.describe()["ready"]:
            time.sleep(0.01)
        assert client.describe()["versions"]["1"]["learned"] == 3000


def test_it_listens_beyond_the_machine_only_with_tokens(tmp_path):
    data = ("--data", str(tmp_path))
    code, _, errors = run("serve", *data, "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert (code, "sonline token add" in errors) == (2, True)
    secret = run("token", "add", *data, "--scope", "admin", "--note", "me")[1].strip()
    assert secret.startswith("son_")
    listed = run("token", "list", *data)[1]
    assert "admin" in listed
    assert secret.partition(".")[2] not in listed
    with served(*data) as process:
        with Client(process.url, NAME) as client, pytest.raises(ServiceError, match="token"):
            client.describe()
        with Client(process.url, NAME, secret) as client:
            with pytest.raises(ServiceError, match="no model"):
                client.describe()
            assert client._http.post("/v1/models", json={"name": NAME}).status_code == 201
            known = {"environment": {"SONLINE_TOKEN": secret, "SONLINE_URL": process.url}}
            answer = run("client", "predict", NAME, text='{"x": {"f": 1.0}, "id": "a"}\n', **known)
            assert json.loads(answer[1])["id"] == "a"
            answer = run("client", "label", NAME, text='{"id": "a", "y": 1}', **known)
            assert json.loads(answer[1])["duplicate"] is False
            assert json.loads(run("client", "show", NAME, **known)[1])["ready"]
            code, _, errors = run("client", "learn", NAME, text="{", **known)
            assert (code, "-:1" in errors) == (3, True)
            name = listed.split()[0]
            assert run("token", "remove", *data, name)[0] == 0
            assert run("token", "remove", *data, name)[0] == 2
    assert secret not in process.errors  # no secrets in the logs
    for line in process.errors.splitlines():
        assert "message" in json.loads(line)


def test_wrong_options(tmp_path):
    data = ("--data", str(tmp_path))
    assert "--data is missing" in run("serve")[2]
    assert run("serve", *data, "--model", "name")[0] == 2
    assert run("serve", *data, "--tls-key", "k")[0] == 2
    code, _, errors = run("serve", *data, "--port", "0", "--model", f"a={tmp_path}/no.son")
    assert (code, "no model file" in errors) == (3, True)


def test_tokens_of_a_folder_without_a_service(tmp_path):
    missing = tmp_path / "misspelled"
    for command in (["list"], ["remove", "1f0c2a9b7d3e"]):
        code, _, errors = run("token", *command, "--data", str(missing))
        assert code == 2
        assert f"{missing}: there is no service in this folder" in errors
    assert not missing.exists()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate")
def test_tls(tmp_path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *names)
    made = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run([*command, *made], check=True, capture_output=True)
    data = ("--data", str(tmp_path / "data"))
    files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    with served(*data, *files) as process:
        assert process.url.startswith("https://127.0.0.1")
        trusted = ssl.create_default_context(cafile=certificate)
        assert httpx.get(f"{process.url}healthz", verify=trusted).json() == {"healthy": True}
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{process.url.replace('https', 'http')}healthz")
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{process.url}healthz")  # nobody vouches for it
    swapped = ("--tls-certificate", str(key), "--tls-key", str(certificate))
    code, out, errors = run("serve", *data, "--port", "0", *swapped)
    assert (code, out, "must be a certificate and its key" in errors) == (2, "", True)
    missing = ("--tls-certificate", str(tmp_path / "no.pem"), "--tls-key", str(key))
    code, out, errors = run("serve", *data, "--port", "0", *missing)
    assert (code, out, "No such file" in errors) == (2, "", True)


def test_a_damaged_file_stops_the_start(tmp_path):
    with served("--data", str(tmp_path)) as process, Client(process.url, NAME) as client:
        client._http.post("/v1/models", json={"name": NAME})
        for number in range(3):
            client.learn_many(drawn(20, number, f"{number}-"))
    path = tmp_path / "models" / f"{NAME}.db"
    damaged = bytearray(path.read_bytes())
    at = damaged.index(b'"id": "1-5"')
    damaged[at] ^= 1
    path.write_bytes(damaged)
    code, _, errors = run("serve", "--data", str(tmp_path), "--port", "0")
    assert code == 1
    assert f"{path}: damaged (event " in errors
    assert f"--accept-loss {NAME}" in errors
    code, _, errors = run("serve", "--data", str(tmp_path), "--follow", "--accept-loss", NAME)
    assert (code, "with none of" in errors) == (2, True)
    with served("--data", str(tmp_path), "--accept-loss", NAME) as process:
        described = httpx.get(f"{process.url}v1/models/{NAME}").json()
        assert described["versions"]["1"]["learned"] == 60  # the snapshot has learned them
    assert "events lost" in process.errors


def test_the_client_creates_predicts_tables_and_changes_versions(tmp_path):
    rows = "".join(f"{n % 7},{n % 2}\n" for n in range(250))
    table, bare = tmp_path / "d.csv", tmp_path / "bare.csv"
    table.write_text(f"a,label\n{rows}")
    bare.write_text("a\n" + "".join(f"{n % 7}\n" for n in range(250)))
    with served("--data", str(tmp_path / "data")) as process:
        url = ("--url", process.url)
        made = run("client", "create", NAME, "--parameter", "sketch_size=5", *url)
        version = json.loads(made[1])["versions"]["1"]
        assert version["parameters"]["sketch_size"] == 5
        code, _, errors = run("client", "create", NAME, *url)
        assert (code, "already is a model" in errors) == (1, True), errors
        assert run("client", "create", "x", "--parameter", "sketch_size", *url)[0] == 2
        assert run("client", "learn", NAME, str(table), *url)[1] == "250 learned\n"
        for file in (table, bare):
            code, out, errors = run("client", "predict", NAME, str(file), "--batch", "100", *url)
            answers = [json.loads(line) for line in out.splitlines()]
            assert (code, len(answers)) == (0, 250), errors
        httpx.post(f"{process.url}v1/models/{NAME}/versions", json={}).raise_for_status()
        assert run("client", "promote", NAME, "2", *url)[1] == '{"champion": 2}\n'
        assert run("client", "rollback", NAME, *url)[1] == '{"champion": 1}\n'
        assert json.loads(run("client", "snapshot", NAME, *url)[1]) == {"events": 250}
        bad = tmp_path / "bad.ndjson"
        bad.write_text('{"x": {"a": 1}}\n{"x": {"a": [1]}}\n')
        code, _, errors = run("client", "predict", NAME, str(bad), *url)
        assert (code, f"{bad}:2: " in errors) == (3, True), errors


def test_slow_clients_do_not_stop_others(tmp_path):
    with served("--data", str(tmp_path)) as process, Client(process.url, NAME) as client:
        client._http.post("/v1/models", json={"name": NAME})
        port = int(process.url.rstrip("/").rpartition(":")[2])
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for connection in slow:
            connection.sendall(
                f"POST /v1/models/{NAME}/learn HTTP/1.1\r\nhost: localhost\r\n"
                "content-type: application/json\r\ncontent-length: 1000\r\n\r\n{".encode()
            )
        assert client.learn({"f": 1.0}, 1)["duplicate"] is False
        for connection in slow:
            connection.close()
        while client.describe()["lag"]:  # acknowledged is not learned yet
            time.sleep(0.01)
        assert client.describe()["versions"]["1"]["learned"] == 1


def test_the_client_repeats_unanswered_requests():
    seen = []

    def answer(request):
        seen.append(json.loads(request.content))
        if len(seen) == 1:
            raise httpx.ConnectError("away")
        if len(seen) == 2:
            return httpx.Response(503, json={"error": "full"}, headers={"retry-after": "0"})
        return httpx.Response(200, json={"seq": 1, "duplicate": False})

    client = Client("http://localhost", NAME, transport=httpx.MockTransport(answer))
    assert client.learn({"f": 1.0}, 1)["seq"] == 1
    assert len({entry["id"] for entry in seen}) == 1
    client = Client("http://localhost", NAME, retries=0, transport=httpx.MockTransport(answer))
    seen.clear()
    with pytest.raises(ServiceError, match="no answer from http://localhost: away"):
        client.learn({"f": 1.0}, 1)


def test_the_client_says_where_a_token_goes():
    transport = httpx.MockTransport(lambda _: httpx.Response(401, json={"error": "not known"}))
    for token, message in ((None, "SONLINE_TOKEN"), ("son_a.b", "not known")):
        with (
            Client("http://localhost", NAME, token, transport=transport) as client,
            pytest.raises(ServiceError, match=message),
        ):
            client.describe()


def test_the_client_sends_tables_and_names_bad_lines(tmp_path):
    rows = "".join(f"{n % 7},{'rome' if n % 3 else 'new york'},{n % 2}\n" for n in range(250))
    table = tmp_path / "d.csv"
    table.write_text(f"a,city,label\n{rows}")
    assert run("convert", str(table), "-o", str(tmp_path / "d.jsonl"), "-q")[0] == 0
    (tmp_path / "bad.ndjson").write_text(
        '{"x": {"a": 1}, "y": 1}\n\n' * 5 + '{"x": {"a": 1}, "y": "x"}\n'
    )
    with served("--data", str(tmp_path / "data")) as process:
        url = ("--url", process.url)
        httpx.post(f"{process.url}v1/models", json={"name": NAME})
        httpx.post(f"{process.url}v1/models", json={"name": "other"})
        done = [
            run("client", "learn", NAME, str(table), "--batch", "100", *url),
            run("client", "learn", "other", str(tmp_path / "d.jsonl"), *url),
        ]
        assert [line for _, line, _ in done] == ["250 learned\n"] * 2, done
        bad = ("client", "learn", NAME, str(tmp_path / "bad.ndjson"), "--batch", "4", *url)
        code, _, errors = run(*bad)
        assert (code, f"{tmp_path / 'bad.ndjson'}:11: " in errors) == (3, True), errors
        assert "y, row 2: " in errors
        packed = tmp_path / "bad.ndjson.gz"
        packed.write_bytes(gzip.compress(b'{"x": {"a": 1}, "y": 1, "id": "p"}\n{"x": \xff}\n'))
        code, _, errors = run("client", "learn", "other", str(packed), *url)
        assert (code, f"{packed}:2: " in errors) == (3, True), errors
        with Client(process.url, NAME) as client:
            while any(model["lag"] for model in client.models()):
                time.sleep(0.01)
        assert run("client", "list", *url)[1].splitlines() == [
            f"{NAME}: 254 rows learned",
            "other: 250 rows learned",
        ]
    learner = OnlineLearner()
    learner.learn_stream(table)
    served_model = last_snapshot(tmp_path / "data" / "models", name="other")
    assert served_model.names() == learner.model.names()
