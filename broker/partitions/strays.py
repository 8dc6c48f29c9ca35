"""Partition directories on this broker that a complete image does not assign to it.

Replicas that were moved to other brokers are deleted. A topic that the image lacks proves nothing:
the controller may not have been able to read it, or the metadata store may be an older copy of
itself. Such directories are deleted only with the record of the topic's deletion, which the
controller sends.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ottla.broker.log.partition_log import PartitionLog
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.protocol.ids import TopicPartition, Uuid

logger = logging.getLogger("ottla.partitions")

_NAMED_MAX = 20


class Strays(NamedTuple):
    """``moved``: with the leader epoch in which other brokers have them. ``unknown``: of a topic
    that the cluster does not have, or that cannot be identified."""

    moved: tuple[tuple[TopicPartition, int], ...]
    unknown: tuple[TopicPartition, ...]


def find_strays(logs: Iterable[PartitionLog], image: MetadataImage, node_id: int) -> Strays:
    """Classify the directories by the image."""
    moved, unknown = [], []
    for log in logs:
        topic = image.topics.get(log.partition.topic)
        state = None if topic is None else topic.partitions.get(log.partition.partition)
        if topic is None or state is None or log.topic_id != topic.topic_id:
            unknown.append(log.partition)
        elif node_id not in state.replicas and node_id not in state.isr:
            moved.append((log.partition, state.leader_epoch))
    return Strays(tuple(moved), tuple(sorted(unknown)))


def may_be_of(log: PartitionLog, topic_id: Uuid) -> bool:
    """Whether the log belongs to that topic, as far as known; ``ZERO_UUID`` matches any."""
    return topic_id == ZERO_UUID or log.topic_id is None or log.topic_id == topic_id


def named(partitions: Sequence[TopicPartition]) -> str:
    """Name the first of them, for a log line."""
    text = ", ".join("{}-{}".format(*one) for one in partitions[:_NAMED_MAX])
    left = len(partitions) - _NAMED_MAX
    return f"{text} and {left} more" if left > 0 else text


class StrayReports:
    """Owned by the partitions; logs each stray once."""

    def __init__(self) -> None:
        self._told: tuple[TopicPartition, ...] = ()

    def removed(self, strays: Sequence[TopicPartition]) -> None:
        """Log one line for all directories removed by deletion records."""
        if strays:
            text = (
                "removed %d partition directories of topics that were deleted without this broker"
            )
            logger.info(f"{text}: %s", len(strays), named(strays))

    def tell(self, unknown: tuple[TopicPartition, ...]) -> None:
        """Log one warning that tells the operator what to do about them."""
        if unknown and unknown != self._told:
            logger.warning(
                "%d partition directories are of topics that this cluster does not have, and no "
                "record says that those were deleted: they are kept (%s). Remove them by hand if "
                "they are not needed",
                len(unknown),
                named(unknown),
            )
        self._told = unknown
