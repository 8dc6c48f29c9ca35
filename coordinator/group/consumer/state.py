"""The durable state of a KIP-848 group. Only records change it, live and while loading.

A compacted log may return the records of one member in any order (an older statement may be
repeated later), so nothing here depends on their order.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.group.common.record_values import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.coordinator.group.common.records import RecordKind
from ottla.coordinator.group.consumer.assignment import (
    NOTHING,
    Assignment,
    assignment_of,
    pairs_of,
)
from ottla.coordinator.group.consumer.member import (
    NEWCOMER,
    UNKNOWN,
    ConsumerGroupMember,
    MemberAssignment,
    MemberSubscription,
    progress_of,
    subscription_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.group.common.records import GroupRecord, RecordKey
    from ottla.protocol.ids import Uuid

NO_EPOCH = 0
_Old = TypeVar("_Old")


class ConsumerGroupState:
    """``assignment_epoch`` is the group epoch for which ``targets`` were computed; while it is
    behind, a new target is due. ``owners`` has the one member per partition that was assigned it
    and has not yet reported its revocation."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = NO_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = NO_EPOCH
        self.members: dict[str, ConsumerGroupMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        self.owners: dict[tuple[Uuid, int], str] = {}
        self.static_members: dict[str, str] = {}
        self.classic_count = 0
        # Kafka 4.0 wrote a record that is obsolete; it is deleted when one is found.
        self.has_partition_metadata = False

    @property
    def is_void(self) -> bool:
        """Whether the group is empty of state: never begun, or deleted."""
        return self.group_epoch == NO_EPOCH and not self.members

    def target_of(self, member_id: str) -> Assignment:
        """The member's target assignment."""
        return self.targets.get(member_id, NOTHING)

    def apply(self, record: GroupRecord) -> None:
        """Apply one record of this group, of the kinds 3 to 8 and 16."""
        key, value = record
        match value:
            case None:
                self._remove(key)
            case ConsumerGroupMetadataValue():
                self._set_group_epoch(value.epoch, value.metadata_hash)
            case ConsumerGroupPartitionMetadataValue():
                self.has_partition_metadata = True
            case ConsumerGroupMemberMetadataValue():
                self._set_subscription(key.name, subscription_of(value))
            case ConsumerGroupTargetAssignmentMetadataValue():
                self.assignment_epoch = value.assignment_epoch
            case ConsumerGroupTargetAssignmentMemberValue():
                self.targets[key.name] = assignment_of(value.topic_partitions)
            case ConsumerGroupCurrentMemberAssignmentValue():
                self._set_progress(self._member(key.name), progress_of(value))
            case ConsumerGroupRegularExpressionValue():
                self.regexes[key.name] = frozenset(value.topics)
            case _:
                raise AssertionError(f"{key.kind.name} is no record of a consumer group")

    def undo_of(self, key: RecordKey) -> Callable[[], object]:
        """A callback that undoes the next record of that key, after all later records are undone.

        For calls whose records the log cannot take; their number is unbounded, so each callback
        keeps only what its own record replaces."""
        match key.kind:
            case RecordKind.CONSUMER_GROUP_METADATA:
                return partial(self._set_group_epoch, self.group_epoch, self.metadata_hash)
            case RecordKind.CONSUMER_GROUP_PARTITION_METADATA:
                return partial(setattr, self, "has_partition_metadata", self.has_partition_metadata)
            case RecordKind.CONSUMER_GROUP_MEMBER_METADATA:
                return self._undo_of_subscription(key.name)
            case RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
                return partial(setattr, self, "assignment_epoch", self.assignment_epoch)
            case RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER:
                return partial(_put_back, self.targets, key.name, self.targets.get(key.name))
            case RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
                member = self.members.get(key.name)
                if member is None:
                    return partial(self._remove_member, key.name)
                return partial(self._set_progress, member, member.progress)
            case RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION:
                return partial(_put_back, self.regexes, key.name, self.regexes.get(key.name))
            case _:
                raise AssertionError(f"{key.kind.name} is no record of a consumer group")

    def _undo_of_subscription(self, member_id: str) -> Callable[[], object]:
        member = self.members.get(member_id)
        if member is None:
            return partial(self._remove_member, member_id)
        subscription, progress = member.subscription, member.progress

        def undo() -> None:
            if member_id not in self.members:
                # The same object, because its session is in no record.
                member.subscription, member.progress = UNKNOWN, NEWCOMER
                self.members[member_id] = member
            self._set_subscription(member_id, subscription)
            self._set_progress(member, progress)

        return undo

    def _set_group_epoch(self, group_epoch: int, metadata_hash: int) -> None:
        self.group_epoch, self.metadata_hash = group_epoch, metadata_hash

    def _remove(self, key: RecordKey) -> None:
        match key.kind:
            case RecordKind.CONSUMER_GROUP_METADATA:
                self._set_group_epoch(NO_EPOCH, 0)
            case RecordKind.CONSUMER_GROUP_PARTITION_METADATA:
                self.has_partition_metadata = False
            case RecordKind.CONSUMER_GROUP_MEMBER_METADATA:
                self._remove_member(key.name)
            case RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
                self.assignment_epoch = NO_EPOCH
            case RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER:
                self.targets.pop(key.name, None)
            case RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
                if key.name in self.members:
                    self._set_progress(self.members[key.name], NEWCOMER)
            case RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION:
                self.regexes.pop(key.name, None)
            case _:
                raise AssertionError(f"{key.kind.name} is no record of a consumer group")

    def _member(self, member_id: str) -> ConsumerGroupMember:
        return self.members.setdefault(member_id, ConsumerGroupMember(member_id))

    def _set_subscription(self, member_id: str, subscription: MemberSubscription) -> None:
        member = self._member(member_id)
        self._forget_identity(member)
        member.subscription = subscription
        self.classic_count += member.uses_classic_protocol
        if subscription.instance_id is not None:
            self.static_members[subscription.instance_id] = member_id
        assert self.classic_count <= len(self.members)

    def _set_progress(self, member: ConsumerGroupMember, progress: MemberAssignment) -> None:
        assert self.members.get(member.member_id) is member, "the owners would name a stranger"
        self._release(member)
        member.progress = progress
        for assignment in (progress.assigned, progress.revoking):
            for pair in pairs_of(assignment):
                self.owners[pair] = member.member_id

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
            self._forget_identity(member)
            assert self.classic_count <= len(self.members), "the group could never be converted"

    def _release(self, member: ConsumerGroupMember) -> None:
        for assignment in (member.progress.assigned, member.progress.revoking):
            for pair in pairs_of(assignment):
                if self.owners.get(pair) == member.member_id:
                    del self.owners[pair]

    def _forget_identity(self, member: ConsumerGroupMember) -> None:
        self.classic_count -= member.uses_classic_protocol
        assert self.classic_count >= 0
        instance_id = member.subscription.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def on_loaded(self) -> None:
        """All records are read: drop what a damaged log left of members without metadata, and
        rebuild the owners, since a half-cleaned log may have returned an older owner last."""
        for member_id in [
            name for name, member in self.members.items() if member.subscription == UNKNOWN
        ]:
            self._remove_member(member_id)
        for member_id in [name for name in self.targets if name not in self.members]:
            del self.targets[member_id]
        self.owners.clear()
        for member in self.members.values():
            self._set_progress(member, member.progress)
        assert self.targets.keys() <= self.members.keys(), "partitions would wait for no member"
        assert self.members.keys() >= set(self.owners.values()), "no member would give them back"


def _put_back(table: dict[str, _Old], name: str, old: _Old | None) -> None:
    if old is None:
        table.pop(name, None)
    else:
        table[name] = old
