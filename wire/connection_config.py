"""The settings of one connection, of a client's and of a broker's to another broker."""

from __future__ import annotations

from dataclasses import field

from ottla.protocol.data_classes import dataclass
from ottla.protocol.ports import SocketOptions
from ottla.wire.backoff import Backoff
from ottla.wire.security import PLAINTEXT, ConnectionSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionConfig:
    """The settings of one connection to one broker.

    Args:
        client_id: The name that brokers see in requests and use for quotas.
        request_timeout_ms: How long to wait for the answer to one request, in milliseconds.
        connect_timeout_ms: How long to wait for a connection, in milliseconds.
        reconnect_backoff: The waits between attempts to connect to a broker.
        response_bytes_max: The largest answer to accept, in bytes.
        socket: Options of the TCP socket.
        security: Encryption and login; plaintext without a login by default.
    """

    client_id: str = "ottla"
    request_timeout_ms: float = 30_000
    connect_timeout_ms: float = 10_000
    reconnect_backoff: Backoff = field(default_factory=lambda: Backoff(50, 1_000))
    # One batch may exceed any fetch limit (KIP-74), so this leaves room above 50 MiB of fetch.
    response_bytes_max: int = 256 * 1024 * 1024
    socket: SocketOptions = field(default_factory=SocketOptions)
    security: ConnectionSecurity = PLAINTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig(ConnectionConfig):
    """The settings of a connection to one certain broker (KIP-1242).

    Args:
        cluster_id: The cluster that the peer must belong to; None for any.
        node_id: The broker that the peer must be; -1 for any.
    """

    cluster_id: str | None = None
    node_id: int = -1
