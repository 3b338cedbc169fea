"""Counters of the server, as Prometheus reads them."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """What is counted, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("clew_requests", "Requests by route and status.", labels, registry=self.registry)
        self._seconds = Histogram(
            "clew_request_seconds",
            "Seconds from request to reply.",
            ("route",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.in_progress = Gauge("clew_requests_in_progress", "Requests being served.", registry=self.registry)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def add_gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Shows a number that is read when asked for."""
        Gauge(name, about, registry=self.registry).set_function(read)

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)
