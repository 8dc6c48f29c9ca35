"""Handles ListGroups, DescribeGroups and DeleteGroups for both kinds of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.failures import answer_to
from ottla.coordinator.group.classic.group import GROUP_TYPE as CLASSIC
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.states import ClassicGroupState
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.outbox import Continuation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.coordinator.effects import Ticket
    from ottla.coordinator.group.classic.member import ClassicGroupMember
    from ottla.coordinator.group.common.membership import Group, Groups
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.group.offsets.offsets import OffsetTable
    from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
    from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
    from ottla.protocol.messages.list_groups import ListGroupsRequest

NOT_FOUND_VERSION = 6


class GroupOverview:
    """One per shard. A group with nothing but offsets is an empty classic one without protocol."""

    def __init__(self, scope: GroupScope, groups: Groups, offsets: OffsetTable) -> None:
        self._scope = scope
        self._groups = groups
        self._offsets = offsets

    # Listing.

    def listing(self, request: ListGroupsRequest) -> Iterator[ListedGroup | None]:
        """Yield group after group; None for one that is deleted or does not match the state and
        type filters (an empty filter matches all).

        The caller may run other work between two groups, so that other requests need not wait until
        all groups of a broker are listed."""
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        for found in self._each():
            is_asked_for = (
                found is not None
                and (not states or found.group_state.lower() in states)
                and (not types or found.group_type.lower() in types)
            )
            yield found if is_asked_for else None

    def _each(self) -> Iterator[ListedGroup | None]:
        listed: set[str] = set()
        for group_id in list(self._groups):
            group = self._groups.get(group_id)
            if group is None:
                yield None
                continue
            listed.add(group_id)
            yield ListedGroup(
                group_id, group.protocol_type or "", group.state_name, group.group_type
            )
        for group_id in self._offsets.ledger.visit_ids():
            is_new = group_id not in self._groups and group_id not in listed
            listed.add(group_id)
            yield (
                ListedGroup(group_id, "", ClassicGroupState.EMPTY.value, CLASSIC)
                if is_new
                else None
            )

    # Describing.

    def describe(self, request: DescribeGroupsRequest, api_version: int) -> DescribeGroupsResponse:
        """Describe classic groups; those of KIP-848 have another request and are not found here."""
        return DescribeGroupsResponse(
            groups=[self._describe(group_id, api_version) for group_id in request.groups]
        )

    def _describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return _described(group)
        if group is None and self._offsets.has_group(group_id):
            return DescribedGroup(group_id=group_id, group_state=ClassicGroupState.EMPTY.value)
        dead = DescribedGroup(group_id=group_id, group_state=ClassicGroupState.DEAD.value)
        if api_version >= NOT_FOUND_VERSION:
            dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            dead.error_message = f"Group {group_id} not found."
            if group is not None:
                dead.error_message = f"Group {group_id} is not a classic group."
        return dead

    # Deleting.

    def delete(self, request: DeleteGroupsRequest, ticket: Ticket) -> None:
        """Delete the groups; answered when each one is deleted or has failed."""
        results = [DeletableGroupResult(group_id) for group_id in request.groups_names]
        deletion = _Deletion(self._scope, ticket, results)
        for result in results:
            self._delete(result, deletion)
        deletion.close()

    def _delete(self, result: DeletableGroupResult, deletion: _Deletion) -> None:
        group_id = result.group_id
        group = self._groups.get(group_id)
        if group is None and not self._offsets.has_group(group_id):
            result.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            return
        result.error_code = ErrorCode.NONE if group is None else group.check_delete()
        if result.error_code != ErrorCode.NONE:
            return

        def on_committed() -> None:
            # A member may have joined meanwhile; its records follow these in the log.
            if group is not None and self._groups.get(group_id) is group and _is_left(group):
                del self._groups[group_id]
            timeline = self._scope.timeline
            timeline.note(self._scope.moment, group_id, GroupEventKind.DELETED)
            deletion.settle(result, ErrorCode.NONE)

        def on_failed(error: ErrorCode) -> None:
            assert error is not ErrorCode.NONE, "a deletion that failed would be told as done"
            if group is not None and group.group_type != CLASSIC:
                self._scope.must_reload = True
            deletion.settle(result, answer_to(error))

        def on_overdue() -> None:
            deletion.settle(result, answer_to(ErrorCode.REQUEST_TIMED_OUT))

        tombstones = list(group.tombstones()) if group is not None else []
        if group is not None and group.group_type != CLASSIC:
            # It leaves memory with the append: a member that joins now creates a new group.
            assert self._groups[group_id] is group, "a group that has just begun would be lost"
            del self._groups[group_id]
        deletion.wait_for(result)
        continuation = Continuation(on_committed, on_failed, on_overdue)
        self._offsets.removal.remove_group(group_id, tombstones, continuation)


class _Deletion:
    """One DeleteGroups request, waiting for the appends of its groups."""

    def __init__(
        self, scope: GroupScope, ticket: Ticket, results: list[DeletableGroupResult]
    ) -> None:
        self._scope = scope
        self._ticket = ticket
        self._results = results
        self._open: set[int] = set()
        self._is_closed = False
        self._is_answered = False

    def wait_for(self, result: DeletableGroupResult) -> None:
        """Wait for the outcome of that group."""
        assert not self._is_closed
        assert result.error_code == ErrorCode.NONE
        assert id(result) not in self._open, "each group of a request is deleted once"
        self._open.add(id(result))

    def close(self) -> None:
        """All groups of the request were looked at: some may have nothing to append."""
        assert not self._is_closed, "the request is looked at once"
        self._is_closed = True
        self._answer_if_settled()

    def settle(self, result: DeletableGroupResult, error: ErrorCode) -> None:
        """Set a group's outcome; only its first one counts. Answer if none is open."""
        if id(result) in self._open:
            self._open.remove(id(result))
            result.error_code = error
        self._answer_if_settled()

    def _answer_if_settled(self) -> None:
        if self._is_closed and not self._open and not self._is_answered:
            self._is_answered = True
            assert all(result.error_code != ErrorCode.REQUEST_TIMED_OUT for result in self._results)
            self._scope.outbox.answer(self._ticket, DeleteGroupsResponse(results=self._results))


def _is_left(group: Group) -> bool:
    """Whether the group has no members and none about to join."""
    return group.check_delete() is ErrorCode.NONE and group.empty_since_wall_ms is not None


def _described(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is ClassicGroupState.STABLE
    assert group.roster.members or not is_stable, "a stable group has members"
    protocol = group.generation.protocol_name if is_stable else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_described_member(one, protocol) for one in group.roster.members.values()],
    )


def _described_member(member: ClassicGroupMember, protocol: str | None) -> DescribedGroupMember:
    """A member; its metadata is shown only while the group is stable."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) if protocol is not None else b"",
        member_assignment=member.assignment,
    )
