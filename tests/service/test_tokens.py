"""The file of tokens: what it holds at the moment counts."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from sonline.service import create_app, security
from sonline.service.records import StoreError
from sonline.service.tokens import Tokens


def test_the_file_of_tokens_may_change_while_the_service_runs(tmp_path, monkeypatch):
    """What it holds now counts: a token that was in another file, or was removed, is refused."""
    seconds = [1000.0]
    monkeypatch.setattr(security, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    app = create_app(tmp_path / "service", tokens_required=False)
    known = app.service.tokens
    path = tmp_path / "service" / "tokens.db"

    def status(secret=None):
        seconds[0] += 10
        headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
        return client.get("/v1/models", headers=headers).status_code

    with TestClient(app, base_url="http://localhost") as client:
        assert status() == 200  # there has been no token
        old = known.add(["admin"])
        assert (status(), status(old)) == (401, 200)
        path.rename(tmp_path / "old.db")
        assert (status(), status(old)) == (503, 503)
        answer = client.get("/v1/models", headers={"authorization": "Bearer son_a.b"})
        assert answer.json()["error"] == "tokens cannot be read; see the log of the service"
        assert client.get("/readyz").status_code == 200
        new = Tokens(tmp_path / "service").add(["admin"])
        assert (status(), status(old), status(new)) == (401, 401, 200)
        path.write_bytes(b"no database" * 1000)
        assert (status(), status(new)) == (503, 503)
        path.unlink()
        (tmp_path / "old.db").rename(path)
        assert (status(old), status(new)) == (200, 401)
        assert known.remove(old[4:16])
        assert (status(), status(old)) == (401, 401)  # the last one is gone: nobody enters


def test_damaged_scopes_of_a_token_are_named(tmp_path):
    tokens = Tokens(tmp_path)
    with closing(sqlite3.connect(tmp_path / "tokens.db")) as database, database:
        database.execute("insert into tokens values ('x', '', x'00', 'not JSON', 0)")
    with pytest.raises(StoreError, match=r"tokens.db: damaged \(the scopes of 'x'\); restore"):
        tokens.all()
