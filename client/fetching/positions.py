"""Tracks a consumer's position in each of its partitions. Pure.

There are two offsets per partition: ``offset`` is the next for the application, ``fetch_offset``
the next to fetch; the difference is buffered. Every jump starts a new ``turn``, and the response to
a fetch of an earlier turn is dropped: the consumer has left that position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.fetching.position import PartitionPosition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.cluster.metadata import ClusterMetadata
    from ottla.protocol.ids import TopicPartition

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
# Chunks that wait for the application: one being read, one ready behind it.
COMPLETED_FETCHES_MAX = 2
# The size of one fetch, if the configuration has no limit per partition.
SHARED_BYTES = 16 * 1024 * 1024
SHARE_BYTES_MIN = 1024 * 1024
SHARE_BYTES_MAX = 4 * 1024 * 1024


def share_of(count: int, limit_bytes_max: int) -> int:
    """Return how many bytes to fetch of each of so many partitions."""
    share_bytes = min(max(SHARED_BYTES // max(count, 1), SHARE_BYTES_MIN), SHARE_BYTES_MAX)
    return min(share_bytes, limit_bytes_max)


class Positions(dict["TopicPartition", PartitionPosition]):
    """All assigned partitions of one consumer, in serving order. Owned by its fetcher."""

    def __init__(self, limit_bytes: int | None, limit_bytes_max: int) -> None:
        """``limit_bytes``: how much to fetch of each partition, None for a share of
        ``SHARED_BYTES``. ``limit_bytes_max``: what that may grow to for a larger batch."""
        assert limit_bytes is None or 0 < limit_bytes <= limit_bytes_max
        self._limit_bytes_given = limit_bytes
        self._limit_bytes_max = limit_bytes_max
        self._limit_bytes = limit_bytes or share_of(1, limit_bytes_max)
        self._turn = 0

    @property
    def partitions(self) -> list[TopicPartition]:
        return list(self)

    def assign(self, partitions: Iterable[TopicPartition], *, is_awaiting: bool = False) -> None:
        """Make this the assignment; partitions that stay keep their position.

        ``is_awaiting``: new ones begin where ``begin_at`` says, unless a seek comes before."""
        wanted = list(partitions)
        if self._limit_bytes_given is None:
            self._limit_bytes = share_of(len(wanted), self._limit_bytes_max)
        before = dict(self)
        self.clear()
        for partition in wanted:
            self[partition] = before.get(partition) or self._fresh(is_awaiting)

    def _fresh(self, is_awaiting: bool) -> PartitionPosition:
        # Turns are never repeated, so a response for an earlier assignment of the partition is
        # dropped.
        self._turn += 1
        return PartitionPosition(self._limit_bytes, turn=self._turn, is_awaiting=is_awaiting)

    def awaiting(self) -> dict[TopicPartition, int]:
        """Return partitions whose committed offset has to be fetched, each with its turn."""
        return {where: position.turn for where, position in self.items() if position.is_awaiting}

    def begin_at(self, partition: TopicPartition, turn: int, offset: int | None) -> None:
        """Begin at the group's committed offset; None if it has none. Does nothing if the consumer
        has moved since the request."""
        position = self.get(partition)
        if position is None or position.turn != turn or not position.is_awaiting:
            return
        position.is_awaiting = False
        if offset is not None:
            self.seek(partition, offset)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at that offset."""
        assert offset >= 0
        position = self._jump(partition)
        position.offset = position.fetch_offset = offset

    def put_back(self, partition: TopicPartition, offset: int) -> None:
        """Go back to an earlier offset; does nothing if the consumer is before it.

        The epoch check of the next leader still covers what was fetched: a log that diverges before
        this offset diverges before that, too."""
        position = self.get(partition)
        if position is None or (position.offset is not None and position.offset < offset):
            return
        epochs = position.fetched_epoch, position.checked_epoch
        self.seek(partition, offset)
        position.fetched_epoch, position.checked_epoch = epochs

    def seek_timestamp(self, partition: TopicPartition, timestamp: int) -> None:
        """Continue at the result of looking up that timestamp (or special value)."""
        position = self._jump(partition)
        position.wanted_timestamp = timestamp

    def _jump(self, partition: TopicPartition) -> PartitionPosition:
        position = self[partition]
        self._turn += 1
        position.turn = self._turn
        position.offset = None
        position.fetch_offset = -1
        position.wanted_timestamp = None
        position.fetch_count = 0
        position.limit_bytes = self._limit_bytes
        position.is_held = position.is_awaiting = False
        position.fetched_epoch = position.checked_epoch = -1
        return position

    def to_look_up(self, now_ms: float) -> dict[TopicPartition, int]:
        """Return partitions that need a position, with the timestamp to look up."""
        return {
            partition: position.wanted_timestamp
            for partition, position in self.items()
            if position.offset is None
            and position.wanted_timestamp is not None
            and position.not_before_ms <= now_ms
        }

    def without_position(self) -> list[TopicPartition]:
        """Return partitions without any position to begin at."""
        return [
            partition
            for partition, position in self.items()
            if position.offset is None
            and position.wanted_timestamp is None
            and not (position.is_held or position.is_awaiting)
        ]

    def looked_up(self, partition: TopicPartition, turn: int, offset: int) -> bool:
        """Take the result of a look-up; False if the consumer has moved since the request."""
        position = self.get(partition)
        if position is None or position.turn != turn or position.offset is not None:
            return False
        position.offset = position.fetch_offset = offset
        position.wanted_timestamp = None
        position.failures = 0
        return True

    def fetchable(self, partition: TopicPartition, now_ms: float) -> bool:
        """Return whether the partition may be part of a fetch now."""
        position = self[partition]
        return (
            position.offset is not None
            and not position.is_paused
            and not position.is_held
            and position.fetch_count < COMPLETED_FETCHES_MAX
            and position.not_before_ms <= now_ms
        )

    def is_full(self, partition: TopicPartition) -> bool:
        """Return whether the partition waits for the application to read what is buffered.

        While it does, no other partition of its broker is fetched either: a fetch that waits for
        their data would keep this one waiting for up to ``fetch_wait_ms`` after it has room."""
        position = self[partition]
        return not position.is_paused and position.fetch_count >= COMPLETED_FETCHES_MAX

    def fetched(
        self,
        partition: TopicPartition,
        next_offset: int,
        epoch: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        """Record a buffered fetch that ends before that offset: ``epoch`` is that of its last
        batch, ``leader_epoch`` that of the leader whose log it is from."""
        position = self[partition]
        position.fetched_epoch = epoch
        position.checked_epoch = max(position.checked_epoch, leader_epoch)
        assert next_offset > position.fetch_offset
        position.fetch_offset = next_offset
        position.fetch_count += 1
        position.limit_bytes = self._limit_bytes
        # Moved to the end, so that the first of many busy partitions cannot starve the rest.
        self[partition] = self.pop(partition)

    def read_to(self, partition: TopicPartition, next_offset: int) -> None:
        """Record that the application has everything before that offset."""
        position = self[partition]
        assert position.offset is not None
        assert next_offset >= position.offset
        position.offset = next_offset

    def fetch_done(self, partition: TopicPartition) -> None:
        """Record that the application has read a completed fetch to its end."""
        position = self[partition]
        assert position.fetch_count > 0
        position.fetch_count -= 1

    def grow_limit(self, partition: TopicPartition) -> bool:
        """Double the size of the next fetch after one without a whole batch; False at the limit."""
        position = self[partition]
        if position.limit_bytes >= self._limit_bytes_max:
            return False
        position.limit_bytes = min(2 * position.limit_bytes, self._limit_bytes_max)
        return True

    def delay(self, partition: TopicPartition, until_ms: float) -> None:
        """Avoid the partition until then after a failure, and fetch from its leader first."""
        position = self[partition]
        position.read_replica = None
        position.failures += 1
        position.not_before_ms = until_ms

    def next_delay_ms(self, now_ms: float) -> float | None:
        """Return when the next delayed partition may be retried."""
        later = [
            position.not_before_ms for position in self.values() if position.not_before_ms > now_ms
        ]
        return min(later) if later else None


def by_source(
    positions: Positions, metadata: ClusterMetadata, now_ms: float
) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
    """Return the partitions by the broker to fetch them from, and those without a leader."""
    by_node: dict[int, list[TopicPartition]] = {}
    leaderless = []
    for partition, position in positions.items():
        leader = metadata.leader_of(partition)
        if leader is None:
            leaderless.append(partition)
        else:
            if position.read_replica is not None:
                leader = position.source(leader, metadata.brokers, now_ms)
            by_node.setdefault(leader, []).append(partition)
    return by_node, leaderless


def ready_of(
    positions: Positions, partitions: Iterable[TopicPartition], now_ms: float
) -> list[TopicPartition] | None:
    """Return those of one broker's partitions that may be part of a fetch now; None while one of
    them is full."""
    ready = []
    for partition in partitions:
        if positions.is_full(partition):
            return None
        if positions.fetchable(partition, now_ms):
            ready.append(partition)
    return ready


def position_asked(
    positions: Positions, partition: TopicPartition, turn: int, offset: int
) -> PartitionPosition | None:
    """Return the position that was fetched, None if the consumer has left it.

    A response of a new leader may have moved it, too, before a slower broker answers."""
    position = positions.get(partition)
    if position is None or position.turn != turn or position.fetch_offset != offset:
        return None
    return position


def leave_replica(positions: Positions, now_ms: float, node_id: int) -> None:
    """Stop using replicas on a broker that cannot be reached."""
    for position in positions.values():
        if position.read_replica == node_id:
            position.leave_replica(now_ms)
