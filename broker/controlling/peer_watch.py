"""Keeps a connection to the controller's broker, to notice at once when its process has died.

ZooKeeper notices only after the session timeout; the signs in ``suspicion.py`` take a fraction of
a second. A false alarm is safe: the elected controller raises the controller epoch in the same
transaction, and its predecessor is fenced (C-02, C-03).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.controlling.suspicion import AGAIN_MS, FailureSign, Suspicion, sign_of
from ottla.protocol.errors import KafkaError
from ottla.wire.errors import TransportError, UnsupportedByBroker

if TYPE_CHECKING:
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.membership.peers import Peers
    from ottla.protocol.ports import Clock
    from ottla.wire.connection import Connection

ATTEMPTS_MAX = 10
RETRY_MS = 200


class PeerWatch:
    """Owned by the server; stateless."""

    def __init__(self, peers: Peers, clock: Clock, tasks: Tasks) -> None:
        self._peers = peers
        self._clock = clock
        self._tasks = tasks

    async def is_dead_before(self, changed: asyncio.Event, node_id: int) -> bool:
        """Wait for ``changed`` or the broker's death; on death set ``changed`` and return True."""
        deaths: list[int] = []

        async def watch() -> None:
            await self._until_dead(node_id)
            if not changed.is_set():
                deaths.append(node_id)
                changed.set()

        watching = self._tasks.spawn(f"watch of broker {node_id}", watch())
        try:
            await changed.wait()
        finally:
            watching.cancel()
        return bool(deaths)

    async def _until_dead(self, node_id: int) -> None:
        while True:
            connection = await self._connected(node_id)
            closed = asyncio.Event()
            connection.on_close(closed.set)
            try:
                await closed.wait()
            finally:
                connection.close()
            if await self._refuses(node_id):
                return

    async def _connected(self, node_id: int) -> Connection:
        """Retry until connected: a broker that never answered may not be listening yet."""
        while True:
            try:
                return await self._peers.connect(node_id, purpose="watch")
            except (KafkaError, TransportError, UnsupportedByBroker):
                await self._clock.sleep(RETRY_MS)

    async def _refuses(self, node_id: int) -> bool:
        suspicion = Suspicion(is_lost=True)
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                await self._clock.sleep(AGAIN_MS)
            try:
                connection = await self._peers.connect(node_id, purpose="watch")
            except (KafkaError, TransportError, UnsupportedByBroker) as error:
                sign = sign_of(error)
                if suspicion.failed(sign):
                    return True
                if sign is FailureSign.NONE:
                    return False
            else:
                connection.close()
                return False
        return False
