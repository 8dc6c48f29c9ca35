"""Where a consumer is in each of its partitions. Pure.

Two offsets per partition: ``offset`` is what the application gets next, ``fetch_offset`` what is
asked for next; they differ by what is buffered. Every jump starts a new ``turn``, and an answer to
a fetch of an earlier turn is dropped: it belongs to a place the consumer has left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.fetching.position import PartitionPosition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ids import TopicPartition

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
# Chunks that wait for the application: one being read, one ready behind it.
CHUNKS_MAX = 2
# What one fetch may bring, where nobody has said how much it shall be of each partition.
SHARED_BYTES = 16 * 1024 * 1024
SHARE_BYTES_MIN = 1024 * 1024
SHARE_BYTES_MAX = 4 * 1024 * 1024


def share_of(count: int, limit_bytes_max: int) -> int:
    """How much to fetch of each of so many partitions."""
    share_bytes = min(max(SHARED_BYTES // max(count, 1), SHARE_BYTES_MIN), SHARE_BYTES_MAX)
    return min(share_bytes, limit_bytes_max)


class Positions:
    """All assigned partitions of one consumer, in the order in which they are served."""

    def __init__(self, limit_bytes: int | None, limit_bytes_max: int) -> None:
        """How much to fetch of each partition, None for a share of ``SHARED_BYTES``, and what that
        may grow to for a batch that is larger."""
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

        ``is_awaiting``: the others begin where ``begin_at`` will say, or a seek before it."""
        wanted = list(partitions)
        if self._limit_bytes_given is None:
            self._limit_bytes = share_of(len(wanted), self._limit_bytes_max)
        self._places = {
            partition: self._places.get(partition) or self._fresh(is_awaiting)
            for partition in wanted
        }

    def _fresh(self, is_awaiting: bool) -> PartitionPosition:
        # Turns are never repeated, so an answer for an earlier life of the partition is dropped.
        self._turn += 1
        return PartitionPosition(self._limit_bytes, turn=self._turn, is_awaiting=is_awaiting)

    def awaiting(self) -> dict[TopicPartition, int]:
        """Partitions whose committed offset has to be asked for, each with its turn."""
        return {where: place.turn for where, place in self._places.items() if place.is_awaiting}

    def begin_at(self, partition: TopicPartition, turn: int, offset: int | None) -> None:
        """The group stands there; None if it has never been there. Does nothing if the consumer
        has moved since that was asked."""
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
        """Continue at an offset that was passed already; does nothing if the consumer is before it.

        The next leader is still asked about what was fetched: had its log gone another way before
        this offset, it has gone another way before that."""
        place = self._places.get(partition)
        if place is None or (place.offset is not None and place.offset < offset):
            return
        epochs = place.fetched_epoch, place.checked_epoch
        self.seek(partition, offset)
        place.fetched_epoch, place.checked_epoch = epochs

    def seek_timestamp(self, partition: TopicPartition, timestamp: int) -> None:
        """Continue where a look-up of that timestamp (or special value) will say."""
        place = self._jump(partition)
        place.wanted_timestamp = timestamp

    def _jump(self, partition: TopicPartition) -> PartitionPosition:
        place = self._places[partition]
        self._turn += 1
        place.turn = self._turn
        place.offset = None
        place.fetch_offset = -1
        place.wanted_timestamp = None
        place.chunk_count = 0
        place.limit_bytes = self._limit_bytes
        place.is_held = place.is_awaiting = False
        place.fetched_epoch = place.checked_epoch = -1
        return place

    def to_look_up(self, now_ms: float) -> dict[TopicPartition, int]:
        """Partitions that need a position, with the timestamp to look up."""
        return {
            partition: place.wanted_timestamp
            for partition, place in self._places.items()
            if place.offset is None
            and place.wanted_timestamp is not None
            and place.not_before_ms <= now_ms
        }

    def without_position(self) -> list[TopicPartition]:
        """Partitions for which nobody has said yet where to begin."""
        return [
            partition
            for partition, place in self._places.items()
            if place.offset is None
            and place.wanted_timestamp is None
            and not (place.is_held or place.is_awaiting)
        ]

    def looked_up(self, partition: TopicPartition, turn: int, offset: int) -> bool:
        """A look-up has answered; False if the consumer has moved since it was asked."""
        place = self._places.get(partition)
        if place is None or place.turn != turn or place.offset is not None:
            return False
        place.offset = place.fetch_offset = offset
        place.wanted_timestamp = None
        place.failures = 0
        return True

    def fetchable(self, partition: TopicPartition, now_ms: float) -> bool:
        """Whether the partition may be part of a fetch now."""
        place = self._places[partition]
        return (
            place.offset is not None
            and not place.is_paused
            and not place.is_held
            and place.chunk_count < CHUNKS_MAX
            and place.not_before_ms <= now_ms
        )

    def is_full(self, partition: TopicPartition) -> bool:
        """Whether the partition waits for the application to read what is buffered.

        While it does, no other partition of its broker is fetched either: a fetch that waits for
        their data would keep this one waiting for up to ``fetch_wait_ms`` after it has room."""
        place = self._places[partition]
        return not place.is_paused and place.chunk_count >= CHUNKS_MAX

    def fetched(
        self,
        partition: TopicPartition,
        next_offset: int,
        epoch: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        """A chunk that ends before that offset is buffered: the last of it of that epoch, out of
        the log of the leader of that other one."""
        place = self._places[partition]
        place.fetched_epoch = epoch
        place.checked_epoch = max(place.checked_epoch, leader_epoch)
        assert next_offset > place.fetch_offset
        place.fetch_offset = next_offset
        place.chunk_count += 1
        place.limit_bytes = self._limit_bytes
        # Last in turn now, so that the first of many busy partitions cannot starve the rest.
        self._places[partition] = self._places.pop(partition)

    def read_to(self, partition: TopicPartition, next_offset: int) -> None:
        """The application has everything before that offset."""
        place = self._places[partition]
        assert place.offset is not None
        assert next_offset >= place.offset
        place.offset = next_offset

    def chunk_done(self, partition: TopicPartition) -> None:
        """The application has read a chunk to its end."""
        place = self._places[partition]
        assert place.chunk_count > 0
        place.chunk_count -= 1

    def grow_limit(self, partition: TopicPartition) -> bool:
        """A fetch brought no whole batch: ask for twice as much; False at the limit."""
        place = self._places[partition]
        if place.limit_bytes >= self._limit_bytes_max:
            return False
        place.limit_bytes = min(2 * place.limit_bytes, self._limit_bytes_max)
        return True

    def delay(self, partition: TopicPartition, until_ms: float) -> None:
        """Something failed: leave the partition alone until then, and ask its leader first."""
        place = self._places[partition]
        place.read_replica = None
        place.failures += 1
        place.not_before_ms = until_ms

    def next_delay_ms(self, now_ms: float) -> float | None:
        """When the next delayed partition may be tried again."""
        later = [
            place.not_before_ms for place in self._places.values() if place.not_before_ms > now_ms
        ]
        return min(later) if later else None


def place_asked(
    positions: Positions, partition: TopicPartition, turn: int, offset: int
) -> PartitionPosition | None:
    """The place that was asked for then, None if the consumer has left it. It has also left it by
    going on: while one broker has not answered yet, a new leader may have been faster."""
    place = positions.get(partition)
    if place is None or place.turn != turn or place.fetch_offset != offset:
        return None
    return place


def leave_replica(positions: Positions, now_ms: float, node_id: int) -> None:
    """That broker cannot be reached."""
    for partition in positions.partitions:
        if positions[partition].read_replica == node_id:
            positions[partition].leave_replica(now_ms)
