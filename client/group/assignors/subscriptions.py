"""Subscriptions and assignments, between bytes and the values that assignors work with. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.consumer_protocol import (
    VERSION_MAX,
    ConsumerAssignment,
    ConsumerSubscription,
    OwnedPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.client.group.assignors.assignor import GroupDetails

NO_GENERATION = -1


class Subscriber(NamedTuple):
    """One member of the group, as its leader sees it.

    ``owned`` is what it held in ``generation``; both are as it says, which may be wrong."""

    member_id: str
    instance_id: str | None = None
    topics: frozenset[str] = frozenset()
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    user_data: bytes = b""
    version: int = 0

    @property
    def rank(self) -> tuple[bool, str]:
        """The order of members: static ones first, and in the same place when they come back."""
        if self.instance_id is None:
            return (True, self.member_id)
        return (False, self.instance_id)


def read_subscribers(
    members: Mapping[str, bytes], partitions: Mapping[str, int], details: GroupDetails
) -> list[Subscriber]:
    """The members in their order, with those of their topics that exist.

    One whose subscription is no subscription wants nothing: it must not stop all the others."""
    found = []
    for member_id, data in members.items():
        instance_id = details.instance_ids.get(member_id)
        try:
            said, version = read_subscription(data)
        except RemoteProtocolError:
            found.append(Subscriber(member_id, instance_id))
            continue
        found.append(
            Subscriber(
                member_id,
                instance_id,
                frozenset(topic for topic in said.topics if partitions.get(topic, 0) > 0),
                tuple(pairs(said.owned_partitions)),
                said.generation_id,
                # librdkafka says "no rack" with an empty string.
                said.rack_id or None,
                said.user_data or b"",
                version,
            )
        )
    return sorted(found, key=lambda subscriber: subscriber.rank)


def encode_subscription(
    topics: Iterable[str],
    user_data: bytes | None = None,
    owned: Iterable[TopicPartition] = (),
    generation: int = NO_GENERATION,
    rack: str | None = None,
) -> bytes:
    """A subscription of the newest version; older readers skip what they do not know."""
    said = ConsumerSubscription(
        sorted(set(topics)), user_data, by_topic(owned), generation, rack or None
    )
    return write_subscription(said, VERSION_MAX)


def encode_assignments(
    subscribers: Sequence[Subscriber], found: Mapping[str, Iterable[TopicPartition]]
) -> dict[str, bytes]:
    """Each member's assignment, in a version that it has shown to know."""
    return {
        subscriber.member_id: write_assignment(
            ConsumerAssignment(by_topic(found.get(subscriber.member_id, ()))),
            min(subscriber.version, VERSION_MAX),
        )
        for subscriber in subscribers
    }


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions of an assignment, sorted. Empty bytes are none. Raises RemoteProtocolError."""
    if not data:
        return []
    assignment, _version = read_assignment(data)
    return sorted(pairs(assignment.assigned_partitions))


def by_topic(partitions: Iterable[TopicPartition]) -> list[OwnedPartitions]:
    """Topics by name, each with its partitions in order."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return [OwnedPartitions(topic, numbers) for topic, numbers in topics.items()]


def pairs(owned: Iterable[OwnedPartitions]) -> list[TopicPartition]:
    """The other way round."""
    return [
        TopicPartition(of_topic.topic, number)
        for of_topic in owned
        for number in of_topic.partitions
    ]
