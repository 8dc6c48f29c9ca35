"""A whole shard and its log, with members of both protocols in short words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.effects import Append, LogRecord, Moment, RequestOrigin
from ottla.coordinator.group.common.scope import GroupScope
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.shard import GroupShard
from ottla.protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    OwnedPartitions,
    read_assignment,
    write_assignment,
    write_subscription,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.group.consumer.site import image_of

if TYPE_CHECKING:
    from ottla.coordinator.effects import Effects
    from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


class Shard:
    """A shard whose appends are committed at once."""

    def __init__(self, policy: str = "bidirectional", log: list[LogRecord] | None = None) -> None:
        self.settings = GroupSettings(
            initial_rebalance_delay_ms=0, consumer_migration_policy=policy
        )
        self.ids = 0
        self.image = image_of({"t": 4})
        self.log = list(log or ())
        self.answers: dict[int, Any] = {}
        self.tickets = 0
        self.now_ms = 0.0
        self.shard = GroupShard(GroupScope(self.settings, self.new_id), lambda: self.image)
        for record in self.log:
            self.shard.replay(record)
        self.perform(self.shard.on_loaded(self.moment))

    def new_id(self) -> str:
        self.ids += 1
        return f"id{self.ids}"

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, int(self.now_ms))

    def perform(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                size = sum(len(key) + len(value or b"") for key, value in effect.records)
                assert size < self.shard.scope.batch_bytes_max, "the log would refuse it"
                self.log += effect.records
                self.perform(self.shard.committed(effect.token, self.moment))
            else:
                assert effect.ticket not in self.answers
                self.answers[effect.ticket] = effect.response

    def ask(self, request: Any, api_version: int = 9) -> int:
        self.tickets += 1
        caller = RequestOrigin("client", "/host", api_version)
        self.perform(self.shard.handle(request, caller, self.tickets, self.moment))
        return self.tickets

    def answer(self, request: Any, api_version: int = 9) -> Any:
        return self.answers[self.ask(request, api_version)]

    def advance(self, duration_ms: float) -> None:
        end_ms = self.now_ms + duration_ms
        while (next_ms := self.shard.next_deadline_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(next_ms, self.now_ms)
            self.perform(self.shard.on_deadline(self.moment))
        self.now_ms = end_ms

    # Members of the newer protocol.

    def consumer(self, request: Any) -> ConsumerGroupHeartbeatResponse:
        return self.answer(request, 1)  # type: ignore[no-any-return]

    # Members of the older one.

    def join_classic(self, member_id: str, owned: list[int] | None = None, **fields: Any) -> Any:
        request = join_request(member_id, owned, **fields)
        return self.answers.get(self.ask(request, 3 if not member_id else 9))

    def sync(
        self, joined: JoinGroupResponse, assignments: dict[str, list[int]] | None = None
    ) -> Any:
        return self.answers[self.ask_sync(joined, assignments)]

    def ask_sync(
        self, joined: JoinGroupResponse, assignments: dict[str, list[int]] | None = None
    ) -> int:
        given = [
            SyncGroupRequestAssignment(name, assignment_bytes(partitions))
            for name, partitions in (assignments or {}).items()
        ]
        request = SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=given)
        return self.ask(request, 5)

    def heartbeat(self, member_id: str, generation_id: int) -> ErrorCode:
        request = HeartbeatRequest("g", generation_id, member_id)
        return ErrorCode(self.answer(request, 4).error_code)

    @property
    def group(self) -> object:
        return self.shard.groups.get("g")

    def consumer_group(self) -> ConsumerGroup:
        group = self.group
        assert isinstance(group, ConsumerGroup)
        return group


def join_request(
    member_id: str,
    owned: list[int] | None = None,
    *,
    metadata: bytes | None = None,
    protocols: tuple[str, ...] = ("range",),
    protocol_type: str = "consumer",
    instance_id: str | None = None,
) -> JoinGroupRequest:
    if metadata is None:
        mine = [OwnedPartitions("t", owned)] if owned else []
        metadata = write_subscription(ConsumerSubscription(["t"], owned_partitions=mine), 1)
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name, metadata) for name in protocols],
    )


def assignment_bytes(partitions: list[int]) -> bytes:
    return write_assignment(ConsumerAssignment([OwnedPartitions("t", partitions)]), 1)


def partitions_of(assignment: bytes) -> list[int]:
    found, _version = read_assignment(assignment)
    return [index for topic in found.assigned_partitions for index in topic.partitions]
