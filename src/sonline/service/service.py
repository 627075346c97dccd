"""The models of a folder: their names, their engines, and the samples that the page shows."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sonline.errors import InvalidInputError, ParameterError, SonlineError
from sonline.model import Model
from sonline.model.pictures import as_data
from sonline.parameters import CURVED
from sonline.rows import Floats
from sonline.service import tokens
from sonline.service.clock import Clock
from sonline.service.database import Database
from sonline.service.engine import Engine
from sonline.service.follower import Follower, ReadOnlyError
from sonline.service.records import NAME, End, StoreError, check_name, set_aside
from sonline.service.settings import Settings
from sonline.service.versions import check_servable, packed
from sonline.service.view import DatabaseView

HISTORY = 600  # samples that a page shows when it is opened, one a second
MOST_FEATURES = 20_000  # weights of larger models are not shown: reading so many takes 5 ms
_MOVED = 12  # weights that are shown
_RATE_SECONDS = 0.5  # that are needed to measure a rate
_CURVES = 8  # columns that are shown as curves
_READ_ONLY = "this process only predicts (--follow); send this request to the one that writes"
log = logging.getLogger("sonline.service")


class UnknownModelError(InvalidInputError):
    """There is no model with this name."""


class ConflictError(InvalidInputError):
    """There already is a model with this name, or as many models as may be."""


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
        Only predict, with models that follow the process that writes.
    accept_loss : collection of str, default=()
        Models that may start with fewer events than were acknowledged, or not at all;
        ``tokens.db`` if the tokens may be lost.

    Raises
    ------
    InUseError
        If another process writes in this folder, unless it is only read.
    StoreError
        If a file is lost or damaged.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings = Settings(),  # noqa: B008 - frozen
        *,
        follow: bool = False,
        accept_loss: Collection[str] = (),
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.follow = follow
        self.engines: dict[str, Engine | Follower] = {}
        self.watched: dict[str, Watched] = {}
        self.stopping = threading.Event()
        self._wake: Callable[[Callable[[], None]], None] = lambda work: work()
        self._accept_loss = accept_loss
        self._models = folder / "models"
        self._changing = threading.Lock()
        self._started = self._closed = False
        if follow and not (folder / tokens.FILE).is_file():
            raise InvalidInputError(f"{folder}: there is no service to follow")
        self._lock: int | None = None
        if not follow:
            self._models.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked(folder)
        try:
            if not follow:
                self._check_tokens()
            self.tokens = tokens.Tokens(folder, read_only=follow)
        except BaseException:
            self._unlock()
            raise

    @staticmethod
    def _locked(folder: Path) -> int:
        """Lock the folder itself: a file in it could be removed, and locked once more."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise InUseError(
                f"{folder} is served by another process; --follow serves predictions beside it"
            ) from None
        return descriptor

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _check_tokens(self) -> None:
        """Refuse to start without the tokens that there were: anybody here could enter."""
        path = self.folder / tokens.FILE
        used = any(self._models.iterdir()) and tokens.FILE not in self._accept_loss
        if used and not path.is_file():
            raise StoreError(
                path,
                " is missing",
                "restore it from a copy, create new tokens with 'sonline token add --data "
                f"{self.folder}', or start once with --accept-loss {tokens.FILE}",
            )

    def start(self, wait: bool = False) -> None:
        """Open all models; their events are replayed in threads. A second call does nothing."""
        if self._started:
            return
        self._started = True
        if self.follow:
            self.refresh()
        else:
            names = self._names()
            self._check_accepted(names)
            for name in names:
                self._open(self._models / f"{name}.db")
        if wait:
            for engine in self.engines.values():
                engine.wait_ready()

    def _names(self) -> list[str]:
        """Return the names of the models that there are, or were."""
        paths = sorted(self._models.iterdir())
        for path in paths:
            if path.is_dir():
                raise StoreError(path, " is a folder of another version of sonline", "move it away")
            if path.suffix.startswith(".new"):  # its creation was interrupted
                path.unlink()
        return sorted({path.stem for path in paths if path.suffix in (".db", ".end")})

    def _check_accepted(self, names: list[str]) -> None:
        """Refuse to accept the loss of what is not there: it may be a typing error."""
        for name in self._accept_loss:
            if name not in {*names, tokens.FILE}:
                some = ", ".join(names[:10]) + ", ..." * (len(names) > 10)
                raise ParameterError(
                    f"--accept-loss {name[:80]}: {self._models} has no such model; "
                    f"it has {some or 'none'}"
                )

    def _open(self, path: Path) -> None:
        """Check the file of a model, and start its engine."""
        accepted = path.stem in self._accept_loss
        end = End(path.with_suffix(".end"))
        if not path.exists() and (end.read()[1] == 0 or accepted):
            # Its creation was interrupted, or its loss is accepted.
            log.warning("model lost", extra={"facts": {"file": str(path)}})
            set_aside(end.path)
            return
        database = Database(path)
        database.open(accepted)
        for first, next_ in database.about.lost:
            facts = {"model": path.stem, "from": first, "to": next_ - 1}
            log.warning("events lost", extra={"facts": facts})
        self._add(Engine(database, self.settings))

    def close(self) -> None:
        """Learn all admitted events, write snapshots, and close everything."""
        self.stopping.set()
        if self._closed:
            return
        self._closed = True
        with ExitStack() as closing:  # all of them, even if one cannot be closed
            closing.callback(self._unlock)
            for engine in self.engines.values():
                closing.callback(engine.close)

    def refresh(self) -> None:
        """Follow models that the writer has created meanwhile.

        What is gone and was never a model is forgotten; a model whose file is gone is a problem.
        """
        if not self.follow or self._closed:
            return
        there = sorted(path.stem for path in self._models.glob("*.db"))
        for name in there:
            if name not in self.engines and re.fullmatch(NAME, name):
                self._add(Follower(DatabaseView(self._models / f"{name}.db")))
        for name, engine in list(self.engines.items()):
            if name not in there and not engine.versions:
                self.engines = {other: e for other, e in self.engines.items() if other != name}
                self.watched.pop(name).engine.close()

    def wake_with(self, wake: Callable[[Callable[[], None]], None]) -> None:
        """Set how writers are woken (`Engine.wake`)."""
        self._wake = wake
        for engine in self.engines.values():
            if isinstance(engine, Engine):
                engine.wake = wake

    def _add(self, engine: Engine | Follower) -> None:
        if isinstance(engine, Engine):
            engine.wake = self._wake
        engine.start()
        self.engines = {**self.engines, engine.name: engine}
        self.watched[engine.name] = Watched(engine)

    @property
    def ready(self) -> bool:
        """Whether every model can predict and learn."""
        return not self.stopping.is_set() and all(engine.ready for engine in self.engines.values())

    def sample(self) -> None:
        """Take a sample of each model that is used or watched."""
        for watched in list(self.watched.values()):
            if watched.active:
                watched.sample()

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
        check_name(name)
        check_servable(model)
        with self._changing:
            if name in self.engines:
                raise ConflictError(f"there already is a model {name!r}")
            if len(self.engines) >= self.settings.models:
                raise ConflictError(
                    f"there are {len(self.engines)} models, as many as --models allows"
                )
            path = self._models / f"{name}.db"
            engine = Engine(Database.create(path, packed(model), origin), self.settings)
            self._add(engine)
        engine.wait_ready()
        return engine


