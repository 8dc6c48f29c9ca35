"""Assigns each group id to a classic or a consumer group and converts empty groups.

The first member of an empty group decides its kind, as in Kafka. The records of the old kind are
deleted before the first record of the new one is written. Groups with members change their kind in
migration.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.groups import ClassicGroups, MembersRequest
from ottla.coordinator.group.classic.replies import refused_join
from ottla.coordinator.group.common.record_values import GroupMetadataValue
from ottla.coordinator.group.common.records import RecordKind
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.group.consumer.context import ConsumerContext
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeats import NO_GROUP
from ottla.coordinator.group.consumer.validation import Fault, heartbeat_fault
from ottla.coordinator.group.migration import downgraded, note, upgraded
from ottla.coordinator.outbox import Continuation, nothing
from ottla.coordinator.patterns import compile_pattern
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ottla.coordinator.effects import Moment, RequestOrigin, Ticket
    from ottla.coordinator.group.common.membership import Group, Groups
    from ottla.coordinator.group.common.records import GroupRecord
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
    from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from ottla.protocol.messages.join_group import JoinGroupRequest

JOINING_EPOCH = 0


class GroupTable:
    """The table of all groups of one shard that have or had members, of both kinds."""

    def __init__(
        self, scope: GroupScope, groups: Groups, image: Callable[[], MetadataImage]
    ) -> None:
        self._scope = scope
        self._groups = groups
        self._context = ConsumerContext(scope, image, compile_pattern, self._on_downgrade)
        self._classic = ClassicGroups(scope, groups)

    # Loading.

    def replay(self, record: GroupRecord) -> None:
        """Apply a record that is not about offsets."""
        key, value = record
        if key.kind is RecordKind.GROUP_METADATA:
            assert value is None or isinstance(value, GroupMetadataValue)
            self._classic.replay(key.group_id, value)
            return
        group = self._consumer_group(key.group_id)
        if group is None and value is not None:
            group = ConsumerGroup(key.group_id, self._context)
            self._groups[key.group_id] = group
        if group is not None:
            group.replay(record)

    def on_loaded(self, moment: Moment) -> None:
        """All records are read: start the groups' timers."""
        for group_id, group in list(self._groups.items()):
            group.on_loaded(moment)
            self._drop_if_void(group_id)

    # Requests.

    def handle(self, request: MembersRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        """Handle SyncGroup, Heartbeat or LeaveGroup. HOT: most of them are heartbeats."""
        group = self._consumer_group(request.group_id)
        if group is not None and group.has_members:
            group.classic_request(request, caller, ticket)
        else:
            self._classic.handle(request, caller, ticket)

    def join(self, request: JoinGroupRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        """Handle JoinGroup, which may create a group or address one of the other kind."""
        group = self._consumer_group(request.group_id)
        if group is not None and group.has_members:
            error = self._classic.check_join(request)
            if error is ErrorCode.NONE:
                group.classic_request(request, caller, ticket)
            else:
                self._scope.outbox.answer(ticket, refused_join(error, request.member_id))
            return
        if group is not None and not request.member_id:
            assert not group.has_members, "a group with members keeps its kind"
            self._delete_records(group)
        self._classic.handle(request, caller, ticket)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: RequestOrigin, ticket: Ticket
    ) -> None:
        """Handle ConsumerGroupHeartbeat, which may also create or convert a group."""
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            group.heartbeat(request, caller, ticket)
            self._drop_if_void(request.group_id)
        elif request.member_epoch != JOINING_EPOCH:
            fault = heartbeat_fault(request, caller, self._context)
            self._answer_fault(fault or NO_GROUP, ticket)
        elif isinstance(group, ClassicGroup):
            self._upgrade(group, request, caller, ticket)
        else:
            group = ConsumerGroup(request.group_id, self._context)
            group.heartbeat(request, caller, ticket)
            if group.has_begun:
                self._groups[request.group_id] = group

    def _upgrade(
        self,
        classic: ClassicGroup,
        request: ConsumerGroupHeartbeatRequest,
        caller: RequestOrigin,
        ticket: Ticket,
    ) -> None:
        """Convert a classic group for its first member of the KIP-848 protocol."""
        assert classic.group_id == request.group_id, "members would change their group"
        group = upgraded(classic, self._context)
        if group is None:
            self._answer_fault(NO_GROUP, ticket)
            return
        group.heartbeat(request, caller, ticket)
        if group.has_begun:
            note(self._scope, classic.group_id, "from classic to consumer")
            # Members that wait for a rebalance of the classic group rejoin the new one.
            assert self._groups[classic.group_id] is classic
            classic.on_unload(ErrorCode.REBALANCE_IN_PROGRESS)
            self._groups[classic.group_id] = group

    def _on_downgrade(self, group_id: str, stored: GroupMetadataValue) -> None:
        self._groups[group_id] = downgraded(group_id, stored, self._scope)

    def describe(
        self, request: ConsumerGroupDescribeRequest, caller: RequestOrigin, ticket: Ticket
    ) -> None:
        """Handle ConsumerGroupDescribe, for KIP-848 groups only.

        The response is sent when all that it shows is committed (hazard G-03)."""
        del caller
        found: dict[str, DescribedGroup] = {}
        group_ids = list(dict.fromkeys(request.group_ids))

        def take(shown: DescribedGroup) -> None:
            assert shown.group_id not in found, "the answer would leave before another group's"
            found[shown.group_id] = shown
            if len(found) == len(group_ids):
                groups = [found[group_id] for group_id in group_ids]
                self._scope.outbox.answer(ticket, ConsumerGroupDescribeResponse(groups=groups))

        for group_id in group_ids:
            group = self._consumer_group(group_id)
            if group is not None:
                group.describe(take)
                continue
            text = f"Group {group_id} not found."
            if group_id in self._groups:
                text = f"Group {group_id} is not a consumer group."
            take(DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, text, group_id))
        if not group_ids:
            self._scope.outbox.answer(ticket, ConsumerGroupDescribeResponse())

    def on_deadline(self, group_id: str, rest: Hashable) -> None:
        """A deadline of that group is due."""
        self._groups[group_id].on_deadline(rest)
        self._drop_if_void(group_id)

    # Helpers.

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _drop_if_void(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            if group.is_void:
                del self._groups[group_id]
        else:
            self._classic.drop_if_vacant(group_id)

    def _answer_fault(self, fault: Fault, ticket: Ticket) -> None:
        response = ConsumerGroupHeartbeatResponse(error_code=fault.error, error_message=fault.text)
        self._scope.outbox.answer(ticket, response)

    def _delete_records(self, group: Group) -> None:
        """Delete the group, in memory at once, so that a new one may have its id."""
        assert self._groups[group.group_id] is group
        tombstones = list(group.tombstones())
        group.on_unload(ErrorCode.UNKNOWN_MEMBER_ID)
        del self._groups[group.group_id]
        moment, kind = self._scope.moment, GroupEventKind.CONVERTED
        self._scope.timeline.note(moment, group.group_id, kind, detail=group.group_type)
        if tombstones:
            self._scope.outbox.append(tombstones, Continuation(nothing, self._on_lost))

    def _on_lost(self, error: ErrorCode) -> None:
        """The log may now have records of both kinds under one id."""
        del error
        self._scope.must_reload = True
