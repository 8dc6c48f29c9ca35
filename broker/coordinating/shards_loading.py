"""Reads an internal partition from start to end into its machine.

It reads in slices, and alternates between partitions: the broker serves requests between the slices
of a partition with millions of records, and small partitions do not wait for large ones.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from ottla.broker.replica.record_checks import INLINE_BYTES_MAX
from ottla.coordinator.effects import NOBODY, LogRecord, Writer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import HEADER_BYTES, check_crc, iterate_batches
from ottla.protocol.records.control import ControlType, read_marker
from ottla.protocol.records.record import read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.ports import Clock, Offload
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.record import Record

# A few milliseconds of work. The rest of a read is read again in the next slice.
READ_BYTES_MAX = 128 * 1024
SLICE_RECORDS = 2_500
_CONTINUED = 0x80
_VARINT_BITS = 7
_ZEROS = bytes(3)
_new_tuple = tuple.__new__
_WATERMARK_WAIT_MS = 60_000.0


class Replay(Protocol):
    """Applies records in the order of the log."""

    def replay_all(self, records: Iterable[LogRecord], writer: Writer) -> None: ...

    def replay_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None: ...


class Loader:
    """Owned by the coordinator, shared by its shards."""

    def __init__(self, clock: Clock, offload: Offload, waiting: Purgatory) -> None:
        self._clock = clock
        self._offload = offload
        self._waiting = waiting
        # Held for a slice, and handed on in the order of requests.
        self._turn = asyncio.Lock()

    async def load(
        self, partition: PartitionRuntime, into: Replay, is_wanted: Callable[[], bool]
    ) -> int | None:
        """Return the number of records when all are read and committed; there is no step between
        the last read and the return. None if the load is no longer wanted.

        A leader may have records that no other replica has. They belong to this epoch now and will
        be committed, but until then no client may see their effect (hazard G-03), so loading waits
        until the high watermark has passed them. Raises KafkaError, CorruptLogError."""
        log = partition.log
        offset, count = log.log_start_offset, 0
        while is_wanted():
            end = log.log_end_offset
            if offset < end:
                async with self._turn:
                    if is_wanted():
                        offset, read_count = await self._slice(partition, offset, into)
                        count += read_count
            elif partition.replica.high_watermark < end:
                await self._wait_for_watermark(partition, end, is_wanted)
            else:
                return count
        return None

    async def _slice(
        self, partition: PartitionRuntime, offset: int, into: Replay
    ) -> tuple[int, int]:
        """Read one slice from an offset on; return the next offset and the number of records."""
        log = partition.log
        # Retention or DeleteRecords may have raised the start meanwhile.
        offset = max(offset, log.log_start_offset)
        end = log.log_end_offset
        found = log.read(offset, READ_BYTES_MAX, end, True)
        if found.region is None:
            # Compaction has left no records from here on.
            return end, 0
        try:
            data = await self._offload.run(found.region.read)
        except OSError as error:
            # The directory's health check handles it: an unhandled error in this task would stop
            # the broker.
            raise log.home.health.judge(f"cannot read the log of {log.partition}", error) from error
        total = 0
        records: list[LogRecord] = []
        for batch in iterate_batches(data):
            if not check_crc(batch):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"the checksum of the batch at offset {batch.base_offset} is wrong",
                )
            next_offset = batch.next_offset
            # The first batch of a slice may begin before the requested offset.
            if next_offset <= offset:
                continue
            offset = next_offset
            total += batch.record_count
            if batch.attributes != 0:
                into.replay_all(records, NOBODY)
                records = []
                await self._replay(batch, into)
            elif batch.record_count == 1 and (one := simple_record(batch, data)) is not None:
                records.append(one)
            else:
                records += _records_of(read_records(batch))
            if total >= SLICE_RECORDS:
                break
        into.replay_all(records, NOBODY)
        if offset < end:
            await self._clock.sleep(0)
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
            # The worker only decompresses; the result is decoded while it is read.
            records = await self._offload.run(read_records, batch)
        else:
            records = read_records(batch)
        writer = NOBODY
        if batch.is_transactional:
            writer = Writer(batch.producer_id, batch.producer_epoch)
        into.replay_all(_records_of(records), writer)

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


def _records_of(records: Iterable[Record]) -> list[LogRecord]:
    return [LogRecord(key, value) for _, _, key, value, _ in records if key is not None]


def simple_record(batch: RecordBatch, data: bytes) -> LogRecord | None:
    """Return the record of an uncompressed batch with one record, as single commits are written.

    It takes a third of the general decoder's time. None means that the general decoder is needed:
    sizes of three bytes, a time delta, headers, a null, or contradictory fields."""
    position = batch.position + HEADER_BYTES
    end = batch.position + batch.size_bytes
    try:
        if (low := data[position]) < _CONTINUED:
            position += 1
        else:
            if (high := data[position + 1]) >= _CONTINUED:
                return None
            low += (high - 1) << _VARINT_BITS
            position += 2
        # Twice the length, as zigzag encodes it. Attributes, time delta and offset delta are zero.
        if low != 2 * (end - position) or data[position : position + 3] != _ZEROS:
            return None
        position += 3
        if (low := data[position]) < _CONTINUED:
            position += 1
        else:
            if (high := data[position + 1]) >= _CONTINUED:
                return None
            low += (high - 1) << _VARINT_BITS
            position += 2
        key_end = position + (low >> 1)
        if low & 1 or key_end >= end:
            return None
        key = data[position:key_end]
        position = key_end
        if (low := data[position]) < _CONTINUED:
            position += 1
        else:
            if (high := data[position + 1]) >= _CONTINUED:
                return None
            low += (high - 1) << _VARINT_BITS
            position += 2
        value_end = position + (low >> 1)
        if low & 1 or value_end != end - 1 or data[value_end] != 0:
            return None
    except IndexError:
        return None
    return _new_tuple(LogRecord, (key, data[position:value_end]))
