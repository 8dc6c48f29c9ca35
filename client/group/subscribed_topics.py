"""Tracks the topics that a member wants, as they are created, grow and are deleted.

The cached metadata is checked with every heartbeat, and refreshed if it is old, if a topic is
missing, and for all topics at once if a pattern decides.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.fetching.missing_topics import GONE, Absences
from ottla.client.group.assignors.assignor import GroupDetails
from ottla.client.group.patterns import matching
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.cluster.metadata import TopicView
    from ottla.client.cluster.upkeep import Upkeep
    from ottla.protocol.ids import Uuid

logger = logging.getLogger(__name__)

# A subscribed topic may be created at any moment.
MISSING_LOOK_MS = 5_000.0


class MembershipTopics:
    """Owned by one membership; all calls come from its task."""

    def __init__(self, cluster: ClusterClient, upkeep: Upkeep) -> None:
        self._cluster = cluster
        self._clock = cluster.environment.clock
        self._upkeep = upkeep
        self._looked_ms: float | None = None
        self._absences = Absences(cluster.metadata)
        self._followed: frozenset[str] = frozenset()

    def follow(self, topics: Iterable[str]) -> None:
        """Track exactly these topics from now on."""
        wanted = frozenset(topics)
        self._cluster.follow(wanted)
        self._followed = wanted

    def keep_fresh(self) -> None:
        """Refresh the metadata if it is stale, or old while a topic is missing."""
        missing = [topic for topic in sorted(self._followed) if self._count(topic) == 0]
        for topic in missing:
            self._absences.miss_topic(topic)
        updated_ms = self._cluster.metadata.updated_ms
        is_old = updated_ms is None or self._clock.now_ms() >= updated_ms + MISSING_LOOK_MS
        if self._cluster.is_stale or (missing and is_old):
            self._upkeep.refresh(self._followed)

    def counts(self) -> dict[str, int]:
        """Return the partition count of each topic; topics that do not exist are left out."""
        found = {topic: self._count(topic) for topic in self._followed}
        return {topic: count for topic, count in found.items() if count}

    def _count(self, topic: str) -> int:
        view = self._cluster.metadata.topics.get(topic)
        return 0 if view is None or view.error in GONE else view.partition_count

    def details(self) -> GroupDetails:
        """Return the racks of the replicas, if brokers report racks."""
        metadata = self._cluster.metadata
        racks = {node_id: broker.rack for node_id, broker in metadata.brokers.items()}
        if not any(racks.values()):
            return GroupDetails()
        found = {}
        for topic in self.counts():
            partitions = metadata.topics[topic].partitions
            found[topic] = [
                frozenset(
                    rack
                    for replica in partitions[number].replicas
                    if (rack := racks.get(replica)) is not None
                )
                for number in sorted(partitions)
            ]
        return GroupDetails(racks=found)

    def names(self) -> dict[Uuid, str]:
        """Return all known topics, by id."""
        return {view.topic_id: name for name, view in self._cluster.metadata.topics.items()}

    def look_for(self, pattern: re.Pattern[str], found: Callable[[tuple[str, ...]], None]) -> None:
        """Call ``found`` with the topics that match now, unless just looked up."""

        async def look() -> None:
            views = await self._all()
            if views is not None:
                found(matching(pattern, (view.name for view in views if is_open(view))))

        if self._is_due(self._cluster.config.metadata_max_age_ms):
            self._upkeep.start_job("look for topics", look)

    def look_for_ids(self) -> None:
        """Look up all topics: brokers do not look up names by id alone."""

        async def look() -> None:
            await self._all()

        if self._is_due(self._cluster.config.retry_backoff.limit_ms):
            self._upkeep.start_job("look for topics", look)

    def look_again(self) -> None:
        """Let the next search run at once, since its subject has changed."""
        self._looked_ms = None

    def _is_due(self, interval_ms: float) -> bool:
        return self._looked_ms is None or self._clock.now_ms() >= self._looked_ms + interval_ms

    async def _all(self) -> list[TopicView] | None:
        try:
            views = await self._cluster.describe(None)
        except ClientError as error:
            logger.info("cannot look for topics: %s", error)
            await self._cluster.pause(1)
            return None
        self._looked_ms = self._clock.now_ms()
        return views


def is_open(view: TopicView) -> bool:
    """Whether a pattern may match the topic: internal topics must be named explicitly."""
    return view.error is ErrorCode.NONE and not view.is_internal
