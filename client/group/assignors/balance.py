"""Computes the most even assignment that subscriptions allow, with as few moves as possible. Pure.

If all members want the same topics, quotas decide who keeps what, and no partition moves without
need. If subscriptions differ, an even spread may not exist; then partitions move along chains of
members, from one that has more to one that has at least two fewer, until no chain makes the spread
more even. Of several chains the one that takes least from former owners is used.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappush, heapreplace
from heapq import heappop as pop_smallest
from typing import TYPE_CHECKING

from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Held = dict[str, dict[str, deque[int]]]
"""Member to topic to partition numbers: what it had before on the left, what is new on the right,
so that the first to be given away is on the right."""


def balanced(
    counts: Mapping[str, int],
    wanted: Mapping[str, frozenset[str]],
    owners: Mapping[TopicPartition, str],
) -> dict[str, list[TopicPartition]]:
    """Return one list per member of ``wanted``, whose order settles ties.

    ``counts`` has the partitions of every wanted topic; ``owners`` may name partitions that do not
    exist."""
    if not wanted:
        return {}
    kept, free = _kept(counts, wanted, owners)
    if len(set(wanted.values())) == 1:
        _fill_quotas(kept, free)
        return kept
    _place(kept, free, wanted)
    return Chains(wanted, kept, owners).evened()


def _kept(
    counts: Mapping[str, int],
    wanted: Mapping[str, frozenset[str]],
    owners: Mapping[TopicPartition, str],
) -> tuple[dict[str, list[TopicPartition]], list[TopicPartition]]:
    """Return kept partitions by member, and the free ones, topics with the fewest takers first."""
    takers: dict[str, int] = {}
    for topics in wanted.values():
        for topic in topics:
            takers[topic] = takers.get(topic, 0) + 1
    kept: dict[str, list[TopicPartition]] = {member_id: [] for member_id in wanted}
    free = []
    for topic in sorted(takers, key=lambda one: (takers[one], one)):
        for number in range(counts[topic]):
            partition = TopicPartition(topic, number)
            owner = owners.get(partition, "")
            if topic in wanted.get(owner, ()):
                kept[owner].append(partition)
            else:
                free.append(partition)
    return kept, free


def _fill_quotas(held: dict[str, list[TopicPartition]], free: list[TopicPartition]) -> None:
    """Give every member the quota, and one more to as many members as there are partitions left."""
    total = len(free) + sum(map(len, held.values()))
    quota, extra = divmod(total, len(held))
    # The members with the most keep the extra ones: any other choice would move one partition more.
    by_size = sorted(held, key=lambda member_id: -len(held[member_id]))
    quotas = {member_id: quota + (index < extra) for index, member_id in enumerate(by_size)}
    for member_id, partitions in held.items():
        free.extend(partitions[quotas[member_id] :])
        del partitions[quotas[member_id] :]
    free.sort()
    order = {member_id: index for index, member_id in enumerate(held)}
    hungry = [
        (len(partitions), order[member_id], member_id)
        for member_id, partitions in held.items()
        if len(partitions) < quotas[member_id]
    ]
    heapify(hungry)
    for partition in free:
        size, index, member_id = pop_smallest(hungry)
        held[member_id].append(partition)
        if size + 1 < quotas[member_id]:
            heappush(hungry, (size + 1, index, member_id))


def _place(
    held: dict[str, list[TopicPartition]],
    free: Sequence[TopicPartition],
    wanted: Mapping[str, frozenset[str]],
) -> None:
    """Give each free partition to the subscriber of its topic that has the fewest partitions."""
    heaps: dict[str, list[tuple[int, int, str]]] = {}
    for partition in free:
        heap = heaps.get(partition.topic)
        if heap is None:
            heap = heaps[partition.topic] = [
                (len(partitions), index, member_id)
                for index, (member_id, partitions) in enumerate(held.items())
                if partition.topic in wanted[member_id]
            ]
            heapify(heap)
        # Sizes in the heap of a topic fall behind while other topics are placed.
        while heap[0][0] != len(held[heap[0][2]]):
            _, index, member_id = heap[0]
            heapreplace(heap, (len(held[member_id]), index, member_id))
        size, index, member_id = heap[0]
        held[member_id].append(partition)
        heapreplace(heap, (size + 1, index, member_id))


class Chains:
    """Moves partitions along chains of members. Lives for one assignment; it terminates because
    every step makes the spread more even."""

    def __init__(
        self,
        wanted: Mapping[str, frozenset[str]],
        held: Mapping[str, Sequence[TopicPartition]],
        owners: Mapping[TopicPartition, str],
    ) -> None:
        self._owners = owners
        self._takers: dict[str, list[str]] = {}
        for member_id, topics in wanted.items():
            for topic in topics:
                self._takers.setdefault(topic, []).append(member_id)
        self._held: Held = {member_id: {} for member_id in wanted}
        self._loads = dict.fromkeys(wanted, 0)
        for member_id, partitions in held.items():
            for partition in partitions:
                self._give(member_id, partition)

    def evened(self) -> dict[str, list[TopicPartition]]:
        """Move partitions until the remaining unevenness is forced by subscriptions."""
        while self._improve():
            pass
        return {
            member_id: [
                TopicPartition(topic, number)
                for topic, numbers in sorted(topics.items())
                for number in sorted(numbers)
            ]
            for member_id, topics in self._held.items()
        }

    def _improve(self) -> bool:
        fewest = min(self._loads.values())
        for giver in sorted(self._loads, key=lambda member_id: -self._loads[member_id]):
            if self._loads[giver] < fewest + 2:
                return False
            chain = self._cheapest(giver)
            if chain:
                self._hand_along(giver, chain)
                return True
        return False

    def _cheapest(self, giver: str) -> list[tuple[str, str]]:
        """Return the cheapest chain to a member with two fewer, as topics and receivers in order.

        The cheapest takes least from former owners; of equally cheap ones, the shortest."""
        found: dict[str, tuple[str, str]] = {}
        costs = {giver: (0, 0)}
        # All subscribers of a topic are reached at one price, so only a lower price needs another
        # visit.
        prices: dict[str, tuple[int, int]] = {}
        queue = [(0, 0, 0, giver)]
        while queue:
            moved, length, _, member_id = pop_smallest(queue)
            if costs[member_id] != (moved, length):
                continue
            if self._loads[member_id] <= self._loads[giver] - 2:
                return self._way(giver, member_id, found)
            for topic, numbers in sorted(self._held[member_id].items()):
                had = self._owners.get(TopicPartition(topic, numbers[-1])) == member_id
                cost = (moved + had, length + 1)
                if topic in prices and prices[topic] <= cost:
                    continue
                prices[topic] = cost
                for index, taker in enumerate(self._takers[topic]):
                    if taker not in costs or cost < costs[taker]:
                        costs[taker] = cost
                        found[taker] = (member_id, topic)
                        heappush(queue, (*cost, index, taker))
        return []

    @staticmethod
    def _way(
        giver: str, member_id: str, found: Mapping[str, tuple[str, str]]
    ) -> list[tuple[str, str]]:
        chain = []
        while member_id != giver:
            before, topic = found[member_id]
            chain.append((topic, member_id))
            member_id = before
        return chain[::-1]

    def _hand_along(self, giver: str, chain: Sequence[tuple[str, str]]) -> None:
        for topic, taker in chain:
            self._give(taker, self._take(giver, topic))
            giver = taker

    def _take(self, member_id: str, topic: str) -> TopicPartition:
        numbers = self._held[member_id][topic]
        partition = TopicPartition(topic, numbers.pop())
        if not numbers:
            del self._held[member_id][topic]
        self._loads[member_id] -= 1
        return partition

    def _give(self, member_id: str, partition: TopicPartition) -> None:
        numbers = self._held[member_id].setdefault(partition.topic, deque())
        if self._owners.get(partition) == member_id:
            numbers.appendleft(partition.partition)
        else:
            numbers.append(partition.partition)
        self._loads[member_id] += 1
