"""``range``: every member gets one run of neighbouring partitions of each topic. Pure.

Topics with equally many partitions and the same members are divided alike, so one member reads
equal keys of all of them. The first members get one partition more of *each* topic, which is uneven
with many topics.

If members name their racks, and replicas are not in every rack, members first get partitions with a
replica in their rack; topics that would be divided alike still are (KIP-881).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ottla.client.group.assignors.assignor import NO_DETAILS, GroupDetails, RebalanceProtocol
from ottla.client.group.assignors.subscriptions import (
    Subscriber,
    decode_assignment,
    encode_assignments,
    encode_subscription,
    read_subscribers,
)
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class RangeAssignor:
    """Stateless."""

    name = "range"
    protocol: RebalanceProtocol = "eager"

    def subscription(
        self,
        topics: Sequence[str],
        owned: Sequence[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """Return the wanted topics and the rack; what the member holds does not matter here."""
        return encode_subscription(topics, owned=owned, generation=generation, rack=rack)

    def assign(
        self,
        members: Mapping[str, bytes],
        partitions: Mapping[str, int],
        details: GroupDetails = NO_DETAILS,
    ) -> dict[str, bytes]:
        """Assign runs of neighbours, to the members in their order."""
        subscribers = read_subscribers(members, partitions, details)
        racks = {one.member_id: one.rack for one in subscribers if one.rack is not None}
        shares = {
            topic: TopicShare(topic, partitions[topic], takers, racks, details.racks.get(topic, ()))
            for topic, takers in _takers(subscribers).items()
        }
        if any(share.is_rack_aware for share in shares.values()):
            _deal_near(shares.values())
        found: dict[str, list[TopicPartition]] = {one.member_id: [] for one in subscribers}
        for share in shares.values():
            share.deal(lambda _member_id, _number: True)
            for member_id, numbers in share.dealt.items():
                found[member_id].extend(TopicPartition(share.topic, one) for one in numbers)
        return encode_assignments(subscribers, found)

    def on_assignment(self, assignment: bytes, generation: int) -> list[TopicPartition]:
        """Return this member's partitions."""
        return decode_assignment(assignment)


class TopicShare:
    """The division of one topic: all members get the quota, and as many as remain one more."""

    __slots__ = (
        "_extra",
        "_quota",
        "_racks",
        "_replicas",
        "dealt",
        "free",
        "is_rack_aware",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        count: int,
        takers: Sequence[str],
        racks: Mapping[str, str],
        replicas: Sequence[frozenset[str]],
    ) -> None:
        self.topic = topic
        self.dealt: dict[str, list[int]] = {member_id: [] for member_id in takers}
        self.free = list(range(count))
        self._quota, self._extra = divmod(count, len(takers))
        self._racks = {one: racks[one] for one in takers if one in racks}
        self._replicas = replicas if len(replicas) == count else ()
        near = frozenset(self._racks.values())
        everywhere = frozenset[str]().union(*self._replicas)
        self.is_rack_aware = not near.isdisjoint(everywhere) and any(
            one != everywhere for one in self._replicas
        )

    def is_near(self, member_id: str, number: int) -> bool:
        """Whether a replica is in the member's rack; always true for a member without a rack."""
        rack = self._racks.get(member_id)
        if rack is None:
            return True
        return bool(self._replicas) and rack in self._replicas[number]

    def room(self, member_id: str) -> int:
        """Return how many more partitions the member may have now."""
        return max(0, self._quota + (self._extra > 0) - len(self.dealt[member_id]))

    def deal(self, may_have: Callable[[str, int], bool]) -> None:
        """Give each member in turn the first partitions that it may have."""
        for member_id in self.dealt:
            fitting = (one for one in self.free if may_have(member_id, one))
            self.give(member_id, list(islice(fitting, self.room(member_id))))

    def give(self, member_id: str, numbers: Iterable[int]) -> None:
        """Move these from the free partitions to the member."""
        before = len(self.dealt[member_id])
        for number in numbers:
            self.free.remove(number)
            self.dealt[member_id].append(number)
        if before <= self._quota < len(self.dealt[member_id]):
            self._extra -= 1


def _takers(subscribers: Sequence[Subscriber]) -> dict[str, list[str]]:
    """Return the subscribers of each topic, in order."""
    takers: dict[str, list[str]] = {}
    for subscriber in subscribers:
        for topic in sorted(subscriber.topics):
            takers.setdefault(topic, []).append(subscriber.member_id)
    return dict(sorted(takers.items()))


def _deal_near(shares: Iterable[TopicShare]) -> None:
    """Deal partitions that have a replica near a member.

    Topics that are divided alike get the same numbers or none: that one member reads them together
    is worth more than a near replica."""
    alike: dict[tuple[tuple[str, ...], int], list[TopicShare]] = {}
    for share in shares:
        alike.setdefault((tuple(share.dealt), len(share.free)), []).append(share)
    for group in alike.values():
        if len(group) > 1:
            _deal_together(group)
        elif group[0].is_rack_aware:
            group[0].deal(group[0].is_near)


def _deal_together(group: Sequence[TopicShare]) -> None:
    """Deal the numbers that are near one member in every topic of the group."""
    for number in list(group[0].free):
        for member_id in group[0].dealt:
            if all(one.room(member_id) and one.is_near(member_id, number) for one in group):
                for share in group:
                    share.give(member_id, [number])
                break
