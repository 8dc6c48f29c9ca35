"""One group whose members the broker assigns (KIP-848): the interface for the shard.

A request changes the group's state and appends the changes in one call; the response is sent when
they are committed (replies.py). heartbeats.py has the responses, reconcile.py the rule that no
partition is owned twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.replies import refused_join, refused_sync
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.group.consumer.changes import Changes
from ottla.coordinator.group.consumer.classic_members import ClassicMembers
from ottla.coordinator.group.consumer.describe import described, state_name
from ottla.coordinator.group.consumer.heartbeats import Heartbeats
from ottla.coordinator.group.consumer.member import MemberState
from ottla.coordinator.group.consumer.rebalance import Rebalancing
from ottla.coordinator.group.consumer.record_writer import RecordWriter
from ottla.coordinator.group.consumer.state import ConsumerGroupState
from ottla.coordinator.group.consumer.subscriptions import names_of
from ottla.coordinator.group.consumer.takeover import take_in
from ottla.coordinator.group.consumer.timers import REVOCATION, ConsumerTimer, Timers
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import DescribedGroup
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from ottla.coordinator.effects import LogRecord, Moment, RequestOrigin, Ticket
    from ottla.coordinator.group.classic.groups import MembersRequest
    from ottla.coordinator.group.common.records import GroupRecord
    from ottla.coordinator.group.consumer.context import ConsumerContext
    from ottla.coordinator.group.consumer.takeover import Migrant
    from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

PROTOCOL_TYPE = "consumer"


class ConsumerGroup:
    """Owned by the shard, which drops a group that ``is_void`` after a call."""

    def __init__(self, group_id: str, context: ConsumerContext) -> None:
        self.group_id = group_id
        self.state = ConsumerGroupState(group_id)
        self._context = context
        self._timers = Timers(group_id, context.scope)
        self._rebalancing = Rebalancing(self.state, context, self._timers)
        self._heartbeats = Heartbeats(self._rebalancing)
        self._classic = ClassicMembers(self._rebalancing)
        self._writing = RecordWriter(self._rebalancing)

    @property
    def group_type(self) -> str:
        return "consumer"

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        """The state's name in Kafka."""
        return state_name(self.state)

    @property
    def is_void(self) -> bool:
        """Whether the log has nothing of the group."""
        return self.state.is_void

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: RequestOrigin,
        ticket: Ticket,
    ) -> None:
        """Handle ConsumerGroupHeartbeat, also the first one of a new group."""
        response = self._heartbeats.steady(request, caller)
        if response is None:
            changes = Changes(self.state)
            response = self._heartbeats.handle(request, caller, changes)
            text = self._writing.append(changes, request.member_id)
            if text is not None:
                response = ConsumerGroupHeartbeatResponse(
                    error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=text
                )
        self._writing.replies.send(ticket, response, _refused_heartbeat)

    def classic_request(
        self, request: MembersRequest, caller: RequestOrigin, ticket: Ticket
    ) -> None:
        """Handle JoinGroup, SyncGroup, Heartbeat or LeaveGroup of a classic member."""
        assert request.group_id == self.group_id, "the records would be another group's"
        changes, classic = Changes(self.state), self._classic
        response: object
        refuse: Callable[[ErrorCode], object]
        match request:
            case HeartbeatRequest():
                response = HeartbeatResponse(error_code=classic.heartbeat(request))
                refuse = _refused_classic_heartbeat
            case JoinGroupRequest():
                response, refuse = classic.join(request, caller, changes), refused_join
            case SyncGroupRequest():
                response, refuse = classic.sync(request), refused_sync
            case LeaveGroupRequest():
                response, refuse = classic.leave(request, caller, changes), _refused_leave
        if self._writing.append(changes) is not None:
            response = refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._writing.replies.send(ticket, response, refuse)

    def take_over(
        self, generation_id: int, migrants: Iterable[Migrant], opening: Iterable[LogRecord]
    ) -> None:
        """Replace a classic group and take over its members; ``opening`` deletes that group.

        No record is written and no session starts before a member joins: a refused join must not
        change the kind of the group."""
        assert self.is_void, "two groups would be one"
        changes = Changes(self.state)
        migrants = list(migrants)
        if migrants:
            take_in(self.state, changes, generation_id, migrants)
        self._writing.opening = (*opening, *changes.records)

    @property
    def opening_bytes(self) -> int:
        """The size in bytes of the opening records, which the first join writes beside its own."""
        return sum(len(key) + len(value or b"") for key, value in self._writing.opening)

    @property
    def has_members(self) -> bool:
        """Whether it has members, of either protocol."""
        return bool(self.state.members)

    @property
    def has_begun(self) -> bool:
        """Whether the group has records beyond the opening ones that are not written yet."""
        return not self._writing.opening and not self.is_void

    def describe(self, deliver: Callable[[DescribedGroup], object]) -> None:
        """Pass the group's present description to ``deliver`` once that state is committed."""
        image, assignor = self._context.image(), self._rebalancing.assignor_name()
        shown = described(self.state, image, assignor)

        def on_settled(error: ErrorCode) -> None:
            is_refused = error is not ErrorCode.NONE
            deliver(DescribedGroup(error, error.text, self.group_id) if is_refused else shown)

        self._writing.replies.when_committed(on_settled)

    def on_deadline(self, rest: Hashable) -> None:
        """A member's timer fired: remove the member if its time is over."""
        if not isinstance(rest, ConsumerTimer):
            return
        member = self.state.members.get(rest.member_id)
        assert member is None or member.member_id == rest.member_id, "another would be removed"
        if member is not None and self._timers.has_expired(rest, member):
            reason = self._timers.reason(rest, member)
            self._rebalancing.note(GroupEventKind.REMOVED, member.member_id, reason)
            changes = Changes(self.state)
            self._rebalancing.drop(changes, [member.member_id])
            if self._writing.append(changes) is not None:
                # Very unlikely, but an expired deadline must not fire again at once.
                self._timers.begin_session(member)

    def replay(self, record: GroupRecord) -> None:
        """Apply a record of this group while the shard loads."""
        assert record.key.group_id == self.group_id, "two groups would be mixed"
        self.state.apply(record)

    def on_loaded(self, moment: Moment) -> None:
        """Restart every session and every revocation timer (hazard G-08)."""
        del moment  # It is the scope's.
        self.state.on_loaded()
        for member in self.state.members.values():
            self._timers.begin_session(member)
            is_revoking = member.progress.state is MemberState.UNREVOKED_PARTITIONS
            if is_revoking and not member.uses_classic_protocol:
                self._timers.start(REVOCATION, member)
        self._writing.note_emptiness()

    def on_unload(self, error: ErrorCode) -> None:
        """Answer all requests that wait for an append with the error, and stop all timers."""
        self._writing.replies.refuse_all(error)
        for member_id in self.state.members:
            self._timers.stop_all(member_id)

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool
    ) -> ErrorCode:
        """A consumer that assigns partitions itself may commit while the group is empty.

        Producers before KIP-447 send no member id (KAFKA-18060)."""
        if epoch < 0 and not self.state.members:
            return ErrorCode.NONE
        if is_transactional and epoch < 0 and not member_id and instance_id is None:
            return ErrorCode.NONE
        error = self._check_member(member_id, epoch)
        if error is ErrorCode.NONE and instance_id is not None:
            holder = self.state.static_members.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if error is ErrorCode.NONE:
            assert member_id in self.state.members, "a client that is no member would commit (G-02)"
            self._timers.extend_session(self.state.members[member_id])
        return error

    def needs_member_epochs(self, member_id: str) -> bool:
        """False for members of the classic protocol, which know only generations."""
        member = self.state.members.get(member_id)
        return member is not None and not member.uses_classic_protocol

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """A request without member id, for example an administrator's, may always read."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        return self._check_member(member_id or "", epoch)

    def _check_member(self, member_id: str, epoch: int) -> ErrorCode:
        member = self.state.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.progress.member_epoch:
            return ErrorCode.NONE
        if member.uses_classic_protocol:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by expression."""
        return any(topic in names_of(self.state, member) for member in self.state.members.values())

    def check_offset_delete(self) -> ErrorCode:
        """NONE: subscriptions are known, so offsets of other topics may be deleted at any time."""
        return ErrorCode.NONE

    @property
    def has_settled_subscriptions(self) -> bool:
        """Only when Stable: before that members may still consume a topic."""
        return self.state_name == "Stable"

    def check_delete(self) -> ErrorCode:
        """Only a group without members may be deleted."""
        return ErrorCode.NON_EMPTY_GROUP if self.state.members else ErrorCode.NONE

    def tombstones(self) -> Iterable[LogRecord]:
        """The records that delete the group; it is void afterwards."""
        changes = Changes(self.state)
        changes.remove_group()
        assert self.is_void, "the shard drops it"
        return changes.records

    @property
    def empty_since_wall_ms(self) -> int | None:
        """Since when it has no members; for a loaded group not before it was loaded."""
        return self._writing.empty_since_wall_ms


def _refused_classic_heartbeat(error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


def _refused_leave(error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


def _refused_heartbeat(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)
