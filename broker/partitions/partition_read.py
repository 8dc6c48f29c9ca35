"""A version-independent fetch request, and its result for one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.replica.watermark import FetchIsolation
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.log.storage.txn_index import AbortedTransaction
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.replica.epochs import EpochEnd
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import FileRegion

DEBUG_REPLICA_ID = -2


class PartitionFetch(NamedTuple):
    """One partition of a fetch request; ``error_code`` if the caller may not read it.

    ``topic_id`` is set if the topic was requested by id; ``log_start_offset`` is a follower's
    own."""

    topic: str
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    error_code: ErrorCode
    log_start_offset: int = -1
    topic_id: Uuid = ZERO_UUID


@dataclass(slots=True)
class FetchPlan:
    """What a fetch asks for. Sizes in bytes, ``max_wait_ms`` from the request's arrival.

    ``broker_epoch``: the incarnation of the requesting follower, -1 if it is not sent.
    ``may_follow``: a consumer that may read from a follower. ``nearest``: returns the replica that
    it should read from instead, given partition and position; -1 for the leader. ``quietness``: the
    session's memory if it is a follower's (follower_reads.py)."""

    wanted: list[PartitionFetch]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    replica_id: int
    zstd_allowed: bool
    broker_epoch: int = -1
    may_follow: bool = False
    nearest: Callable[[PartitionRuntime, int], int] | None = None
    quietness: Any = None

    @property
    def isolation(self) -> FetchIsolation:
        """The isolation of this reader."""
        if self.replica_id >= 0 or self.replica_id == DEBUG_REPLICA_ID:
            return FetchIsolation.LOG_END
        return (
            FetchIsolation.READ_COMMITTED
            if self.read_committed
            else FetchIsolation.READ_UNCOMMITTED
        )

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def sees_log_end(self) -> bool:
        """Followers, and tools with the id of the debug replica, also read uncommitted records."""
        return self.isolation is FetchIsolation.LOG_END


class PartitionRecords(NamedTuple):
    """Complete batches of a partition, or the error, and its offsets at that moment."""

    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: FileRegion | None
    # The records lie in a segment that is no longer written to, so perhaps not in memory.
    is_old: bool
    # For readers of committed records: the aborted transactions in the range.
    aborted: list[AbortedTransaction] | None


@dataclass(slots=True)
class PartitionRead:
    """The result for one partition of a plan; its first fields are those of
    ``PartitionRecords``."""

    wanted: PartitionFetch
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileRegion | None = None
    is_old: bool = False
    aborted: list[AbortedTransaction] | None = None
    diverging: EpochEnd | None = None
    # The client's preferred replica; the result has no records then.
    preferred_replica: int = -1
    # For a follower whose replication is throttled.
    is_throttled: bool = False

    @property
    def size_bytes(self) -> int:
        return 0 if self.records is None else self.records.size_bytes

    @property
    def has_news(self) -> bool:
        """Whether the client must be answered at once."""
        return (
            self.error_code != ErrorCode.NONE
            or self.diverging is not None
            or self.preferred_replica >= 0
        )

    @property
    def has_content(self) -> bool:
        """Whether the result contains more than the partition's offsets."""
        return self.size_bytes > 0 or self.diverging is not None or self.preferred_replica >= 0

    @property
    def is_cold(self) -> bool:
        """Whether sending the records now could block on the disk."""
        return self.is_old and self.records is not None and is_cold(self.records)


def is_cold(region: FileRegion) -> bool:
    """Whether records of an old segment are not in memory."""
    return not region.file.is_resident(region.position, region.size_bytes)
