"""What the service counts about itself, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.5, 10.0)


class Metrics:
    """The metrics of one service, in a registry of its own."""

    def __init__(self) -> None:
        """All at zero."""
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("gemm_tuner_requests", "Requests answered.", ("route", "status"), registry=registry)
        self._seconds = Histogram(
            "gemm_tuner_request_seconds", "Time to answer.", ("route",), buckets=SECONDS, registry=registry
        )
        self._lookups = Counter(
            "gemm_tuner_lookups", "Answers by where they came from.", ("origin", "certified"), registry=registry
        )
        self._misses = Counter("gemm_tuner_reported_misses", "Misses that programs reported.", registry=registry)
        self._champions = Gauge("gemm_tuner_champions", "Champions published.", registry=registry)
        self._snapshot = Gauge(
            "gemm_tuner_snapshot_age_seconds", "Since the snapshot was published; NaN without one.", registry=registry
        )
        self._night = Gauge("gemm_tuner_last_complete_night_age_seconds", "NaN if there was none.", registry=registry)
        ProcessCollector(registry=registry)
        self._bound: dict[tuple[str, int], tuple[Any, Any]] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        """One was answered; `route` is one of a few names."""
        bound = self._bound.get((route, status))
        if bound is None:
            bound = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._bound[route, status] = bound
        bound[0].inc()
        bound[1].observe(seconds)

    def lookup(self, origin: str, certified: bool) -> Callable[[], None]:
        """What counts one answer of that kind."""
        inc: Callable[[], None] = self._lookups.labels(origin, "true" if certified else "false").inc
        return inc

    def missed(self, count: int) -> None:
        """So many were reported."""
        self._misses.inc(count)

    def text(self, health: dict[str, Any]) -> bytes:
        """Everything, with what `health` says."""
        night = health["last_complete_night"]
        age = health["snapshot_age_seconds"]
        self._champions.set(health["champions"])
        self._night.set(float("nan") if night is None else night["age_seconds"])
        self._snapshot.set(float("nan") if age is None else age)
        return bytes(generate_latest(self._registry))
