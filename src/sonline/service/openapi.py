"""The description of the API: OpenAPI 3.1."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from sonline.service.bodies import Limits
from sonline.service.store import SCOPES
from sonline.service.versions import TASKS

_ARROW = "application/vnd.apache.arrow.stream"
_LINES = "application/x-ndjson"
_FILE = "application/octet-stream"


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required,
        "additionalProperties": False,
        "properties": properties,
    }


def _lines(row: str) -> dict[str, Any]:
    """Return the type of a body of lines."""
    text = {"type": "string", "description": f"A {row} a line."}
    return {_LINES: {"schema": text}}


_BINARY = {"schema": {"type": "string", "format": "binary"}}
_ERRORS = {
    "400": "The body cannot be used; nothing was learned.",
    "401": "The token is missing or unknown.",
    "403": "The token lacks the scope, or the request comes from a page of another site.",
    "404": "There is no such model, version or id.",
    "408": "The body took too long.",
    "413": "The body exceeds a limit; nothing was learned.",
    "415": "The content type is not supported.",
    "421": "Without tokens only requests to localhost are answered; or this process only predicts.",
    "429": "Too many events wait, or too many requests; try again after `Retry-After` seconds.",
    "503": "Starting, stopping, or the log cannot be written; nothing was learned.",
}


def _operation(  # noqa: PLR0917 - in the order in which they are read
    summary: str,
    scope: str | None,
    status: str = "200",
    content: dict[str, Any] | None = None,
    body: dict[str, Any] | None = None,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {status: {"description": summary}},
    }
    if content is not None:
        operation["responses"][status]["content"] = content
    if body is not None:
        operation["requestBody"] = {"required": True, "content": body}
    if parameters:
        operation["parameters"] = parameters
    if scope is None:
        return operation | {"security": []}
    operation["description"] = f"Needs the scope `{scope}`."
    for code, text in _ERRORS.items():
        operation["responses"][code] = {"description": text, "content": _json(_ref("Error"))}
    return operation


def document(limits: Limits) -> dict[str, Any]:
    """Return the description of a service with these limits."""
    name = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$"},
    }
    number = {"name": "version", "in": "path", "required": True, "schema": {"type": "integer"}}
    durable = {
        "name": "durable",
        "in": "query",
        "description": "Wait until rows with an id are on disk.",
        "schema": {"type": "boolean"},
    }
    model, of_version = "/v1/models/{name}", "/v1/models/{name}/versions/{version}"
    any_object = {"type": "object"}
    paths = {
        "/healthz": {"get": _operation("The process runs.", None, content=_json(any_object))},
        "/readyz": {
            "get": _operation("All models are ready.", None, content=_json(any_object))
            | {
                "responses": {
                    "200": {"description": "All models are ready.", "content": _json(any_object)},
                    "503": {"description": "Not all are.", "content": _json(any_object)},
                }
            }
        },
        "/metrics": {
            "get": _operation(
                "Metrics for Prometheus.",
                "predict",
                content={"text/plain": {"schema": {"type": "string"}}},
            )
        },
        "/v1/models": {
            "get": _operation("List the models.", "predict", content=_json(any_object)),
            "post": _operation(
                "Create a model from parameters, or from a model file (then with `?name=`).",
                "admin",
                "201",
                _json(_ref("Model")),
                _json(_ref("NewModel")) | {_FILE: _BINARY},
                [{"name": "name", "in": "query", "schema": {"type": "string"}}],
            ),
        },
        model: {"get": _operation("Describe a model.", "predict", content=_json(_ref("Model")))},
        f"{model}/predict": {
            "post": _operation(
                "Predict rows; those with an id are kept until their labels arrive.",
                "predict",
                content=_json(_ref("Prediction")) | _lines("Prediction"),
                body=_json(_ref("PredictRow")) | _lines("PredictRow") | {_ARROW: _BINARY},
                parameters=[durable],
            )
        },
        f"{model}/learn": {
            "post": _operation(
                "Learn rows with labels; answered when they are on disk.",
                "learn",
                content=_json({"anyOf": [_ref("Learned"), _ref("LearnedMany")]}),
                body=_json(_ref("LearnRow")) | _lines("LearnRow") | {_ARROW: _BINARY},
            )
        },
        f"{model}/label": {
            "post": _operation(
                "Learn rows that were predicted, with their labels.",
                "learn",
                content=_json({"anyOf": [_ref("Learned"), _ref("LearnedMany")]}),
                body=_json(_ref("LabelRow")) | _lines("LabelRow"),
            )
        },
        f"{model}/stats": {
            "get": _operation(
                "The figures of the live page, once.", "predict", content=_json(any_object)
            )
        },
        f"{model}/events": {
            "get": _operation(
                "The figures of the live page, as server-sent events.",
                "predict",
                content={"text/event-stream": {"schema": {"type": "string"}}},
            )
        },
        f"{model}/versions": {
            "post": _operation(
                "Add a shadow with other parameters, or from a model file.",
                "admin",
                "201",
                _json(_object(["version"], version={"type": "integer"})),
                _json(_ref("NewVersion")) | {_FILE: _BINARY},
            )
        },
        f"{model}/rollback": {
            "post": _operation(
                "Make the previous champion the champion again.",
                "admin",
                content=_json(_ref("Champion")),
            )
        },
        f"{model}/snapshot": {
            "post": _operation(
                "Write snapshots now.",
                "admin",
                content=_json(_object(["events"], events={"type": "integer"})),
            )
        },
        of_version: {"delete": _operation("Remove a shadow.", "admin", "204")},
        f"{of_version}/promote": {
            "post": _operation(
                "Make a version the champion.", "admin", content=_json(_ref("Champion"))
            )
        },
        f"{of_version}/file": {
            "get": _operation(
                "Download a version as a model file.", "admin", content={_FILE: _BINARY}
            )
        },
    }
    for path, operations in paths.items():
        fixed = [name] * ("{name}" in path) + [number] * ("{version}" in path)
        if fixed:
            operations["parameters"] = fixed  # type: ignore[assignment]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sonline serve",
            "version": version("sonline"),
            "description": "Models that learn from events, durably; labels may arrive later.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(limits),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": f"Created by `sonline token add`; scopes: {', '.join(SCOPES)}.",
                }
            },
        },
    }


def _schemas(limits: Limits) -> dict[str, Any]:
    value = {"type": ["number", "string", "boolean", "null"]}
    pair = {
        "type": "array",
        "prefixItems": [{"type": "integer", "minimum": 0}, {"type": "number"}],
        "minItems": 2,
        "maxItems": 2,
    }
    x = {
        "description": "Features by name, or pairs of index and value. A text is the feature "
        "name=text with the number 1; null is absent.",
        "anyOf": [
            {
                "type": "object",
                "additionalProperties": value,
                "maxProperties": limits.features,
            },
            {"type": "array", "items": pair, "maxItems": limits.features},
        ],
    }
    name = {"type": "string", "minLength": 1, "maxLength": 200}
    optional = {"anyOf": [name, {"type": "null"}]}
    label = {"type": ["number", "string", "boolean"]}
    weight = {"type": "number", "minimum": 0, "default": 1}
    integer = {"type": "integer"}
    number = integer | {"description": "The number of the (first) event in the log."}
    parameters = {"type": "object", "description": "Parameters of OnlineLearner."}
    return {
        "Error": _object(["error"], error={"type": "string"}),
        "PredictRow": _object(["x"], x=x, id=optional),
        "LearnRow": _object(["x", "y"], x=x, y=label, id=optional, weight=weight),
        "LabelRow": _object(["id", "y"], id=name, y=label, weight=weight),
        "Prediction": _object(
            ["prediction", "raw", "version", "seq"],
            prediction={"type": ["number", "string", "boolean", "null"]},
            raw={"type": "array", "items": {"type": "number"}},
            version=integer,
            seq=integer
            | {
                "description": "The number of the last event in the log that the model has learned."
            },
            id=name,
            probabilities={"type": "object", "additionalProperties": {"type": "number"}},
        ),
        "Learned": _object(["seq", "duplicate"], seq=number, duplicate={"type": "boolean"}),
        "LearnedMany": _object(
            ["learned", "duplicates", "unknown", "seq"],
            learned=integer,
            duplicates=integer,
            unknown={"type": "array", "items": {"type": "string"}},
            seq=number,
        ),
        "NewModel": _object(
            ["name"],
            name={"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$"},
            task={"enum": [*TASKS]},
            classes={"type": "array", "items": {"type": ["string", "number"]}},
            parameters=parameters,
        ),
        "NewVersion": _object([], parameters=parameters),
        "Champion": _object(["champion"], champion=integer),
        "Model": {"type": "object", "required": ["name", "champion", "versions"]},
    }
