"""One partition of a consumer: its position, its log as far as known, and its source. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.ids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from collections.abc import Container

DRY_COUNT_MIN = 2
# How long a failed replica is avoided: by then its leader knows of the failure, too.
REPLICA_REST_MS = 30_000


@dataclass(slots=True)
class PartitionPosition:
    """One assigned partition. Owned by ``Positions``.

    ``offset`` is None until it has been looked up; ``wanted_timestamp`` is the timestamp to look
    up, and ``limit_bytes`` the size of a fetch, which grows for a batch that did not fit (LOG-13).
    """

    limit_bytes: int
    offset: int | None = None
    fetch_offset: int = -1
    wanted_timestamp: int | None = None
    turn: int = 0
    is_paused: bool = False
    is_held: bool = False
    # Whether the group's committed offset decides where to begin, and is not known yet.
    is_awaiting: bool = False
    fetch_count: int = 0
    not_before_ms: float = 0.0
    failures: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # The epoch of the last fetched batch, and that of the newest leader known to have it.
    fetched_epoch: int = -1
    checked_epoch: int = -1
    # The id of the topic that is read, and the only one allowed, if it is known.
    topic_id: Uuid = ZERO_UUID
    pinned_id: Uuid = ZERO_UUID
    # The offset from which fetches brought nothing although the log continues, and their number.
    dry_offset: int = -1
    dry_count: int = 0
    # The replica that the leader has referred the consumer to, until that expires.
    read_replica: int | None = None
    read_replica_until_ms: float = 0.0
    # Until then the leader must serve the fetches itself.
    leader_only_until_ms: float = 0.0

    def end(self, *, is_committed: bool) -> int:
        """Return the end of the log, or of its committed part; -1 if it is unknown."""
        return self.last_stable_offset if is_committed else self.high_watermark

    def source(self, leader: int, brokers: Container[int], now_ms: float) -> int:
        """Return the broker to fetch from (KIP-392): the replica that the leader named last if it
        can still be used, or else the leader, which then names one anew."""
        replica = self.read_replica
        if replica is not None and now_ms < self.read_replica_until_ms and replica in brokers:
            return replica
        self.read_replica = None
        return leader

    def leave_replica(self, now_ms: float) -> None:
        """Stop using the replica, and make the leader serve for a while: it would name the replica
        again at once as long as it sees no fault in it."""
        self.read_replica = None
        self.leader_only_until_ms = now_ms + REPLICA_REST_MS

    def is_unchecked(self, leader_epoch: int) -> bool:
        """Return whether this leader's log may differ from what was fetched (KIP-320)."""
        return self.fetched_epoch >= 0 and leader_epoch > self.checked_epoch

    def hold(self) -> None:
        """Stop fetching until the application seeks: a retry cannot help."""
        self.is_held = True

    def came_dry(self, offset: int, end: int) -> None:
        """Record that a fetch from that offset brought nothing for any partition, while the log
        ended at ``end``.

        If ``end`` is further on, what lies between has been compacted away. An end reported later
        proves nothing: there may be records before it by then."""
        if offset == self.fetch_offset and end > offset:
            self.dry_count = self.dry_count + 1 if self.dry_offset == offset else 1
            self.dry_offset = offset

    @property
    def is_dry(self) -> bool:
        """Whether there is no record between the position and the reported end.

        It takes two fetches, since a response may be empty for passing reasons."""
        return (
            self.offset is not None
            and self.offset == self.fetch_offset == self.dry_offset
            and self.dry_count >= DRY_COUNT_MIN
        )
