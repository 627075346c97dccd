"""The models of a folder: their names, their engines, and the samples that the page shows."""

from __future__ import annotations

import fcntl
import shutil
import threading
import time
from collections import deque
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from sonline.errors import InvalidInputError, SonlineError
from sonline.model import Model
from sonline.rows import Floats
from sonline.service.admission import Defer, never_defer
from sonline.service.engine import Engine
from sonline.service.follower import Follower, ReadOnlyError
from sonline.service.settings import Settings
from sonline.service.store import Store, check_name
from sonline.service.versions import check_servable

HISTORY = 600  # samples that a page shows when it is opened, one a second
MOST_FEATURES = 20_000  # weights of larger models are not shown: reading so many takes 5 ms
_MOVED = 12  # weights that are shown
_READ_ONLY = "this process only predicts (--follow); send this request to the one that writes"


class UnknownModelError(InvalidInputError):
    """There is no model with this name."""


class InUseError(SonlineError):
    """Another process serves this folder."""


class Service:
    """The models of a folder.

    Parameters
    ----------
    folder : Path
        Created if missing.
    settings : Settings
        Of the engines.
    follow : bool, default=False
        Only predict, with models that follow the logs of the process that writes.

    Raises
    ------
    InUseError
        If another process writes in this folder, unless it is only read.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings = Settings(),  # noqa: B008 - frozen
        *,
        follow: bool = False,
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.follow = follow
        if follow and not (folder / "store.db").is_file():
            raise InvalidInputError(f"{folder}: there is no service to follow")
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = None if follow else self._locked(folder / "lock")
        self.store = Store(folder / "store.db")
        self.engines: dict[str, Engine | Follower] = {}
        self.watched: dict[str, Watched] = {}
        self.stopping = threading.Event()
        self._changing = threading.Lock()
        self._defer: Defer = never_defer
        self._started = self._closed = False

    @staticmethod
    def _locked(path: Path) -> TextIO:
        file = path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InUseError(
                f"{path.parent} is served by another process; --follow serves predictions beside it"
            ) from None
        return file

    def start(self, wait: bool = False) -> None:
        """Open all models; their logs are replayed in threads. A second call does nothing."""
        if self._started:
            return
        self._started = True
        if self.follow:
            self.refresh()
        else:
            for name in self.store.names():
                self._add(Engine(name, self._folder(name), self.store, self.settings))
        if wait:
            for engine in self.engines.values():
                engine.wait_ready()

    def close(self) -> None:
        """Learn all admitted events, write snapshots, and close everything."""
        self.stopping.set()
        if self._closed:
            return
        self._closed = True
        for engine in self.engines.values():
            engine.close()
        self.store.close()
        if self._lock is not None:
            self._lock.close()

    def defer_with(self, defer: Defer) -> None:
        """Set how engines defer waking their writers (`Admission.defer`)."""
        self._defer = defer
        for engine in self.engines.values():
            if isinstance(engine, Engine):
                engine.admission.defer = defer

    def refresh(self) -> None:
        """Follow models that the writer has created meanwhile."""
        if self.follow and not self._closed:
            for name in self.store.names():
                if name not in self.engines:
                    self._add(Follower(name, self._folder(name), self.store))

    def _folder(self, name: str) -> Path:
        return self.folder / "models" / check_name(name)

    def _add(self, engine: Engine | Follower) -> None:
        if isinstance(engine, Engine):
            engine.admission.defer = self._defer
        engine.start()
        self.engines = {**self.engines, engine.name: engine}
        self.watched[engine.name] = Watched(engine)

    @property
    def ready(self) -> bool:
        """Whether every model can predict and learn."""
        return not self.stopping.is_set() and all(engine.ready for engine in self.engines.values())

    def writer(self, name: str) -> Engine:
        """Return the engine of a model that can be changed."""
        engine = self.engine(name)
        if isinstance(engine, Follower):
            raise ReadOnlyError(_READ_ONLY)
        return engine

    def engine(self, name: str) -> Engine | Follower:
        """Return the engine of a model."""
        engine = self.engines.get(name)
        if engine is None:
            raise UnknownModelError(f"there is no model {name[:80]!r}")
        return engine

    def create(self, name: str, model: Model, origin: str) -> Engine:
        """Create a model and wait until it can be used."""
        if self.follow:
            raise ReadOnlyError(_READ_ONLY)
        with self._changing:
            check_name(name)
            if name in self.engines:
                raise InvalidInputError(f"there already is a model {name!r}")
            check_servable(model)
            folder = self._folder(name)
            if folder.exists():  # left over from an interrupted attempt
                shutil.rmtree(folder)
            engine = Engine.create(name, folder, self.store, model, origin, settings=self.settings)
            self._add(engine)
        engine.wait_ready()
        return engine


class Watched:
    """Samples of an engine, taken once a second, and the inside of its champion, for the page."""

    def __init__(self, engine: Engine | Follower) -> None:
        self.engine = engine
        self.latencies: deque[float] = deque(maxlen=4096)  # seconds, of predictions
        self.delays: deque[float] = deque(maxlen=4096)  # seconds, of labels
        self.history: deque[dict[str, Any]] = deque(maxlen=HISTORY)
        self._before: tuple[float, int] | None = None
        self._weights: tuple[int, Floats] = (0, np.zeros(0))
        self._seen: tuple[float, dict[str, Any]] = (0.0, {})
        self._looking = threading.Lock()

    def sample(self) -> dict[str, Any]:
        """Return the current state, and add it to the history."""
        engine, now = self.engine, time.monotonic()
        events = engine.events
        rate = 0.0
        if self._before is not None and now > self._before[0]:
            rate = (events - self._before[1]) / (now - self._before[0])
        self._before = now, events
        state: dict[str, Any] = {
            "time": time.time(),
            "ready": engine.ready,
            "problem": engine.problem,
            "events": events,
            "rate": rate,
            "lag": engine.lag,
            "waiting": len(engine.waiting),
            "champion": engine.champion,
            "versions": {
                str(n): live.monitor.values() | live.summary() | {"refused": live.refused}
                for n, live in engine.versions.items()
            },
        }
        state["p50"], state["p99"] = _quantiles(self.latencies, 1e3)
        state["delay50"], state["delay99"] = _quantiles(self.delays, 1.0)
        self.history.append(state)
        return state

    def look(self) -> dict[str, Any]:
        """Return the inside of the champion, read every two seconds at most."""
        with self._looking:
            if time.monotonic() - self._seen[0] >= 2.0 or not self._seen[1]:
                self._seen = time.monotonic(), self._look()
            return self._seen[1]

    def _look(self) -> dict[str, Any]:
        engine = self.engine
        live = engine.versions[engine.champion]
        # The core locks itself in each call; only new classes change anything else.
        with live.paused() if live.model.growing else nullcontext():
            inside = self._inside(engine.champion, live.model)
        return inside | {"calibration": live.monitor.calibration()}

    def _inside(self, version: int, model: Model) -> dict[str, Any]:
        stats = model.stats()
        shares = model.core.expert_shares().tolist()
        inside: dict[str, Any] = {
            "task": model.task,
            "loss": model.parameters.loss,
            "features": stats["features"] - 1,  # without the intercept
            "bytes": stats["bytes"],
            "rounds": stats["rounds"],
            "experts": [
                [alpha, memory, share]
                for (alpha, memory), share in zip(model.parameters.experts, shares, strict=True)
            ],
            "spectrum": model.spectra()[0].tolist() if model.outputs else [],
            "tail": None,
            "weights": [],
        }
        if stats["features"] <= MOST_FEATURES:
            tail = float(model.core.knowledge().get("tail", np.nan))
            inside["tail"] = tail if np.isfinite(tail) else None
            inside["weights"] = self._moved(version, model)
        return inside

    def _moved(self, version: int, model: Model) -> list[list[Any]]:
        """Return the weights that moved most since the last call: name, weight, weight before."""
        if not model.outputs:
            return []
        line, sign = model.output_of(None if model.outputs == 1 else model.known_labels[-1])
        now = sign * model.weights(scaled=True)[line, 1:]
        before = np.zeros_like(now)
        # Features keep their positions, and new ones are added at the end.
        if self._weights[0] == version:
            known = self._weights[1][: now.size]
            before[: known.size] = known
        self._weights = version, now
        order = np.argsort(-np.abs(now - before), kind="stable")[:_MOVED].tolist()
        names = model.features()
        return [[str(names[number]), float(now[number]), float(before[number])] for number in order]


def _quantiles(values: deque[float], factor: float) -> tuple[float | None, float | None]:
    if not values:
        return None, None
    half, most = np.quantile(np.array(values), [0.5, 0.99]) * factor
    return float(half), float(most)
