"""Requests that arrive late: each uses a separate connection, on which it is held up while its
sender continues on another one, as if it had given the first one up (hazards T-12, T-13)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.clients.wire import REQUEST_TIMEOUT_MS, Gone, open_wire

if TYPE_CHECKING:
    from ottla.protocol.apis import ApiKey
    from tests.simulation.cluster.client import ClusterClient


class Late(NamedTuple):
    """A request that is to arrive late."""

    message: object
    api_key: ApiKey
    api_version: int


class Stragglers:
    """Of one client. They die with it, but what they have sent arrives."""

    def __init__(self, client: ClusterClient, mean_ms: float) -> None:
        self._client = client
        self._mean_ms = mean_ms
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, node_id: int, late: Late) -> bool:
        """Send the request late; False when no broker could be reached."""
        client = self._client
        address = client.address_of(node_id)
        if address is None:
            return False
        delay_ms = client.random.exponential(self._mean_ms)
        try:
            wire = await open_wire(client.ports, address, client.history, f"{client.name}#late")
        except Gone:
            return False
        wire.hold(delay_ms / 1_000.0)
        answer = wire.send(*late)

        async def forget() -> None:
            with contextlib.suppress(Gone):
                await wire.wait(answer, delay_ms + REQUEST_TIMEOUT_MS)
            wire.close()

        task = asyncio.ensure_future(forget())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True
