"""From a time to an offset, as ListOffsets asks: the first record at or after it, or the largest.

The time index brings the search near; batch headers decide which batch it is. Only that one
batch's records are decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.log.scan import BatchScan
from ottla.broker.log.slices import locate
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.records.batch import TimestampType
from ottla.protocol.records.record import read_records

if TYPE_CHECKING:
    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.segment import Segment
    from ottla.protocol.records.batch import RecordBatch

# Records come decompressed; a batch that grows beyond this is a bomb, not data (hazard N-04).
OUTPUT_BYTES_MAX = 256 * 1024 * 1024


class TimestampedOffset(NamedTuple):
    """A record's place, time, and the epoch of the leader that appended it."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_timestamp(log: OpenLog, timestamp: int) -> TimestampedOffset | None:
    """The first record from the log start on whose timestamp reaches the given one.

    Raises CorruptLogError, KafkaError(KAFKA_STORAGE_ERROR)."""
    segments = log.segments
    for segment in segments[log.segment_number(log.log_start_offset) :]:
        try:
            if segment.largest_timestamp() < timestamp:
                continue
            found = _find_in_segment(segment, timestamp, log.log_start_offset)
        except OSError as error:
            raise log.home.health.judge(f"cannot read {segment.path}", error) from error
        if found is not None:
            return found
    return None


def find_largest(log: OpenLog) -> TimestampedOffset | None:
    """The first record with the largest timestamp in the log, None if no record has one."""
    largest = -1
    for segment in log.segments[log.segment_number(log.log_start_offset) :]:
        try:
            largest = max(largest, _largest_from(segment, log.log_start_offset))
        except OSError as error:
            raise log.home.health.judge(f"cannot read {segment.path}", error) from error
    return None if largest < 0 else find_timestamp(log, largest)


def _largest_from(segment: Segment, log_start_offset: int) -> int:
    """The largest timestamp of batches that reach the log start."""
    largest = segment.largest_timestamp()
    if segment.max_timestamp_offset >= log_start_offset:
        return largest
    # The record that holds it was deleted by moving the log start into this segment.
    place = locate(segment, log_start_offset)
    if place is None:
        return -1
    scan = BatchScan(segment.file, place.position, segment.size_bytes)
    return max((batch.max_timestamp for _, batch in scan), default=-1)


def _find_in_segment(
    segment: Segment, timestamp: int, log_start_offset: int
) -> TimestampedOffset | None:
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
    for record in read_records(batch, OUTPUT_BYTES_MAX):
        if record.timestamp >= timestamp and record.offset >= log_start_offset:
            return TimestampedOffset(record.offset, record.timestamp, batch.leader_epoch)
    return None
