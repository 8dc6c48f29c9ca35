"""What an operator decides about the network, and what one listener is."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.network.transport import PlaintextTransport
from ottla.broker.quotas.connections import ConnectionLimits
from ottla.protocol.data_classes import dataclass
from ottla.protocol.frames import KafkaFraming
from ottla.protocol.ports import SocketOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.network.transport import ConnectionTransport
    from ottla.protocol.frames import Framing
    from ottla.protocol.ports import Address, Socket
    from ottla.wire.tls.session import TlsSession

# Kafka's default of socket.send.buffer.bytes. It is also what keeps sendfile fast: with more
# queued unread in the kernel, sender and receiver fight over the same pages.
SEND_BUFFER_BYTES = 102_400


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Limits and sizes for all listeners; Kafka's key is named where there is one."""

    processors: int = 3  # num.network.threads
    handlers: int = 8  # num.io.threads
    queued_requests_max: int = 500  # queued.max.requests
    # queued.max.request.bytes. Kafka leaves it off, so that many unfinished requests can fill
    # the memory (KIP-72, N-02). Requests up to 64 KiB are not counted: connections.max bounds them.
    queued_request_bytes_max: int = 512 * 1024 * 1024
    # As the broker starts; ``NetworkServer.set_limits`` changes them.
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    connections_idle_ms_max: float = 600_000  # connections.max.idle.ms; 0 or less: no limit
    # How long one request may take to arrive; the shorter limit holds while others wait for the
    # memory that it has taken (N-02).
    request_read_ms_max: float = 120_000
    request_read_pressed_ms_max: float = 10_000
    # Of one connection: requests not answered yet, and bytes of answers not sent yet, above which
    # nothing more is read from it (N-05).
    unanswered_requests_max: int = 128
    unsent_bytes_max: int = 1024 * 1024


class ServerTls(Protocol):
    """TLS of one listener, as the network knows it."""

    def session(self) -> TlsSession:
        """A new session with a client."""

    def principal_of(self, session: TlsSession) -> str:
        """Who the client is after the handshake. Raises TlsError."""


@dataclass(frozen=True, slots=True)
class ListenerSpec:
    """One listener: where it listens, how it cuts requests, how bytes leave."""

    name: str
    address: Address
    framing: Framing = field(default_factory=KafkaFraming)
    options: SocketOptions = field(
        default_factory=lambda: SocketOptions(send_buffer_bytes=SEND_BUFFER_BYTES)
    )
    transport: Callable[[Socket], ConnectionTransport] = PlaintextTransport
    principal: str = "User:ANONYMOUS"
    # Handlers of its own, so that its requests never wait behind those of other listeners
    # (KIP-291, N-18): for the controller and for followers. 0: shares the common ones.
    own_handlers: int = 0
    # Exempt from the connection limits: a storm of clients must not keep brokers apart (N-07).
    is_exempt: bool = False
    # Stands before the request channel until a connection is authenticated: gets the connection and
    # its ``ListenerParts``, gives the parts to begin with.
    login: Callable[[Any, Any], Any] | None = None
    # Encrypts; None for plaintext. The transport is a BufferedTransport then.
    tls: ServerTls | None = None
