"""Reads an internal partition from start to end into the machine that lives on it.

Slice by slice, and slices of different partitions in turn: nobody's connection waits for the
millions of records of somebody's offsets, and small partitions are not kept waiting by large ones.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from ottla.broker.runtime.inside import INLINE_BYTES_MAX
from ottla.coordinator.group.effects import NOBODY, LogRecord, Writer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import check_crc, iterate_batches
from ottla.protocol.records.control import ControlType, read_marker
from ottla.protocol.records.record import read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.broker.runtime.waiting import Waiting
    from ottla.protocol.ports import Clock, Offload
    from ottla.protocol.records.batch import RecordBatch

READ_BYTES_MAX = 1024 * 1024
# About five milliseconds of work.
SLICE_RECORDS = 1_000
_WATERMARK_WAIT_MS = 60_000.0


class Replay(Protocol):
    """Whoever takes the records in, in the order of the log."""

    def replay_all(self, records: Iterable[LogRecord], writer: Writer) -> None: ...

    def replay_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None: ...


class Loader:
    """Owned by the coordinator, shared by its shards."""

    def __init__(self, clock: Clock, offload: Offload, waiting: Waiting) -> None:
        self._clock = clock
        self._offload = offload
        self._waiting = waiting
        # Held for a slice, handed on in order of asking.
        self._turn = asyncio.Lock()

    async def load(
        self, partition: PartitionRuntime, into: Replay, is_wanted: Callable[[], bool]
    ) -> int | None:
        """How many records there were, once all is read and committed; nothing is between the
        last read and the return. None when it is not wanted any more.

        A leader may hold records that no other replica has. They are this epoch's now and will be
        committed, but until then nobody may see what they say (hazard G-03), so loading ends when
        the high watermark has come as far. Raises KafkaError, CorruptLogError."""
        log = partition.log
        offset, count = log.log_start_offset, 0
        while is_wanted():
            end = log.log_end_offset
            if offset < end:
                async with self._turn:
                    if is_wanted():
                        offset, read_count = await self._slice(partition, offset, into, is_wanted)
                        count += read_count
            elif partition.replica.high_watermark < end:
                await self._wait_for_watermark(partition, end, is_wanted)
            else:
                return count
        return None

    async def _slice(
        self,
        partition: PartitionRuntime,
        offset: int,
        into: Replay,
        is_wanted: Callable[[], bool],
    ) -> tuple[int, int]:
        """One read's worth from an offset on: the next offset, and the number of records."""
        log = partition.log
        # Retention and DeleteRecords may have been here meanwhile.
        offset = max(offset, log.log_start_offset)
        end = log.log_end_offset
        found = log.read(offset, READ_BYTES_MAX, end, True)
        if found.region is None:
            # Compaction has left nothing from here on.
            return end, 0
        data = memoryview(await self._offload.run(found.region.read))
        total = since_pause = 0
        for batch in iterate_batches(data):
            if not check_crc(batch):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"the checksum of the batch at offset {batch.base_offset} is wrong",
                )
            # The first batch of a slice may begin before the offset that was asked for.
            if batch.next_offset > offset:
                await self._replay(batch, into)
                offset = batch.next_offset
                total += batch.record_count
                since_pause += batch.record_count
            if since_pause >= SLICE_RECORDS:
                since_pause = 0
                await self._clock.sleep(0)
                if not is_wanted():
                    break
        return offset, total

    async def _replay(self, batch: RecordBatch, into: Replay) -> None:
        if batch.record_count == 0:
            return
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None:
                committed = marker.control_type is ControlType.COMMIT
                into.replay_marker(marker.producer_id, marker.producer_epoch, committed)
            return
        if batch.is_compressed and batch.size_bytes > INLINE_BYTES_MAX:
            # Only the decompression happens there; what it returns decodes as it is read.
            records = await self._offload.run(read_records, batch)
        else:
            records = read_records(batch)
        writer = NOBODY
        if batch.is_transactional:
            writer = Writer(batch.producer_id, batch.producer_epoch)
        into.replay_all(
            [LogRecord(key, value) for _, _, key, value, _ in records if key is not None], writer
        )

    async def _wait_for_watermark(
        self, partition: PartitionRuntime, required_offset: int, is_wanted: Callable[[], bool]
    ) -> None:
        moved = asyncio.Event()

        def look() -> bool:
            if partition.replica.high_watermark < required_offset and is_wanted():
                return False
            moved.set()
            return True

        deadline_ms = self._clock.now_ms() + _WATERMARK_WAIT_MS
        self._waiting.park((partition.watermark_key,), deadline_ms, look, moved.set)
        await moved.wait()
