"""Sends the spans of requests to a collector, as OTLP over HTTP. Needs ottla[otel]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from ottla.protocol.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from ottla.broker.tracing.request_spans import RequestSpan, TracedRequest

# A collector that does not answer must not hold up the end of a broker for longer.
EXPORT_SECONDS_MAX = 2


class OpenTelemetrySpan:
    """The span of one request. Its end may come before its handling returns."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def handled(self) -> None:
        self._span.add_event("handled")

    def end(self, failure: str = "") -> None:
        if failure:
            self._span.set_status(Status(StatusCode.ERROR, failure))
        self._span.end()


class OpenTelemetryTracer:
    """Owned by the server. ``endpoint``: a URL such as ``http://127.0.0.1:4318/v1/traces``.

    Spans wait in memory, at most 2,048; what comes faster than they leave is dropped."""

    def __init__(self, endpoint: str, node_id: int) -> None:
        resource = Resource.create(
            {
                "service.name": "ottla",
                "service.version": __version__,
                "service.instance.id": str(node_id),
            }
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_SECONDS_MAX)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("ottla.broker", __version__)

    def begin(self, request: TracedRequest) -> RequestSpan:
        attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.name": request.api,
            "messaging.client.id": request.client_id,
            "client.address": request.client_host,
            "ottla.api.version": request.version,
            "ottla.listener": request.listener,
        }
        name = request.api
        if request.topic:
            attributes["messaging.destination.name"] = request.topic
            name = f"{name} {request.topic}"
        if request.replica_id >= 0:
            attributes["ottla.replica.id"] = request.replica_id
            name = f"{name} of replica {request.replica_id}"
        span = self._tracer.start_span(name, kind=SpanKind.SERVER, attributes=attributes)
        return OpenTelemetrySpan(span)

    def close(self) -> None:
        """Send what is left. Blocks for some seconds at most."""
        self._provider.shutdown()
