"""Reading one partition for one fetch: at length, and the short way of nearly every consumer.

Nothing here changes anything or waits: who gets too little parks in reads.py. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.partitions.partition_read import PartitionRead
from ottla.broker.replica.partition import GOOD
from ottla.broker.replica.watermark import FetchIsolation
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partition_read import FetchPlan, PartitionFetch
    from ottla.protocol.ports import FileRegion


def read_partition(
    partition: PartitionRuntime,
    plan: FetchPlan,
    wanted: PartitionFetch,
    max_bytes: int,
    at_least_one: bool,
) -> PartitionRead:
    """Whole batches from the wanted offset up to what this reader may see."""
    replica, log = partition.replica, partition.log
    read = PartitionRead(
        wanted,
        high_watermark=replica.high_watermark,
        last_stable_offset=replica.last_stable_offset,
        log_start_offset=log.log_start_offset,
    )
    if not partition.is_open:
        read.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return read
    verdict = replica.judge_fetch(
        wanted.offset,
        wanted.current_leader_epoch,
        wanted.last_fetched_epoch,
        require_leader=not plan.may_follow,
    )
    read.error_code = verdict.error
    read.diverging = verdict.diverging
    if not plan.zstd_allowed and partition.settings.compresses_with_zstd:
        read.error_code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if read.error_code != ErrorCode.NONE or verdict.diverging is not None:
        return read
    bound = replica.upper_bound(plan.isolation)
    try:
        found = log.read(wanted.offset, max_bytes, bound, at_least_one)
        if plan.isolation is FetchIsolation.READ_COMMITTED:
            # Of what is sent, not of all that is readable: a log may know of millions.
            read.aborted = log.aborted_transactions(wanted.offset, found.next_offset)
    except KafkaError as error:
        read.error_code = error.code
        return read
    except CorruptLogError:
        read.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return read
    read.records = found.region
    read.is_old = found.next_offset <= log.active.base_offset
    return read


def read_plain(
    partition: PartitionRuntime,
    offset: int,
    max_bytes: int,
    leader_epoch: int,
    *,
    read_committed: bool,
) -> tuple[FileRegion, tuple[int, int, int, bool]] | None:
    """Records for a consumer of a partition that is led here, and high watermark, last stable
    offset, log start and whether only committed records are among them.

    None: there are none, they lie where the disk may have to be waited for, or something is
    wrong; ``read_partition`` knows which."""
    replica, log = partition.replica, partition.log
    if not partition.is_open or max_bytes < 0:
        return None
    if replica.judge_fetch(offset, leader_epoch) is not GOOD:
        return None
    high_watermark = replica.high_watermark
    bound = stable_offset = replica.last_stable_offset
    if not read_committed:
        bound = high_watermark
    elif log.has_aborted:
        return None
    if offset >= bound:
        return None
    try:
        found = log.read(offset, max_bytes, bound, True)
    except (KafkaError, CorruptLogError):
        return None
    region = found.region
    if region is None:
        return None
    # Of a segment that is not written to any more, so perhaps not in memory.
    is_old = found.next_offset <= log.segments[-1].base_offset
    if is_old and not region.file.is_resident(region.position, region.size_bytes):
        return None
    return region, (high_watermark, stable_offset, log.log_start_offset, read_committed)
