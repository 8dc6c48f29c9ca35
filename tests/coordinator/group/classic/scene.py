"""A whole shard over a log that is a list, with a clock that the test moves, and clients in short
words: what they ask is a real message, what they are told is kept by ticket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.coordinator.effects import Append, LogRecord, Moment, RequestOrigin, SendResponse
from ottla.coordinator.group.common.scope import GroupScope
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.metadata.image import MetadataImage
from ottla.protocol.consumer_protocol import ConsumerSubscription, write_subscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.effects import Effects, Ticket
    from ottla.coordinator.group.classic.group import ClassicGroup

WALL_MS = 1_700_000_000_000
GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
SETTINGS = GroupSettings(initial_rebalance_delay_ms=DELAY_MS)


def caller(api_version: int, client_id: str = "client") -> RequestOrigin:
    return RequestOrigin(client_id, "/host", api_version)


def subscription(*topics: str) -> bytes:
    return write_subscription(ConsumerSubscription(list(topics)), 0)


class Wish(NamedTuple):
    """What a client wants when it joins."""

    member_id: str = ""
    instance_id: str | None = None
    protocols: tuple[str, ...] = ("range",)
    topics: tuple[str, ...] = ("t",)
    api_version: int = 9
    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    protocol_type: str = "consumer"
    group_id: str = GROUP
    client_id: str = "client"
    metadata: bytes | None = None


def join_request(wish: Wish) -> JoinGroupRequest:
    metadata = subscription(*wish.topics) if wish.metadata is None else wish.metadata
    return JoinGroupRequest(
        group_id=wish.group_id,
        session_timeout_ms=wish.session_ms,
        rebalance_timeout_ms=wish.rebalance_ms,
        member_id=wish.member_id,
        group_instance_id=wish.instance_id,
        protocol_type=wish.protocol_type,
        protocols=[JoinGroupRequestProtocol(name, metadata) for name in wish.protocols],
    )


class Scene:
    """Appends are committed at once unless ``holds_appends``; the test then settles them."""

    def __init__(
        self,
        settings: GroupSettings = SETTINGS,
        log: Iterable[LogRecord] = (),
        before: Scene | None = None,
    ) -> None:
        self.now_ms: float = 0.0 if before is None else before.now_ms
        self.log: list[LogRecord] = list(log)
        self.answers: dict[Ticket, Any] = {} if before is None else before.answers
        self.asked: set[Ticket] = set() if before is None else before.asked
        self.open: list[Append] = []
        self.holds_appends = False
        self.image = MetadataImage("cluster")
        self._ids: int = 0 if before is None else before._ids
        self.scope = GroupScope(settings, self._new_id)
        self.shard = GroupShard(self.scope, lambda: self.image)
        for record in self.log:
            self.shard.replay(record)
        self.perform(self.shard.on_loaded(self.moment))

    def _new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + int(self.now_ms))

    # The shell.

    def perform(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, SendResponse):
                assert effect.ticket in self.asked, "nobody asked"
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.response
            else:
                self.open.append(effect)
        if not self.holds_appends:
            self.commit_all()

    def commit_all(self) -> None:
        while self.open:
            self.commit_one()

    def commit_one(self) -> None:
        append = self.open.pop(0)
        self.log += append.records
        self.perform(self.shard.committed(append.token, self.moment))

    def fail_one(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        append = self.open.pop(0)
        self.perform(self.shard.failed(append.token, error, self.moment))

    def overdue_all(self) -> None:
        for append in list(self.open):
            self.perform(self.shard.overdue(append.token, self.moment))

    def advance(self, duration_ms: float) -> None:
        """Let time pass; every deadline on the way is met when it comes."""
        end_ms = self.now_ms + duration_ms
        for _ in range(100_000):
            deadline_ms = self.shard.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, deadline_ms)
            self.perform(self.shard.on_deadline(self.moment))
        raise AssertionError("time stands still")

    def restart(self, settings: GroupSettings = SETTINGS) -> Scene:
        """Another shard that knows what is in the log; clients and clock stay."""
        return Scene(settings, self.log, self)

    # Clients.

    def ask(self, request: Any, api_version: int = 9, client_id: str = "client") -> Ticket:
        ticket = len(self.asked)
        self.asked.add(ticket)
        asking = caller(api_version, client_id)
        self.perform(self.shard.handle(request, asking, ticket, self.moment))
        return ticket

    def answer(self, request: Any, api_version: int = 9) -> Any:
        """The answer, which must come at once."""
        return self.answers[self.ask(request, api_version)]

    def join(self, wish: Wish) -> Ticket:
        """One JoinGroup; with an id that is required, and given, a second one."""
        ticket = self.ask(join_request(wish), wish.api_version, wish.client_id)
        told = self.answers.get(ticket)
        if told is not None and told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return self.join(wish._replace(member_id=told.member_id))
        return ticket

    def told(self, ticket: Ticket) -> Any:
        return self.answers[ticket]

    def form(self, *wishes: Wish) -> list[JoinGroupResponse]:
        """Joins all members, in a group that is empty or rebalances; returns their answers."""
        tickets = [self.join(wish) for wish in wishes]
        self.advance(DELAY_MS * 2)
        return [self.answers[ticket] for ticket in tickets]

    def sync(
        self,
        joined: JoinGroupResponse,
        assignments: dict[str, bytes] | None = None,
        instance_id: str | None = None,
        group_id: str = GROUP,
    ) -> Ticket:
        return self.ask(
            SyncGroupRequest(
                group_id=group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=instance_id,
                assignments=[
                    SyncGroupRequestAssignment(member_id, data)
                    for member_id, data in (assignments or {}).items()
                ],
            ),
            5,
        )

    def settle(self, *joined: JoinGroupResponse) -> list[SyncGroupResponse]:
        """All sync; each is assigned its own id in bytes. The leader comes last."""
        assignments = {one.member_id: one.member_id.encode() for one in joined}
        tickets = {}
        for one in sorted(joined, key=lambda one: one.member_id == one.leader):
            is_leader = one.member_id == one.leader
            tickets[one.member_id] = self.sync(one, assignments if is_leader else None)
        return [self.answers[tickets[one.member_id]] for one in joined]

    def stable(self, *wishes: Wish) -> list[JoinGroupResponse]:
        """A group in Stable."""
        joined = self.form(*wishes)
        self.settle(*joined)
        assert self.state == "Stable"
        return joined

    def heartbeat(self, joined: JoinGroupResponse, instance_id: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(GROUP, joined.generation_id, joined.member_id, instance_id)
        return ErrorCode(self.answer(request, 4).error_code)

    def leave(self, *members: MemberIdentity) -> Any:
        return self.answer(LeaveGroupRequest(GROUP, members=list(members)), 5)

    @property
    def group(self) -> ClassicGroup:
        group: Any = self.shard.groups[GROUP]
        return group  # type: ignore[no-any-return]

    @property
    def state(self) -> str:
        group = self.shard.groups.get(GROUP)
        return "none" if group is None else group.state_name
