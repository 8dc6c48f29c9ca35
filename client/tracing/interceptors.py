"""Interceptors that make spans of OpenTelemetry for sends, polls and commits.

They follow the semantic conventions of messaging: ``create`` is a record that the application has
sent, ``send`` a batch that a broker has stored, ``poll`` the records that the application got,
``process`` what it does with one of them, ``commit`` a commit of positions. The spans go where the
application's tracer provider sends them; it also decides which traces are sampled.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    get_tracer,
    set_span_in_context,
)

from ottla.client.records.interceptors import (
    BatchInterceptor,
    ConsumerInterceptor,
    DeliveryReport,
    ProducerRecord,
)
from ottla.client.tracing.context import extracted, injected
from ottla.protocol.version import __version__
from ottla.wire.clock import RealClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.trace import Span, Tracer, TracerProvider

    from ottla.client.records.consumer_record import ConsumerRecord
    from ottla.client.records.producer_record import Headers
    from ottla.protocol.ids import TopicPartition

    Attributes = dict[str, str | int | bool]

SCOPE = "ottla.client"
# The default of the SDK; more would be dropped there.
LINKS_MAX = 128
# A record's own time is taken for the beginning of its send only if it is not older.
_SEND_MS_MAX = 600_000
# OpenTelemetry's SDK reads the real clock too.
_CLOCK = RealClock()


def _attributes(topic: str, operation: str, kind: str) -> Attributes:
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }


def _tracer(provider: TracerProvider | None) -> Tracer:
    return get_tracer(SCOPE, __version__, provider)


def _links(headers: list[Headers]) -> list[Link]:
    """Links to the spans of the records, each once, at most ``LINKS_MAX``."""
    contexts = (get_current_span(extracted(one)).get_span_context() for one in headers if one)
    found = {one.span_id: one for one in contexts if one.is_valid}
    return [Link(one) for one in list(found.values())[:LINKS_MAX]]


class ProducerTracing(BatchInterceptor):
    """Traces what a producer sends, and puts the trace context into the headers of the records.

    Args:
        provider: The tracer provider; None (default) for the one that is set for the process.

    Example:
        ottla.Producer("127.0.0.1:9092", interceptors=(ottla.tracing.ProducerTracing(),))
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer(provider)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Make the span ``create`` and return the record with its context in the headers.

        Args:
            record: The record that the application sends.
        """
        attributes = _attributes(record.topic, "create", "create")
        if type(record.key) is str:
            attributes["messaging.kafka.message.key"] = record.key
        if record.value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        span = self._tracer.start_span(
            f"create {record.topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        headers = injected(record.headers, set_span_in_context(span))
        span.end()
        return record._replace(headers=headers)

    def on_batch(self, report: DeliveryReport, headers: list[Headers], first_ms: int) -> None:
        """Make the span ``send`` of a batch, with links to the spans of its records.

        Args:
            report: The result of the batch.
            headers: The headers of each record.
            first_ms: The first record's timestamp, at which the span begins.
        """
        attributes = _attributes(report.topic, "send", "send")
        attributes["messaging.destination.partition.id"] = str(report.partition)
        attributes["messaging.batch.message_count"] = report.record_count
        if report.base_offset >= 0:
            attributes["messaging.kafka.offset"] = report.base_offset
        if report.error is not None:
            attributes["error.type"] = type(report.error).__name__
        span = self._tracer.start_span(
            f"send {report.topic}",
            context=Context(),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=_links(headers),
            start_time=_begin_ns(first_ms),
        )
        if report.error is not None:
            span.set_status(Status(StatusCode.ERROR, str(report.error)))
        span.end()


def _begin_ns(first_ms: int) -> int | None:
    """When the batch was begun; None for now if the application gave the records other times."""
    age_ms = _CLOCK.wall_ms() - first_ms
    return first_ms * 1_000_000 if 0 <= age_ms <= _SEND_MS_MAX else None


class ConsumerTracing(ConsumerInterceptor):
    """Traces what a consumer returns and commits, with links to the spans of the producers.

    Args:
        group_id: The consumer's group, for the attribute of the spans; empty (default) for none.
        provider: The tracer provider; None (default) for the one that is set for the process.

    Example:
        tracing = ottla.tracing.ConsumerTracing("billing")
        ottla.Consumer("127.0.0.1:9092", group_id="billing", interceptors=(tracing,))
    """

    def __init__(self, group_id: str = "", provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer(provider)
        self._group = {"messaging.consumer.group.name": group_id} if group_id else {}

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Make a span ``poll`` for each topic.

        Args:
            records: The records that the consumer is about to return.
        """
        by_topic: dict[str, list[ConsumerRecord[Any, Any]]] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        for topic, those in by_topic.items():
            attributes = _attributes(topic, "poll", "receive") | self._group
            attributes["messaging.batch.message_count"] = len(those)
            links = _links([record.headers for record in those])
            self._tracer.start_span(
                f"poll {topic}", kind=SpanKind.CLIENT, attributes=attributes, links=links
            ).end()
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make a span ``commit`` for each partition.

        Args:
            offsets: For each partition the offset of the next record to read.
        """
        for (topic, partition), offset in offsets.items():
            attributes = _attributes(topic, "commit", "settle") | self._group
            attributes["messaging.destination.partition.id"] = str(partition)
            attributes["messaging.kafka.offset"] = offset
            self._tracer.start_span(
                f"commit {topic}", kind=SpanKind.CLIENT, attributes=attributes
            ).end()

    @contextmanager
    def process(self, record: ConsumerRecord[Any, Any]) -> Iterator[Span]:
        """Trace what the application does with a record: the span continues the producer's trace.

        Args:
            record: The record that is processed inside of the ``with`` block.

        Returns:
            The span, which is the current one inside of the block.
        """
        attributes = _attributes(record.topic, "process", "process") | self._group
        attributes["messaging.destination.partition.id"] = str(record.partition)
        attributes["messaging.kafka.offset"] = record.offset
        with self._tracer.start_as_current_span(
            f"process {record.topic}",
            context=extracted(record.headers),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=_links([record.headers]),
        ) as span:
            yield span
