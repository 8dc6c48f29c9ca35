"""Sends the spans of requests to a collector, as OTLP over HTTP. Needs ottla[otel]."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ottla.protocol.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span

    from ottla.broker.tracing.request_spans import RequestSpan, TracedRequest
    from ottla.protocol.ports import Clock

# A collector that does not answer must not hold up the end of a broker for longer.
EXPORT_SECONDS_MAX = 2
WARNING_EVERY_MS = 60_000.0
# Where the exporter writes a line or more for each export that fails.
EXPORTER_LOGGER = logging.getLogger(OTLPSpanExporter.__module__)

logger = logging.getLogger("ottla.tracing")


class QuietExporter(SpanExporter):
    """Says at most once a minute that spans are lost, in place of OpenTelemetry's own lines.

    Args:
        behind: Sends the spans.
        endpoint: Where to, for the warning.
        clock: Tells when a minute is over.
    """

    def __init__(self, behind: SpanExporter, endpoint: str, clock: Clock) -> None:
        self._behind = behind
        self._endpoint = endpoint
        self._clock = clock
        self._lost_count = 0
        self._next_warning_ms = clock.now_ms()
        # Of the thread that exports; other threads have values of their own.
        self._is_exporting = ContextVar("is_exporting", default=False)
        EXPORTER_LOGGER.addFilter(self._is_of_others)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; runs in a thread of OpenTelemetry."""
        before = self._is_exporting.set(True)
        try:
            result = self._behind.export(spans)
        finally:
            self._is_exporting.reset(before)
        if result is not SpanExportResult.SUCCESS:
            self._lost_count += len(spans)
            if self._clock.now_ms() >= self._next_warning_ms:
                self._next_warning_ms = self._clock.now_ms() + WARNING_EVERY_MS
                logger.warning(
                    "the collector %s does not take spans; %d are lost",
                    self._endpoint,
                    self._lost_count,
                )
                self._lost_count = 0
        return result

    def shutdown(self) -> None:
        self._behind.shutdown()
        EXPORTER_LOGGER.removeFilter(self._is_of_others)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._behind.force_flush(timeout_millis)

    def _is_of_others(self, _record: logging.LogRecord) -> bool:
        """Whether a line of the exporter's logger comes from a program around the broker."""
        return not self._is_exporting.get()


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

    def __init__(self, endpoint: str, node_id: int, clock: Clock) -> None:
        resource = Resource.create(
            {
                "service.name": "ottla",
                "service.version": __version__,
                "service.instance.id": str(node_id),
            }
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_SECONDS_MAX)
        quiet = QuietExporter(exporter, endpoint, clock)
        self._provider.add_span_processor(BatchSpanProcessor(quiet))
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
        links = [
            Link(SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags)))
            for trace_id, span_id, flags in request.links
        ]
        span = self._tracer.start_span(
            name, kind=SpanKind.SERVER, attributes=attributes, links=links
        )
        return OpenTelemetrySpan(span)

    def close(self) -> None:
        """Send what is left. Blocks for some seconds at most."""
        self._provider.shutdown()
