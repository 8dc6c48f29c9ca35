"""As even as subscriptions allow, with as little movement as that costs. Pure.

Where all members want the same topics, quotas say who keeps what, and not one partition more moves
than must. Where they differ an even spread may not exist; then partitions are handed along chains
of members, from one that has more to one that has at least two fewer, until no chain is left that
makes the spread more even. Of the chains the one that takes least from former owners is used.
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
    """One list per member of ``wanted``, whose order settles ties.

    ``counts`` has the partitions of every wanted topic; ``owners`` may name more than exists."""
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
    """What members had and may still have; and what nobody has, with the fewest takers first."""
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
    """Everybody gets the same number, and as many as are left over get one more."""
    total = len(free) + sum(map(len, held.values()))
    quota, extra = divmod(total, len(held))
    # Who has the most keeps the odd ones: every other choice would move a partition more.
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
    """Give each free partition to whoever of its topic's takers has the fewest."""
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
    """Hands partitions along. Lives for one assignment; every step makes the spread more even, so
    there are finitely many."""

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
        """Hand along until every unevenness that is left is forced by subscriptions."""
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
        """The way to a member with two fewer that takes least from former owners: the topics to
        hand over, and to whom. Of equally cheap ones the shortest."""
        found: dict[str, tuple[str, str]] = {}
        costs = {giver: (0, 0)}
        # All takers of a topic are reached at one price, so only a lower one is worth a look.
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
