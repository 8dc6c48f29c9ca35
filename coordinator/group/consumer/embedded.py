"""What members of the classic protocol say in bytes that were not meant for the broker.

A consumer's subscription and assignment name topics; a KIP-848 group knows them by id. Malformed
bytes raise RemoteProtocolError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.assignment import Assignment, listed
from ottla.protocol.consumer_protocol import (
    VERSION_MAX,
    ConsumerAssignment,
    OwnedPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.group.consumer.member import ClassicMetadata
    from ottla.coordinator.metadata.image import MetadataImage


class EmbeddedSubscription(NamedTuple):
    """What a member wants and has; one that revokes everything before it joins has nothing."""

    topic_names: tuple[str, ...]
    rack_id: str | None
    owned: Assignment


def wish_of(metadata: bytes, image: MetadataImage) -> EmbeddedSubscription:
    """Read the metadata that a member sends with a protocol."""
    subscription, _version = read_subscription(metadata)
    names = tuple(sorted(set(subscription.topics)))
    return EmbeddedSubscription(
        names, subscription.rack_id, _by_id(subscription.owned_partitions, image)
    )


def held_by(assignment: bytes, image: MetadataImage) -> Assignment:
    """Read the assignment that a member got; before it got one that is nothing."""
    if not assignment:
        return {}
    found, _version = read_assignment(assignment)
    return _by_id(found.assigned_partitions, image)


def assignment_bytes(
    assignment: Assignment, classic: ClassicMetadata, image: MetadataImage
) -> bytes:
    """What the member is told by SyncGroup, in the version of its own subscription."""
    topics = [
        OwnedPartitions(image.names[topic_id], partitions)
        for topic_id, partitions in listed(assignment)
        if topic_id in image.names
    ]
    _subscription, version = read_subscription(classic.protocols[0][1])
    return write_assignment(ConsumerAssignment(topics), min(version, VERSION_MAX))


def _by_id(listed_topics: Iterable[OwnedPartitions], image: MetadataImage) -> Assignment:
    """A topic that is gone cannot be held."""
    found: dict[bytes, frozenset[int]] = {}
    for entry in listed_topics:
        topic = image.topics.get(entry.topic)
        if topic is not None and entry.partitions:
            held = found.get(topic.topic_id, frozenset())
            found[topic.topic_id] = held.union(entry.partitions)
    return found
