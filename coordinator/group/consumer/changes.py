"""What one step writes about a KIP-848 group: records on their way to the log.

Each is applied as it is made, by the same code that replays it when the group is loaded, so that
what comes next in the step sees it and a loaded group cannot differ from a living one. If the log
refuses the records, the shard is loaded again; nothing is taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.assignment import NOTHING, Assignment, listed
from ottla.coordinator.group.consumer.member import (
    Progress,
    Subscription,
    progress_value,
    subscription_value,
)
from ottla.coordinator.group.record_values import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetTopicPartitions,
)
from ottla.coordinator.group.records import (
    KIND_OF_VALUE,
    GroupRecord,
    RecordKey,
    RecordKind,
    RecordValue,
    group_record,
    group_tombstone,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.group.consumer.state import GroupState
    from ottla.coordinator.group.effects import LogRecord


class Changes:
    """One per request or timer; ``records`` is what the log is to hold, in order."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self.records: list[LogRecord] = []

    def put_subscription(self, member_id: str, subscription: Subscription) -> None:
        """Who the member is and what it wants."""
        self._put(subscription_value(subscription), member_id)

    def put_progress(self, member_id: str, progress: Progress) -> None:
        """What the member has."""
        self._put(progress_value(progress), member_id)

    def put_target(self, member_id: str, target: Assignment) -> None:
        """What the member shall have."""
        topics = [TargetTopicPartitions(*entry) for entry in listed(target)]
        self._put(ConsumerGroupTargetAssignmentMemberValue(topics), member_id)

    def put_group_epoch(self, group_epoch: int, metadata_hash: int) -> None:
        """Something changed: a new target is due."""
        self._put(ConsumerGroupMetadataValue(group_epoch, metadata_hash))
        if self._state.has_partition_metadata:
            self._remove(RecordKind.CONSUMER_GROUP_PARTITION_METADATA)

    def put_assignment_epoch(self, assignment_epoch: int, wall_ms: int) -> None:
        """The targets are those of that group epoch."""
        self._put(ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch, wall_ms))

    def put_regex(self, regex: str, topic_names: Iterable[str], wall_ms: int) -> None:
        """The topics that an expression stands for."""
        value = ConsumerGroupRegularExpressionValue(sorted(topic_names), timestamp=wall_ms)
        self._put(value, regex)

    def remove_regex(self, regex: str) -> None:
        """Nobody subscribes by it any more."""
        self._remove(RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION, regex)

    def remove_member(self, member_id: str) -> None:
        """The member is gone, and what it held is free.

        In this order: Kafka's coordinator refuses to load a member's end before its parts'."""
        self._remove(RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, member_id)
        self._remove(RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, member_id)
        self._remove(RecordKind.CONSUMER_GROUP_MEMBER_METADATA, member_id)

    def remove_group(self) -> None:
        """Everything goes, members first."""
        state = self._state
        for member_id in list(state.members):
            self.remove_member(member_id)
        for regex in sorted(state.regexes):
            self.remove_regex(regex)
        self._remove(RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA)
        if state.has_partition_metadata:
            self._remove(RecordKind.CONSUMER_GROUP_PARTITION_METADATA)
        self._remove(RecordKind.CONSUMER_GROUP_METADATA)

    def replace_member(self, old_member_id: str, member_id: str) -> None:
        """A static member is back under another id: it shall have what it was to have before.

        It holds nothing, as everyone who joins; what it had is free for it."""
        target = self._state.target_of(old_member_id)
        subscription = self._state.members[old_member_id].subscription
        self.remove_member(old_member_id)
        self.put_subscription(member_id, subscription)
        self.put_target(member_id, target)

    def _put(self, value: RecordValue, name: str = "") -> None:
        group_id = self._state.group_id
        key = RecordKey(KIND_OF_VALUE[type(value)], group_id, name)
        self._state.apply(GroupRecord(key, value))
        self.records.append(group_record(group_id, value, name))

    def _remove(self, kind: RecordKind, name: str = "") -> None:
        group_id = self._state.group_id
        self._state.apply(GroupRecord(RecordKey(kind, group_id, name), None))
        self.records.append(group_tombstone(kind, group_id, name))


def changed_targets(
    old: dict[str, Assignment], new: dict[str, Assignment]
) -> list[tuple[str, Assignment]]:
    """Those that have to be written, in the members' order."""
    return [
        (member_id, target)
        for member_id, target in sorted(new.items())
        if member_id not in old or old.get(member_id, NOTHING) != target
    ]
