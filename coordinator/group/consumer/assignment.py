"""Sets of partitions by topic id, with set operations and conversions.

An assignment never has a topic without partitions, so that equal ones compare equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ottla.protocol.ids import Uuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Assignment: TypeAlias = Mapping[Uuid, frozenset[int]]
NOTHING: Assignment = MappingProxyType({})


class TopicPartitions(Protocol):
    """The fields with which messages and records list the partitions of one topic."""

    topic_id: Uuid
    partitions: list[int]


def assignment_of(listed: Sequence[TopicPartitions]) -> Assignment:
    """The assignment that a message or record lists."""
    found: dict[Uuid, frozenset[int]] = {}
    for entry in listed:
        if entry.partitions:
            found[entry.topic_id] = found.get(entry.topic_id, frozenset()).union(entry.partitions)
    assert all(found.values()), "equal assignments would differ"
    return found


def from_pairs(pairs: Iterable[tuple[Uuid, int]]) -> Assignment:
    """The assignment of single partitions."""
    gathered: dict[Uuid, list[int]] = {}
    for topic_id, partition in pairs:
        gathered.setdefault(topic_id, []).append(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in gathered.items()}


def pairs_of(assignment: Assignment) -> Iterator[tuple[Uuid, int]]:
    """All partitions, sorted."""
    for topic_id in sorted(assignment):
        for partition in sorted(assignment[topic_id]):
            yield topic_id, partition


def listed(assignment: Assignment) -> list[tuple[Uuid, list[int]]]:
    """Topics with their partitions, sorted, as messages and records list them."""
    return [(topic_id, sorted(assignment[topic_id])) for topic_id in sorted(assignment)]


def intersection(left: Assignment, right: Assignment) -> Assignment:
    """The partitions that are in both."""
    return {
        topic_id: both
        for topic_id, partitions in left.items()
        if (both := partitions & right.get(topic_id, frozenset()))
    }


def difference(left: Assignment, right: Assignment) -> Assignment:
    """The partitions that are only in the left one."""
    return {
        topic_id: rest
        for topic_id, partitions in left.items()
        if (rest := partitions - right.get(topic_id, frozenset()))
    }


def union(left: Assignment, right: Assignment) -> Assignment:
    """The partitions that are in either."""
    together = dict(left)
    for topic_id, partitions in right.items():
        together[topic_id] = together.get(topic_id, frozenset()) | partitions
    assert all(together.values()), "equal assignments would differ"
    return together


def is_subset(left: Assignment, right: Assignment) -> bool:
    """Whether every partition of the left one is in the right one."""
    return all(
        partitions <= right.get(topic_id, frozenset()) for topic_id, partitions in left.items()
    )


def size_of(assignment: Assignment) -> int:
    """The number of partitions."""
    return sum(map(len, assignment.values()))
