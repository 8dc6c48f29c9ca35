"""Traces for OpenTelemetry: spans of a producer and a consumer, and the context in headers.

Needs ``pip install 'ottla[otel]'``. The application configures OpenTelemetry's SDK: where spans go
and which traces are sampled, for example with the variables ``OTEL_EXPORTER_OTLP_ENDPOINT`` and
``OTEL_TRACES_SAMPLER``.
"""

from ottla.client.tracing.context import extracted, injected
from ottla.client.tracing.interceptors import ConsumerTracing, ProducerTracing

__all__ = ["ConsumerTracing", "ProducerTracing", "extracted", "injected"]
