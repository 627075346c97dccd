"""Requests made from the description of the interface: never a 5xx, never a traceback.

``SONLINE_FUZZ_EXAMPLES=120 SONLINE_SEED=1`` makes 120 requests of each kind, others for each seed.
"""

import os

import httpx
import pytest
from helpers_service import NAME, served
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.errors import Unsatisfiable

from sonline.service.bodies import Limits
from sonline.service.openapi import document

schemathesis = pytest.importorskip("schemathesis", reason="no schemathesis (an extra of the tests)")

EXAMPLES = int(os.environ.get("SONLINE_FUZZ_EXAMPLES", "6"))
SEED = int(os.environ.get("SONLINE_SEED", "0"))
OPERATIONS = [
    (method.upper(), path)
    for path, operations in document(Limits())["paths"].items()
    for method in operations
    if method != "parameters" and not path.endswith("/events")  # which does not end
]


@pytest.fixture(scope="module")
def description(tmp_path_factory):
    with served("--data", str(tmp_path_factory.mktemp("service"))) as process:
        httpx.post(f"{process.url}v1/models", json={"name": NAME}).raise_for_status()
        yield schemathesis.openapi.from_url(f"{process.url}openapi.json")


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@pytest.mark.parametrize("mode", ["positive", pytest.param("negative", marks=pytest.mark.long)])
def test_the_interface_keeps_to_its_description(description, method, path, mode):
    """With bodies that the API description allows, and with others."""
    chosen = schemathesis.GenerationMode(mode)
    strategy = description[path][method].as_strategy(generation_mode=chosen)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @seed(SEED)
    @given(case=strategy)
    def check(case):
        if "name" in (case.path_parameters or {}) and mode == "positive":
            case.path_parameters["name"] = NAME
        response = case.call()
        assert response.status_code < 500, response.content
        assert b"Traceback" not in response.content
        if response.status_code >= 400 and path != "/readyz":
            assert response.json()["error"]
        case.validate_response(
            response,
            checks=[
                schemathesis.checks.not_a_server_error,
                schemathesis.checks.status_code_conformance,
                schemathesis.checks.content_type_conformance,
                schemathesis.checks.response_schema_conformance,
            ],
        )

    try:
        check()
    except Unsatisfiable:
        assert mode == "negative"  # the description allows everything here
