"""The operations of the service, and their description: OpenAPI 3.1.

`OPERATIONS` lists every path of the API once. `sonline.service.app` has a handler for each id.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import msgspec

from sonline.service.bodies import (
    LabelRow,
    Learned,
    LearnedMany,
    LearnRow,
    Limits,
    NewModel,
    NewVersion,
    Prediction,
    PredictRow,
)
from sonline.service.exchange import ARROW, FILE, JSON, LINES
from sonline.service.records import NAME
from sonline.service.tokens import SCOPES

_STRUCTS = (
    *(PredictRow, LearnRow, LabelRow, NewModel, NewVersion),
    *(Prediction, Learned, LearnedMany),
)
_REFERENCE = "#/components/schemas/{name}"
_ERRORS = {
    "400": "The body cannot be used; nothing was learned.",
    "401": "The token is missing or unknown.",
    "403": "The token lacks the scope, or the request comes from a page of another site.",
    "404": "There is no such model, version or id.",
    "409": "There already is such a model, or as many models as may be.",
    "413": "The body exceeds a limit; nothing was learned.",
    "415": "The content type is not supported.",
    "421": "Without tokens only requests to localhost are answered; or this process only predicts.",
    "429": "Too many events wait, or too many requests; try again after `Retry-After` seconds.",
    "503": "Starting, stopping, or the disk cannot be written; nothing was learned.",
}


def _json(*kinds: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the type of a JSON body: one of these, or any object."""
    schemas = [{"$ref": _REFERENCE.format(name=kind.__name__)} for kind in kinds]
    return {JSON: {"schema": {"anyOf": schemas} if schemas else {"type": "object"}}}


def _with(name: str, kind: str) -> dict[str, Any]:
    """Return the type of a JSON object with this field."""
    fields = {name: {"type": kind}}
    return {JSON: {"schema": {"type": "object", "required": [name], "properties": fields}}}


def _text(media_type: str, description: str = "") -> dict[str, Any]:
    return {media_type: {"schema": {"type": "string", "description": description}}}


