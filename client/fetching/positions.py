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


class Positions:
    """All assigned partitions of one consumer, in serving order. Owned by its fetcher."""

    def __init__(self, limit_bytes: int | None, limit_bytes_max: int) -> None:
        """``limit_bytes``: how much to fetch of each partition, None for a share of
        ``SHARED_BYTES``. ``limit_bytes_max``: what that may grow to for a larger batch."""
        assert limit_bytes is None or 0 < limit_bytes <= limit_bytes_max
        self._limit_bytes_given = limit_bytes
        self._limit_bytes_max = limit_bytes_max
        self._limit_bytes = limit_bytes or share_of(1, limit_bytes_max)
        self._places: dict[TopicPartition, PartitionPosition] = {}
        self._turn = 0

    def __getitem__(self, partition: TopicPartition) -> PartitionPosition:
        return self._places[partition]

    def get(self, partition: TopicPartition) -> PartitionPosition | None:
        return self._places.get(partition)

    @property
    def partitions(self) -> list[TopicPartition]:
        return list(self._places)

    def assign(self, partitions: Iterable[TopicPartition], *, is_awaiting: bool = False) -> None:
        """Make this the assignment; partitions that stay keep their position.

        ``is_awaiting``: new ones begin where ``begin_at`` says, unless a seek comes before."""
        wanted = list(partitions)
        if self._limit_bytes_given is None:
            self._limit_bytes = share_of(len(wanted), self._limit_bytes_max)
        self._places = {
            partition: self._places.get(partition) or self._fresh(is_awaiting)
            for partition in wanted
        }

    def _fresh(self, is_awaiting: bool) -> PartitionPosition:
        # Turns are never repeated, so a response for an earlier assignment of the partition is
        # dropped.
        self._turn += 1
        return PartitionPosition(self._limit_bytes, turn=self._turn, is_awaiting=is_awaiting)

    def awaiting(self) -> dict[TopicPartition, int]:
        """Return partitions whose committed offset has to be fetched, each with its turn."""
        return {where: place.turn for where, place in self._places.items() if place.is_awaiting}

    def begin_at(self, partition: TopicPartition, turn: int, offset: int | None) -> None:
        """Begin at the group's committed offset; None if it has none. Does nothing if the consumer
        has moved since the request."""
        place = self._places.get(partition)
        if place is None or place.turn != turn or not place.is_awaiting:
            return
        place.is_awaiting = False
        if offset is not None:
            self.seek(partition, offset)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at that offset."""
        assert offset >= 0
        place = self._jump(partition)
        place.offset = place.fetch_offset = offset

    def put_back(self, partition: TopicPartition, offset: int) -> None:
        """Go back to an earlier offset; does nothing if the consumer is before it.

        The epoch check of the next leader still covers what was fetched: a log that diverges before
        this offset diverges before that, too."""
        place = self._places.get(partition)
        if place is None or (place.offset is not None and place.offset < offset):
            return
        epochs = place.fetched_epoch, place.checked_epoch
        self.seek(partition, offset)
        place.fetched_epoch, place.checked_epoch = epochs

    def seek_timestamp(self, partition: TopicPartition, timestamp: int) -> None:
        """Continue at the result of looking up that timestamp (or special value)."""
        place = self._jump(partition)
        place.wanted_timestamp = timestamp

    def _jump(self, partition: TopicPartition) -> PartitionPosition:
        place = self._places[partition]
        self._turn += 1
        place.turn = self._turn
        place.offset = None
        place.fetch_offset = -1
        place.wanted_timestamp = None
        place.fetch_count = 0
        place.limit_bytes = self._limit_bytes
        place.is_held = place.is_awaiting = False
        place.fetched_epoch = place.checked_epoch = -1
        return place

    def to_look_up(self, now_ms: float) -> dict[TopicPartition, int]:
        """Return partitions that need a position, with the timestamp to look up."""
        return {
            partition: place.wanted_timestamp
            for partition, place in self._places.items()
            if place.offset is None
            and place.wanted_timestamp is not None
            and place.not_before_ms <= now_ms
        }

    def without_position(self) -> list[TopicPartition]:
        """Return partitions without any position to begin at."""
        return [
            partition
            for partition, place in self._places.items()
            if place.offset is None
            and place.wanted_timestamp is None
            and not (place.is_held or place.is_awaiting)
        ]

    def looked_up(self, partition: TopicPartition, turn: int, offset: int) -> bool:
        """Take the result of a look-up; False if the consumer has moved since the request."""
        place = self._places.get(partition)
        if place is None or place.turn != turn or place.offset is not None:
            return False
        place.offset = place.fetch_offset = offset
        place.wanted_timestamp = None
        place.failures = 0
        return True

    def fetchable(self, partition: TopicPartition, now_ms: float) -> bool:
        """Return whether the partition may be part of a fetch now."""
        place = self._places[partition]
        return (
            place.offset is not None
            and not place.is_paused
            and not place.is_held
            and place.fetch_count < COMPLETED_FETCHES_MAX
            and place.not_before_ms <= now_ms
        )

    def is_full(self, partition: TopicPartition) -> bool:
        """Return whether the partition waits for the application to read what is buffered.

        While it does, no other partition of its broker is fetched either: a fetch that waits for
        their data would keep this one waiting for up to ``fetch_wait_ms`` after it has room."""
        place = self._places[partition]
        return not place.is_paused and place.fetch_count >= COMPLETED_FETCHES_MAX

    def fetched(
        self,
        partition: TopicPartition,
        next_offset: int,
        epoch: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        """Record a buffered fetch that ends before that offset: ``epoch`` is that of its last
        batch, ``leader_epoch`` that of the leader whose log it is from."""
        place = self._places[partition]
        place.fetched_epoch = epoch
        place.checked_epoch = max(place.checked_epoch, leader_epoch)
        assert next_offset > place.fetch_offset
        place.fetch_offset = next_offset
        place.fetch_count += 1
        place.limit_bytes = self._limit_bytes
        # Moved to the end, so that the first of many busy partitions cannot starve the rest.
        self._places[partition] = self._places.pop(partition)

    def read_to(self, partition: TopicPartition, next_offset: int) -> None:
        """Record that the application has everything before that offset."""
        place = self._places[partition]
        assert place.offset is not None
        assert next_offset >= place.offset
        place.offset = next_offset

    def fetch_done(self, partition: TopicPartition) -> None:
        """Record that the application has read a completed fetch to its end."""
        place = self._places[partition]
        assert place.fetch_count > 0
        place.fetch_count -= 1

    def grow_limit(self, partition: TopicPartition) -> bool:
        """Double the size of the next fetch after one without a whole batch; False at the limit."""
        place = self._places[partition]
        if place.limit_bytes >= self._limit_bytes_max:
            return False
        place.limit_bytes = min(2 * place.limit_bytes, self._limit_bytes_max)
        return True

    def delay(self, partition: TopicPartition, until_ms: float) -> None:
        """Avoid the partition until then after a failure, and fetch from its leader first."""
        place = self._places[partition]
        place.read_replica = None
        place.failures += 1
        place.not_before_ms = until_ms

    def next_delay_ms(self, now_ms: float) -> float | None:
        """Return when the next delayed partition may be retried."""
        later = [
            place.not_before_ms for place in self._places.values() if place.not_before_ms > now_ms
        ]
        return min(later) if later else None


def by_source(
    positions: Positions, metadata: ClusterMetadata, now_ms: float
) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
    """Return the partitions by the broker to fetch them from, and those without a leader."""
    by_node: dict[int, list[TopicPartition]] = {}
    leaderless = []
    for partition in positions.partitions:
        leader = metadata.leader_of(partition)
        if leader is None:
            leaderless.append(partition)
        else:
            source = positions[partition].source(leader, metadata.brokers, now_ms)
            by_node.setdefault(source, []).append(partition)
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


def place_asked(
    positions: Positions, partition: TopicPartition, turn: int, offset: int
) -> PartitionPosition | None:
    """Return the position that was fetched, None if the consumer has left it.

    A response of a new leader may have moved it, too, before a slower broker answers."""
    place = positions.get(partition)
    if place is None or place.turn != turn or place.fetch_offset != offset:
        return None
    return place


def leave_replica(positions: Positions, now_ms: float, node_id: int) -> None:
    """Stop using replicas on a broker that cannot be reached."""
    for partition in positions.partitions:
        if positions[partition].read_replica == node_id:
            positions[partition].leave_replica(now_ms)
