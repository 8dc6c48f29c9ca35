"""The follower side of replication: assigns partitions to fetchers as their roles change.

There is one fetcher per leader, or ``num.replica.fetchers`` of them with the partitions distributed
by name, and as many again for topics that require flushes, which would delay the others. Roles
arrive in order and take effect at once: an answer in flight becomes invalid when the next role
arrives, even if another fetcher has the partition then (hazards R-05, R-07).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from zlib import crc32

from ottla.broker.following.fetcher import FetchCounts, FetcherParts, ReplicaFetcher
from ottla.broker.following.fetcher_state import Pauses
from ottla.broker.following.wire import FetchSettings, FollowerIdentity
from ottla.broker.replica.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.following.fetcher_state import Followed
    from ottla.broker.membership.peers import Peers
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.throttles import ReplicationThrottles
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock

FetcherKey = tuple[int, int]
"""Leader and number of the fetcher."""


class Fetchers:
    """Owned by the server; it calls ``on_role`` for every role (``Partitions.on_following``)."""

    def __init__(self, parts: FetcherParts, count_per_leader: int = 1) -> None:
        assert count_per_leader >= 1
        self._parts = parts
        self._count = count_per_leader
        self._fetchers: dict[FetcherKey, ReplicaFetcher] = {}
        self._tasks: dict[FetcherKey, asyncio.Task[None]] = {}
        self._keys: dict[TopicPartition, FetcherKey] = {}
        self.counts = FetchCounts()
        self._is_stopping = False

    def __iter__(self) -> Iterator[ReplicaFetcher]:
        return iter(self._fetchers.values())

    @property
    def followed(self) -> Iterator[Followed]:
        """Return all fetched partitions with their lag."""
        for fetcher in self._fetchers.values():
            yield from fetcher.following

    def throttle(self, throttles: ReplicationThrottles) -> None:
        """Apply these throttles from now on; called before the first partition is followed."""
        assert not self._fetchers
        self._parts = self._parts._replace(throttles=throttles)

    def heed_full_disks(self, has_full_disk: Callable[[], bool]) -> None:
        """Skip partitions on full disks; called before the first partition is followed."""
        self._parts = self._parts._replace(has_full_disk=has_full_disk)

    def on_role(self, partition: PartitionRuntime) -> None:
        """The partition has a new role, or none. Never waits."""
        key = None if self._is_stopping else self._key_of(partition)
        known = self._keys.get(partition.partition)
        if known is not None and known != key:
            del self._keys[partition.partition]
            self._fetchers[known].leave(partition.partition)
            self._end_if_idle(known)
        if key is not None:
            self._keys[partition.partition] = key
            self._fetcher(key).follow(partition)
        assert self._fetchers.keys() == self._tasks.keys()

    def on_settings(self, partition: PartitionRuntime) -> None:
        """The topic's configuration has changed: it may have to move to or from the flushing
        fetchers.

        The partition stays where it is while its log is busy or a new epoch is about to start."""
        known = self._keys.get(partition.partition)
        if known is not None:
            one = self._fetchers[known].following.get(partition.partition)
            if one is not None and one.is_free:
                self.on_role(partition)

    def _key_of(self, partition: PartitionRuntime) -> FetcherKey | None:
        replica = partition.replica
        leadership = replica.leadership
        if not partition.is_open or replica.role is not Role.FOLLOWER or leadership is None:
            return None
        if leadership.leader < 0:
            return None
        number = number_of(partition.partition, self._count)
        if partition.settings.log.asks_for_flushes:
            number += self._count
        return leadership.leader, number

    def _fetcher(self, key: FetcherKey) -> ReplicaFetcher:
        assert key[0] >= 0, "a partition without leader is not fetched"
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = ReplicaFetcher(*key, self._parts, self.counts)
            self._tasks[key] = self._parts.tasks.spawn(fetcher.name, fetcher.run())
        return fetcher

    def _end_if_idle(self, key: FetcherKey) -> None:
        if not len(self._fetchers[key].following):
            del self._fetchers[key]
            # Truncations in progress continue: they run in tasks of their own.
            self._tasks.pop(key).cancel()

    async def stop(self) -> None:
        """Stop all fetching; return when no work is in progress."""
        self._is_stopping = True
        tasks = list(self._tasks.values())
        self._fetchers.clear()
        self._tasks.clear()
        self._keys.clear()
        for task in tasks:
            task.cancel()
        # Wait for truncations: a half-truncated log could not be closed.
        await asyncio.gather(*tasks, *self.counts.works, return_exceptions=True)
        assert not self._keys, "a role was taken up while the broker stopped"


def number_of(partition: TopicPartition, count: int) -> int:
    """Return the number of the leader's fetcher for the partition; the same in every process."""
    assert count >= 1
    return (crc32(partition.topic.encode()) + partition.partition) % count


def fetchers_of(
    config: BrokerConfig,
    peers: Peers,
    broker_epoch: Callable[[], int],
    clock: Clock,
    tasks: Tasks,
) -> Fetchers:
    """Return the fetch settings of a broker with that configuration."""
    manner = FetchSettings(
        max_bytes=config.replica_fetch_max_bytes,
        response_max_bytes=config.replica_fetch_response_max_bytes,
        min_bytes=config.replica_fetch_min_bytes,
        wait_max_ms=config.replica_fetch_wait_max_ms,
        # A follower that stops fetching is noticed long before it must leave the ISR.
        idle_wait_max_ms=config.replica_lag_time_max_ms // 2,
    )
    parts = FetcherParts(
        peers,
        lambda: FollowerIdentity(peers.node_id, broker_epoch()),
        clock,
        tasks,
        manner,
        Pauses(
            min(Pauses().first_ms, config.replica_fetch_backoff_ms), config.replica_fetch_backoff_ms
        ),
        # The leader may hold the request for the whole wait and then needs time to answer.
        max(config.replica_socket_timeout_ms, 2 * manner.longest_wait_ms),
    )
    return Fetchers(parts, config.num_replica_fetchers)
