"""The members of a classic group, its pending member ids, its leader and the protocol vote."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.member import protocols_of, rebalance_timeout_ms
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.effects import RequestOrigin
    from ottla.coordinator.group.classic.member import ClassicGroupMember, ParkedJoin
    from ottla.protocol.messages.join_group import JoinGroupRequest


class Roster:
    """Members of one group. ``pending`` holds ids that were assigned and not used yet (KIP-394);
    they are not members. While there are members, the leader is one of them."""

    def __init__(self) -> None:
        self.members: dict[str, ClassicGroupMember] = {}
        self.pending: dict[str, None] = {}
        self.protocol_type: str | None = None
        self.leader_id: str | None = None
        self.parked_join_count = 0
        # The members' share of the group's record in bytes, without their assignments.
        self.size_bytes = 0
        self._static_ids: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()

    def static_id(self, instance_id: str | None) -> str | None:
        """The id of the member with that instance id; None if there is none."""
        return None if instance_id is None else self._static_ids.get(instance_id)

    @property
    def has_all_joined(self) -> bool:
        """Whether all members have joined the rebalance and no id is pending."""
        return self.parked_join_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members; 0 without members."""
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE if the member exists and no other process has its instance id (G-07)."""
        if instance_id is not None:
            holder = self._static_ids.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Coming and going.

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Add a member; the first one sets the group's protocol type and leads."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        assert protocol_type == self.protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self._static_ids
            self._static_ids[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count(member)
        self.pending.pop(member.member_id, None)
        if self.leader_id not in self.members:
            self.leader_id = member.member_id
        assert len(self._static_ids) <= len(self.members)

    def remove(self, member_id: str) -> ClassicGroupMember:
        """Remove a member whose parked requests have been answered."""
        member = self.members.pop(member_id)
        assert member.parked_join is None
        assert member.parked_sync is None
        if member.instance_id is not None:
            del self._static_ids[member.instance_id]
        self._discount(member)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        assert self.leader_id in self.members or not self.members
        assert self.members or not self.size_bytes, "the limit of the record's size would drift"
        return member

    def rename(self, member: ClassicGroupMember, new_id: str) -> None:
        """Give a static member a new id; it keeps its leadership."""
        assert member.instance_id is not None
        assert new_id not in self.members
        # Its process would wait for an answer under an id that is another process's (G-07).
        assert member.parked_join is None
        assert member.parked_sync is None
        old_id = member.member_id
        del self.members[old_id]
        self._discount(member)
        member.member_id = new_id
        self._count(member)
        self.members[new_id] = member
        self._static_ids[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id

    def update(
        self,
        member: ClassicGroupMember,
        request: JoinGroupRequest,
        caller: RequestOrigin | None = None,
    ) -> None:
        """Take over protocols and timeouts from the request, and the client of a new process."""
        self._discount(member)
        if caller is not None:
            member.client_id, member.client_host = caller.client_id, caller.client_host
        member.protocols = protocols_of(request)
        member.rebalance_timeout_ms = rebalance_timeout_ms(request)
        member.session_timeout_ms = request.session_timeout_ms
        self._count(member)

    def _count(self, member: ClassicGroupMember) -> None:
        self._supporters.update({name for name, _ in member.protocols})
        self.size_bytes += member.size_bytes

    def _discount(self, member: ClassicGroupMember) -> None:
        self._supporters.subtract({name for name, _ in member.protocols})
        self.size_bytes -= member.size_bytes
        assert self.size_bytes >= 0

    # Joining the rebalance.

    def park_join(self, member: ClassicGroupMember, join: ParkedJoin) -> None:
        """Keep the member's JoinGroup until the rebalance completes."""
        assert member.parked_join is None
        assert self.members.get(member.member_id) is member, "no rebalance would answer it"
        member.parked_join = join
        self.parked_join_count += 1
        assert self.parked_join_count <= len(self.members)

    def take_join(self, member: ClassicGroupMember) -> ParkedJoin | None:
        """Take the member's parked JoinGroup, which the caller must answer; None if none."""
        join = member.parked_join
        if join is not None:
            member.parked_join = None
            self.parked_join_count -= 1
            assert self.parked_join_count >= 0
        return join

    def elect_leader(self) -> bool:
        """Ensure that the leader has joined; False if no member has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.parked_join is not None:
            return True
        joined = next((one for one in self.members.values() if one.parked_join is not None), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    # Protocols.

    def supports(self, names: Iterable[str]) -> bool:
        """Whether all members support one of the protocols; True without members."""
        count = len(self.members)
        return not count or any(self._supporters[name] == count for name in names)

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members support; on a tie the one
        that got the first vote."""
        count = len(self.members)
        candidates = {name for name, number in self._supporters.items() if number == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        ((name, _),) = votes.most_common(1)
        assert name is not None, "members without a protocol in common are not let in"
        return name
