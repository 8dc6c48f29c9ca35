"""Stores, fetches and applies a group's positions, for one consumer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.cluster.routing import Router
from ottla.client.fetching.deserialization import commit_listener
from ottla.client.group.commits import Commits
from ottla.client.group.coordinator_link import OwnCoordinators
from ottla.client.process.tasks import ClientTasks
from ottla.wire.errors import ClientError, RequestRefused, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.fetching.consumed_positions import ConsumedPositions
    from ottla.client.fetching.fetcher import Fetcher
    from ottla.client.group.identity import GroupIdentity
    from ottla.client.records.committed import Committed
    from ottla.client.settings.config import ConsumerConfig
    from ottla.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

# The longest wait for a coordinator that does not answer while partitions are given up.
LEAVE_LIMIT_MS = 10_000.0


class GroupOffsets:
    """Owned by one consumer of a group; ``stop`` it in the end."""

    def __init__(
        self,
        cluster: ClusterClient,
        config: ConsumerConfig,
        fetcher: Fetcher,
        consumed: ConsumedPositions,
    ) -> None:
        assert config.group_id is not None
        self._cluster = cluster
        self._config = config
        self._fetcher = fetcher
        self._consumed = consumed
        self._tasks = ClientTasks(fetcher.crash)
        self._coordinators = OwnCoordinators(cluster, "commits")
        self._commits = Commits(
            Router(cluster),
            config.group_id,
            cluster.environment.clock,
            coordinators=self._coordinators,
            interval_ms=config.auto_commit_interval_ms if config.auto_commit else None,
            on_failure=self._tell_failure,
            on_stored=commit_listener(config),
        )
        # A parallel run knows what is processed, and commits that itself.
        self.is_delegated = False
        self.renew = self._commits.renew
        self.forget = self._commits.forget

    async def stop(self) -> None:
        """End without another commit."""
        await self._tasks.stop()
        await self._commits.stop()
        self._coordinators.close()

    async def commit(
        self, offsets: Mapping[TopicPartition, Committed] | None, member: GroupIdentity
    ) -> None:
        """Store these, or the positions after all that was handed out. Raises ValueError for the
        latter during a parallel run, which alone knows what is processed."""
        if offsets is None and self.is_delegated:
            raise ValueError(
                "a parallel run is under way, and what was handed out is not done yet: commit by "
                "the run, or say which offsets"
            )
        positions = self._consumed.given() if offsets is None else offsets
        self._consumed.settle(positions)
        await self._commits.commit(positions, member)

    async def stored(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the group's positions with their metadata. Raises GroupRefused."""
        return await self._commits.fetch(partitions)

    def commit_if_due(self, now_ms: float, member: GroupIdentity) -> None:
        """As ``GroupMember.commit_if_due``, which has partitions."""
        if not self.is_delegated and self._commits.due(now_ms):
            self._note(self._consumed.finished())
            self._commits.start_commit(member)

    def _tell_failure(self, error: ClientError) -> None:
        logger.warning("group %r: positions were not stored: %s", self._config.group_id, error)

    async def commit_at_last(self, member: GroupIdentity) -> None:
        """Store what was handed out before it is given up; never raises."""
        if not self._config.auto_commit or self.is_delegated:
            return
        self._note(self._consumed.given())
        limit_ms = min(self._config.request_timeout_ms, LEAVE_LIMIT_MS)
        error = await self._commits.finish(member, limit_ms)
        if error is not None:
            logger.warning("positions are given up without being stored: %s", error)

    def _note(self, positions: Mapping[TopicPartition, Committed]) -> None:
        for where, position in positions.items():
            self._commits.consumed(where, position.offset, position.leader_epoch)

    def find(self) -> None:
        """Let partitions without a position begin at the group's position."""
        if self._fetcher.positions.awaiting():
            self._tasks.start_once("positions", self._ask, self._fetcher.wake)

    async def _ask(self) -> None:
        positions = self._fetcher.positions
        failures = 0
        while turns := positions.awaiting():
            found = await self._fetch(turns)
            if found is None:
                # Unknown is not "no position": the reset policy would skip or repeat records
                # (hazard G-04).
                failures += 1
                await self._cluster.pause(failures)
                continue
            for where, turn in turns.items():
                position = found.get(where)
                positions.begin_at(where, turn, None if position is None else position.offset)
            self._fetcher.wake()

    async def _fetch(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed] | None:
        try:
            return await self._commits.fetch(partitions)
        except (TransportError, RequestRefused) as error:
            if not error.retriable:
                self._fetcher.fail(error)
            logger.info("cannot read the committed offsets of the group: %s", error)
        except ClientError as error:
            self._fetcher.fail(error)
        return None
