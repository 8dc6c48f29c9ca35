"""Reading by the batch: the part of ``Consumer`` for those who want no object per record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from ottla.client.arrow import schema, to_arrow
from ottla.client.assignment import Assignment
from ottla.client.chunk import Chunk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pyarrow as pa

    from ottla.client.batches import FetchedBatch
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.columns import Columns

Take = Callable[[Chunk], bool]
"""Takes from a chunk; returns whether it wants more."""

STEP_WAIT_MS = 60_000.0
RECORDS_PER_TABLE = 65_536


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

    async def poll_columns(
        self, max_wait_ms: float = 1_000, max_records: int = RECORDS_PER_TABLE
    ) -> list[tuple[TopicPartition, Columns]]:
        """About that many of the next records as columns, one for each batch; empty when none
        came in time. Raises as ``poll``."""
        found: list[tuple[TopicPartition, Columns]] = []
        left = max_records

        def take(chunk: Chunk) -> bool:
            nonlocal left
            for columns in chunk.take_columns(left):
                found.append((chunk.partition, columns))
                left -= columns.count
            # A chunk that gives nothing for lack of room has a batch that is better left whole.
            return left > 0 and chunk.is_done

        await self._collect(take, max_wait_ms)
        return found

    async def arrow(
        self, max_wait_ms: float | None = None, max_records: int = RECORDS_PER_TABLE
    ) -> AsyncIterator[pa.RecordBatch]:
        """Arrow record batches of ``arrow.SCHEMA``, each of one partition and of at most that
        many records; ends when no record has come for ``max_wait_ms``, and never if that is None.

        Raises as ``poll``, and ImportError without pyarrow (``pip install 'ottla[arrow]'``)."""
        schema()
        while True:
            found = await self.poll_columns(max_wait_ms or STEP_WAIT_MS, max_records)
            if not found and max_wait_ms is not None:
                return
            for where, parts in groupby(found, key=itemgetter(0)):
                yield to_arrow(where, [columns for _, columns in parts])

    @abstractmethod
    async def _collect(self, take: Take, max_wait_ms: float) -> None:
        """Offer what has arrived, waiting for it if need be."""
