"""Keeps one connection per broker, made when first needed and again after a loss.

Reconnects back off per broker. Callers that need the same broker share one attempt, which continues
when some of them time out. The pool never retries a request: only the caller knows whether that is
safe.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.wire.clock import detached, reaching
from ottla.wire.errors import BrokerUnreachable, ClientClosed
from ottla.wire.negotiation import connect

if TYPE_CHECKING:
    from ottla.protocol.ports import Address, Clock, Net, Random
    from ottla.wire.backoff import Backoff
    from ottla.wire.connection import Connection
    from ottla.wire.connection_config import ConnectionConfig


class Attempts:
    """Consecutive failures of one operation, and when it may be retried."""

    __slots__ = ("_backoff", "failures", "not_before_ms")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.failures = 0
        self.not_before_ms = 0.0

    def failed(self, now_ms: float, chance: float) -> None:
        """Count a failure and extend the wait before the next attempt."""
        self.failures += 1
        self.not_before_ms = now_ms + self._backoff.delay_ms(self.failures, chance)

    def succeeded(self) -> None:
        """Forget the failures."""
        self.failures = 0
        self.not_before_ms = 0.0

    def wait_ms(self, now_ms: float) -> float:
        """Milliseconds until the next attempt is allowed; 0 if it is allowed now."""
        return max(0.0, self.not_before_ms - now_ms)


class PooledBroker:
    """The pool's state for one broker."""

    __slots__ = ("address", "attempt", "attempts", "connection")

    def __init__(self, address: Address, attempts: Attempts) -> None:
        self.address = address
        self.attempts = attempts
        self.connection: Connection | None = None
        # The attempt in progress, shared by all callers that need the connection.
        self.attempt: asyncio.Task[Connection] | None = None

    @property
    def ready(self) -> Connection | None:
        """The open connection, or None."""
        connection = self.connection
        return None if connection is None or connection.closed else connection

    def attempted(self, attempt: asyncio.Task[Connection]) -> None:
        """Clear the finished attempt, and retrieve its exception: its callers may have gone."""
        self.attempt = None
        if not attempt.cancelled():
            attempt.exception()


