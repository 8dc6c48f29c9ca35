"""Collects the records that one call writes for a KIP-848 group.

Each record is applied to the state when it is added, by the same code that replays it when the
group is loaded, so that the rest of the call sees it and a loaded group cannot differ. Records
that are too large for the log are undone before they are appended. If the log refuses them after
that, the shard is reloaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.common.record_values import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetTopicPartitions,
)
from ottla.coordinator.group.common.records import (
    KIND_OF_VALUE,
    GroupRecord,
    RecordKey,
    RecordKind,
    RecordValue,
    group_record,
    group_tombstone,
)
from ottla.coordinator.group.consumer.assignment import NOTHING, Assignment, listed
from ottla.coordinator.group.consumer.member import (
    MemberAssignment,
    MemberSubscription,
    progress_value,
    subscription_value,
)
from ottla.coordinator.outbox import nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ottla.coordinator.effects import LogRecord
    from ottla.coordinator.group.consumer.state import ConsumerGroupState


# Overhead of a batch beside its records, and of a record at most beside its key and value.
BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 32


class Changes:
    """One per request or timer; ``records`` are the records to append, in order."""

    def __init__(self, state: ConsumerGroupState) -> None:
        self._state = state
        self.records: list[LogRecord] = []
        # One entry for each record.
        self._undo: list[tuple[str, Callable[[], object]]] = []
        # Indexes of records before which a batch may end.
        self._breaks: list[int] = []

    def put_subscription(self, member_id: str, subscription: MemberSubscription) -> None:
        """Store a member's metadata and subscription."""
        self._put(subscription_value(subscription), member_id)

    def put_progress(self, member_id: str, progress: MemberAssignment) -> None:
        """Store a member's current assignment."""
        assert member_id in self._state.members, "nothing would ever remove it"
        assert all(progress.assigned.values()), "equal assignments would differ"
        self._put(progress_value(progress), member_id)

    def put_target(self, member_id: str, target: Assignment) -> None:
        """Store a member's target assignment."""
        assert member_id in self._state.members
        assert all(target.values()), "equal assignments would differ"
        topics = [TargetTopicPartitions(*entry) for entry in listed(target)]
        self._put(ConsumerGroupTargetAssignmentMemberValue(topics), member_id)

    def put_group_epoch(self, group_epoch: int, metadata_hash: int) -> None:
        """Store a new group epoch; a new target is then due."""
        self._put(ConsumerGroupMetadataValue(group_epoch, metadata_hash))
        if self._state.has_partition_metadata:
            self._remove(RecordKind.CONSUMER_GROUP_PARTITION_METADATA)

    def put_assignment_epoch(self, assignment_epoch: int, wall_ms: int) -> None:
        """Store that the targets are those of that group epoch."""
        assert assignment_epoch == self._state.group_epoch
        self._put(ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch, wall_ms))

    def put_regex(self, regex: str, topic_names: Iterable[str], wall_ms: int) -> None:
        """Store the topics that a regular expression matches."""
        value = ConsumerGroupRegularExpressionValue(sorted(topic_names), timestamp=wall_ms)
        self._put(value, regex)

    def remove_regex(self, regex: str) -> None:
        """Delete an expression that no member subscribes by."""
        self._remove(RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION, regex)

    def remove_member(self, member_id: str) -> None:
        """Delete a member and release its partitions.

        In this order: Kafka's coordinator fails to load a member's deletion before its parts'."""
        assert member_id in self._state.members
        self._remove(RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, member_id)
        self._remove(RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, member_id)
        self._remove(RecordKind.CONSUMER_GROUP_MEMBER_METADATA, member_id)

    def remove_group(self) -> None:
        """Delete the whole group, members first."""
        state = self._state
        for member_id in list(state.members):
            self.remove_member(member_id)
        for regex in sorted(state.regexes):
            self.remove_regex(regex)
        self._remove(RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA)
        if state.has_partition_metadata:
            self._remove(RecordKind.CONSUMER_GROUP_PARTITION_METADATA)
        self._remove(RecordKind.CONSUMER_GROUP_METADATA)
        # A later group of this id would wait for their owners without end.
        assert not state.owners
        assert state.classic_count == 0

    def replace_member(self, old_member_id: str, member_id: str) -> None:
        """Give a static member that returns under another id its previous target.

        It owns nothing, like any member that joins; its previous partitions are free for it."""
        assert member_id != old_member_id
        target = self._state.target_of(old_member_id)
        subscription = self._state.members[old_member_id].subscription
        self.remove_member(old_member_id)
        self.put_subscription(member_id, subscription)
        self.put_target(member_id, target)

    # Batches.

    def allow_break(self) -> None:
        """Allow a batch to end here: if the rest is never written, a coordinator that loads the
        records before continues from them."""
        self._breaks.append(len(self.records))

    def portions(
        self, limit_bytes: int, opening: Sequence[LogRecord] = ()
    ) -> list[list[LogRecord]] | None:
        """The batches to append, in order, starting with ``opening``; None if records that have
        to be in one batch exceed the limit."""
        found: list[list[LogRecord]] = []
        room_bytes = 0
        start = 0
        for number, end in enumerate((*self._breaks, len(self.records))):
            part = self.records[start:end]
            if number == 0:
                part = [*opening, *part]
            start = end
            part_bytes = sum(map(_size_bytes, part))
            if part_bytes > limit_bytes - BATCH_OVERHEAD_BYTES:
                return None
            if part and (not found or part_bytes > room_bytes):
                found.append([])
                room_bytes = limit_bytes - BATCH_OVERHEAD_BYTES
            if part:
                found[-1] += part
                room_bytes -= part_bytes
        assert sum(map(len, found)) == len(opening) + len(self.records)
        return found

    @property
    def size_bytes(self) -> int:
        """The size of all records in the log."""
        return sum(map(_size_bytes, self.records))

    def add(self, record: LogRecord) -> None:
        """Add a record that does not change this group's state."""
        self.records.append(record)
        self._undo.append(("", nothing))

    def take_back(self, kept_count: int = 0) -> set[str]:
        """Undo all but the first ``kept_count`` records; return the names in the keys of the
        undone ones, which are mostly member ids."""
        assert 0 <= kept_count <= len(self.records)
        names = set()
        while len(self._undo) > kept_count:
            name, undo = self._undo.pop()
            undo()
            names.add(name)
        del self.records[kept_count:]
        self._breaks = [index for index in self._breaks if index < kept_count]
        assert len(self._undo) == len(self.records), "state and log would differ"
        return names

    def _put(self, value: RecordValue, name: str = "") -> None:
        group_id = self._state.group_id
        key = RecordKey(KIND_OF_VALUE[type(value)], group_id, name)
        self._apply(GroupRecord(key, value), group_record(group_id, value, name))

    def _remove(self, kind: RecordKind, name: str = "") -> None:
        group_id = self._state.group_id
        key = RecordKey(kind, group_id, name)
        self._apply(GroupRecord(key, None), group_tombstone(kind, group_id, name))

    def _apply(self, change: GroupRecord, record: LogRecord) -> None:
        self._undo.append((change.key.name, self._state.undo_of(change.key)))
        self._state.apply(change)
        self.records.append(record)


def _size_bytes(record: LogRecord) -> int:
    return len(record.key) + len(record.value or b"") + RECORD_OVERHEAD_BYTES


def changed_targets(
    old: dict[str, Assignment], new: dict[str, Assignment]
) -> list[tuple[str, Assignment]]:
    """The targets that differ and have to be written, sorted by member id."""
    return [
        (member_id, target)
        for member_id, target in sorted(new.items())
        if member_id not in old or old.get(member_id, NOTHING) != target
    ]