def _members(model: Model) -> list[list[Any]]:
    """Return name and share, for the next row and for later ones, of each member of an output."""
    if not model.outputs:
        return []
    names = []
    shares = [model.core.shares(0, later).tolist() for later in (False, True)]
    for alpha, memory, use in model.parameters.members:
        rows = "all rows" if np.isinf(memory) else f"{memory:.0f} rows" if memory else "plain"
        names.append(f"alpha {alpha:g}, {rows}{'' if use == 'both' else f' ({use})'}")
    diagonal = [f"alpha {alpha:g}, per feature" for alpha in model.parameters.diagonal]
    if len(shares[0]) > len(names) + len(diagonal):
        names += [f"alpha {alpha:g}, curves" for alpha, *_ in CURVED]
    names += diagonal
    names = names[len(names) - len(shares[0]) :]  # wide rows of several classes have no sketch
    return [list(member) for member in zip(names, *shares, strict=True)]


class Watched:
    """Samples of an engine, taken once a second, and the inside of its champion, for the page."""

    def __init__(self, engine: Engine | Follower) -> None:
        self.engine = engine
        self.latencies: deque[float] = deque(maxlen=4096)  # seconds, of predictions
        self.delays: deque[float] = deque(maxlen=4096)  # seconds, of labels
        self.history: deque[bytes] = deque(maxlen=HISTORY)  # samples as JSON
        self.pages = 0  # that are open
        self._clock = Clock()
        self.started = self._clock.now()
        # When the last sample was taken, the events until then, and their rate.
        self._before = time.monotonic(), engine.events, 0.0
        self._weights: tuple[int, Floats] = (0, np.zeros(0))
        self._seen: tuple[float, dict[str, Any]] = (0.0, {})
        self._looking = threading.Lock()
        self._used: Any = None

    @property
    def active(self) -> bool:
        """Whether samples would differ, or somebody looks at them."""
        if self.pages or len(self.history) < 2:
            return True
        used = self.engine.events, self.engine.ready, len(self.latencies), self.engine.problem
        before, self._used = self._used, used
        return bool(before != used)

    def sample(self) -> dict[str, Any]:
        """Return the current state, and add it to the history."""
        state = self.state()
        self._before = time.monotonic(), state["events"], state["rate"]
        self.history.append(msgspec.json.encode(state))
        return state

    def state(self) -> dict[str, Any]:
        """Return the current state; its rate is that since the last sample."""
        engine = self.engine
        events = engine.events
        sampled, events_before, rate = self._before
        seconds = time.monotonic() - sampled
        if seconds >= _RATE_SECONDS:
            rate = (events - events_before) / seconds
        state: dict[str, Any] = {
            "time": self._clock.now(),  # the charts need times in order
            "ready": engine.ready,
            "problem": engine.problem,
            "events": events,
            "rate": rate,
            "lag": engine.lag,
            "waiting": len(engine.waiting),
            "champion": engine.champion,
            "versions": {
                str(n): live.monitor.values() | live.summary()
                for n, live in engine.versions.items()
            },
        }
        state["p50"], state["p99"] = _quantiles(self.latencies, 1e3)
        state["delay50"], state["delay99"] = _quantiles(self.delays, 1.0)
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
        marks = [(self.started, "started"), *engine.database.about.changes]
        return inside | {
            "calibration": live.monitor.calibration(),
            "marks": marks,
            "columns": live.columns.values(),
        }

    def _inside(self, version: int, model: Model) -> dict[str, Any]:
        stats = model.stats()
        inside: dict[str, Any] = {
            "task": model.task,
            "loss": model.parameters.loss,
            "unit": model.unit(),
            "features": stats["features"] - 1,  # without the intercept
            "bytes": stats["bytes"],
            "rounds": stats["rounds"],
            "members": _members(model),
            "spectrum": model.spectra()[0].tolist() if model.outputs else [],
            "tail": None,
            "weights": [],
            "curves": [],
        }
        if stats["features"] <= MOST_FEATURES:
            tail = float(model.core.knowledge().get("0.tail", np.nan))
            inside["tail"] = tail if np.isfinite(tail) else None
            inside["weights"] = self._moved(version, model)
            inside["curves"] = as_data(model, count=_CURVES)
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
