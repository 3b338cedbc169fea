"""Spans of requests and calls, without any text; the exporters that can be named."""

import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from clew import NotFound
from clew.surface.server import observe as otel
from tests.surface.server.conftest import Running


def test_a_request_is_a_span_with_its_call_inside(shared: Running) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel.use_provider(provider)
    try:
        shared.post("/v1/search", {"query": "a private question"}, headers={"x-request-id": "mine"})
        while len(exporter.get_finished_spans()) < 2:  # that of the request ends after its reply
            time.sleep(0.01)
    finally:
        otel.use_provider(None)
        provider.shutdown()
    call, request = exporter.get_finished_spans()
    assert (call.name, request.name) == ("clew.call", "clew.request")
    assert call.parent is not None
    assert call.parent.span_id == request.context.span_id
    assert request.attributes is not None
    assert request.attributes["http.route"] == "/v1/search"
    assert request.attributes["clew.request_id"] == "mine"
    assert "private" not in f"{call.to_json()}{request.to_json()}"


def test_an_exporter_is_named_by_the_environment() -> None:
    try:
        otel.configure_spans({})
        assert otel._tracer is None
        with pytest.raises(NotFound, match="'nope', which is not installed"):
            otel.configure_spans({"OTEL_TRACES_EXPORTER": "nope"})
        otel.configure_spans({"OTEL_TRACES_EXPORTER": "console"})
        assert otel._tracer is not None
    finally:
        otel.use_provider(None)
