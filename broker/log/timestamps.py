"""Finds offsets by timestamp, for ListOffsets: the first record at or after one, or the largest.

The time index narrows the search; batch headers identify the batch. Only its records are decoded.
Sealed segments may be cold, with their indexes missing: a worker searches them on copies, and the
result counts only if the segment has not changed since.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.log.storage.directory_services import LogDirectoryServices, OpenSegments
from ottla.broker.log.storage.scan import BatchScan
from ottla.broker.log.storage.segment import Segment
from ottla.broker.log.storage.slices import locate
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import TimestampType
from ottla.protocol.records.record import read_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.log.open_log import OpenLog
    from ottla.protocol.records.batch import RecordBatch

Result = TypeVar("Result")

# A batch that decompresses to more than this is a bomb, not data (hazard N-04).
OUTPUT_BYTES_MAX = 256 * 1024 * 1024


class TimestampedOffset(NamedTuple):
    """A record's offset, timestamp, and the epoch of the leader that appended it."""

    offset: int
    timestamp: int
    leader_epoch: int


class _Changed(NamedTuple):
    """The log dropped or replaced the segments during the search: retry."""


async def find_timestamp(log: OpenLog, timestamp: int) -> TimestampedOffset | None:
    """The first record from the log start on whose timestamp reaches the given one.

    Raises CorruptLogError, KafkaError(KAFKA_STORAGE_ERROR)."""
    while True:
        found = await _try_to_find(log, timestamp)
        if not isinstance(found, _Changed):
            return found


async def find_largest(log: OpenLog) -> TimestampedOffset | None:
    """The first record with the largest timestamp in the log, None if no record has one.

    Raises as ``find_timestamp``."""
    while True:
        start_offset = log.log_start_offset
        largest = -1
        for segment in _from_start(log):
            look = partial(_largest_from, log_start_offset=start_offset)
            one = await _search(log, segment, look)
            if isinstance(one, _Changed):
                break
            largest = max(largest, one)
        else:
            return None if largest < 0 else await find_timestamp(log, largest)


async def _try_to_find(log: OpenLog, timestamp: int) -> TimestampedOffset | _Changed | None:
    start_offset = log.log_start_offset
    segments = _from_start(log)
    unmeasured = [one for one in segments if one.max_timestamp is None and not one.is_active]
    if unmeasured and not await _measure(log, unmeasured):
        return _Changed()
    for segment in segments:
        known = None if segment.is_active else segment.max_timestamp
        if known is not None and known < timestamp:
            continue
        look = partial(_find_in_segment, timestamp=timestamp, log_start_offset=start_offset)
        found = await _search(log, segment, look)
        if found is not None:
            return found
    return None


def _from_start(log: OpenLog) -> tuple[Segment, ...]:
    return log.segments[log.segment_number(log.log_start_offset) :]


# -- in a worker -----------------------------------------------------------------------------


async def _measure(log: OpenLog, segments: list[Segment]) -> bool:
    """Find the largest timestamps of all of them at once; False if the log has changed."""

    def measure(copies: list[Segment]) -> None:
        for copy in copies:
            copy.largest_timestamp()

    return not isinstance(await _apart(log, segments, measure), _Changed)


async def _search(
    log: OpenLog, segment: Segment, work: Callable[[Segment], Result]
) -> Result | _Changed:
    """Search the active segment here, since its indexes are in memory; others in a worker.

    Also in a worker if the record with its largest timestamp was deleted: the index is no help."""
    is_long = segment.is_active and segment.max_timestamp_offset < log.log_start_offset
    if not segment.is_active or is_long:
        return await _apart(log, [segment], lambda copies: work(copies[0]))
    try:
        return work(segment)
    except OSError as error:
        return await _judge(log, [(segment, segment)], error)


async def _apart(
    log: OpenLog, segments: list[Segment], work: Callable[[list[Segment]], Result]
) -> Result | _Changed:
    home = LogDirectoryServices(log.home, log.home.health, OpenSegments())
    copies = [_copy(segment, home) for segment in segments]
    pairs = list(zip(segments, copies, strict=True))
    try:
        result = await log.home.offload.run(work, copies)
    except (OSError, CorruptLogError) as error:
        return await _judge(log, pairs, error)
    if not _are_same(log, pairs):
        return _Changed()
    try:
        for segment, copy in pairs:
            if not segment.is_active and log.refusal is None:
                _learn(segment, copy)
    except OSError as error:
        raise log.home.health.judge(f"cannot write to {log.directory}", error) from error
    return result


