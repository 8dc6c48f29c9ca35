"""The way to the other brokers: connections to their listener for brokers.

Nothing is shared. A fetcher, the controller and a shutdown each own the connection they asked for,
use it in order and close it; what one of them keeps busy never delays another (N-18).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ports import Address, SocketOptions
from ottla.wire.connection_config import PeerConfig
from ottla.wire.negotiation import connect
from ottla.wire.security import PLAINTEXT, ConnectionSecurity

if TYPE_CHECKING:
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.protocol.ports import Clock, Net
    from ottla.wire.connection import Connection

# A broker that lives takes a connection at once; who waits longer holds up a failover.
CONNECT_TIMEOUT_MS = 3_000
# After a cut, TCP asks again ever less often; a new connection is up at once. Kernels acknowledge
# for brokers that are busy or stopped, too, so this gives up none of those.
SILENCE_MS_MAX = 3_000


class Peers:
    """Owned by the server; stateless. ``listener`` is ``inter.broker.listener.name``."""

    def __init__(
        self,
        node_id: int,
        net: Net,
        clock: Clock,
        metadata: MetadataCache,
        listener: str,
        security: ConnectionSecurity = PLAINTEXT,
    ) -> None:
        self.node_id = node_id
        self._net = net
        self._clock = clock
        self._metadata = metadata
        self._listener = listener
        self._security = security

    def address_of(self, node_id: int) -> Address:
        """Where brokers reach that broker. Raises KafkaError (BROKER_NOT_AVAILABLE)."""
        broker = self._metadata.image.brokers.get(node_id)
        end = None if broker is None else broker.endpoint(self._listener)
        if end is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"no address of broker {node_id} is known"
            )
        return Address(end.host, end.port)

    async def connect(
        self, node_id: int, *, purpose: str, request_timeout_ms: float = 30_000
    ) -> Connection:
        """A new connection, which knows what the other side speaks; the caller closes it.

        Raises KafkaError while no address is known, TransportError if it is unreachable."""
        config = replace(
            _CONFIG,
            client_id=f"{purpose}-{self.node_id}-to-{node_id}",
            request_timeout_ms=request_timeout_ms,
            security=self._security,
            # Another broker or cluster may have the address by now.
            cluster_id=self._metadata.cluster_id or None,
            node_id=node_id,
        )
        return await connect(self._net, self._clock, self.address_of(node_id), config)


_CONFIG = PeerConfig(
    connect_timeout_ms=CONNECT_TIMEOUT_MS, socket=SocketOptions(silence_ms_max=SILENCE_MS_MAX)
)
