"""Deletes the offsets of deleted topics: in slices, with the effect of deleting them at once.

A topic may be recreated immediately, and commits for the new one must stay. So before a group
commits, its offsets for deleted topics are deleted first, if the slices have not reached it yet.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ottla.coordinator.group.offsets.removal import APPEND_COST
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.coordinator.group.offsets.ledger import OffsetLedger
    from ottla.coordinator.group.offsets.removal import OffsetRemoval


@dataclass(slots=True)
class _Deletion:
    """``settled``: groups already visited, with the topics they were visited for."""

    topics: frozenset[str] = frozenset()
    settled: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, topics: frozenset[str]) -> None:
        self.topics |= topics
        # A topic of that name was deleted before, recreated and committed for since.
        for group_id, known in self.settled.items():
            self.settled[group_id] = known - topics


class TopicRemoval:
    """One per shard. Only for topics known to be deleted: a starting broker may not know existing
    topics yet."""

    def __init__(self, ledger: OffsetLedger, removal: OffsetRemoval) -> None:
        self._ledger = ledger
        self._removal = removal
        self._running: _Deletion | None = None
        self._visits: Iterator[str] = iter(())
        # Topics deleted since the running deletion began.
        self._next: _Deletion | None = None

    def start(self, topics: Iterable[str]) -> None:
        """Delete the offsets of these topics: call ``run`` until it returns False."""
        if self._next is None:
            self._next = _Deletion()
        self._next.add(frozenset(topics))

    def run(self, examined_max: int) -> bool:
        """Visit up to that many groups, fewer if offsets are deleted; return whether there is more
        to do at once."""
        examined = 0
        while examined < examined_max:
            examined += 1
            if self._running is None:
                if self._next is None:
                    return False
                self._running, self._next = self._next, None
                self._visits = self._ledger.visit_ids()
            group_id = next(self._visits, None)
            if group_id is None:
                self._running = None
            elif self._settle(self._running, group_id):
                examined += APPEND_COST
        return self._running is not None or self._next is not None

    def before_commit(self, group_id: str) -> None:
        """Delete the group's offsets of deleted topics before it commits for existing ones."""
        for deletion in (self._running, self._next):
            if deletion is not None:
                self._settle(deletion, group_id)

    def _settle(self, deletion: _Deletion, group_id: str) -> bool:
        """Delete the group's offsets of these topics; return whether there were any."""
        settled = deletion.settled.get(group_id, frozenset())
        assert settled <= deletion.topics, "offsets of a topic that exists would be deleted"
        topics = deletion.topics - settled
        if not topics:
            return False
        deletion.settled[group_id] = deletion.topics
        topic_partitions = self._ledger.topic_partitions(group_id, topics)
        self._removal.remove(group_id, sorted(topic_partitions))
        return bool(topic_partitions)
