"""Metrics for Prometheus: counted where it happens, or read from the engines when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from starlette.requests import Request

    from sonline.service.admission import Outcome
    from sonline.service.service import Service

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_DELAYS = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0)


class Metrics:
    """The metrics of a service."""

    media_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "sonline_requests", "Requests.", ["method", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "sonline_request_seconds",
            "Time until the answer.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._predicted = Counter(
            "sonline_predictions", "Rows predicted.", ["model"], registry=self._registry
        )
        self._predict_seconds = Histogram(
            "sonline_predict_seconds",
            "Time of a request to predict.",
            ["model"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._acknowledged = Counter(
            "sonline_acknowledged", "Events on disk.", ["model"], registry=self._registry
        )
        self._duplicates = Counter(
            "sonline_duplicates", "Events that had come before.", ["model"], registry=self._registry
        )
        self._delays = Histogram(
            "sonline_label_delay_seconds",
            "From prediction to label.",
            ["model"],
            buckets=_DELAYS,
            registry=self._registry,
        )
        # Looking a metric up by its labels takes longer than counting.
        self._answered: dict[tuple[str, int], Counter] = {}
        self._by_model: dict[str, tuple[Counter, Histogram]] = {}
        self._registry.register(self)

    def answered(self, request: Request, status: int, seconds: float) -> None:
        """Count a request."""
        key = (request.method, status)
        if key not in self._answered:
            self._answered[key] = self._requests.labels(request.method, str(status))
        self._answered[key].inc()
        self._seconds.observe(seconds)

    def predicted(self, name: str, rows: int, seconds: float) -> None:
        """Count predictions."""
        if name not in self._by_model:
            self._by_model[name] = (
                self._predicted.labels(name),
                self._predict_seconds.labels(name),
            )
        count, histogram = self._by_model[name]
        count.inc(rows)
        histogram.observe(seconds)

    def acknowledged(self, name: str, outcome: Outcome) -> None:
        """Count events that are on disk."""
        self._acknowledged.labels(name).inc(outcome.learned)
        self._duplicates.labels(name).inc(outcome.duplicates)
        for delay in outcome.delays:
            self._delays.labels(name).observe(delay)

    def collect(self) -> Iterator[Metric]:
        """Yield what the engines know."""
        gauges = {
            name: GaugeMetricFamily(f"sonline_{name}", text, labels=["model"])
            for name, text in {
                "ready": "Whether it can learn.",
                "lag": "Events that wait to be learned or replayed.",
                "waiting": "Rows that wait for their label.",
                "waiting_bytes": "Bytes of rows that wait.",
                "log_bytes": "Bytes of the log.",
            }.items()
        }
        counters = {
            name: CounterMetricFamily(f"sonline_{name}", text, labels=["model"])
            for name, text in {
                "learned": "Events learned since the start.",
                "groups": "Groups written to the log.",
                "labels_expired": "Rows whose label did not come in time.",
                "labels_evicted": "Rows that made room for others.",
            }.items()
        }
        losses = GaugeMetricFamily(
            "sonline_loss",
            "Progressive loss over the last events.",
            labels=["model", "version", "role"],
        )
        sizes = GaugeMetricFamily(
            "sonline_model_bytes", "Memory of a version.", labels=["model", "version"]
        )
        for name, engine in self._service.engines.items():
            values = {
                "ready": float(engine.ready),
                "lag": engine.lag,
                "waiting": len(engine.waiting),
                "waiting_bytes": engine.waiting.bytes,
                "log_bytes": engine.log.size,
            }
            for key, value in values.items():
                gauges[key].add_metric([name], value)
            counts = {
                "learned": engine.events,
                "groups": engine.groups,
                "labels_expired": engine.waiting.expired,
                "labels_evicted": engine.waiting.evicted,
            }
            for key, count in counts.items():
                counters[key].add_metric([name], count)
            for number, live in engine.versions.items():
                loss = live.monitor.values()["loss"]
                if loss is not None:
                    losses.add_metric([name, str(number), live.info.role], loss)
                sizes.add_metric([name, str(number)], live.model.stats()["bytes"])
        yield from (*gauges.values(), *counters.values(), losses, sizes)

    def text(self) -> bytes:
        """Return all of it in the text format."""
        return generate_latest(self._registry)
