"""Converts subscriptions and assignments between bytes and the assignors' values. Pure."""

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

    ``owned`` is what it held in ``generation``; both are the member's own claims and may be wrong.
    """

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
        """The sort key: static members first, with the same rank after a restart."""
        if self.instance_id is None:
            return (True, self.member_id)
        return (False, self.instance_id)


def read_subscribers(
    members: Mapping[str, bytes], partitions: Mapping[str, int], details: GroupDetails
) -> list[Subscriber]:
    """Return the members in order, with those of their topics that exist.

    A member with an unreadable subscription counts as wanting nothing: it must not stop the others.
    """
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
    """Encode a subscription of the newest version; older readers skip unknown fields."""
    said = ConsumerSubscription(
        sorted(set(topics)), user_data, by_topic(owned), generation, rack or None
    )
    return write_subscription(said, VERSION_MAX)


def encode_assignments(
    subscribers: Sequence[Subscriber], found: Mapping[str, Iterable[TopicPartition]]
) -> dict[str, bytes]:
    """Encode each member's assignment, in a version that the member has used."""
    return {
        subscriber.member_id: write_assignment(
            ConsumerAssignment(by_topic(found.get(subscriber.member_id, ()))),
            min(subscriber.version, VERSION_MAX),
        )
        for subscriber in subscribers
    }


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Decode an assignment, sorted; none for empty bytes. Raises RemoteProtocolError."""
    if not data:
        return []
    assignment, _version = read_assignment(data)
    return sorted(pairs(assignment.assigned_partitions))


def by_topic(partitions: Iterable[TopicPartition]) -> list[OwnedPartitions]:
    """Return topics by name, each with its partitions in order."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return [OwnedPartitions(topic, numbers) for topic, numbers in topics.items()]


def pairs(owned: Iterable[OwnedPartitions]) -> list[TopicPartition]:
    """Flatten topics to partitions, the inverse of ``by_topic``."""
    return [
        TopicPartition(of_topic.topic, number)
        for of_topic in owned
        for number in of_topic.partitions
    ]
