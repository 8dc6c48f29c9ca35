"""Appends the changes of one KIP-848 group to the log: whole, in batches, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.common.records import group_record
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.group.consumer.replies import Replies
from ottla.coordinator.group.consumer.takeover import classic_value, may_go_back

if TYPE_CHECKING:
    from ottla.coordinator.effects import LogRecord
    from ottla.coordinator.group.common.record_values import GroupMetadataValue
    from ottla.coordinator.group.consumer.changes import Changes
    from ottla.coordinator.group.consumer.rebalance import Rebalancing


class RecordWriter:
    """One per group. ``opening`` must precede all other records of the group in the log.

    ``empty_since_wall_ms``: since when the group has no members, as far as memory knows."""

    def __init__(self, rebalancing: Rebalancing) -> None:
        self._rebalancing = rebalancing
        self._state = rebalancing.state
        self._timers = rebalancing.timers
        self._context = rebalancing.context
        self._scope = rebalancing.context.scope
        self.replies = Replies(self._scope.outbox, self._on_lost)
        self.opening: tuple[LogRecord, ...] = ()
        self.empty_since_wall_ms: int | None = None

    def append(self, changes: Changes, member_id: str = "") -> str | None:
        """Append the changes of one call, or undo them and return why they are too large: what
        cannot be written makes the shard reload, at every try (hazard G-10)."""
        if not changes.records:
            return None
        successor = self._go_back(changes)
        portions = changes.portions(self._scope.batch_bytes_max, self.opening)
        if portions is None:
            return self._take_back(changes, member_id)
        assert portions, "members would wait for what is not appended"
        if successor is not None:
            for gone in successor.members:
                self._timers.stop_all(gone.member_id)
        elif self.opening:
            for member in self._state.members.values():
                if member.uses_classic_protocol:
                    self._timers.begin_session(member)
        for portion in portions:
            self.replies.append(portion)
        self.opening = ()
        self.note_emptiness()
        if successor is not None:
            self._context.on_downgrade(self._state.group_id, successor)
        return None

    def _go_back(self, changes: Changes) -> GroupMetadataValue | None:
        """The value of the classic group that replaces this one now; None if it stays."""
        if not may_go_back(self._state, self._context):
            return None
        count = len(changes.records)
        successor = classic_value(self._state, self._context)
        changes.remove_group()
        changes.add(group_record(self._state.group_id, successor))
        if changes.portions(self._scope.batch_bytes_max, self.opening) is not None:
            return successor
        changes.take_back(count)
        assert len(changes.records) == count, "the group would be deleted, and stay in memory"
        text = "it cannot be a classic group again, which would be too large to be written"
        self._rebalancing.note(GroupEventKind.CONVERTED, detail=text)
        return None

    def _take_back(self, changes: Changes, member_id: str) -> str:
        text = (
            f"{changes.size_bytes} bytes would have to be written about the group, too many for "
            f"batches of {self._scope.batch_bytes_max}"
        )
        touched = changes.take_back()
        assert not changes.records, "what was undone would be written"
        if member_id in self._state.members:
            # It did not get the response to revoke, so silence confirms nothing.
            self._state.members[member_id].unconfirmed = None
        self._rebalancing.mend(touched, is_begun=not self.opening)
        self._rebalancing.note(GroupEventKind.WRITE_FAILED, detail=text)
        return text

    def note_emptiness(self) -> None:
        """Update since when the group is empty; its members may have changed."""
        if self._state.members:
            self.empty_since_wall_ms = None
        elif self.empty_since_wall_ms is None:
            self.empty_since_wall_ms = self._scope.moment.wall_ms
            if not self._state.is_void:
                self._rebalancing.note(GroupEventKind.EMPTY)
        is_empty = self.empty_since_wall_ms is not None
        assert is_empty is not bool(self._state.members), "offsets in use would expire (G-01)"

    def _on_lost(self) -> None:
        self._rebalancing.note(GroupEventKind.WRITE_FAILED)
        self._scope.must_reload = True
