"""ConsumerGroupHeartbeat: join (epoch 0), stay, leave (-1), leave temporarily (-2).

Responses by the member epoch of the request (KIP-848):

| request's epoch | the member is | response |
|---|---|---|
| 0 | unknown | it joins |
| 0 | known | it restarts and owns nothing, as after it was fenced |
| 0, static | known by another id | replaces one that left with -2, else UNRELEASED_INSTANCE_ID |
| its own | known | the next step, if there is one |
| its previous one | known, owns no more than it was given | the response was lost: repeated |
| any other | known | FENCED_MEMBER_EPOCH: drop everything, restart with 0 |
| any but 0 | unknown | UNKNOWN_MEMBER_ID |
| any but 0, static | another member id holds the instance id | FENCED_INSTANCE_ID |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.group.consumer.assignment import (
    Assignment,
    assignment_of,
    is_subset,
    listed,
)
from ottla.coordinator.group.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    NEWCOMER,
    ConsumerGroupMember,
    MemberAssignment,
    MemberState,
)
from ottla.coordinator.group.consumer.reading import (
    is_full,
    is_leaving,
    presentation,
    repeats,
    report,
    updated,
    wanted,
)
from ottla.coordinator.group.consumer.timers import REVOCATION
from ottla.coordinator.group.consumer.validation import Fault, heartbeat_fault
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment as AnsweredAssignment,
)
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin
    from ottla.coordinator.group.consumer.changes import Changes
    from ottla.coordinator.group.consumer.rebalance import Rebalancing


NO_GROUP = Fault(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist")
NO_MEMBER = Fault(ErrorCode.UNKNOWN_MEMBER_ID, "the member is not in the group")


class Heartbeats:
    """Handles the heartbeats of one group's KIP-848 members."""

    def __init__(self, rebalancing: Rebalancing) -> None:
        self._rebalancing = rebalancing
        self._state = rebalancing.state
        self._timers = rebalancing.timers
        self._scope = rebalancing.context.scope

    def steady(
        self, request: ConsumerGroupHeartbeatRequest, caller: RequestOrigin
    ) -> ConsumerGroupHeartbeatResponse | None:
        """The response if the heartbeat only extends the session, else None.

        Reads no other member's state, so that the cost does not grow with the group."""
        member = self._state.members.get(request.member_id)
        if (
            member is None
            or request.member_epoch != member.progress.member_epoch
            or not member.is_reconciled_to(self._state.group_epoch)
            or request.subscribed_topic_names is not None
            or request.topic_partitions is not None
            or not self._rebalancing.is_settled
            or not repeats(request, caller, member.subscription)
        ):
            return None
        self._timers.extend_session(member)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=self._scope.heartbeat_interval_ms(self._state.group_id),
        )

    def handle(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: RequestOrigin,
        changes: Changes,
    ) -> ConsumerGroupHeartbeatResponse:
        """The response to any heartbeat; its records are added to ``changes``."""
        fault = heartbeat_fault(request, caller, self._rebalancing.context)
        if fault is None and is_leaving(request):
            return self._leave(request, changes)
        fault = fault or self._admission_fault(request)
        if fault is not None:
            return self._refuse(request, fault)
        member_id = request.member_id or self._rebalancing.context.scope.new_id()
        assert member_id, "records without an id would belong to no member"
        is_newcomer = self._let_in(request, member_id, changes)
        member = self._state.members.get(member_id) or ConsumerGroupMember(member_id)
        subscription = updated(member.subscription, request, caller)
        was_wanted = wanted(member.subscription)
        if subscription != member.subscription:
            changes.put_subscription(member_id, subscription)
        is_bump_due = is_newcomer or was_wanted != wanted(subscription)
        self._rebalancing.refresh(changes, caller, is_bump_due=is_bump_due)
        self._rebalancing.retarget(changes)
        member = self._state.members[member_id]
        assert not member.uses_classic_protocol
        has_changed = self._rebalancing.reconcile(changes, member, report(request, member))
        if request.member_epoch == JOINING:
            self._timers.begin_session(member)
        else:
            self._timers.extend_session(member)
        progress = member.progress
        # A member with an older epoch has missed a response. One that has to revoke gets its
        # assignment until it has revoked.
        must_tell = (
            has_changed
            or request.member_epoch != progress.member_epoch
            or progress.state is MemberState.UNREVOKED_PARTITIONS
            or is_full(request)
        )
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=progress.member_epoch,
            heartbeat_interval_ms=self._scope.heartbeat_interval_ms(self._state.group_id),
            assignment=answered(progress.assigned) if must_tell else None,
        )

    def _refuse(
        self, request: ConsumerGroupHeartbeatRequest, fault: Fault
    ) -> ConsumerGroupHeartbeatResponse:
        assert fault.error is not ErrorCode.NONE, "a refused member would believe it is in"
        kind = (
            GroupEventKind.REFUSED
            if request.member_epoch != JOINING
            else GroupEventKind.TURNED_AWAY
        )
        self._rebalancing.note(kind, request.member_id, f"{fault.error.name}: {fault.text}")
        return ConsumerGroupHeartbeatResponse(error_code=fault.error, error_message=fault.text)

    def _admission_fault(self, request: ConsumerGroupHeartbeatRequest) -> Fault | None:
        state = self._state
        holder = self._holder(request)
        is_joining = request.member_epoch == JOINING
        settings = self._rebalancing.context.scope.settings
        if state.is_void and not is_joining:
            return NO_GROUP
        if holder is None:
            if not is_joining:
                return NO_MEMBER
            if len(state.members) >= settings.consumer_max_size:
                text = f"the group has {settings.consumer_max_size} members, and may have no more"
                return Fault(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
            return None
        if holder.member_id != request.member_id:
            return _twin_fault(request, holder)
        return None if is_joining else _epoch_fault(request, holder)

    def _holder(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupMember | None:
        """The member that the request is about: by instance id, else by member id."""
        state = self._state
        if request.instance_id is None:
            return state.members.get(request.member_id)
        return state.members.get(state.static_members.get(request.instance_id, ""))

    def _let_in(
        self, request: ConsumerGroupHeartbeatRequest, member_id: str, changes: Changes
    ) -> bool:
        """Prepare the state for a member that joins; return whether it is a new one."""
        if request.member_epoch != JOINING:
            return False
        holder = self._holder(request)
        if holder is None:
            self._rebalancing.note(GroupEventKind.JOINED, member_id, presentation(request))
            return True
        if holder.member_id != member_id:
            self._rebalancing.note(
                GroupEventKind.REPLACED, member_id, f"instead of {holder.member_id}"
            )
            self._timers.stop_all(holder.member_id)
            changes.replace_member(holder.member_id, member_id)
        else:
            self._rebalancing.note(GroupEventKind.REJOINED, member_id, presentation(request))
        if holder.progress != NEWCOMER and holder.member_id == member_id:
            # A member that joins owns nothing: its previous partitions are free, and the same call
            # assigns them to it again if they are in its target.
            changes.put_progress(member_id, NEWCOMER)
        return False

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, changes: Changes
    ) -> ConsumerGroupHeartbeatResponse:
        if self._state.is_void:
            return self._refuse(request, NO_GROUP)
        member = self._holder(request)
        if member is None:
            return self._refuse(request, NO_MEMBER)
        if member.member_id != request.member_id:
            return self._refuse(request, _fenced(member))
        if request.member_epoch == LEAVING:
            self._rebalancing.note(GroupEventKind.LEFT, member.member_id)
            self._rebalancing.drop(changes, [member.member_id])
            assert member.member_id not in self._state.members, "it would keep its partitions"
        elif member.progress.member_epoch != LEAVING_FOR_A_WHILE:
            # It keeps its membership and partitions until it returns or its session ends;
            # partitions that it had to revoke it gave up by closing.
            self._rebalancing.note(
                GroupEventKind.LEFT, member.member_id, "and will be back (static)"
            )
            self._timers.stop(REVOCATION, member.member_id)
            away = MemberAssignment(
                LEAVING_FOR_A_WHILE, LEAVING_FOR_A_WHILE, assigned=member.progress.assigned
            )
            changes.put_progress(member.member_id, away)
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )


