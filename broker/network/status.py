"""What an operator may ask of the network: its roles by name, with their counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from ottla.broker.network.acceptor import Acceptor
    from ottla.broker.network.channel import RequestChannel
    from ottla.broker.network.processor import Processor


@dataclass(frozen=True, slots=True)
class AcceptorStatus:
    name: str
    accepted_count: int
    refused_count: int  # above the limit of their address
    failed_count: int
    is_paused: bool  # out of descriptors


@dataclass(frozen=True, slots=True)
class ProcessorStatus:
    name: str
    connection_count: int
    accepted_count: int
    new_connection_count: int  # in its queue
    answered_count: int  # connections in its response queue
    request_count: int
    response_count: int
    received_bytes: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class HandlerStatus:
    name: str
    request_count: int
    serving: str  # the connection whose ordered part holds it, or empty


@dataclass(frozen=True, slots=True)
class QueueStatus:
    queued_count: int
    queued_max: int
    parked_count: int  # connections not read from because it is full


@dataclass(frozen=True, slots=True)
class NetworkStatus:
    acceptor: AcceptorStatus
    processors: list[ProcessorStatus]
    handlers: list[HandlerStatus]
    request_queue: QueueStatus
    # Of listeners with handlers of their own, by listener.
    own_handlers: dict[str, list[HandlerStatus]]
    unfinished_request_bytes: int


def acceptor_status(acceptor: Acceptor) -> AcceptorStatus:
    return AcceptorStatus(
        name=acceptor.name,
        accepted_count=acceptor.accepted_count,
        refused_count=acceptor.refused_count,
        failed_count=acceptor.failed_count,
        is_paused=acceptor.is_paused,
    )


def processor_status(processor: Processor) -> ProcessorStatus:
    return ProcessorStatus(
        name=processor.name,
        connection_count=len(processor.connections),
        accepted_count=processor.accepted_count,
        new_connection_count=processor.new_connection_count,
        answered_count=processor.answered_count,
        request_count=processor.request_count,
        response_count=processor.response_count,
        received_bytes=processor.received_bytes,
        sent_bytes=processor.sent_bytes,
    )


def handler_statuses(channel: RequestChannel) -> list[HandlerStatus]:
    return [
        HandlerStatus(handler.name, handler.request_count, handler.serving)
        for handler in channel.handlers
    ]


def queue_status(channel: RequestChannel) -> QueueStatus:
    return QueueStatus(channel.queued_count, channel.queue_max, channel.parked_count)