def _rows(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the types of one row, or of a row in each line."""
    return _json(kind) | _text(LINES, f"A {kind.__name__} in each line.")


_ARROW_ROWS, _MODEL_FILE = (
    {kind: {"schema": {"type": "string", "format": "binary"}}} for kind in (ARROW, FILE)
)


def _query(name: str, kind: str, description: str, **limits: Any) -> dict[str, Any]:
    """Return a parameter after the question mark."""
    schema = {"type": kind, **limits}
    return {"name": name, "in": "query", "description": description, "schema": schema}


_NEW_NAME = _query("name", "string", "The name of the model, if the body is a model file.")
_LABEL = _query(
    "label", "string", "The class to explain; by default the predicted one, of two the second."
)
_CLASS = _query("label", "string", "The class; by default all of them, if there are up to ten.")
_INTERVAL = _query(
    "interval",
    "number",
    "Of a regression: also return an interval that holds this part of the labels.",
    exclusiveMinimum=0,
    exclusiveMaximum=1,
)
_WANTS_LABEL = _query(
    "wants_label",
    "boolean",
    "Of classes: also return whether the label of a row is worth asking for.",
)
_DURABLE = _query("durable", "boolean", "Wait until rows with an id are on disk.")


@dataclass(frozen=True)
class Operation:
    """A method of a path: the scope that it needs, its bodies and its answers."""

    id: str
    method: str
    path: str
    scope: str | None
    summary: str
    answer: dict[str, Any] | None = None  # content by media type
    body: dict[str, Any] | None = None
    status: int = 200
    parameters: tuple[dict[str, Any], ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return it as OpenAPI has it."""
        content = {} if self.answer is None else {"content": self.answer}
        responses = {str(self.status): {"description": self.summary} | content}
        operation: dict[str, Any] = {"operationId": self.id, "summary": self.summary}
        if self.body is not None:
            operation["requestBody"] = {"required": True, "content": self.body}
        if self.parameters:
            operation["parameters"] = list(self.parameters)
        if self.id == "ready":
            responses["503"] = {"description": "Not all are."} | content
        if self.scope is None:
            return operation | {"responses": responses, "security": []}
        error = _with("error", "string")
        responses |= {
            code: {"description": text, "content": error} for code, text in _ERRORS.items()
        }
        needs = f"Needs the scope `{self.scope}`."
        return operation | {"description": needs, "responses": responses}


_MODEL = "/v1/models/{name}"
_VERSION = f"{_MODEL}/versions/{{version}}"
_CHAMPION = _with("champion", "integer")
OPERATIONS = (
    Operation("healthy", "GET", "/healthz", None, "The process runs.", _json()),
    Operation("ready", "GET", "/readyz", None, "All models are ready.", _json()),
    Operation("openapi", "GET", "/openapi.json", None, "This description.", _json()),
    Operation(
        "metrics", "GET", "/metrics", "predict", "Metrics for Prometheus.", _text("text/plain")
    ),
    Operation("models", "GET", "/v1/models", "predict", "List the models.", _json()),
    Operation(
        *("create", "POST", "/v1/models", "admin"),
        "Create a model from parameters, or from a model file (then with `?name=`).",
        _json(),
        _json(NewModel) | _MODEL_FILE,
        201,
        (_NEW_NAME,),
    ),
    Operation("model", "GET", _MODEL, "predict", "Describe a model.", _json()),
    Operation(
        *("predict", "POST", f"{_MODEL}/predict", "predict"),
        "Predict rows; those with an id are kept until their labels arrive.",
        _rows(Prediction),
        _rows(PredictRow) | _ARROW_ROWS,
        parameters=(_DURABLE, _INTERVAL, _WANTS_LABEL),
    ),
    Operation(
        *("explain", "POST", f"{_MODEL}/explain", "predict"),
        "What each feature of a row adds to its raw prediction, largest first.",
        _with("parts", "array"),
        _json(PredictRow),
        parameters=(_LABEL,),
    ),
    Operation(
        *("curves", "GET", f"{_MODEL}/curves", "predict"),
        "What each column adds to raw predictions, as a function of its value.",
        _with("columns", "array"),
        parameters=(_CLASS,),
    ),
    Operation(
        *("learn", "POST", f"{_MODEL}/learn", "learn"),
        "Learn rows with labels; answered when they are on disk.",
        _json(Learned, LearnedMany),
        _rows(LearnRow) | _ARROW_ROWS,
    ),
    Operation(
        *("label", "POST", f"{_MODEL}/label", "learn"),
        "Learn rows that were predicted, with their labels.",
        _json(Learned, LearnedMany),
        _rows(LabelRow),
    ),
    Operation(
        *("stats", "GET", f"{_MODEL}/stats", "predict"),
        "The figures of the live page, once.",
        _json(),
    ),
    Operation(
        *("events", "GET", f"{_MODEL}/events", "predict"),
        "The figures of the live page, as server-sent events.",
        _text("text/event-stream"),
    ),
    Operation(
        *("add_version", "POST", f"{_MODEL}/versions", "admin"),
        "Add a shadow with other parameters, or from a model file.",
        _with("version", "integer"),
        _json(NewVersion) | _MODEL_FILE,
        201,
    ),
    Operation(
        *("roll_back", "POST", f"{_MODEL}/rollback", "admin"),
        "Make the previous champion the champion again.",
        _CHAMPION,
    ),
    Operation(
        *("snapshot", "POST", f"{_MODEL}/snapshot", "admin"),
        "Write snapshots now.",
        _with("events", "integer"),
    ),
    Operation("remove_version", "DELETE", _VERSION, "admin", "Remove a shadow.", status=204),
    Operation(
        *("promote", "POST", f"{_VERSION}/promote", "admin"),
        "Make a version the champion.",
        _CHAMPION,
    ),
    Operation(
        *("download", "GET", f"{_VERSION}/file", "admin"),
        "Download a version as a model file.",
        _MODEL_FILE,
    ),
)


def document(limits: Limits) -> dict[str, Any]:
    """Return the description of a service with these limits."""
    in_path = {"name": {"type": "string", "pattern": f"^{NAME}$"}, "version": {"type": "integer"}}
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        path = operation.path
        fixed = [
            {"name": name, "in": "path", "required": True, "schema": schema}
            for name, schema in in_path.items()
            if f"{{{name}}}" in path
        ]
        described = paths.setdefault(path, {"parameters": fixed} if fixed else {})
        described[operation.method.lower()] = operation.describe()
    _, schemas = msgspec.json.schema_components(_STRUCTS, ref_template=_REFERENCE)
    token = {
        "type": "http",
        "scheme": "bearer",
        "description": f"Created by `sonline token add`; scopes: {', '.join(SCOPES)}.",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sonline serve",
            "version": version("sonline"),
            "description": "Models that learn from events, durably; labels may arrive later. A "
            f"body has at most {limits.body} bytes and {limits.rows} rows of {limits.features} "
            "features.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": token}},
    }
