"""``sticky`` and ``cooperative-sticky``: even, and members keep their partitions. Pure.

In a rebalance with the first, all members give up all partitions and get most of them back. With
the second only the partitions that move are given up, and are unassigned for one generation
(KIP-54, KIP-429).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.group.assignors.assignor import NO_DETAILS, GroupDetails, RebalanceProtocol
from ottla.client.group.assignors.balance import balanced
from ottla.client.group.assignors.claims import OwnedClaim, rightful_owners, without_claimed
from ottla.client.group.assignors.sticky_data import (
    decode_generation,
    decode_sticky,
    encode_generation,
    encode_sticky,
)
from ottla.client.group.assignors.subscriptions import (
    NO_GENERATION,
    decode_assignment,
    encode_assignments,
    encode_subscription,
    read_subscribers,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.protocol.ids import TopicPartition


class StickyAssignor:
    """Remembers its member's last assignment, because a member that joins again holds nothing."""

    name = "sticky"
    protocol: RebalanceProtocol = "eager"

    def __init__(self) -> None:
        self._previous: list[TopicPartition] | None = None
        self._generation = NO_GENERATION

    def subscription(
        self,
        topics: Sequence[str],
        owned: Sequence[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """Return the topics that the member wants, and what it had before."""
        user_data = None
        if self._previous is not None:
            user_data = encode_sticky(self._previous, self._generation)
        return encode_subscription(topics, user_data, owned, generation, rack)

    def assign(
        self,
        members: Mapping[str, bytes],
        partitions: Mapping[str, int],
        details: GroupDetails = NO_DETAILS,
    ) -> dict[str, bytes]:
        """Assign evenly, with as few moves as possible."""
        subscribers = read_subscribers(members, partitions, details)
        claims = [
            OwnedClaim(one.member_id, *decode_sticky(one.user_data))
            for one in subscribers
            if one.user_data
        ]
        wanted = {one.member_id: one.topics for one in subscribers}
        found = balanced(partitions, wanted, rightful_owners(claims))
        return encode_assignments(subscribers, found)

    def on_assignment(self, assignment: bytes, generation: int) -> list[TopicPartition]:
        """Return this member's partitions, and keep them for the next rebalance."""
        self._previous = decode_assignment(assignment)
        self._generation = generation
        return list(self._previous)


class CooperativeStickyAssignor:
    """Stateless: members report what they hold."""

    name = "cooperative-sticky"
    protocol: RebalanceProtocol = "cooperative"

    def subscription(
        self,
        topics: Sequence[str],
        owned: Sequence[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """Return the topics that the member wants, and what it holds."""
        return encode_subscription(topics, encode_generation(generation), owned, generation, rack)

    def assign(
        self,
        members: Mapping[str, bytes],
        partitions: Mapping[str, int],
        details: GroupDetails = NO_DETAILS,
    ) -> dict[str, bytes]:
        """Assign as ``sticky`` does, without partitions that another member still holds.

        Such a partition stays unassigned for one generation; its holder gives it up and joins
        again, and the next generation assigns it."""
        subscribers = read_subscribers(members, partitions, details)
        claims = [
            OwnedClaim(
                one.member_id,
                one.owned,
                one.generation
                if one.generation > NO_GENERATION
                else decode_generation(one.user_data),
            )
            for one in subscribers
        ]
        owners = rightful_owners(claims)
        wanted = {one.member_id: one.topics for one in subscribers}
        found = without_claimed(balanced(partitions, wanted, owners), claims, owners)
        return encode_assignments(subscribers, found)

    def on_assignment(self, assignment: bytes, generation: int) -> list[TopicPartition]:
        """Return this member's partitions."""
        return decode_assignment(assignment)
