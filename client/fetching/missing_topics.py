"""Logs missing topics and partitions, once each.

The reader waits for them, since they may be created at any moment; but more often a name is
mistyped."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.client.cluster.metadata import ClusterMetadata
    from ottla.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Absences:
    """Owned by one reader, which reports what it misses."""

    __slots__ = ("_metadata", "_told")

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        self._told: set[object] = set()

    def miss_topic(self, name: str) -> None:
        """Report a topic without known partitions; it may not have been looked up yet."""
        view = self._metadata.topics.get(name)
        if view is not None and view.error in GONE and not view.partitions:
            self._tell(name, f"topic {name!r} does not exist; the consumer waits for it")

    def miss_partition(self, where: TopicPartition) -> None:
        """Report a partition that has no leader, or does not exist."""
        self.miss_topic(where.topic)
        view = self._metadata.topics.get(where.topic)
        if view is not None and view.partitions and where.partition not in view.partitions:
            count = len(view.partitions)
            self._tell(
                where,
                f"topic {where.topic!r} has no partition {where.partition}, only {count} counted "
                "from 0; the consumer waits for it",
            )

    def _tell(self, what: object, sentence: str) -> None:
        if what not in self._told:
            self._told.add(what)
            logger.warning("%s", sentence)
