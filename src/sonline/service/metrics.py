"""Metrics for Prometheus: counted with each request, or read from the engines on demand.

Counting is done with plain numbers, by the thread of the event loop alone; the counters of
prometheus-client have locks, and taking a lock takes as long as a prediction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

if TYPE_CHECKING:
    from sonline.service.outcomes import Outcome
    from sonline.service.service import Service

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_DELAYS = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0)
_MODEL = ["model"]
_COUNTED = {
    "predictions": "Rows predicted.",
    "acknowledged": "Events on disk.",
    "duplicates": "Events with an id that was already known.",
}
_TIMES = {
    "predict_seconds": "Time of a request to predict.",
    "label_delay_seconds": "From prediction to label.",
}
_Figures: TypeAlias = dict[str, tuple[str, Callable[[Any], float]]]  # of an engine
_GAUGES: _Figures = {
    "ready": ("Whether it can learn.", lambda e: e.ready),
    "lag": ("Events that wait to be learned or replayed.", lambda e: e.lag),
    "waiting": ("Rows that wait for their label.", lambda e: len(e.waiting)),
    "waiting_bytes": ("Bytes of rows that wait.", lambda e: e.waiting.bytes),
    "disk_bytes": ("Bytes on disk.", lambda e: e.database.size),
}
_COUNTERS: _Figures = {
    "learned": ("Events learned since the start.", lambda e: e.events),
    "groups": ("Groups of events written.", lambda e: e.groups),
    "labels_expired": ("Rows whose label did not arrive in time.", lambda e: e.waiting.expired),
    "labels_evicted": ("Rows removed to make room for others.", lambda e: e.waiting.evicted),
}


class Distribution:
    """A histogram: the number of values up to each bound.

    Examples
    --------
    >>> times = Distribution((1.0, 10.0))
    >>> for seconds in (0.5, 1.0, 20.0):
    ...     times.observe(seconds)
    >>> times.buckets(), times.total
    ([('1.0', 2), ('10.0', 2), ('+Inf', 3)], 21.5)
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound, with the number of values up to it."""
        names = [*map(str, self._bounds), "+Inf"]
        return list(zip(names, accumulate(self._counts), strict=True))


class _Counts:
    """Counters of one model."""

    def __init__(self) -> None:
        self.predictions = self.acknowledged = self.duplicates = 0
        self.predict_seconds = Distribution(_SECONDS)
        self.label_delay_seconds = Distribution(_DELAYS)


class Metrics:
    """The metrics of a service."""

    media_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, service: Service) -> None:
        self._service = service
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._seconds = Distribution(_SECONDS)
        self._models: dict[str, _Counts] = defaultdict(_Counts)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def answered(self, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[method, status] += 1
        self._seconds.observe(seconds)

    def predicted(self, name: str, rows: int, seconds: float) -> None:
        """Count predictions."""
        counts = self._models[name]
        counts.predictions += rows
        counts.predict_seconds.observe(seconds)

    def acknowledged(self, name: str, outcome: Outcome) -> None:
        """Count events that are on disk."""
        counts = self._models[name]
        counts.acknowledged += outcome.learned
        counts.duplicates += outcome.duplicates
        for delay in outcome.delays:
            counts.label_delay_seconds.observe(delay)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        requests = CounterMetricFamily("sonline_requests", "Requests.", labels=["method", "status"])
        for (method, status), count in self._requests.items():
            requests.add_metric([method, str(status)], count)
        seconds = HistogramMetricFamily("sonline_request_seconds", "Time until the answer.")
        seconds.add_metric([], self._seconds.buckets(), self._seconds.total)
        yield from (requests, seconds)
        yield from self._counted()
        yield from self._engines()

    def _counted(self) -> Iterator[Metric]:
        """Yield the counters of each model."""
        for name, text in _COUNTED.items():
            counter = CounterMetricFamily(f"sonline_{name}", text, labels=_MODEL)
            for model, counts in self._models.items():
                counter.add_metric([model], getattr(counts, name))
            yield counter
        for name, text in _TIMES.items():
            histogram = HistogramMetricFamily(f"sonline_{name}", text, labels=_MODEL)
            for model, counts in self._models.items():
                times: Distribution = getattr(counts, name)
                histogram.add_metric([model], times.buckets(), times.total)
            yield histogram

    def _engines(self) -> Iterator[Metric]:
        """Yield the metrics of the engines."""
        engines = self._service.engines
        kinds: tuple[Any, ...] = (GaugeMetricFamily, CounterMetricFamily)
        for kind, figures in zip(kinds, (_GAUGES, _COUNTERS), strict=True):
            for name, (text, value) in figures.items():
                family = kind(f"sonline_{name}", text, labels=_MODEL)
                for model, engine in engines.items():
                    family.add_metric([model], value(engine))
                yield family
        losses = GaugeMetricFamily(
            "sonline_loss",
            "Progressive loss over the last events.",
            labels=[*_MODEL, "version", "role"],
        )
        sizes = GaugeMetricFamily(
            "sonline_model_bytes", "Memory of a version.", labels=[*_MODEL, "version"]
        )
        refused = CounterMetricFamily(
            "sonline_refused",
            "Events on disk that a version could not learn.",
            labels=[*_MODEL, "version"],
        )
        for model, engine in engines.items():
            for number, live in engine.versions.items():
                loss = live.monitor.values()["loss"]
                if loss is not None:
                    losses.add_metric([model, str(number), live.info.role], loss)
                refused.add_metric([model, str(number)], live.refused)
                sizes.add_metric([model, str(number)], live.model.stats()["bytes"])
        yield from (losses, sizes, refused)

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._registry)
