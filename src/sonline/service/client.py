"""A small client for the service; a row that is sent again is learned once."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

import httpx

from sonline.errors import SonlineError

_AGAIN = (429, 503)


class ServiceError(SonlineError):
    """The service refused a request, or could not be reached.

    ``status`` is the HTTP status code; 0 if there was no answer. ``row`` is the number of the row
    that was refused, counted from 1, if `Client.learn_many` knows it.
    """

    def __init__(self, status: int, message: str, row: int | None = None, reason: str = "") -> None:
        super().__init__(f"{message} (status {status})" if status else message)
        self.status, self.message, self.row = status, message, row
        self.reason = reason or message  # without the row


class Client:
    """Use one model of a service: predict and train over HTTP.

    Every row that is sent for training gets an id if it has none. So a row that is sent again after
    a lost answer is learned once.

    Parameters
    ----------
    url : str
        URL of the service, such as ``http://localhost:8765``.
    model : str
        Name of the model.
    token : str, optional
        Made by ``sonline token``.
    retries : int, default=8
        How often a request is repeated if the service is busy or does not answer.
    transport : httpx.BaseTransport, optional
        For tests.

    Examples
    --------
    >>> from sonline.service.client import Client
    >>> with Client("http://localhost:8765", "clicks") as client:  # doctest: +SKIP
    ...     client.predict({"price": 3.5}, id="a")["prediction"]
    ...     client.label("a", 1)
    """

    def __init__(
        self,
        url: str,
        model: str,
        token: str | None = None,
        *,
        retries: int = 8,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout, transport=transport
        )
        self._url = url.rstrip("/")
        self._name = model
        self._path = f"/v1/models/{model}"
        self._retries = retries

    def predict(
        self,
        x: Mapping[str, Any] | Sequence[Any],
        id: str | None = None,  # noqa: A002 - as in the interface
        *,
        offset: float | None = None,
        interval: float | None = None,
        wants_label: bool = False,
    ) -> dict[str, Any]:
        """Predict a row. With an id, the service stores the row until its label arrives."""
        body = {"x": x} | _given(id=id, offset=offset)
        asked = _given(interval=interval, wants_label=1 if wants_label else None)
        query = "&".join(f"{name}={value}" for name, value in asked.items())
        return self._send("POST", f"/predict?{query}" if query else "/predict", body)

    def predict_many(
        self, rows: Iterable[Mapping[str, Any]], batch: int = 1000
    ) -> Iterator[dict[str, Any]]:
        """Yield the answers to rows (mappings with x, id, offset), which are sent in batches."""
        for sent, part in _batches(rows, batch):
            yield from map(json.loads, self._lines("/predict", part, sent).splitlines())

    def label(self, id: str, y: Any, weight: float = 1.0) -> dict[str, Any]:  # noqa: A002
        """Send the label of a row that was predicted."""
        return self._send("POST", "/label", {"id": id, "y": y, "weight": weight})

    def learn(
        self,
        x: Mapping[str, Any] | Sequence[Any],
        y: Any,
        weight: float = 1.0,
        id: str | None = None,  # noqa: A002
        *,
        offset: float | None = None,
    ) -> dict[str, Any]:
        """Send a row with its label."""
        row = {"x": x, "y": y, "id": id or str(uuid.uuid4()), **_given(offset=offset)}
        row |= {} if weight == 1 else {"weight": weight}
        return self._send("POST", "/learn", row)

    def learn_many(self, rows: Iterable[Mapping[str, Any]], batch: int = 1000) -> int:
        """Send rows (mappings with x, y, id, weight, offset), and return how many were new."""
        named = (row if row.get("id") else {**row, "id": str(uuid.uuid4())} for row in rows)
        return sum(
            json.loads(self._lines("/learn", part, sent))["learned"]
            for sent, part in _batches(named, batch)
        )

    def _lines(self, path: str, rows: Sequence[Mapping[str, Any]], before: int) -> bytes:
        """Send rows; ``before`` of them were sent already, so errors count from there."""
        body = "\n".join(json.dumps(row) for row in rows)
        headers = {"content-type": "application/x-ndjson"}
        try:
            return self._answer("POST", path, content=body.encode(), headers=headers).content
        except ServiceError as error:
            row = None if error.row is None else before + error.row
            where = f"row {row}" if row else f"rows {before + 1} to {before + len(rows)}"
            again = f"{before} rows before were sent" if before else "nothing was learned"
            reason = f"{error.reason}; {again}"
            raise ServiceError(
                error.status, f"{where} of the input: {reason}", row, reason
            ) from None

    def create(
        self,
        task: str = "binary",
        classes: Sequence[Any] = (),
        parameters: Mapping[str, Any] | None = None,
        file: str | os.PathLike[str] | None = None,
    ) -> dict[str, Any]:
        """Create the model, from a model file or with parameters of `OnlineLearner`."""
        if file is not None:
            headers = {"content-type": "application/octet-stream"}
            content = {"content": Path(file).read_bytes(), "headers": headers}
            return self._send("POST", "", base=f"/v1/models?name={self._name}", **content)
        chosen = {"task": task, "classes": [*classes], "parameters": dict(parameters or {})}
        return self._send("POST", "", {"name": self._name, **chosen}, base="/v1/models")

    def promote(self, version: int) -> int:
        """Make a version the champion, and return its number."""
        return int(self._send("POST", f"/versions/{version}/promote")["champion"])

    def roll_back(self) -> int:
        """Make the previous champion the champion again, and return its number."""
        return int(self._send("POST", "/rollback")["champion"])

    def snapshot(self) -> int:
        """Write snapshots now, and return how many events they hold."""
        return int(self._send("POST", "/snapshot")["events"])

    def models(self) -> list[dict[str, Any]]:
        """Return all models of the service, as `describe` does for one."""
        found: list[dict[str, Any]] = self._send("GET", "", base="/v1/models")["models"]
        return found

    def describe(self) -> dict[str, Any]:
        """Return the versions of the model with their metrics."""
        return self._send("GET", "")

    def _send(
        self, method: str, path: str, body: Any = None, base: str | None = None, **rest: Any
    ) -> dict[str, Any]:
        if body is not None:
            rest["json"] = body
        content: dict[str, Any] = self._answer(method, path, base, **rest).json()
        return content

    def _answer(
        self, method: str, path: str, base: str | None = None, **rest: Any
    ) -> httpx.Response:
        wait = 0.1
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                answer = self._http.request(method, (base or self._path) + path, **rest)
            except httpx.TransportError as error:
                if last:
                    raise ServiceError(0, f"no answer from {self._url}: {error}") from error
            else:
                if answer.is_success:
                    return answer
                if last or answer.status_code not in _AGAIN:
                    raise ServiceError(answer.status_code, *_message(answer))
                wait = max(wait, float(answer.headers.get("retry-after", 0)))
            time.sleep(min(wait, 5.0))
            wait *= 2
        raise AssertionError  # the last attempt returns or raises

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _batches(
    rows: Iterable[Mapping[str, Any]], size: int
) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Yield rows in batches, with the number of rows before each."""
    sent, rest = 0, iter(rows)
    while part := list(islice(rest, size)):
        yield sent, part
        sent += len(part)


def _message(answer: httpx.Response) -> tuple[str, int | None]:
    """Return what the service says, and the number of the row that it is about."""
    if answer.status_code == 401 and "authorization" not in answer.request.headers:
        return (
            "the service needs a token: Client(..., token=...), or SONLINE_TOKEN in a shell",
            None,
        )
    try:
        content = answer.json()
        return str(content["error"]), content.get("row")
    except (ValueError, KeyError, TypeError):
        return answer.text[:200], None
