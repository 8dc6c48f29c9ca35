"""Spans of a broker's requests, as a collector gets them."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ottla.broker.tracing.open_telemetry import EXPORTER_LOGGER, QuietExporter
from ottla.broker.tracing.request_spans import RequestTracing
from ottla.client.producer import Producer
from tests.broker.support.node import HandClock
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.server.broker import Broker

OK = 200


class Collector:
    """An OTLP collector on a loopback address, with the spans that it got."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        collector.spans += scope.spans
                self.send_response(OK)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Write no line to the standard error."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    @property
    def endpoint(self) -> str:
        """Where spans are sent to."""
        return f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    def named(self, name: str) -> list[Any]:
        """The spans of that name."""
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that runs in a thread."""
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


async def produce(settings: dict[str, str]) -> Broker:
    """Run a broker for one record."""
    async with running_broker(settings) as running:
        address = str(running.broker.address)
        async with Producer(address, client_id="shop", allow_auto_create=True) as producer:
            await (await producer.send("orders", b"x"))
    return running.broker


async def test_a_collector_gets_the_spans_of_requests(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    """Between a client's span and the answer lies what the broker did. Each span has its
    event."""
    await produce(
        {"ottla.tracing.endpoint": collector.endpoint, "ottla.tracing.sample.ratio": "1.0"}
    )

    (span,) = collector.named("Produce orders")
    attributes = {one.key: one.value for one in span.attributes}
    assert attributes["messaging.destination.name"].string_value == "orders"
    assert attributes["messaging.client.id"].string_value == "shop"
    assert attributes["ottla.listener"].string_value == "PLAINTEXT"
    assert span.end_time_unix_nano >= span.start_time_unix_nano
    assert collector.named("Metadata")
    assert {tuple(event.name for event in one.events) for one in collector.spans} == {("handled",)}
    assert [one for one in caplog.records if one.name.startswith("opentelemetry")] == []


async def test_the_span_of_a_produce_is_linked_to_those_of_the_producer(
    collector: Collector,
) -> None:
    """A trace of an application leads to what the brokers did for it."""
    settings = {
        "ottla.tracing.endpoint": collector.endpoint,
        "ottla.tracing.sample.ratio": "1.0",
    }
    parent = b"00-%032x-%016x-01" % (0xABC, 0xDEF)
    async with running_broker(settings) as running:
        address = str(running.broker.address)
        async with Producer(address, allow_auto_create=True) as producer:
            headers = (("traceparent", parent),)
            await (await producer.send("orders", b"x", headers=headers))

    (span,) = collector.named("Produce orders")
    (link,) = span.links
    assert int.from_bytes(link.trace_id) == 0xABC
    assert int.from_bytes(link.span_id) == 0xDEF


async def test_requests_that_are_not_sampled_make_no_span(collector: Collector) -> None:
    """A busy broker answers 100,000 requests a second."""
    await produce({"ottla.tracing.endpoint": collector.endpoint, "ottla.tracing.sample.ratio": "0"})

    assert collector.spans == []


async def test_a_broker_without_a_collector_has_no_tracer() -> None:
    """Off costs nothing: the dispatcher stands where it stood."""
    broker = await produce({})

    assert broker.parts.tracer is None


async def test_a_collector_that_is_not_there_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Spans are worth less than records: the log gets one line."""
    await produce(
        {
            "ottla.tracing.endpoint": "http://127.0.0.1:1/v1/traces",
            "ottla.tracing.sample.ratio": "1",
        }
    )

    assert [one for one in caplog.records if one.name.startswith("opentelemetry")] == []
    (warning,) = [one for one in caplog.records if one.name == "ottla.tracing"]
    assert "http://127.0.0.1:1/v1/traces does not take spans; " in warning.getMessage()


def test_lost_spans_are_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A batch leaves every five seconds. Lines for other exporters of the process stay."""

    class Failing(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            EXPORTER_LOGGER.error("Failed to export")
            return SpanExportResult.FAILURE

    clock = HandClock()
    exporter = QuietExporter(Failing(), "http://collector", clock)
    span: Any = None
    for moment_ms in (0.0, 5_000.0, 59_000.0, 60_000.0, 61_000.0):
        clock.now = moment_ms
        exporter.export([span, span])
    EXPORTER_LOGGER.error("of a program around the broker")
    exporter.shutdown()

    assert [one.getMessage() for one in caplog.records] == [
        "the collector http://collector does not take spans; 2 are lost",
        "the collector http://collector does not take spans; 6 are lost",
        "of a program around the broker",
    ]


@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_request_is_handled_before_its_span_ends(is_at_once: bool) -> None:
    """A span that has ended takes no event, and OpenTelemetry writes a line for each attempt."""
    steps: list[str] = []
    later: list[Any] = []

    class Span:
        def handled(self) -> None:
            steps.append("handled")

        def end(self, failure: str = "") -> None:
            steps.append("end")

    def behind(_peer: object, _frame: object, reply: Any) -> None:
        if is_at_once:
            reply.send([])
        else:
            later.append(reply)

    tracer: Any = SimpleNamespace(begin=lambda _request: Span())
    peer: Any = SimpleNamespace(client_host="127.0.0.1", listener="PLAINTEXT")
    random: Any = SimpleNamespace(random=lambda: 0.0)
    reply: Any = SimpleNamespace(send=lambda _parts, _mute_ms: None)
    dispatch: Any = RequestTracing(tracer, 1.0, random, lambda _topic_id: None).traced(behind)
    # Metadata of version 1, the number of the request, no client id.
    dispatch(peer, memoryview(bytes.fromhex("0003 0001 00000007 ffff")), reply)
    for one in later:
        one.send([])

    assert steps == ["handled", "end"]
