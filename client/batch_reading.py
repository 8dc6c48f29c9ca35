"""Reading by the batch: the part of ``Consumer`` for those who want no object per record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.client.assignment import Assignment
from ottla.client.chunk import Chunk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.client.batches import FetchedBatch

Take = Callable[[Chunk], bool]
"""Takes from a chunk; returns whether it wants more."""

STEP_WAIT_MS = 60_000.0


class BatchReading(Assignment, ABC):
    """Everything here moves the position past a batch when it hands the batch out."""

    async def poll_batches(self, max_wait_ms: float = 1_000) -> list[FetchedBatch]:
        """All batches that are ready, undecoded, in order within each partition; empty when none
        came in time. Raises as ``poll``, but damage comes out when a batch is opened."""
        batches: list[FetchedBatch] = []

        def take(chunk: Chunk) -> bool:
            while (batch := chunk.take_batch()) is not None:
                batches.append(batch)
            return True

        await self._collect(take, max_wait_ms)
        return batches

    async def batches(self) -> AsyncIterator[FetchedBatch]:
        """Batch after batch, for ever. Raises as ``poll_batches``."""
        while True:
            for batch in await self.poll_batches(STEP_WAIT_MS):
                yield batch

    @abstractmethod
    async def _collect(self, take: Take, max_wait_ms: float) -> None:
        """Offer what has arrived, waiting for it if need be."""
