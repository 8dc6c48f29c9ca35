"""Spans of sends, polls and commits, and the trace context that goes from one to the other."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.records.interceptors import DeliveryReport, ProducerRecord
from ottla.client.settings.config import ConsumerConfig
from ottla.client.tracing.context import VALUE_BYTES_MAX, extracted
from ottla.client.tracing.interceptors import LINKS_MAX, ConsumerTracing, ProducerTracing
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from ottla.client.fetching.batches import ConsumerRecord

SAMPLED = 1


class Traces:
    """A provider that keeps the spans in memory."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def by_name(self) -> dict[str, list[Any]]:
        """The spans that have ended."""
        found: dict[str, list[Any]] = defaultdict(list)
        for span in self._exporter.get_finished_spans():
            found[span.name].append(span)
        return found


@pytest.fixture
def traces() -> Traces:
    """Spans of one test."""
    return Traces()


async def test_a_trace_goes_from_the_producer_through_the_record_to_the_consumer(
    traces: Traces,
) -> None:
    """One trace shows why an order was handled late, across two programs that share a topic."""
    tracing = ConsumerTracing("g", traces.provider)
    async with running_broker() as running:
        address = str(running.broker.address)
        sent = ProducerTracing(traces.provider)
        async with Producer(address, interceptors=(sent,), allow_auto_create=True) as producer:
            with traces.provider.get_tracer("t").start_as_current_span("order"):
                delivery = await producer.send("orders", b"1", headers=(("own", b"h"),))
            await producer.send("orders", b"2")
            await delivery
            await producer.flush()
        config = ConsumerConfig(group_id="g", offset_reset="earliest", interceptors=(tracing,))
        async with Consumer(address, config) as consumer:
            await consumer.subscribe(["orders"])
            records: list[ConsumerRecord] = []
            while len(records) < 2:
                records += await consumer.poll()
            with tracing.process(records[0]) as span:
                inside = get_current_span()
            await consumer.commit()

    spans = traces.by_name()
    (order,), creates, sends = spans["order"], spans["create orders"], spans["send orders"]
    polls, (process,), commits = (
        spans["poll orders"],
        spans["process orders"],
        spans["commit orders"],
    )
    created = {one.context.span_id for one in creates}
    linked = {link.context.span_id for one in sends for link in one.links}
    received = {link.context.span_id for one in polls for link in one.links}
    assert created == linked == received
    assert creates[0].parent.span_id == order.context.span_id
    assert process.parent.span_id == creates[0].context.span_id
    assert process.context.trace_id == order.context.trace_id
    assert inside is span
    assert [name for name, _value in records[0].headers] == ["own", "traceparent"]
    assert sum(one.attributes["messaging.batch.message_count"] for one in sends) == 2
    assert process.attributes == {
        "messaging.system": "kafka",
        "messaging.destination.name": "orders",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "g",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": records[0].offset,
    }
    assert commits[-1].attributes["messaging.kafka.offset"] == 2
    kinds = [creates[0].kind, sends[0].kind, polls[0].kind, process.kind]
    assert kinds == [SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CLIENT, SpanKind.CONSUMER]


def test_a_batch_that_fails_is_an_error_of_its_span(traces: Traces) -> None:
    """Traces with errors are the ones that are looked at."""
    report = DeliveryReport("t", 3, -1, 2, error=TimeoutError("too late"))

    ProducerTracing(traces.provider).on_batch(report, [(), ()], -1)

    (span,) = traces.by_name()["send t"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "TimeoutError"
    assert "messaging.kafka.offset" not in span.attributes


def test_a_trace_that_is_not_sampled_is_passed_on_as_such() -> None:
    """The consumer must not begin a trace of half of the way."""
    provider = TracerProvider(sampler=ALWAYS_OFF)

    record = ProducerTracing(provider).on_send(ProducerRecord("t", b"v"))

    ((name, value),) = record.headers
    assert name == "traceparent"
    assert value is not None
    assert int(value[-2:], 16) & SAMPLED == 0


def test_headers_that_are_no_trace_context_are_ignored(traces: Traces) -> None:
    """Records come from strangers."""
    for value in (b"", b"\xff", b"00-0-0-0", b"0" * (VALUE_BYTES_MAX + 1), None):
        context = extracted([("traceparent", value), ("tracestate", b"a=" + b"b" * 5_000)])

        assert not get_current_span(context).get_span_context().is_valid


def test_a_batch_of_many_records_has_a_bounded_number_of_links(traces: Traces) -> None:
    """A batch can hold 100,000 records."""
    tracing = ProducerTracing(traces.provider)
    headers = [tracing.on_send(ProducerRecord("t")).headers for _number in range(LINKS_MAX + 5)]

    tracing.on_batch(DeliveryReport("t", 0, 0, len(headers)), headers, -1)

    assert len(traces.by_name()["send t"][0].links) == LINKS_MAX
