"""The trace context of W3C in the headers of a record: ``traceparent`` and ``tracestate``. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.context import Context

    from ottla.client.records.producer_record import Headers

FIELDS = ("traceparent", "tracestate")
# Longer values of a record are no trace context; W3C asks for at least 512 characters.
VALUE_BYTES_MAX = 4_096
_propagator = TraceContextTextMapPropagator()


def carried(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    """The fields of the trace context among the headers; of a name the last counts."""
    return {
        name: value.decode("ascii", "replace")
        for name, value in headers
        if name in FIELDS and value is not None and len(value) <= VALUE_BYTES_MAX
    }


def extracted(headers: Iterable[tuple[str, bytes | None]]) -> Context:
    """The context that the headers carry; one without a span if they carry none."""
    return _propagator.extract(carried(headers))


def injected(headers: Headers, context: Context) -> Headers:
    """The headers with the context in them; what they carried before is replaced."""
    fields: dict[str, str] = {}
    _propagator.inject(fields, context)
    if not fields:
        return headers
    kept = [pair for pair in headers if pair[0] not in FIELDS]
    return (*kept, *((name, text.encode("ascii")) for name, text in fields.items()))
