"""Requests to a service in this process, and what its model has learned."""

import time

import pytest
from helpers_service import NAME

from sonline.model import Model

MODEL = f"/v1/models/{NAME}"
NDJSON = {"content-type": "application/x-ndjson"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


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
