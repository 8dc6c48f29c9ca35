"""Connections, requests and their times, under the names of Kafka's JMX exporter.

Times are a histogram in milliseconds and sampled: of produce and fetch one request in 64, which is
what keeps them off the hot path, of all other APIs every one. Counts of requests are complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import COUNTER, GAUGE, HISTOGRAM, Family, counter, gauge
from ottla.protocol.apis import API, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.api.dispatch import Dispatcher
    from ottla.broker.network.status import NetworkStatus, ProcessorStatus

_SOCKETS = "kafka_server_socket_server_metrics_"

# A row is a figure of every processor.
_OF_PROCESSOR: tuple[tuple[str, str, str, Callable[[ProcessorStatus], int]], ...] = (
    (GAUGE, "connection_count", "Open connections.", lambda one: one.connection_count),
    (
        COUNTER,
        "connection_creation_total",
        "Connections that were accepted.",
        lambda one: one.accepted_count,
    ),
    (COUNTER, "request_total", "Requests that were begun.", lambda one: one.request_count),
    (COUNTER, "response_total", "Answers that were sent.", lambda one: one.response_count),
    (COUNTER, "incoming_byte_total", "Bytes received.", lambda one: one.received_bytes),
    (COUNTER, "outgoing_byte_total", "Bytes sent.", lambda one: one.sent_bytes),
)


def network_families(status: NetworkStatus) -> Iterator[Family]:
    """The acceptor, the processors and the request channel."""
    for kind, name, documentation, read in _OF_PROCESSOR:
        samples = [((one.name.rpartition("-")[2],), read(one)) for one in status.processors]
        yield Family(kind, _SOCKETS + name, documentation, ("networkprocessor",), samples)
    acceptor = status.acceptor
    yield counter(
        f"{_SOCKETS}connection_refused_total",
        "Connections that were refused for the limit of their address.",
        acceptor.refused_count,
    )
    yield counter(
        f"{_SOCKETS}connection_failed_total",
        "Connections that could not be accepted.",
        acceptor.failed_count,
    )
    yield gauge(
        "kafka_network_requestchannel_requestqueuesize",
        "Requests that wait for a handler.",
        status.request_queue.queued_count,
    )
    yield gauge(
        "kafka_network_requestchannel_responsequeuesize",
        "Connections with answers that still have to be sent.",
        sum(one.answered_count for one in status.processors),
    )
    yield gauge(
        "ottla_handlers_busy",
        "Handlers that a suspended request holds.",
        sum(bool(handler.serving) for handler in status.handlers),
    )
    yield gauge(
        "ottla_unfinished_request_bytes",
        "Memory of large requests that have not arrived whole.",
        status.unfinished_request_bytes,
    )


def listener_07_families(status: NetworkStatus) -> Iterator[Family]:
    """The listener for clients of 0.7, which has processors of its own."""
    for kind, name, documentation, read in _OF_PROCESSOR:
        figure = sum(map(read, status.processors))
        yield Family(kind, f"ottla_listener_07_{name}", documentation, (), [((), figure)])
    yield counter(
        "ottla_listener_07_connection_refused_total",
        "Connections that were refused for the limit of their address.",
        status.acceptor.refused_count,
    )


def request_families(dispatcher: Dispatcher) -> Iterator[Family]:
    """How many requests of which kind, and how long they took until they were answered."""
    yield Family(
        COUNTER,
        "kafka_network_requestmetrics_requests_total",
        "Well-formed requests.",
        ("request", "version"),
        [
            ((API[key].name, str(version)), count)
            for key, version, count in dispatcher.counts_by_version
        ],
    )
    for key, name in ((ApiKey.PRODUCE, "produce"), (ApiKey.FETCH, "fetch")):
        yield counter(
            f"kafka_server_brokertopicmetrics_total{name}requests_total",
            f"Well-formed {name} requests, of all topics.",
            sum(count for one, _, count in dispatcher.counts_by_version if one == key),
        )
    yield Family(
        HISTOGRAM,
        "kafka_network_requestmetrics_totaltimems",
        "Milliseconds from a request's arrival to its answer, of a sample of the requests.",
        ("request",),
        [((API[key].name,), times) for key, times in dispatcher.times.items()],
    )
    yield counter(
        "ottla_request_failures_total",
        "Requests that met an unexpected failure in the broker.",
        dispatcher.bug_count,
    )
