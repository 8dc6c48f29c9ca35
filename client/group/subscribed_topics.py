"""Tracks the topics that a member subscribes to, by name or by pattern.

Topics are created, grow and are deleted: the cached metadata is checked with every heartbeat, and
refreshed if it is old, if a topic is missing, and for all topics at once if a pattern decides. The
coordinator applies a pattern if it can (KIP-848). The client applies it in classic groups, with
older brokers, and for expressions that only Python supports.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from ottla.client.fetching.missing_topics import GONE, Absences
from ottla.client.group.assignors.assignor import GroupDetails
from ottla.client.group.change import MembershipPhase
from ottla.client.group.consumer_protocol import ConsumerMember
from ottla.client.group.coordinator_link import CONSUMER_GROUP_HEARTBEAT, REGEX_VERSION
from ottla.client.group.patterns import matching, re2_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.cluster.metadata import TopicView
    from ottla.client.cluster.upkeep import Upkeep
    from ottla.client.group.classic_protocol import ClassicMember
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Clock
    from ottla.wire.connection import Connection

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

    def keep_fresh(self, counts: dict[str, int], now_ms: float) -> None:
        """Refresh the metadata if it is stale, or old while a topic has no count."""
        missing = sorted(self._followed - counts.keys())
        for topic in missing:
            self._absences.miss_topic(topic)
        updated_ms = self._cluster.metadata.updated_ms
        is_old = updated_ms is None or now_ms >= updated_ms + MISSING_LOOK_MS
        if now_ms > self._cluster.fresh_until_ms or (missing and is_old):
            self._upkeep.refresh(self._followed)

    def counts(self) -> dict[str, int]:
        """Return the partition count of each topic; topics that do not exist are left out."""
        found = {topic: self._count(topic) for topic in self._followed}
        return {topic: count for topic, count in found.items() if count}

    def _count(self, topic: str) -> int:
        view = self._cluster.metadata.topics.get(topic)
        return 0 if view is None or view.error in GONE else len(view.partitions)

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


class SubscribedTopics:
    """Owned by one membership, whose task is woken with ``wake``."""

    def __init__(
        self,
        member: ClassicMember | ConsumerMember,
        topics: MembershipTopics,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._member = member
        self._topics = topics
        self._clock = clock
        self._wake = wake
        self._pattern: re.Pattern[str] | None = None
        # The pattern as the coordinator receives it; None if the client matches.
        self._regex: str | None = None

    def set(self, topics: Sequence[str] | re.Pattern[str]) -> None:
        """Subscribe to these."""
        self.clear()
        member = self._member
        if not isinstance(topics, re.Pattern):
            self._want(tuple(topics))
            return
        self._pattern = topics
        if isinstance(member, ConsumerMember):
            self._regex = re2_of(topics)
            if self._regex is not None:
                member.subscribe([], self._clock.now_ms(), regex=self._regex)
                self._wake()

    def clear(self) -> None:
        """End the subscription."""
        self._pattern = self._regex = None
        self._topics.look_again()

    def tend(self, now_ms: float) -> None:
        """Check whether other topics match by now, and give the member the topics as they are."""
        member, topics = self._member, self._topics
        if member.phase is MembershipPhase.FAILED:
            return
        if self._pattern is not None and self._regex is None:
            topics.look_for(self._pattern, self._found)
        if member.phase is MembershipPhase.OUT:
            return
        if isinstance(member, ConsumerMember):
            if member.unnamed:
                member.name_topics(topics.names())
            if member.unnamed:
                topics.look_for_ids()
        counts = topics.counts()
        topics.keep_fresh(counts, now_ms)
        member.topics_seen(counts, now_ms)

    def _found(self, topics: tuple[str, ...]) -> None:
        if self._pattern is not None and self._regex is None:
            self._want(topics)

    def _want(self, topics: tuple[str, ...]) -> None:
        self._topics.follow(topics)
        self._member.subscribe(topics, self._clock.now_ms())
        self._wake()

    def is_understood(self, connection: Connection, request: object) -> bool:
        """Return whether this coordinator supports the request; else the client matches now."""
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return True
        if connection.version_of(CONSUMER_GROUP_HEARTBEAT) >= REGEX_VERSION:
            return True
        if self._regex is None:
            # The broker cannot be told to drop an expression, and has never received one.
            request.subscribed_topic_regex = None
            return True
        self._match_here()
        return False

    def refused(self, code: ErrorCode) -> bool:
        """Return whether matching in the client avoids the refusal, and switch to that if so."""
        if self._regex is None or code is not ErrorCode.INVALID_REGULAR_EXPRESSION:
            return False
        self._match_here()
        return True

    def _match_here(self) -> None:
        self._regex = None
        self._topics.look_again()
        # The member must subscribe to something until the matches are known; nothing is enough.
        self._want(())
