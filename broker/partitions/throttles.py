"""The replication throttles of this broker with their current rates (``policy/throttle.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.policy.throttle import UNLIMITED, ReplicationThrottle

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.coordinator.configs.configs import ConfigSources
    from ottla.protocol.ports import Clock

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
DIRECTORIES_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
# How soon the broker applies a changed rate.
RENEW_MS = 1_000.0


class Throttle:
    """One direction. It is called only for throttled topics, so that all others cost no time."""

    def __init__(self, setting: str, sources: Callable[[], ConfigSources], clock: Clock) -> None:
        self._setting = setting
        self._sources = sources
        self._clock = clock
        self._throttle = ReplicationThrottle()
        self._renewed_ms: float | None = None

    def spend(self, size_bytes: int) -> None:
        """Count bytes sent or received for a throttled replica that is not in the ISR."""
        self._throttle.spend(size_bytes, self._renew())

    def hold_ms(self) -> float:
        """Return how long such replicas have to wait now; 0 means not at all."""
        return self._throttle.hold_ms(self._renew())

    def _renew(self) -> float:
        now_ms = self._clock.now_ms()
        if self._renewed_ms is None or now_ms - self._renewed_ms >= RENEW_MS:
            self._renewed_ms = now_ms
            text = self._sources().text(self._setting) or ""
            is_number = text.isascii() and text.isdigit()
            self._throttle.set_rate(int(text) if is_number else UNLIMITED, now_ms)
        return now_ms


class ReplicationThrottles:
    """Owned by the server: for what it sends as leader, fetches as follower and moves between
    its data directories."""

    def __init__(self, node_id: int, sources: Callable[[], ConfigSources], clock: Clock) -> None:
        self._node_id = node_id
        self.leader = Throttle(LEADER_RATE, sources, clock)
        self.follower = Throttle(FOLLOWER_RATE, sources, clock)
        # For copies from one data directory to another.
        self.directories = Throttle(DIRECTORIES_RATE, sources, clock)

    def covers_led(self, partition: PartitionRuntime, follower: int) -> bool:
        """Whether that follower's fetches of a partition led here are throttled."""
        covered = partition.settings.throttled_leaders
        leading = partition.replica.leading
        return (
            covered is not None
            and leading is not None
            and covered.covers(partition.partition.partition, self._node_id)
            and follower not in leading.in_sync.committed
        )

    def hold_followed_ms(
        self, partition: PartitionRuntime, size_bytes: int, *, is_caught_up: bool
    ) -> float:
        """Return for how long not to fetch the partition after a fetch of so many bytes.

        A follower that has all committed records counts as in sync, because it is about to join."""
        covered = partition.settings.throttled_followers
        if (
            covered is None
            or is_caught_up
            or not covered.covers(partition.partition.partition, self._node_id)
        ):
            return 0.0
        self.follower.spend(size_bytes)
        return self.follower.hold_ms()