async def _judge(
    log: OpenLog, pairs: list[tuple[Segment, Segment]], error: OSError | CorruptLogError
) -> _Changed:
    """Tell files that were renamed or cut during the search from a disk error.

    Such changes hold the log's lock and replace the segments only after the renames, so the
    comparison takes the lock. Raises the error, or KafkaError(KAFKA_STORAGE_ERROR) for a deleted
    log."""
    async with log.lock:
        if not _are_same(log, pairs):
            return _Changed()
        log.ensure_usable()
    if isinstance(error, CorruptLogError):
        raise error
    raise log.home.health.judge(f"cannot read {log.directory}", error) from error


def _copy(segment: Segment, home: LogDirectoryServices) -> Segment:
    """A private copy of the segment, with nothing loaded."""
    interval_bytes = segment.index_interval_bytes
    copy = Segment(home, segment.directory, segment.base_offset, interval_bytes)
    copy.size_bytes = segment.size_bytes
    copy.next_offset = segment.next_offset
    copy.max_timestamp = segment.max_timestamp
    copy.max_timestamp_offset = segment.max_timestamp_offset
    copy.indexes.forget()
    # The copy must not write index files: the log may do so at the same time.
    copy.is_active = True
    return copy


def _learn(segment: Segment, copy: Segment) -> None:
    """Keep what a worker has found out about a sealed segment. Raises OSError."""
    if segment.max_timestamp is None:
        segment.max_timestamp = copy.max_timestamp
        segment.max_timestamp_offset = copy.max_timestamp_offset
    if copy.indexes.is_rebuilt and not segment.indexes.is_trusted:
        segment.indexes = copy.indexes
        segment.seal()
        segment.indexes.write()
        # Opening the file registers the segment, so that its indexes are released later.
        assert segment.file is not None


def _are_same(log: OpenLog, pairs: list[tuple[Segment, Segment]]) -> bool:
    """Whether no segment was deleted, truncated or compacted; one may have grown."""
    there = set(log.segments)
    return all(
        segment in there
        and segment.path == copy.path
        and (segment.size_bytes == copy.size_bytes or segment.size_bytes > copy.size_bytes > 0)
        for segment, copy in pairs
    )


# -- one segment -----------------------------------------------------------------------------


def _largest_from(segment: Segment, log_start_offset: int) -> int:
    """The largest timestamp of batches that reach the log start."""
    largest = segment.largest_timestamp()
    if segment.max_timestamp_offset >= log_start_offset:
        return largest
    # The record with it was deleted by moving the log start into this segment.
    place = locate(segment, log_start_offset)
    if place is None:
        return -1
    scan = BatchScan(segment.file, place.position, segment.size_bytes)
    return max((batch.max_timestamp for _, batch in scan), default=-1)


def _find_in_segment(
    segment: Segment, timestamp: int, log_start_offset: int
) -> TimestampedOffset | None:
    if segment.largest_timestamp() < timestamp:
        return None
    indexes = segment.load_indexes()
    if not indexes.is_trusted and not indexes.times_or_raise.is_ascending:
        segment.rebuild_indexes()
    nearest = indexes.times_or_raise.floor(timestamp)
    offset = max(segment.base_offset + (nearest or 0), log_start_offset)
    place = locate(segment, offset)
    if place is None:
        return None
    scan = BatchScan(segment.file, place.position, segment.size_bytes)
    for _, batch in scan:
        if batch.max_timestamp >= timestamp:
            found = _find_in_batch(batch, timestamp, log_start_offset)
            if found is not None:
                return found
    if scan.problem is not None:
        raise CorruptLogError(f"{segment.path} at position {scan.position}: {scan.problem}")
    return None


def _find_in_batch(
    batch: RecordBatch, timestamp: int, log_start_offset: int
) -> TimestampedOffset | None:
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME and batch.record_count:
        offset = max(batch.base_offset, log_start_offset)
        return TimestampedOffset(offset, batch.max_timestamp, batch.leader_epoch)
    for record in read_records(batch.as_batch(), OUTPUT_BYTES_MAX):
        if record.timestamp >= timestamp and record.offset >= log_start_offset:
            return TimestampedOffset(record.offset, record.timestamp, batch.leader_epoch)
    return None
