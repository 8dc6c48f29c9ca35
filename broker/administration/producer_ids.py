"""Producer ids that no producer ever had: blocks come from the store, ids go to callers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.coordinator.controller.producer_ids import next_block
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import BadVersion, ConnectionLoss, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.paths import ProducerIdBlock
    from ottla.coordinator.store.store import MetadataSession

_ATTEMPTS_MAX = 20


class ProducerIds:
    """Owned by the server. What is left of a block at a stop is never given out."""

    def __init__(self, node_id: int, session: Callable[[], MetadataSession]) -> None:
        self._node_id = node_id
        self._session = session
        self._next = 0
        self._last = -1
        # One request fetches the next block, the others wait for it.
        self._lock = asyncio.Lock()

    async def allocate(self) -> int:
        """One fresh id. Raises KafkaError, retriable while the store cannot be reached."""
        async with self._lock:
            if self._next > self._last:
                block = await self._take_block()
                self._next, self._last = block.first, block.last
            producer_id = self._next
            self._next += 1
            return producer_id

    async def _take_block(self) -> ProducerIdBlock:
        for _attempt in range(_ATTEMPTS_MAX):
            try:
                session = self._session()
                found = await session.get(paths.PRODUCER_ID_BLOCK)
                block, data = next_block(found.data, self._node_id)
                await session.set(paths.PRODUCER_ID_BLOCK, data, found.stat.version)
            except (BadVersion, ConnectionLoss):
                # Taken by another broker, or perhaps by this one without hearing so: the block
                # after it is free in either case (P-08).
                continue
            except StoreError as error:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
            return block
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "cannot allocate a block of producer ids"
        )
