"""The uniform assignor: member loads as equal as possible.

If all members subscribe to the same topics, quotas decide who keeps what, and loads differ by at
most one. Otherwise an even spread may not exist; then partitions move along chains of members, from
one with more to one with at least two fewer, until no chain is left that evens the spread.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.assignment import NOTHING, Assignment, from_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.ids import Uuid

Pair = tuple["Uuid", int]
Holdings = dict[str, list[Pair]]
"""Member to partitions; in a list the last one is the first to be given away."""


def assign_uniformly(
    partition_counts: Mapping[Uuid, int],
    subscribed: Mapping[str, frozenset[Uuid]],
    previous: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """One assignment per member of ``subscribed``."""
    if not subscribed:
        return {}
    holdings, unassigned = _kept(partition_counts, subscribed, previous)
    if len(set(subscribed.values())) == 1:
        _fill_quotas(holdings, unassigned)
    else:
        _place(holdings, unassigned, subscribed)
        _even_out(holdings, subscribed)
    assigned = frozenset[bytes]().union(*subscribed.values())
    total = sum(partition_counts[topic_id] for topic_id in assigned)
    assert sum(map(len, holdings.values())) == total, "each partition has one owner"
    return {member_id: from_pairs(pairs) for member_id, pairs in holdings.items()}


def _kept(
    partition_counts: Mapping[Uuid, int],
    subscribed: Mapping[str, frozenset[Uuid]],
    previous: Mapping[str, Assignment],
) -> tuple[Holdings, list[Pair]]:
    """The previous partitions that members may keep, and the unassigned ones."""
    taken: dict[Uuid, set[int]] = {
        topic_id: set() for topic_id in sorted(frozenset[bytes]().union(*subscribed.values()))
    }
    holdings: Holdings = {}
    for member_id in sorted(subscribed):
        kept: list[Pair] = []
        holdings[member_id] = kept
        for topic_id, partitions in sorted(previous.get(member_id, NOTHING).items()):
            if topic_id in subscribed[member_id]:
                count = partition_counts[topic_id]
                # Two previous targets with the same partition would be a bug; the log may contain
                # that from elsewhere, and it must not propagate.
                mine = [p for p in sorted(partitions - taken[topic_id]) if p < count]
                taken[topic_id].update(mine)
                kept.extend((topic_id, partition) for partition in mine)
    unassigned = [
        (topic_id, partition)
        for topic_id, gone in taken.items()
        for partition in range(partition_counts[topic_id])
        if partition not in gone
    ]
    return holdings, unassigned


def _fill_quotas(holdings: Holdings, unassigned: list[Pair]) -> None:
    """Give each member its quota; those that have one more than it may keep the remainder."""
    total = len(unassigned) + sum(map(len, holdings.values()))
    quota, extra = divmod(total, len(holdings))
    # The largest members keep the odd ones: every other choice would move a partition more.
    by_size = sorted(holdings, key=lambda member_id: -len(holdings[member_id]))
    quotas = {member_id: quota + (index < extra) for index, member_id in enumerate(by_size)}
    for member_id, pairs in holdings.items():
        unassigned.extend(pairs[quotas[member_id] :])
        del pairs[quotas[member_id] :]
    rest = iter(unassigned)
    for member_id, pairs in holdings.items():
        pairs.extend(next(rest) for _ in range(quotas[member_id] - len(pairs)))
    assert next(rest, None) is None


def _place(
    holdings: Holdings, unassigned: list[Pair], subscribed: Mapping[str, frozenset[Uuid]]
) -> None:
    """Give each free partition to the subscriber of its topic with the fewest partitions."""
    heaps: dict[Uuid, list[tuple[int, str]]] = {}
    for topic_id, partition in unassigned:
        heap = heaps.get(topic_id)
        if heap is None:
            heap = heaps[topic_id] = [
                (len(pairs), member_id)
                for member_id, pairs in holdings.items()
                if topic_id in subscribed[member_id]
            ]
            heapify(heap)
        # Sizes in a topic's heap become stale while other topics are placed.
        while heap[0][0] != len(holdings[heap[0][1]]):
            heapreplace(heap, (len(holdings[heap[0][1]]), heap[0][1]))
        size, member_id = heap[0]
        holdings[member_id].append((topic_id, partition))
        heapreplace(heap, (size + 1, member_id))


def _even_out(holdings: Holdings, subscribed: Mapping[str, frozenset[Uuid]]) -> None:
    """Move partitions along chains until every remaining difference is forced."""
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in holdings:
        for topic_id in subscribed[member_id]:
            subscribers.setdefault(topic_id, []).append(member_id)
    # Each member's partitions by topic, so that a chain is found without visiting each partition.
    held: dict[str, dict[Uuid, list[int]]] = {member_id: {} for member_id in holdings}
    for member_id, pairs in holdings.items():
        for topic_id, partition in pairs:
            held[member_id].setdefault(topic_id, []).append(partition)
    loads = {member_id: len(pairs) for member_id, pairs in holdings.items()}
    is_done = False
    while not is_done:
        is_done = True
        fewest = min(loads.values())
        for giver in sorted(loads, key=lambda member_id: -loads[member_id]):
            if loads[giver] < fewest + 2:
                break
            chain = _chain(giver, held, subscribers, loads)
            if chain:
                _hand_along(giver, chain, held)
                loads[giver] -= 1
                loads[chain[-1][1]] += 1
                is_done = False
                break
    for member_id, topics in held.items():
        holdings[member_id] = [
            (topic_id, partition)
            for topic_id, partitions in topics.items()
            for partition in partitions
        ]


def _chain(
    giver: str,
    held: dict[str, dict[Uuid, list[int]]],
    subscribers: dict[Uuid, list[str]],
    loads: dict[str, int],
) -> list[tuple[Uuid, str]]:
    """The shortest chain to a member with at least two fewer: topics to move and their takers."""
    came_from: dict[str, tuple[Uuid, str]] = {}
    seen_topics: set[Uuid] = set()
    waiting = deque([giver])
    while waiting:
        member_id = waiting.popleft()
        for topic_id in sorted(held[member_id]):
            if topic_id in seen_topics or not held[member_id][topic_id]:
                continue
            seen_topics.add(topic_id)
            for taker in sorted(subscribers[topic_id], key=loads.__getitem__):
                if taker == giver or taker in came_from:
                    continue
                came_from[taker] = (topic_id, member_id)
                if loads[taker] <= loads[giver] - 2:
                    return _walk_back(giver, taker, came_from)
                waiting.append(taker)
    return []


def _walk_back(
    giver: str, taker: str, came_from: dict[str, tuple[Uuid, str]]
) -> list[tuple[Uuid, str]]:
    chain = []
    while taker != giver:
        topic_id, member_id = came_from[taker]
        chain.append((topic_id, taker))
        taker = member_id
    return chain[::-1]


def _hand_along(
    giver: str, chain: list[tuple[Uuid, str]], held: dict[str, dict[Uuid, list[int]]]
) -> None:
    for topic_id, taker in chain:
        partition = held[giver][topic_id].pop()
        held[taker].setdefault(topic_id, []).append(partition)
        giver = taker
