"""Rows, engines and models replayed from a log, for the tests of the service."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sonline import OnlineLearner
from sonline.model import Model
from sonline.service import arrow, bodies
from sonline.service.bodies import LearnRow, LoggedRow, PredictRow, Rows
from sonline.service.database import Database
from sonline.service.engine import Engine
from sonline.service.records import AS_ARROW, LEARN
from sonline.service.settings import Settings
from sonline.service.versions import new_model, packed

NAME = "clicks"


def lines(rows: list[dict[str, Any]]) -> bytes:
    return b"\n".join(map(bodies.encode, rows))


def to_learn(rows: list[dict[str, Any]]) -> Rows:
    body = lines(rows)
    return bodies.rows_to_learn(bodies.decode_lines(body, LearnRow), body)


def to_predict(rows: list[dict[str, Any]]) -> Rows:
    return bodies.rows_to_predict(bodies.decode_lines(lines(rows), PredictRow))


def drawn(count: int, seed: int = 0, prefix: str = "e") -> list[dict[str, Any]]:
    """Return rows with ids, of which the label can be learned."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, 4))
    labels = np.where(values[:, 0] - values[:, 1] + 0.3 * rng.normal(size=count) > 0, 1, -1)
    colours = rng.choice(["red", "green"], count)
    return [
        {
            "id": f"{prefix}{number}",
            "x": {**{f"f{j}": v for j, v in enumerate(row.tolist())}, "colour": str(colour)},
            "y": int(label),
        }
        for number, (row, label, colour) in enumerate(zip(values, labels, colours, strict=True))
    ]


def make(folder: Path, model: Model | None = None, settings: Settings | None = None) -> Engine:
    """Return an engine that is ready, made the first time."""
    path = folder / f"{NAME}.db"
    if path.exists():
        database = Database(path)
        database.open()
    else:
        database = Database.create(path, packed(model or new_model()), "test")
    engine = Engine(database, settings or Settings())
    engine.start(wait=True)
    return engine


def opened(folder: Path, name: str = NAME) -> Database:
    """Return the file of the model, checked."""
    database = Database(folder / f"{name}.db")
    database.open()
    return database


def last_snapshot(folder: Path, name: str = NAME) -> Model:
    """Return the newest snapshot of the first version."""
    database = opened(folder, name)
    model = Model.from_bytes(next(data for _, data in database.snapshots(1)))
    database.release()
    return model


def logged(folder: Path) -> tuple[list[Any], list[Any], list[Any], list[str | None]]:
    """Return features, labels, weights and ids of all events that were to be learned."""
    x, y, weights, ids = [], [], [], []
    database = opened(folder)
    database.release()
    for record in database.read(1):
        if record.kind != LEARN:
            continue
        if record.encoding == AS_ARROW:
            rows = arrow.read(record.payload, labelled=True)
            x += [{k: v for k, v in row.items() if v is not None} for row in rows.x.to_pylist()]
            y += list(rows.y)
            weights += [1.0] * rows.count if rows.weights is None else list(rows.weights)
            ids += rows.ids
            continue
        for row in bodies.decode_lines(record.payload, LoggedRow):
            x.append({k: v for k, v in bodies.features(row.x).items() if v is not None})
            y.append(row.y)
            weights.append(row.weight)
            ids.append(row.id)
    return x, y, weights, ids


def one_pass(folder: Path, learner: OnlineLearner | None = None) -> Model:
    """Return what an `OnlineLearner` has after one pass over the log."""
    x, y, weights, _ = logged(folder)
    learner = learner or OnlineLearner()
    if x:
        learner.learn(x, y, weights)
    return learner.model


def assert_same_bits(first: Model, second: Model) -> None:
    mine, other = first.tensors(), second.tensors()
    assert mine.keys() == other.keys()
    for name, tensor in mine.items():
        assert tensor.tobytes() == other[name].tobytes(), name
    assert first.names() == second.names()


@contextmanager
def served(*options: str, expected: int = 0, end: signal.Signals = signal.SIGTERM) -> Any:
    """Run ``sonline serve``; its address is ``url``, its standard error is in ``errors``."""
    command = [sys.executable, "-m", "sonline", "serve", "--port", "0", *options]
    with tempfile.TemporaryFile("w+") as errors:  # a pipe that nobody reads would stop the service
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": errors, "text": True}
        with subprocess.Popen(command, **pipes) as process:
            try:
                words = process.stdout.readline().split()
                assert words[:1] == ["Open"], (errors.seek(0), errors.read())
                process.url = words[1]
                yield process
            finally:
                process.send_signal(end)
                process.communicate(timeout=30)
                errors.seek(0)
                process.errors = errors.read()
                assert process.returncode == expected, process.errors
