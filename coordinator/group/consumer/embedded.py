"""Reads and writes subscriptions and assignments that classic members exchange as opaque bytes.

They contain topic names; a KIP-848 group uses topic ids. Malformed bytes raise
RemoteProtocolError.
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
    """A member's subscription; ``owned`` is empty if it revokes everything before it joins."""

    topic_names: tuple[str, ...]
    rack_id: str | None
    owned: Assignment


def wish_of(metadata: bytes, image: MetadataImage) -> EmbeddedSubscription:
    """Decode the metadata that a member sends with a protocol."""
    subscription, _version = read_subscription(metadata)
    names = tuple(sorted(set(subscription.topics)))
    return EmbeddedSubscription(
        names, subscription.rack_id, _by_id(subscription.owned_partitions, image)
    )


def held_by(assignment: bytes, image: MetadataImage) -> Assignment:
    """Decode a member's assignment; empty before its first one."""
    if not assignment:
        return {}
    found, _version = read_assignment(assignment)
    return _by_id(found.assigned_partitions, image)


def assignment_bytes(
    assignment: Assignment, classic: ClassicMetadata, image: MetadataImage
) -> bytes:
    """The assignment for SyncGroup, in the version of the member's own subscription."""
    topics = [
        OwnedPartitions(image.names[topic_id], partitions)
        for topic_id, partitions in listed(assignment)
        if topic_id in image.names
    ]
    _subscription, version = read_subscription(classic.protocols[0][1])
    return write_assignment(ConsumerAssignment(topics), min(version, VERSION_MAX))


def _by_id(listed_topics: Iterable[OwnedPartitions], image: MetadataImage) -> Assignment:
    """Convert to topic ids; deleted topics are left out."""
    found: dict[bytes, frozenset[int]] = {}
    for entry in listed_topics:
        topic = image.topics.get(entry.topic)
        if topic is not None and entry.partitions:
            held = found.get(topic.topic_id, frozenset())
            found[topic.topic_id] = held.union(entry.partitions)
    return found
