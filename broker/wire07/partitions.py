"""Which partition a client of 0.7 means.

0.7 counts the partitions of each broker from 0. A partition belongs to the broker of its first
replica, as ``ottla.classic.Announcement`` announces it, so index 2 is the third partition that has
its first replica here. With one broker this is the partition's own number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.wire07.requests import ANY_PARTITION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.coordinator.metadata.image import PartitionState


def own_partitions(partitions: Mapping[int, PartitionState], node_id: int) -> list[int]:
    """The numbers of the partitions whose first replica is there, ascending. Pure."""
    return sorted(
        number
        for number, state in partitions.items()
        if state.replicas and state.replicas[0] == node_id
    )


class Places07:
    """Finds partitions by the names of 0.7."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def exists(self, topic: str) -> bool:
        """Whether the topic is there."""
        return topic in self._services.metadata.image.topics

    def is_led(self, topic: str) -> bool:
        """Whether the broker leads all partitions that it has of the topic, and has any."""
        services = self._services
        found = services.metadata.image.topics.get(topic)
        own = [] if found is None else own_partitions(found.partitions, services.node_id)
        led = [services.partitions.find(topic, one) for one in own]
        return bool(led) and all(
            one is not None and one.check_leader_epoch(-1) is ErrorCode.NONE for one in led
        )

    def number(self, topic: str, index: int) -> int:
        """The partition's number; of ``ANY_PARTITION`` one that is led here.

        Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""
        services = self._services
        found = services.metadata.image.topics.get(topic)
        own = [] if found is None else own_partitions(found.partitions, services.node_id)
        if index == ANY_PARTITION:
            own = [one for one in own if services.partitions.find(topic, one)] or own
            index = services.ports.random.below(len(own)) if own else 0
        if not 0 <= index < len(own):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"broker {services.node_id} has {len(own)} partitions of the topic {topic!r}",
            )
        return own[index]

    def led(self, topic: str, index: int) -> PartitionRuntime:
        """The partition. Raises KafkaError if this broker does not lead it."""
        services, number = self._services, self.number(topic, index)
        partition = services.partitions.find(topic, number)
        error = services.metadata.error_for_missing(topic, number)
        if partition is not None:
            error = partition.check_leader_epoch(-1)
        if partition is None or error is not ErrorCode.NONE:
            raise KafkaError(error, f"this broker does not lead {topic}-{number}")
        return partition
