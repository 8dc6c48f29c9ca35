"""A classic group under any order of events, against the little that must always be true."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.sessions import (
    JOIN,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    SESSION,
    SYNC,
    ClassicTimer,
)
from ottla.coordinator.group.classic.states import ClassicGroupState
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.coordinator.group.classic.scene import GROUP, Scene, Wish, join_request

if TYPE_CHECKING:
    from ottla.coordinator.effects import Ticket

REBALANCE_MS = 20_000
SESSION_MS = 8_000
SMALL = GroupSettings(initial_rebalance_delay_ms=3_000, max_size=4)
CLIENTS = 5
# The first two are static: twins of them may start at any time.
INSTANCES = ("one", "two", None, None, None)
VERSIONS = (0, 3, 5, 8, 9)


@dataclass
class Client:
    """A member as it sees itself. It believes what it was told last."""

    number: int
    api_version: int = 9
    member_id: str = ""
    joined: JoinGroupResponse | None = None
    is_assigned: bool = False
    waits_for: Ticket | None = None
    waits_to_sync: bool = False
    nonce: int = 0
    protocols: tuple[str, ...] = field(default=("range",))

    @property
    def instance_id(self) -> str | None:
        return INSTANCES[self.number] if self.api_version >= 5 else None


def identity(member_id: str) -> str:
    """Maps the ids of all processes of one static member to its instance."""
    prefix = member_id.rpartition("-")[0]
    return prefix if prefix in INSTANCES else member_id


class ClassicModel(RuleBasedStateMachine):
    """Clients that join, sync, come again, fall silent and start twice; a log that hesitates."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(SMALL)
        self.scene.holds_appends = True
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.owners: dict[Ticket, Client] = {}
        self.leaders: dict[int, str] = {}
        self.nonces: dict[int, str] = {}
        self.seen: set[Ticket] = set()

    # What clients do.

    def _ask(self, client: Client, request: Any, api_version: int) -> Ticket:
        ticket = len(self.scene.asked)
        self.owners[ticket] = client
        client.waits_for = ticket
        client.waits_to_sync = isinstance(request, SyncGroupRequest)
        self.scene.ask(request, api_version)
        self._read_answers()
        return ticket

    def _join(self, client: Client) -> None:
        wish = Wish(
            client.member_id,
            client.instance_id,
            client.protocols,
            api_version=client.api_version,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        self._ask(client, join_request(wish), client.api_version)

    def _sync(self, client: Client) -> None:
        joined = client.joined
        if joined is None:
            return
        client.nonce += 1
        mark = f"{client.number}.{client.nonce}"
        assignments = [
            SyncGroupRequestAssignment(one.member_id, f"{mark}:{identity(one.member_id)}".encode())
            for one in (() if joined.skip_assignment else joined.members)
        ]
        request = SyncGroupRequest(
            GROUP,
            joined.generation_id,
            joined.member_id,
            client.instance_id,
            assignments=assignments,
        )
        self._ask(client, request, 5)

    def _read_answers(self) -> None:
        for ticket in sorted(self.scene.answers.keys() - self.seen):
            self.seen.add(ticket)
            client, told = self.owners[ticket], self.scene.answers[ticket]
            if isinstance(told, JoinGroupResponse):
                self._read_join(client, told, is_last=client.waits_for == ticket)
            elif isinstance(told, SyncGroupResponse) and client.waits_for == ticket:
                self._read_sync(client, told)
            if client.waits_for == ticket:
                client.waits_for = None

    def _read_join(self, client: Client, told: JoinGroupResponse, *, is_last: bool) -> None:
        if told.error_code == ErrorCode.NONE:
            leader = self.leaders.setdefault(told.generation_id, identity(told.leader))
            assert leader == identity(told.leader), "one generation, two leaders"
            assert told.protocol_name
            if told.members:
                assert told.leader == told.member_id
        if not is_last:
            return
        client.joined, client.is_assigned = None, False
        if told.error_code == ErrorCode.NONE:
            client.member_id, client.joined = told.member_id, told
        elif told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = told.member_id
        elif told.error_code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        ):
            client.member_id = ""

    def _read_sync(self, client: Client, told: SyncGroupResponse) -> None:
        assert client.joined is not None
        if told.error_code == ErrorCode.NONE:
            client.is_assigned = True
            if told.assignment:
                mark, _, owner = told.assignment.decode().partition(":")
                assert owner == identity(client.member_id), "somebody else's partitions"
                generation_id = client.joined.generation_id
                assert self.nonces.setdefault(generation_id, mark) == mark, "two assignments"
        else:
            client.joined = None
            if told.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""

    @rule(number=st.integers(0, CLIENTS - 1), version=st.sampled_from(VERSIONS))
    def joins(self, number: int, version: int) -> None:
        client = self.clients[number]
        if not client.member_id:
            client.api_version = version
        self._join(client)

    @rule(number=st.integers(0, CLIENTS - 1))
    def joins_with_another_protocol(self, number: int) -> None:
        client = self.clients[number]
        both = ("range", "sticky")
        client.protocols = both if client.protocols == ("range",) else ("range",)
        self._join(client)

    @rule(numbers=st.sets(st.integers(0, CLIENTS - 1), min_size=1))
    def act_as_they_should(self, numbers: set[int]) -> None:
        for number in sorted(numbers):
            self._behave(self.clients[number])

    @rule(duration_ms=st.sampled_from((0, 3_000, 6_000)))
    def all_members_act(self, duration_ms: int) -> None:
        """Most of the time all is well; only then is there something to spoil."""
        for client in self.clients:
            self._behave(client)
        self.scene.advance(duration_ms)
        self._read_answers()

    @rule(number=st.integers(0, CLIENTS - 1))
    def syncs(self, number: int) -> None:
        self._sync(self.clients[number])

    @rule(number=st.integers(0, CLIENTS - 1))
    def beats(self, number: int) -> None:
        client = self.clients[number]
        if client.joined is not None:
            request = HeartbeatRequest(
                GROUP, client.joined.generation_id, client.member_id, client.instance_id
            )
            ticket = len(self.scene.asked)
            self.seen.add(ticket)
            self.owners[ticket] = client
            assert self.scene.ask(request, 4) in self.scene.answers

    @rule(number=st.integers(0, CLIENTS - 1))
    def leaves(self, number: int) -> None:
        client = self.clients[number]
        members = [MemberIdentity(client.member_id, client.instance_id)]
        ticket = len(self.scene.asked)
        self.seen.add(ticket)
        self.owners[ticket] = client
        self.scene.ask(LeaveGroupRequest(GROUP, members=members), 5)
        assert ticket in self.scene.answers
        self._read_answers()

    @rule(number=st.integers(0, CLIENTS - 1))
    def restarts(self, number: int) -> None:
        """The process is gone without a word, and another one begins."""
        self.clients[number] = Client(number, self.clients[number].api_version)

    # What the log and the time do.

    @rule()
    def commits(self) -> None:
        if self.scene.open:
            self.scene.commit_one()
        self._read_answers()

    @rule()
    def fails(self) -> None:
        """Whatever came before it is decided first, as in a log."""
        while len(self.scene.open) > 1:
            self.scene.commit_one()
        if self.scene.open:
            self.scene.fail_one()
        self._read_answers()

    @rule()
    def is_overdue(self) -> None:
        self.scene.overdue_all()
        self._read_answers()

    @rule(duration_ms=st.sampled_from((0, 500, 3_000, 5_000, 9_000, 25_000)))
    def waits(self, duration_ms: int) -> None:
        self.scene.advance(duration_ms)
        self._read_answers()

    @rule()
    def fails_over(self) -> None:
        """The coordinator goes; another one reads the log, in which everything open is lost."""
        scene = self.scene
        for effect in scene.shard.unload(ErrorCode.NOT_COORDINATOR):
            scene.perform([effect])
        self._read_answers()
        assert scene.answers.keys() == scene.asked, "somebody waits for a coordinator that is gone"
        self.scene = scene.restart(SMALL)
        self.scene.holds_appends = True
        # What was never stored may be counted again.
        self.leaders.clear()
        self.nonces.clear()

    # What is always true.

    def _members(self) -> list[Any]:
        group = self.scene.shard.groups.get(GROUP)
        return list(group.roster.members.values()) if isinstance(group, ClassicGroup) else []

    @invariant()
    def every_wait_has_an_end(self) -> None:
        group = self.scene.shard.groups.get(GROUP)
        if group is None:
            return
        assert isinstance(group, ClassicGroup)
        deadlines, roster = self.scene.scope.deadlines, group.roster
        for member_id in (*roster.members, *roster.pending):
            assert (GROUP, ClassicTimer(SESSION, member_id)) in deadlines
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            assert (GROUP, ClassicTimer(JOIN)) in deadlines
        if group.rebalance.pending_sync:
            assert (GROUP, ClassicTimer(SYNC)) in deadlines
        elif group.state is ClassicGroupState.COMPLETING_REBALANCE:
            leader = roster.members[roster.leader_id or ""]
            assert leader.parked_sync is not None or self.scene.open

    @invariant()
    def the_books_are_in_order(self) -> None:
        group = self.scene.shard.groups.get(GROUP)
        if group is None:
            return
        assert isinstance(group, ClassicGroup)
        roster = group.roster
        members = roster.members.values()
        parked = [one for one in members if one.parked_join is not None]
        assert roster.parked_join_count == len(parked)
        assert roster.size_bytes == sum(one.size_bytes for one in members)
        assert not roster.members or roster.leader_id in roster.members
        assert not roster.pending.keys() & roster.members.keys()
        assert not group.rebalance.pending_sync.keys() - roster.members.keys()
        assert (group.state is ClassicGroupState.EMPTY) <= (not roster.members)
        if group.state is ClassicGroupState.STABLE:
            assert all(one.parked_join is None or one.is_static for one in members)
        instances = Counter(one.instance_id for one in members if one.instance_id is not None)
        assert not instances or max(instances.values()) == 1
        for member in members:
            assert member.armed_ms <= member.session_deadline_ms
            if group.state is not ClassicGroupState.COMPLETING_REBALANCE:
                assert member.parked_sync is None

    # How it ends.

    def teardown(self) -> None:
        if len(self.scene.asked) % 2:
            self._all_behave()
        self._all_are_silent()

    def _all_are_silent(self) -> None:
        """All members stop sending: in the end the group is empty and no request waits."""
        self.scene.holds_appends = False
        self.scene.commit_all()
        self.scene.advance(NEW_MEMBER_JOIN_TIMEOUT_MS + 5 * REBALANCE_MS)
        assert self.scene.state in ("none", "Empty")
        assert self.scene.answers.keys() == self.scene.asked
        assert all(group_id == "" for group_id, _ in self.scene.scope.deadlines._turns)

    def _all_behave(self) -> None:
        """As many clients as there is place do what they are told: they end in one generation."""
        self.scene.holds_appends = False
        self.scene.commit_all()
        self._read_answers()
        living = self.clients[: SMALL.max_size]
        for client in living:
            client.protocols = ("range",)
        for _ in range(200):
            for client in living:
                self._behave(client)
            self.scene.advance(2_000)
            self._read_answers()
        generations = {client.joined.generation_id for client in living if client.joined}
        assert all(client.is_assigned for client in living)
        assert len(generations) == 1
        assert self.scene.state == "Stable"

    def _behave(self, client: Client) -> None:
        if client.waits_for is not None:
            return
        if client.joined is None:
            self._join(client)
        elif not client.is_assigned:
            self._sync(client)
        else:
            request = HeartbeatRequest(
                GROUP, client.joined.generation_id, client.member_id, client.instance_id
            )
            ticket = len(self.scene.asked)
            self.seen.add(ticket)
            self.owners[ticket] = client
            told = self.scene.answers[self.scene.ask(request, 4)]
            if told.error_code != ErrorCode.NONE:
                client.joined, client.is_assigned = None, False
                if told.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                    client.member_id = ""


ClassicModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestClassicModel = ClassicModel.TestCase
