"""The server-side assignors (KIP-848). Pure and deterministic.

``range`` gives every member one run of adjacent partitions of each topic, members in a fixed
order, static ones first by their instance id. ``uniform`` balances the number of partitions over
all topics and moves as few as that allows (uniform.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.uniform import assign_uniformly
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.coordinator.group.consumer.assignment import Assignment
    from ottla.protocol.ids import Uuid

Assignments = dict[str, "Assignment"]


@dataclass(frozen=True, slots=True)
class AssignmentTask:
    """Input of an assignor.

    ``subscribed`` has the topics of every member of the group, limited to those in
    ``partition_counts``; ``instance_ids`` has only static members. ``previous`` may contain
    deleted partitions and topics."""

    partition_counts: Mapping[Uuid, int]
    subscribed: Mapping[str, frozenset[Uuid]]
    instance_ids: Mapping[str, str]
    previous: Mapping[str, Assignment]


def assign_ranges(task: AssignmentTask) -> Assignments:
    """Assign ranges; for topics with equal counts and subscribers a member gets equal ranges."""
    members = sorted(task.subscribed, key=lambda member_id: _rank(task, member_id))
    found: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, count in task.partition_counts.items():
        takers = [member_id for member_id in members if topic_id in task.subscribed[member_id]]
        start = 0
        for index, member_id in enumerate(takers):
            quota = count // len(takers) + (index < count % len(takers))
            if quota:
                found[member_id][topic_id] = frozenset(range(start, start + quota))
            start += quota
        assert start == count or not takers, "a partition would have no owner"
    return dict(found)


def _rank(task: AssignmentTask, member_id: str) -> tuple[bool, str]:
    instance_id = task.instance_ids.get(member_id)
    # A static member that returns under another id keeps its rank, and so its range.
    return (True, member_id) if instance_id is None else (False, instance_id)


def assign_evenly(task: AssignmentTask) -> Assignments:
    """Balance as far as subscriptions allow, moving as few partitions as that needs."""
    return assign_uniformly(task.partition_counts, task.subscribed, task.previous)


ASSIGNORS: Mapping[str, Callable[[AssignmentTask], Assignments]] = {
    "uniform": assign_evenly,
    "range": assign_ranges,
}
