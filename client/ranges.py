"""Reads ranges of offsets, for dataframes, backfills and batch jobs.

A range ends when the position has passed it, whatever precedes its end: transaction markers,
aborted records, or holes of compaction, even up to the end of the log. A loss during the read
raises an error: otherwise the read would wait for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.consumer import Consumer
from ottla.client.fetching.batches import columns_before, last_offset
from ottla.client.fetching.missing_topics import GONE
from ottla.client.fetching.offset_specs import Moment, Spot, spot_of
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.process.errors import LogTruncated, NoOffset, RangeLost
from ottla.client.records.arguments import numbers
from ottla.client.records.arrow import to_arrow
from ottla.client.settings.config import ConsumerConfig, Isolation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import RequestRefused, TransportError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    import pyarrow as pa

    from ottla.protocol.records.columns import Columns

# How long to wait before checking whether a range has ended without a record.
WAIT_MS = 200.0
# After this many empty polls the end offsets are checked.
IDLE_MAX = 3
# A leader's answer just after its election may be stale: it is asked once more.
LOOKS_MIN = 2


class OffsetRange(NamedTuple):
    """The records of one partition from ``start`` up to ``stop``, exclusive."""

    partition: TopicPartition
    start: int
    stop: int


def range_config(isolation: Isolation) -> ConsumerConfig:
    """Return the configuration of a consumer that reads ranges."""
    return ConsumerConfig(
        # Retention may delete the beginning during the read, and a truncation the end.
        offset_reset="none",
        isolation=isolation,
        fetch_wait_ms=int(WAIT_MS),
    )


async def resolve(
    consumer: Consumer,
    topic: str,
    ends: tuple[Moment, Moment],
    partitions: Iterable[int] | None,
    wall_ms: int,
) -> list[OffsetRange]:
    """Return the offsets between both ends now, in each partition.

    Raises RequestRefused for an unknown topic or partition, ValueError for an invalid moment."""
    known = await consumer.partitions_of(topic)
    chosen = known
    if partitions is not None:
        chosen = [TopicPartition(topic, number) for number in numbers("partitions", partitions)]
        for where in chosen:
            if where not in known:
                raise RequestRefused.for_partition(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    where,
                    message=f"it has the partitions 0 to {len(known) - 1} only",
                )
    start, stop = (
        {where: spot_of(end, where.partition, wall_ms) for where in chosen} for end in ends
    )
    firsts = await consumer.offsets_at(dict.fromkeys(chosen, EARLIEST_TIMESTAMP))
    lasts = await consumer.offsets_at(dict.fromkeys(chosen, LATEST_TIMESTAMP))
    limits = {where: (firsts[where].offset, lasts[where].offset) for where in chosen}
    starts = await _offsets(consumer, start, limits)
    stops = await _offsets(consumer, stop, limits)
    return [OffsetRange(where, starts[where], stops[where]) for where in chosen]


async def _offsets(
    consumer: Consumer,
    spots: dict[TopicPartition, Spot],
    limits: dict[TopicPartition, tuple[int, int]],
) -> dict[TopicPartition, int]:
    """Return the spots as offsets, clamped to the current log."""
    times = {
        where: spot.timestamp
        for where, spot in spots.items()
        if spot.timestamp is not None and spot.timestamp >= 0
    }
    at = await consumer.offsets_at(times) if times else {}
    found = {}
    for where, spot in spots.items():
        first, last = limits[where]
        if where in at:
            # -1: no record is that late.
            offset = at[where].offset if at[where].offset >= 0 else last
        elif spot.offset is not None:
            offset = spot.offset if spot.offset >= 0 else last + spot.offset
        else:
            offset = last if spot.timestamp == LATEST_TIMESTAMP else first
        found[where] = min(max(offset, first), last)
    return found


async def read_ranges(
    consumer: Consumer, ranges: Sequence[OffsetRange]
) -> AsyncGenerator[tuple[TopicPartition, Columns], None]:
    """Yield the records of all ranges, partitions interleaved, in order within each."""
    stops = {one.partition: one.stop for one in ranges if one.start < one.stop}
    consumer.assign(stops)
    for one in ranges:
        if one.partition in stops:
            consumer.seek(one.partition, one.start)
    watch = _Watch(consumer, stops)
    while stops:
        try:
            found = await consumer.poll_columns(WAIT_MS)
        except NoOffset as error:
            await watch.on_loss(error)
            continue
        await watch.on_poll(is_idle=not found)
        for where, columns in found:
            if where not in stops:
                continue
            if last_offset(columns) >= stops[where]:
                columns = columns_before(columns, stops[where])
            if columns.count:
                yield where, columns
        ended = [where for where in stops if has_passed(consumer, where, stops[where])]
        if ended:
            for where in ended:
                del stops[where]
            consumer.assign(stops)


def has_passed(consumer: Consumer, where: TopicPartition, stop: int) -> bool:
    """Return whether no record before that offset is left to read."""
    position = consumer.position(where)
    return position is not None and (position >= stop or consumer.is_dry_before(where, stop))


class _Watch:
    """Detects ranges that cannot be read to their end. Owned by one read, with its ``stops``."""

    def __init__(self, consumer: Consumer, stops: dict[TopicPartition, int]) -> None:
        self._consumer = consumer
        self._stops = stops
        self._idle = 0
        # How often in a row the log of a partition was too short.
        self._short: dict[TopicPartition, int] = {}

    def _lost(self, where: TopicPartition, offset: int | None, end: int | None) -> RangeLost:
        return RangeLost(where, -1 if offset is None else offset, self._stops[where], end)

    async def on_loss(self, error: NoOffset) -> None:
        """Skip what retention has deleted before the log. Raises RangeLost for any other loss."""
        where = TopicPartition(error.topic or "", error.partition or 0)
        if where not in self._stops:
            return
        if isinstance(error, LogTruncated):
            raise self._lost(where, error.offset, error.end) from error
        first = await self._consumer.offsets_at({where: EARLIEST_TIMESTAMP})
        last = await self._consumer.offsets_at({where: LATEST_TIMESTAMP})
        offset = -1 if error.offset is None else error.offset
        if last[where].offset < offset:
            raise self._lost(where, offset, last[where].offset) from error
        self._consumer.seek(where, max(first[where].offset, offset))

    async def on_poll(self, *, is_idle: bool) -> None:
        """Count empty polls; check the ends after some. Raises RangeLost if records are missing."""
        self._idle = self._idle + 1 if is_idle else 0
        if self._idle < IDLE_MAX:
            return
        self._idle = 0
        try:
            ends = await self._consumer.offsets_at(dict.fromkeys(self._stops, LATEST_TIMESTAMP))
        except TransportError:
            return
        except RequestRefused as error:
            where = TopicPartition(error.topic or "", error.partition or 0)
            if error.code in GONE and where in self._stops:
                raise self._lost(where, self._consumer.position(where), None) from error
            if not error.retriable:
                raise
            return
        for where, stop in self._stops.items():
            self._short[where] = self._short.get(where, 0) + 1 if ends[where].offset < stop else 0
            if self._short[where] >= LOOKS_MIN:
                position = self._consumer.position(where)
                raise self._lost(where, position, ends[where].offset)


async def read_range(
    one: OffsetRange, *, bootstrap_servers: str, isolation: Isolation = Isolation.READ_COMMITTED
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield one range as Arrow batches, with a consumer of its own: the share of one worker."""
    async with Consumer(bootstrap_servers, range_config(isolation)) as consumer:
        async for where, columns in read_ranges(consumer, [one]):
            yield to_arrow(where, [columns])
