"""A demonstration: a stream with drift, so that there is something to see on the page.

Rows have ten features of very different sizes that move together, a word, and a temperature that is
best in the middle. The weights behind the labels drift slowly, and jump every minute, and so does
the best temperature. Half of the labels arrive at once, the others
after a second or so. A second version without a sketch learns from the same rows.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

import numpy as np

from sonline.service import bodies
from sonline.service.bodies import LabelRow, LearnRow, Rows
from sonline.service.engine import Engine
from sonline.service.outcomes import BusyError, UnavailableError
from sonline.service.service import Service
from sonline.service.versions import new_model

NAME = "demo"
FEATURES = 10
CITIES = ("Berlin", "Lima", "Osaka")
_JUMP = 60.0  # seconds


class Stream:
    """Rows and labels with drift."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._mixing = self._rng.normal(size=(FEATURES, FEATURES)) * np.geomspace(1, 0.02, FEATURES)
        self._sizes = np.geomspace(0.01, 1000.0, FEATURES)
        self._truth = self._rng.normal(size=FEATURES)
        self._aim = self._truth
        self._best = self._best_aim = 18.0

    def jump(self) -> None:
        """Change the weights behind the labels."""
        self._aim = self._rng.normal(size=FEATURES)
        self._best_aim = 34.0 - self._best_aim

    def rows(self, count: int) -> list[tuple[dict[str, Any], int]]:
        """Return rows with labels."""
        step = min(1.0, count / 2000)
        self._truth = self._truth + (self._aim - self._truth) * step
        self._best += (self._best_aim - self._best) * step
        hidden = self._rng.normal(size=(count, FEATURES))
        seen = hidden @ self._mixing.T * self._sizes
        cities = self._rng.integers(len(CITIES), size=count)
        warm = np.round(self._rng.normal(15.0, 8.0, size=count), 1)
        score = hidden @ self._truth + (cities - 1.0) + 0.5 * self._rng.logistic(size=count)
        score += 2.0 - ((warm - self._best) / 5.0) ** 2
        return [
            (
                {f"sensor {j}": float(v) for j, v in enumerate(row)}
                | {"temperature": degrees, "city": CITIES[city]},
                1 if value > 0 else -1,
            )
            for row, degrees, city, value in zip(
                seen, warm.tolist(), cities.tolist(), score, strict=True
            )
        ]


def start(service: Service, rate: float = 400.0) -> threading.Thread:
    """Create the model of the demonstration if it is missing, and feed it in a thread."""
    if NAME not in service.engines:
        service.create(NAME, new_model(), "demonstration")
    engine = service.writer(NAME)
    engine.wait_ready()
    if len(engine.versions) == 1:
        engine.add_version(new_model(parameters={"sketch": "none"}), "without a sketch")
    thread = threading.Thread(target=_feed, args=(service, engine, rate), daemon=True)
    thread.start()
    return thread


def _feed(service: Service, engine: Engine, rate: float) -> None:
    stream, number = Stream(), 0
    delayed: deque[tuple[float, LabelRow]] = deque()
    started = jumped = time.monotonic()
    chance = np.random.default_rng(1)
    prefix = f"{time.time_ns():x}"
    while not service.stopping.wait(0.05):
        now = time.monotonic()
        if now - jumped > _JUMP:
            jumped = now
            stream.jump()
        # The first seconds are faster, so that there is something to see.
        expected = rate * 0.05 * (4.0 if now - started < 5.0 else 1.0)
        rows = stream.rows(int(chance.poisson(expected)))
        try:
            for x, y in rows[::2]:
                number += 1
                name = f"{prefix}-{number}"
                sent = time.perf_counter()
                engine.predict(Rows([x], 1, [name]))
                service.watched[NAME].latencies.append(time.perf_counter() - sent)
                delayed.append((now + chance.exponential(1.0), LabelRow(name, y)))
            if rows[1::2]:
                lines = [LearnRow(x, y) for x, y in rows[1::2]]
                payload = b"\n".join(map(bodies.encode, lines))
                engine.learn(bodies.rows_to_learn(lines, payload)).result()
            due = [label for when, label in delayed if when <= now]
            delayed = deque(pair for pair in delayed if pair[0] > now)
            if due:
                outcome = engine.label(due).result()
                service.watched[NAME].delays.extend(outcome.delays)
        except (BusyError, UnavailableError):
            continue
