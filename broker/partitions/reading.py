"""Reads one partition for one fetch: validates the position, then reads complete batches.

Both codecs of a fetch use these two steps. They change no state and never wait: reads.py parks a
fetch that gets too few bytes. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.partitions.partition_read import PartitionRead, PartitionRecords, is_cold
from ottla.broker.replica.fetching import GOOD, FetchVerdict, waits_for_bytes
from ottla.broker.replica.partition import NO_EPOCH
from ottla.broker.replica.watermark import FetchIsolation
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partition_read import FetchPlan, PartitionFetch

_CLOSED = FetchVerdict(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_READ_UNCOMMITTED = FetchIsolation.READ_UNCOMMITTED
_READ_COMMITTED = FetchIsolation.READ_COMMITTED
_NONE = ErrorCode.NONE
_new_tuple = tuple.__new__


def read_partition(
    partition: PartitionRuntime,
    plan: FetchPlan,
    wanted: PartitionFetch,
    max_bytes: int,
    at_least_one: bool,
) -> PartitionRead:
    """Read complete batches from the offset up to the reader's limit, or return an error."""
    verdict = judge_position(
        partition,
        wanted.offset,
        wanted.current_leader_epoch,
        wanted.last_fetched_epoch,
        not plan.may_follow,
    )
    error = verdict.error
    if partition.is_open and not plan.zstd_allowed and partition.settings.compresses_with_zstd:
        error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if error is not _NONE or verdict.diverging is not None:
        replica = partition.replica
        return PartitionRead(
            wanted,
            error,
            high_watermark=replica.high_watermark,
            last_stable_offset=replica.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            diverging=verdict.diverging,
        )
    found = read_records(partition, wanted.offset, max_bytes, plan.isolation, at_least_one)
    return PartitionRead(wanted, *found)


def read_at_once(
    partition: PartitionRuntime,
    offset: int,
    leader_epoch: int,
    read_committed: bool,
    limits: tuple[int, int, int],
) -> PartitionRecords | None:
    """Return records for a consumer if there are enough and all are in memory; None otherwise.

    The limits are the maximum and minimum bytes, and the wait for the minimum in ms."""
    max_bytes, min_bytes, wait_ms = limits
    if max_bytes < 0 or judge_position(partition, offset, leader_epoch) is not GOOD:
        return None
    isolation = _READ_COMMITTED if read_committed else _READ_UNCOMMITTED
    found = read_records(partition, offset, max_bytes, isolation, True)
    error, _, _, _, region, is_old, aborted = found
    if error or region is None or aborted or (is_old and is_cold(region)):
        return None
    return None if waits_for_bytes(region.size_bytes, wait_ms, min_bytes) else found


def read_ordinary(
    partition: PartitionRuntime,
    offset: int,
    leader_epoch: int,
    read_committed: bool,
    limits: tuple[int, bool],
) -> PartitionRecords | None:
    """Return the available records for a consumer, perhaps none; None in case of an error, an
    aborted transaction, or records that are not in memory.

    The limits are the maximum bytes, and whether one batch may be larger."""
    if judge_position(partition, offset, leader_epoch) is not GOOD:
        return None
    isolation = _READ_COMMITTED if read_committed else _READ_UNCOMMITTED
    found = read_records(partition, offset, limits[0], isolation, limits[1])
    error, _, _, _, region, is_old, aborted = found
    if error or aborted or (is_old and region is not None and is_cold(region)):
        return None
    return found


def has_enough(readable_bytes: int, max_wait_ms: int, min_bytes: int) -> bool:
    """Whether a fetch that has found that many bytes is answered now."""
    return not waits_for_bytes(readable_bytes, max_wait_ms, min_bytes)


def judge_position(
    partition: PartitionRuntime,
    offset: int,
    leader_epoch: int,
    last_fetched_epoch: int = NO_EPOCH,
    require_leader: bool = True,
) -> FetchVerdict:
    """Check whether this reader may read here from that offset."""
    if not partition.is_open:
        return _CLOSED
    return partition.replica.judge_fetch(offset, leader_epoch, last_fetched_epoch, require_leader)


def read_records(
    partition: PartitionRuntime,
    offset: int,
    max_bytes: int,
    isolation: FetchIsolation,
    at_least_one: bool,
) -> PartitionRecords:
    """Read complete batches from a valid offset up to the reader's limit."""
    replica, log = partition.replica, partition.log
    bound = replica.upper_bound(isolation)
    error, records, is_old, aborted = _NONE, None, False, None
    try:
        found = log.read(offset, max_bytes, bound, at_least_one)
        if isolation is _READ_COMMITTED:
            # Only those in the range that is sent: a log may have millions of them.
            aborted = log.aborted_transactions(offset, found.next_offset)
        records = found.region
        is_old = found.next_offset <= log.segments[-1].base_offset
    except KafkaError as failure:
        error = failure.code
    except CorruptLogError:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    # Made directly: the constructor of a named tuple is a Python function.
    return _new_tuple(
        PartitionRecords,
        (
            error,
            replica.high_watermark,
            replica.last_stable_offset,
            log.log_start_offset,
            records,
            is_old,
            aborted,
        ),
    )
