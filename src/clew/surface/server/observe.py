"""Observation of a running server: its log, Prometheus metrics, OpenTelemetry spans; none contains document text."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib.metadata import entry_points
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from clew.core.errors import DriverMissing, NotFound

REQUEST_ID: ContextVar[str] = ContextVar("clew_request_id", default="")


class JsonFormatter(logging.Formatter):
    """A formatter of log records as one line of JSON each."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := REQUEST_ID.get():
            line["request_id"] = request_id
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_as_json(stream: TextIO | None = None, *, level: int = logging.INFO) -> logging.Handler:
    """Send the log of Clew and of uvicorn to a stream, standard error by default; return the handler."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("clew", "uvicorn"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    return handler


BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of a server, in a registry of their own."""

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
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def add_gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is read on every scrape."""
        Gauge(name, about, registry=self.registry).set_function(read)

    def render(self) -> bytes:
        """Render the text that Prometheus reads."""
        return generate_latest(self.registry)


_tracer: Any = None  # of OpenTelemetry, once spans are configured


def configure_spans(environ: Mapping[str, str] = os.environ) -> None:
    """Send spans to the exporter that OTEL_TRACES_EXPORTER names, such as `console`; do nothing without it."""
    name = environ.get("OTEL_TRACES_EXPORTER", "none")
    if name == "none":
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise DriverMissing("OTEL_TRACES_EXPORTER needs OpenTelemetry; pip install 'clew[otel]'") from error
    found = {each.name: each for each in entry_points(group="opentelemetry_traces_exporter")}
    if name not in found:
        known = ", ".join(sorted(found))
        raise NotFound(f"OTEL_TRACES_EXPORTER is {name!r}, which is not installed; install its package, or use {known}")
    provider = TracerProvider(resource=Resource.create({"service.name": environ.get("OTEL_SERVICE_NAME", "clew")}))
    provider.add_span_processor(BatchSpanProcessor(found[name].load()()))
    use_provider(provider)


def use_provider(provider: Any) -> None:
    """Make spans with a tracer provider; None turns spans off."""
    global _tracer
    _tracer = None if provider is None else provider.get_tracer("clew")


@contextmanager
def start_span(name: str) -> Iterator[Any]:
    """Start a span around a block; yield None if spans are off."""
    if _tracer is None:
        yield None
        return
    with _tracer.start_as_current_span(name, record_exception=False) as span:
        yield span


def set_attributes(span: Any, attributes: Mapping[str, Any]) -> None:
    """Set the attributes of a span, if there is one."""
    if span is not None:
        span.set_attributes(dict(attributes))
