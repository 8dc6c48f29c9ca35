"""``roundrobin``: deals all partitions of all topics to the members in turn. Pure.

Members with the same subscriptions get the same number, plus or minus one; if subscriptions differ
the result can be uneven, and a rebalance moves nearly everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.group.assignors.assignor import NO_DETAILS, GroupDetails, RebalanceProtocol
from ottla.client.group.assignors.subscriptions import (
    decode_assignment,
    encode_assignments,
    encode_subscription,
    read_subscribers,
)
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RoundRobinAssignor:
    """Stateless."""

    name = "roundrobin"
    protocol: RebalanceProtocol = "eager"

    def subscription(
        self,
        topics: Sequence[str],
        owned: Sequence[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """Return the topics that the member wants; what it holds does not matter here."""
        return encode_subscription(topics, owned=owned, generation=generation, rack=rack)

    def assign(
        self,
        members: Mapping[str, bytes],
        partitions: Mapping[str, int],
        details: GroupDetails = NO_DETAILS,
    ) -> dict[str, bytes]:
        """Give each partition to the next member in turn that wants its topic."""
        subscribers = read_subscribers(members, partitions, details)
        found: dict[str, list[TopicPartition]] = {one.member_id: [] for one in subscribers}
        wanted = sorted(frozenset[str]().union(*(one.topics for one in subscribers)))
        turn = 0
        for topic in wanted:
            for number in range(partitions[topic]):
                while topic not in subscribers[turn].topics:
                    turn = (turn + 1) % len(subscribers)
                found[subscribers[turn].member_id].append(TopicPartition(topic, number))
                turn = (turn + 1) % len(subscribers)
        return encode_assignments(subscribers, found)

    def on_assignment(self, assignment: bytes, generation: int) -> list[TopicPartition]:
        """Return this member's partitions."""
        return decode_assignment(assignment)