class Pool:
    """Connections by node id. Belongs to one event loop; its owner calls ``close``."""

    def __init__(self, net: Net, clock: Clock, random: Random, config: ConnectionConfig) -> None:
        self._net = net
        self._clock = clock
        self._random = random
        self._config = config
        self._peers: dict[int, PooledBroker] = {}
        # Includes attempts to brokers that were forgotten meanwhile.
        self._running: set[asyncio.Task[Connection]] = set()
        self._closed = False

    def set_address(self, node_id: int, address: Address) -> None:
        """Set a broker's address. If it has moved, its old connection is closed."""
        peer = self._peers.get(node_id)
        if peer is None:
            self._peers[node_id] = PooledBroker(address, Attempts(self._config.reconnect_backoff))
        elif peer.address != address:
            peer.address = address
            peer.attempts.succeeded()
            if peer.connection is not None:
                peer.connection.close(f"broker {node_id} has moved to {address}")

    def forget(self, node_id: int) -> None:
        """Remove a broker that left the cluster, and close its connection."""
        peer = self._peers.pop(node_id, None)
        if peer is not None and peer.connection is not None:
            peer.connection.close(f"broker {node_id} has left the cluster")

    def knows(self, node_id: int) -> bool:
        """Whether the broker's address is known."""
        return node_id in self._peers

    def address_of(self, node_id: int) -> Address | None:
        peer = self._peers.get(node_id)
        return None if peer is None else peer.address

    def ready(self, node_id: int) -> Connection | None:
        """The broker's open connection, or None."""
        peer = self._peers.get(node_id)
        return None if peer is None else peer.ready

    def adopt(self, node_id: int, connection: Connection) -> None:
        """Use a connection that was made to the broker's address before its id was known.

        Does nothing if the broker has a connection, or if this one belongs to another broker."""
        peer = self._peers[node_id]
        if self.ready(node_id) is None and not self.holds(connection):
            peer.connection = connection

    def holds(self, connection: Connection) -> bool:
        """Whether the connection belongs to the pool."""
        return self.node_of(connection) is not None

    def node_of(self, connection: Connection) -> int | None:
        """The broker of the connection; None if it is not in the pool."""
        for node_id, peer in self._peers.items():
            if peer.connection is connection:
                return node_id
        return None

    def receive_ahead(self) -> None:
        """Prepare all connections for a blocked event loop: see ``Connection.receive_ahead``."""
        for peer in self._peers.values():
            if peer.connection is not None:
                peer.connection.receive_ahead()

    def is_failing(self, node_id: int) -> bool:
        """Whether the broker has no connection, after a failed attempt or during one."""
        peer = self._peers[node_id]
        is_tried = peer.attempt is not None or peer.attempts.failures > 0
        return is_tried and self.ready(node_id) is None

    def connected(self) -> list[int]:
        """The ids of the brokers with an open connection."""
        return [node_id for node_id in self._peers if self.ready(node_id) is not None]

    async def connection(self, node_id: int) -> Connection:
        """The broker's connection, after one attempt to make it if there is none.

        The attempt first waits for the back-off of earlier ones. A cancelled caller does not cancel
        the attempt: others may share it. Raises BrokerUnreachable, and KeyError if the broker's
        address is unknown."""
        peer = self._peers[node_id]
        if (ready := peer.ready) is not None:
            return ready
        self._check_open()
        reaching(peer.address)
        attempt = peer.attempt or self._begin(node_id, peer)
        await asyncio.wait([attempt])
        if attempt.cancelled():
            raise ClientClosed("the client is closed")
        failure = attempt.exception()
        if isinstance(failure, BrokerUnreachable):
            # Each caller gets its own exception: raising one changes its traceback.
            raise type(failure)(failure.address, failure.reason) from failure
        return attempt.result()

    def _begin(self, node_id: int, peer: PooledBroker) -> asyncio.Task[Connection]:
        attempt = asyncio.get_running_loop().create_task(
            self._attempt(node_id, peer), name=f"ottla-connect to {node_id}", context=detached()
        )
        peer.attempt = attempt
        self._running.add(attempt)
        attempt.add_done_callback(peer.attempted)
        attempt.add_done_callback(self._running.discard)
        return attempt

    async def _attempt(self, node_id: int, peer: PooledBroker) -> Connection:
        if peer.attempts.failures:
            await self._clock.sleep(peer.attempts.wait_ms(self._clock.now_ms()))
        if peer.ready is None:
            connection = await self._connect(peer)
            if self._peers.get(node_id) is not peer:
                connection.close("the broker has left the cluster meanwhile")
                raise BrokerUnreachable(peer.address, "it has left the cluster")
            if self.ready(node_id) is None:
                peer.connection = connection
            else:
                connection.close("another one was adopted meanwhile")
        assert peer.connection is not None
        return peer.connection

    async def _connect(self, peer: PooledBroker) -> Connection:
        self._check_open()
        address = peer.address
        try:
            connection = await connect(self._net, self._clock, address, self._config)
        except BrokerUnreachable:
            peer.attempts.failed(self._clock.now_ms(), self._random.random())
            raise
        try:
            self._check_open()
        except ClientClosed:
            connection.close()
            raise
        if peer.address != address:
            connection.close("the broker has moved meanwhile")
            raise BrokerUnreachable(address, f"it has moved to {peer.address}")
        peer.attempts.succeeded()
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client is closed")

    def close(self) -> None:
        """Close every connection, which fails their requests. The pool makes no new ones."""
        self._closed = True
        for attempt in self._running:
            attempt.cancel()
        for peer in self._peers.values():
            if peer.connection is not None:
                peer.connection.close()
