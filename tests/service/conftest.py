"""A service in this process, with one model."""

import pytest
from helpers_service import NAME
from starlette.testclient import TestClient

from sonline.service import create_app


@pytest.fixture
def client(tmp_path):
    app = create_app(tmp_path, tokens_required=False)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        client.folder = tmp_path
        assert client.post("/v1/models", json={"name": NAME}).status_code == 201
        yield client
