"""The duties of a classic group's leader: assign, and notice that topics have changed. Pure.

The classic protocol has no other watch over topics: without the leader, no member would read the
partitions that are added to a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.consumer_protocol import read_subscription
from ottla.protocol.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.group.assignors.assignor import Assignor, GroupDetails
    from ottla.protocol.messages.join_group import JoinGroupResponse

# A broker that has just started denies topics that it does not know yet; acting on that at once
# would rebalance the group twice for nothing.
GONE_AFTER_MS = 5_000.0


class GroupLeadership:
    """Leadership of one generation. Owned by the member that leads."""

    def __init__(self, joined: JoinGroupResponse, assignor: Assignor) -> None:
        topics: set[str] = set()
        for member in joined.members:
            try:
                subscription, _ = read_subscription(member.metadata)
            except RemoteProtocolError:
                continue
            topics.update(subscription.topics)
        self.topics = frozenset(topics)
        # A static leader that returns keeps the previous assignment (KIP-814).
        self.has_to_assign = not joined.skip_assignment
        self._joined = joined
        self._assignor = assignor
        # The partition counts that the assignment used, or else the first ones seen.
        self._counts: dict[str, int] | None = None
        self._gone_since_ms: float | None = None

    def assign(self, counts: Mapping[str, int], details: GroupDetails) -> dict[str, bytes]:
        """Divide the partitions of ``topics``; those not in ``counts`` do not exist."""
        self._counts = {topic: counts.get(topic, 0) for topic in self.topics}
        self.has_to_assign = False
        instance_ids = {
            member.member_id: member.group_instance_id
            for member in self._joined.members
            if member.group_instance_id is not None
        }
        return self._assignor.assign(
            {member.member_id: member.metadata for member in self._joined.members},
            {topic: count for topic, count in self._counts.items() if count},
            details._replace(instance_ids=instance_ids),
        )

    def must_assign_again(self, counts: Mapping[str, int], now_ms: float) -> bool:
        """Return whether the topics differ from those that the assignment used."""
        if self._counts is None:
            self._counts = {topic: counts.get(topic, 0) for topic in self.topics}
        before = self._counts
        if any(counts.get(topic, 0) > count for topic, count in before.items()):
            return True
        if all(counts.get(topic, 0) == count for topic, count in before.items()):
            self._gone_since_ms = None
            return False
        if self._gone_since_ms is None:
            self._gone_since_ms = now_ms
        return now_ms >= self._gone_since_ms + GONE_AFTER_MS