def answered(assignment: Assignment) -> AnsweredAssignment:
    """An assignment in the form of the response."""
    return AnsweredAssignment([TopicPartitions(*entry) for entry in listed(assignment)])


def _fenced(holder: ConsumerGroupMember) -> Fault:
    text = f"the instance id belongs to member {holder.member_id}"
    return Fault(ErrorCode.FENCED_INSTANCE_ID, text)


def _twin_fault(
    request: ConsumerGroupHeartbeatRequest, holder: ConsumerGroupMember
) -> Fault | None:
    assert holder.member_id != request.member_id, "a member is no twin of its own"
    if request.member_epoch != JOINING:
        return _fenced(holder)
    # A classic member cannot announce that it will return: it is replaced.
    if holder.uses_classic_protocol or holder.progress.member_epoch == LEAVING_FOR_A_WHILE:
        return None
    text = f"the instance id is held by member {holder.member_id}"
    return Fault(ErrorCode.UNRELEASED_INSTANCE_ID, text)


def _epoch_fault(
    request: ConsumerGroupHeartbeatRequest, member: ConsumerGroupMember
) -> Fault | None:
    progress = member.progress
    assert request.member_id == member.member_id, "it would be fenced by the epoch of another"
    if request.member_epoch == progress.member_epoch:
        return None
    if (
        request.member_epoch == progress.previous_member_epoch
        and request.topic_partitions is not None
        and is_subset(assignment_of(request.topic_partitions), progress.assigned)
    ):
        return None
    text = f"member epoch {request.member_epoch} where {progress.member_epoch} was expected"
    return Fault(ErrorCode.FENCED_MEMBER_EPOCH, text)
