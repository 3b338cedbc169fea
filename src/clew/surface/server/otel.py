"""Spans of OpenTelemetry: one for each request, one in it for each call of the engine; no text is in them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from clew.core.errors import DriverMissing, NotFound

_tracer: Any = None  # of OpenTelemetry, once spans are wanted


def configure_spans(environ: Mapping[str, str] = os.environ) -> None:
    """Sends spans to the exporter that OTEL_TRACES_EXPORTER names, such as `console`; without it nothing happens."""
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
    """Makes spans with a tracer provider; with None, none."""
    global _tracer
    _tracer = None if provider is None else provider.get_tracer("clew")


@contextmanager
def start_span(name: str) -> Iterator[Any]:
    """A span around a block; None where none are wanted."""
    if _tracer is None:
        yield None
        return
    with _tracer.start_as_current_span(name, record_exception=False) as span:
        yield span


def set_attributes(span: Any, attributes: Mapping[str, Any]) -> None:
    """Sets what is known of a span, if there is one."""
    if span is not None:
        span.set_attributes(dict(attributes))
