"""One partition of a consumer: where it is, what is known of its log, and whom to ask. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.ids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from collections.abc import Container

DRY_COUNT_MIN = 2
# How long a replica is left alone that has failed: by then its leader knows of it, too.
REPLICA_REST_MS = 30_000


@dataclass(slots=True)
class PartitionPosition:
    """One assigned partition.

    ``offset`` is None until it has been looked up; ``wanted_timestamp`` says what to look up, and
    ``limit_bytes`` how much to fetch, which grows for a batch that did not fit (LOG-13)."""

    limit_bytes: int
    offset: int | None = None
    fetch_offset: int = -1
    wanted_timestamp: int | None = None
    turn: int = 0
    is_paused: bool = False
    is_held: bool = False
    # Whether the group's committed offset decides where to begin, and has not been heard of yet.
    is_awaiting: bool = False
    chunk_count: int = 0
    not_before_ms: float = 0.0
    failures: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # The epoch of what was fetched last, and that of the newest leader known to have it.
    fetched_epoch: int = -1
    checked_epoch: int = -1
    # Which topic of that name is read, and which one alone may be, where somebody knows.
    topic_id: Uuid = ZERO_UUID
    pinned_id: Uuid = ZERO_UUID
    # A fetch from here brought nothing although the log goes on, so many times.
    dry_offset: int = -1
    dry_count: int = 0
    # Another replica than the leader, which the leader has sent us to, until that is old.
    read_replica: int | None = None
    read_replica_until_ms: float = 0.0
    # Until then the leader shall not send us anywhere.
    leader_only_until_ms: float = 0.0

    def end(self, *, is_committed: bool) -> int:
        """Where the log ends for those who read all, or what is committed only; -1 if nobody has
        told."""
        return self.last_stable_offset if is_committed else self.high_watermark

    def source(self, leader: int, brokers: Container[int], now_ms: float) -> int:
        """Whom to fetch from (KIP-392): the leader, or whom it has named last."""
        replica = self.read_replica
        if replica is None or (now_ms < self.read_replica_until_ms and replica in brokers):
            return leader if replica is None else replica
        self.read_replica = None
        return leader

    def leave_replica(self, now_ms: float) -> None:
        """The replica is of no use to us. The leader would name it again at once, and give us
        nothing itself, for as long as it has no complaint of its own."""
        self.read_replica = None
        self.leader_only_until_ms = now_ms + REPLICA_REST_MS

    def is_unchecked(self, leader_epoch: int) -> bool:
        """Whether this leader may have another past than what was fetched (KIP-320)."""
        return self.fetched_epoch >= 0 and leader_epoch > self.checked_epoch

    def hold(self) -> None:
        """Leave it alone until the application seeks: trying again cannot help."""
        self.is_held = True

    def came_dry(self, offset: int, end: int) -> None:
        """A fetch from that offset brought nothing for this partition nor for any other, and that
        is where the log ended then.

        Where the end is further on, what lies between has been compacted away. An end that is
        heard of later tells nothing: there may be records before it by then."""
        if offset == self.fetch_offset and end > offset:
            self.dry_count = self.dry_count + 1 if self.dry_offset == offset else 1
            self.dry_offset = offset

    @property
    def is_dry(self) -> bool:
        """Whether there is no record between the position and the end that the broker tells of.

        Asked twice, since an answer may be empty for passing reasons."""
        return (
            self.offset is not None
            and self.offset == self.fetch_offset == self.dry_offset
            and self.dry_count >= DRY_COUNT_MIN
        )
