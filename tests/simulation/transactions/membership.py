"""A pipeline's place in a consumer group: one of its processes at a time has the partition, and the
generation keeps the others' positions out (KIP-447)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    OwnedPartitions,
    write_assignment,
    write_subscription,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.groups.terms import LOST_ID, LOST_PLACE
from tests.simulation.transactions.coordination import COME_AGAIN, CoordinatorKind

if TYPE_CHECKING:
    from tests.simulation.cluster.client import ClusterClient
    from tests.simulation.history import Partition
    from tests.simulation.transactions.coordination import Coordinators

# Shorter than what a client waits for an answer.
REBALANCE_MS = 2_500
SESSIONS_MS = (1_500, 3_000)
_JOIN, _SYNC, _BEAT = 4, 3, 3
_PROTOCOL = "one-takes-all"


class Membership:
    """Of one life of a process; ``generation`` is -1 while it is not in."""

    def __init__(
        self, client: ClusterClient, coordinators: Coordinators, group: str, source: Partition
    ) -> None:
        self.member_id = ""
        self.generation = -1
        self.surprises: list[str] = []
        self._client = client
        self._coordinators = coordinators
        self._group = group
        self._source = source
        self._is_assigned = False
        self._session_ms = client.random.choice(SESSIONS_MS)

    async def stay(self) -> bool:
        """Be in the group, as far as one try does it; whether the partition is ours."""
        if self.generation >= 0:
            request = HeartbeatRequest(self._group, self.generation, self.member_id)
            answer = await self._ask(request, ApiKey.HEARTBEAT, _BEAT)
            if answer is not None:
                self.is_out(ErrorCode(answer.error_code))
        if self.generation < 0:
            await self._enter()
        return self.generation >= 0 and self._is_assigned

    def is_out(self, code: ErrorCode) -> None:
        """Handle an error code of the coordinator: the membership may be lost."""
        if code in LOST_ID:
            self.member_id = ""
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            return
        elif code not in LOST_PLACE and code not in COME_AGAIN and code is not ErrorCode.NONE:
            self.surprises.append(f"{self._client.name} was told {code.name} by its group")
        if code in LOST_PLACE:
            self.generation = -1
        elif code is not ErrorCode.NONE:
            self._coordinators.forget(CoordinatorKind.GROUP, self._group)

    async def _enter(self) -> None:
        subscription = write_subscription(ConsumerSubscription(topics=[self._source[0]]), 0)
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(_PROTOCOL, subscription)],
        )
        joined = await self._ask(request, ApiKey.JOIN_GROUP, _JOIN)
        if joined is None:
            return
        code = ErrorCode(joined.error_code)
        if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = joined.member_id
        if code is not ErrorCode.NONE:
            self.is_out(code)
            return
        synced = await self._ask(self._sync_request(joined), ApiKey.SYNC_GROUP, _SYNC)
        if synced is None:
            return
        if synced.error_code != ErrorCode.NONE:
            self.is_out(ErrorCode(synced.error_code))
            return
        # An empty assignment means that the member gets no partition.
        self._is_assigned = bool(synced.assignment)
        self.generation = joined.generation_id

    def _sync_request(self, joined: Any) -> SyncGroupRequest:
        assignments = []
        if joined.leader == self.member_id:
            members = sorted(one.member_id for one in joined.members)
            topic, number = self._source
            all_of_it = ConsumerAssignment([OwnedPartitions(topic, [number])])
            content = write_assignment(all_of_it, 0)
            assignments = [SyncGroupRequestAssignment(self._client.random.choice(members), content)]
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            assignments=assignments,
        )

    async def _ask(self, request: object, api_key: ApiKey, api_version: int) -> Any | None:
        answer = await self._coordinators.ask(
            CoordinatorKind.GROUP, self._group, request, api_key, api_version
        )
        if answer is None:
            await self._client.pause()
        return answer
