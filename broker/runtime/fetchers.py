"""The followers' side of replication: who fetches what from whom, as roles come and go.

One fetcher per leader, or ``num.replica.fetchers`` of them with the partitions dealt out by name.
Roles arrive in order and at once: whatever a fetcher had under way for a partition is void in the
moment the next role is there, whichever fetcher that belongs to (hazards R-05, R-07).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from zlib import crc32

from ottla.broker.replica.roles import Role
from ottla.broker.runtime.fetcher import Fetcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.replica.following import Followed
    from ottla.broker.runtime.fetcher import FetcherParts
    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.protocol.ids import TopicPartition

Place = tuple[int, int]
"""Leader and number of the fetcher."""


class Fetchers:
    """Owned by the server; ``on_role`` hears of every role (``Partitions.on_following``)."""

    def __init__(self, parts: FetcherParts, count_per_leader: int = 1) -> None:
        assert count_per_leader >= 1
        self._parts = parts
        self._count = count_per_leader
        self._fetchers: dict[Place, Fetcher] = {}
        self._tasks: dict[Place, asyncio.Task[None]] = {}
        self._places: dict[TopicPartition, Place] = {}
        self._works: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(self._fetchers.values())

    @property
    def followed(self) -> Iterator[Followed]:
        """All partitions that are fetched, with their lag."""
        for fetcher in self._fetchers.values():
            yield from fetcher.following

    @property
    def fetched_bytes(self) -> int:
        """Bytes of batches appended from fetchers that run now."""
        return sum(fetcher.fetched_bytes for fetcher in self._fetchers.values())

    def on_role(self, partition: PartitionRuntime) -> None:
        """The partition has a role now, another one, or none. Never waits."""
        place = None if self._is_stopping else self._place_of(partition)
        known = self._places.get(partition.partition)
        if known is not None and known != place:
            del self._places[partition.partition]
            self._fetchers[known].leave(partition.partition)
            self._end_if_idle(known)
        if place is not None:
            self._places[partition.partition] = place
            self._fetcher(place).follow(partition)

    def _place_of(self, partition: PartitionRuntime) -> Place | None:
        replica = partition.replica
        leadership = replica.leadership
        if not partition.is_open or replica.role is not Role.FOLLOWER or leadership is None:
            return None
        if leadership.leader < 0:
            return None
        return leadership.leader, number_of(partition.partition, self._count)

    def _fetcher(self, place: Place) -> Fetcher:
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(*place, self._parts, self._works)
            self._tasks[place] = self._parts.tasks.spawn(fetcher.name, fetcher.run())
        return fetcher

    def _end_if_idle(self, place: Place) -> None:
        if not len(self._fetchers[place].following):
            del self._fetchers[place]
            # What it had to cut goes on: that is done by tasks of their own.
            self._tasks.pop(place).cancel()

    async def stop(self) -> None:
        """Fetch nothing any more; return when nothing is under way."""
        self._is_stopping = True
        tasks = list(self._tasks.values())
        self._fetchers.clear()
        self._tasks.clear()
        self._places.clear()
        for task in tasks:
            task.cancel()
        # A log that is being cut is finished with: half-way it could not be closed.
        await asyncio.gather(*tasks, *self._works, return_exceptions=True)


def number_of(partition: TopicPartition, count: int) -> int:
    """Which of a leader's fetchers has the partition; the same in every process."""
    return (crc32(partition.topic.encode()) + partition.partition) % count
