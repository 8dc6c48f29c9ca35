"""Sends the controller's requests: to its own broker by a call, to the others over the wire.

One connection per broker, one request on it at a time (C-11). After any failure the connection is
closed, so that an abandoned request cannot arrive after the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.wire.api import declare

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.membership.peers import Peers
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.partitions.control import ControlReceiver, ControlRequest, ControlResponse
    from ottla.wire.connection import Connection

# Versions with topic ids, broker epochs, and whether the list is complete.
_LEADER_AND_ISR = declare(ApiKey.LEADER_AND_ISR, LeaderAndIsrRequest, LeaderAndIsrResponse, 6, 6)
_STOP_REPLICA = declare(ApiKey.STOP_REPLICA, StopReplicaRequest, StopReplicaResponse, 3, 3)
_UPDATE_METADATA = declare(
    ApiKey.UPDATE_METADATA, UpdateMetadataRequest, UpdateMetadataResponse, 8, 8
)
# A broker that has just registered appears in this broker's image a moment later.
_LEARN_ADDRESS_MS = 1_000


class WireChannel:
    """Owned by the server, used by one controllership at a time."""

    def __init__(self, peers: Peers, metadata: MetadataCache, receiver: ControlReceiver) -> None:
        self._peers = peers
        self._metadata = metadata
        self._receiver = receiver
        self._connections: dict[int, Connection] = {}
        self._is_closed = False
        self.on_lost: Callable[[int], object] = lambda _node_id: None

    async def send(self, node_id: int, request: ControlRequest) -> ControlResponse:
        """Return the broker's response. Raises KafkaError or ClientError without one."""
        if node_id == self._peers.node_id:
            return await self._receiver.apply(request)
        connection = await self._connection(node_id)
        try:
            return await _sent(connection, request)
        except BaseException:
            self._give_up(node_id, connection, "a request of the controller was given up")
            raise

    async def reach(self, node_id: int) -> None:
        """Connect to the broker. Raises KafkaError or ClientError."""
        if node_id != self._peers.node_id:
            await self._connection(node_id)

    def close(self) -> None:
        """Close all connections and refuse new ones: the senders end later."""
        self._is_closed = True
        for node_id, connection in list(self._connections.items()):
            self._give_up(node_id, connection, "the broker stops")

    async def _connection(self, node_id: int) -> Connection:
        known = self._connections.get(node_id)
        if known is not None:
            if not known.closed and known.address == self._peers.address_of(node_id):
                return known
            self._give_up(node_id, known, "the broker has moved")
        await self._metadata.wait_for(lambda image: node_id in image.brokers, _LEARN_ADDRESS_MS)
        made = await self._peers.connect(node_id, purpose="controller")
        if self._is_closed:
            made.close("the broker stops")
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker stops")
        self._connections[node_id] = made
        made.on_close(lambda: self._on_close(node_id, made))
        return made

    def _give_up(self, node_id: int, connection: Connection, reason: str) -> None:
        """Close the connection on purpose, so that this does not count as the other broker's
        death."""
        if self._connections.get(node_id) is connection:
            del self._connections[node_id]
        connection.close(reason)

    def _on_close(self, node_id: int, connection: Connection) -> None:
        if self._connections.get(node_id) is connection:
            del self._connections[node_id]
            self.on_lost(node_id)


async def _sent(connection: Connection, request: ControlRequest) -> ControlResponse:
    match request:
        case LeaderAndIsrRequest():
            return await connection.send(_LEADER_AND_ISR, request)
        case StopReplicaRequest():
            return await connection.send(_STOP_REPLICA, request)
        case UpdateMetadataRequest():
            return await connection.send(_UPDATE_METADATA, request)
