"""Reads whole batches: the part of ``Consumer`` that creates no object for each record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.client.fetching.assignment import AssignmentCalls
from ottla.client.fetching.completed_fetch import CompletedFetch, Enough
from ottla.client.records.arguments import check_wait, whole
from ottla.client.records.arrow import schema, to_arrow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pyarrow as pa

    from ottla.client.fetching.batches import FetchedBatch
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock
    from ottla.protocol.records.columns import Columns

Take = Callable[[CompletedFetch], bool]
"""Takes from a completed fetch; returns whether it wants more."""

STEP_WAIT_MS = 60_000.0
RECORDS_PER_TABLE = 65_536
# From this size on an Arrow batch is returned without a copy; smaller ones are joined, since the
# fixed cost of a table is higher than the copy.
WORTH_A_TABLE = Enough(4_096, 256 * 1024)


class BatchReading(AssignmentCalls, ABC):
    """The part of ``Consumer`` that returns batches, columns and Arrow data.

    Each call moves the position past the batches that it returns."""

    async def poll_batches(self, max_wait_ms: float = 1_000) -> list[FetchedBatch]:
        """Return all batches that have arrived, undecoded, in order within each partition.

        A damaged batch raises when it is opened, not here.

        Args:
            max_wait_ms: How long to wait for a batch, in milliseconds (default 1000).

        Returns:
            The batches; empty if none arrived in time.

        Raises:
            RequestRefused: As ``poll``.
            NoOffset: As ``poll``.
        """
        batches: list[FetchedBatch] = []

        def take(completed: CompletedFetch) -> bool:
            while (batch := completed.take_batch()) is not None:
                batches.append(batch)
            return True

        await self._collect(take, max_wait_ms)
        return batches

    async def batches(self) -> AsyncIterator[FetchedBatch]:
        """Iterate over batches without end. A commit covers the batches that were returned.

        It raises what ``poll_batches`` raises."""
        found: list[FetchedBatch] = []

        def take(completed: CompletedFetch) -> bool:
            batch = completed.take_batch()
            if batch is not None:
                found.append(batch)
            return batch is None

        while True:
            await self._collect(take, STEP_WAIT_MS)
            if found:
                yield found.pop()

    async def poll_columns(
        self, max_wait_ms: float = 1_000, max_records: int = RECORDS_PER_TABLE
    ) -> list[tuple[TopicPartition, Columns]]:
        """Return the next records as columns, one ``Columns`` for each batch.

        Args:
            max_wait_ms: How long to wait for records, in milliseconds (default 1000).
            max_records: About how many records to return (default 65536).

        Returns:
            Pairs of a partition and its columns; empty if none arrived in time.

        Raises:
            RequestRefused: As ``poll``.
            NoOffset: As ``poll``.
        """
        found: list[tuple[TopicPartition, Columns]] = []
        left = whole("max_records", max_records, 1)

        def take(completed: CompletedFetch) -> bool:
            nonlocal left
            for columns in completed.take_columns(left):
                found.append((completed.partition, columns))
                left -= columns.count
            # A fetch that returns nothing for lack of room has a batch that is better left whole.
            return left > 0 and completed.is_done

        await self._collect(take, max_wait_ms)
        return found

    async def arrow(
        self, max_wait_ms: float | None = None, max_records: int = RECORDS_PER_TABLE
    ) -> AsyncIterator[pa.RecordBatch]:
        """Iterate over Arrow record batches, each with records of one partition.

        A commit covers the batches that were returned. The schema is ``arrow.SCHEMA``.

        Args:
            max_wait_ms: The iteration ends when no record has arrived for this time, in
                milliseconds; never if None (default).
            max_records: At most this many records in a batch (default 65536).

        Raises:
            RequestRefused: As ``poll``.
            NoOffset: As ``poll``.
            ImportError: pyarrow is missing (the extra ``arrow`` brings it).
        """
        schema()
        whole("max_records", max_records, 1)
        if max_wait_ms is not None:
            check_wait("max_wait_ms", max_wait_ms)
        found: list[tuple[TopicPartition, list[Columns]]] = []

        def take(completed: CompletedFetch) -> bool:
            # Take only what is returned next: a commit must not cover what comes after it.
            parts = completed.take_columns(max_records, WORTH_A_TABLE)
            if parts:
                found.append((completed.partition, parts))
            return not parts

        clock, idle_since_ms = self._clock, self._clock.now_ms()
        while True:
            wait_ms = STEP_WAIT_MS
            if max_wait_ms is not None:
                wait_ms = max_wait_ms - (clock.now_ms() - idle_since_ms)
                if wait_ms <= 0:
                    return
            await self._collect(take, wait_ms)
            if found:
                yield to_arrow(*found.pop())
                idle_since_ms = clock.now_ms()

    @property
    @abstractmethod
    def _clock(self) -> Clock: ...

    @abstractmethod
    async def _collect(self, take: Take, max_wait_ms: float) -> None:
        """Offer the arrived fetches to ``take``; wait for one if there is none."""
