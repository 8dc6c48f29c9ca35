"""The server's assignors (KIP-848): who shall have which partition. Pure, and fixed by the input.

``range`` gives every member one run of neighbouring partitions of each topic, members in a fixed
order, static ones first by their instance id. ``uniform`` balances the count of partitions over
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
    """Who subscribes to what and had what.

    ``subscribed`` has every member of the group, with its topics among ``partition_counts``;
    ``instance_ids`` has the static ones alone. ``previous`` may name partitions and topics that
    are gone."""

    partition_counts: Mapping[Uuid, int]
    subscribed: Mapping[str, frozenset[Uuid]]
    instance_ids: Mapping[str, str]
    previous: Mapping[str, Assignment]


def assign_ranges(task: AssignmentTask) -> Assignments:
    """Runs of neighbours; where topics are alike, so are a member's runs in them."""
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
    return dict(found)


def _rank(task: AssignmentTask, member_id: str) -> tuple[bool, str]:
    instance_id = task.instance_ids.get(member_id)
    # Static members keep their place, and so their run, when they come back under another id.
    return (True, member_id) if instance_id is None else (False, instance_id)


def assign_evenly(task: AssignmentTask) -> Assignments:
    """As even as subscriptions allow, with as little movement as that costs."""
    return assign_uniformly(task.partition_counts, task.subscribed, task.previous)


ASSIGNORS: Mapping[str, Callable[[AssignmentTask], Assignments]] = {
    "uniform": assign_evenly,
    "range": assign_ranges,
}
