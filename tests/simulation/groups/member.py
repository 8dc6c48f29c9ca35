"""A simulated member of a classic group: joins, reads, commits, and joins again when told.

It speaks the protocol raw and has nothing to do with ``ottla.client``. Whoever leads computes the
same assignment from the same members, as real assignors do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
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
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.groups.coordination import (
    COORDINATION,
    GroupVersions,
    fetch_offsets,
    find_coordinator,
)
from tests.simulation.groups.evidence import Owned
from tests.simulation.groups.reading import Reader
from tests.simulation.wire import Gone

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.client import Client
    from tests.simulation.groups.evidence import GroupEvidence
    from tests.simulation.history import Partition

PROTOCOL = "simulated"
STATIC_LEAVE_VERSION = 3
# What a member is told when its place in the group is not what it was.
LOST_PLACE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
LOST_ID = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class Terms:
    """What the members of one group have in common."""

    def __init__(self, group: str, partitions: list[Partition], session_timeout_ms: int) -> None:
        self.group = group
        self.partitions = sorted(partitions)
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = session_timeout_ms


class Member:
    """One life of a member: its process may end at any time."""

    def __init__(
        self, client: Client, evidence: GroupEvidence, terms: Terms, instance_id: str | None
    ) -> None:
        self.client = client
        self.evidence = evidence
        self.terms = terms
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        is_static = instance_id is not None
        self.versions = GroupVersions.draw(client.random.child("groups"), is_static=is_static)

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Until told to leave."""
        while go_on():
            try:
                if not await find_coordinator(
                    self.client, self.versions.find_coordinator, self.terms.group
                ):
                    await self.client.pause()
                    continue
                partitions = await self._enter()
                if partitions is not None:
                    await self._work(partitions, go_on)
            except Gone:
                await self.client.pause()
        await self._leave()

    # -- a generation ------------------------------------------------------------------------

    async def _enter(self) -> list[Partition] | None:
        """Join the next generation and hear what is ours in it; None: try again."""
        joined = await self._ask(self._join_request(), ApiKey.JOIN_GROUP, self.versions.join)
        code = ErrorCode(joined.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return None
        if not self._may_go_on(code, "joining"):
            await self.client.pause()
            return None
        self.member_id, self.generation = joined.member_id, joined.generation_id
        asked = self.evidence.history.tick()
        synced = await self._ask(self._sync_request(joined), ApiKey.SYNC_GROUP, self.versions.sync)
        if not self._may_go_on(ErrorCode(synced.error_code), "syncing"):
            return None
        assignment, _ = read_assignment(synced.assignment)
        partitions = [
            (topic.topic, number)
            for topic in assignment.assigned_partitions
            for number in topic.partitions
        ]
        self.evidence.owned.append(
            Owned(
                asked,
                self.evidence.history.tick(),
                self.terms.group,
                self.generation,
                self.instance_id or self.member_id,
                tuple(partitions),
            )
        )
        return partitions

    async def _work(self, partitions: list[Partition], go_on: Callable[[], bool]) -> None:
        """Read and commit until the generation is over for this member."""
        version, group = self.versions.fetch, self.terms.group
        offsets: dict[Partition, int] | None = {}
        if partitions:
            offsets = await fetch_offsets(self.client, self.evidence, version, group, partitions)
        if offsets is None:
            await self.client.pause()
            return
        reader = Reader(self, {p: max(0, offset) for p, offset in offsets.items()})
        clock, random = self.client.ports.clock, self.client.random
        beat_ms = clock.now_ms()
        while go_on():
            await reader.poll()
            if random.chance(0.6) and not self._may_go_on(await reader.commit(), "committing"):
                return
            if clock.now_ms() >= beat_ms:
                beat_ms = clock.now_ms() + self.terms.session_timeout_ms / 5
                request = HeartbeatRequest(
                    self.terms.group, self.generation, self.member_id, self.instance_id
                )
                answer = await self._ask(request, ApiKey.HEARTBEAT, self.versions.heartbeat)
                code = ErrorCode(answer.error_code)
                if code is ErrorCode.REBALANCE_IN_PROGRESS:
                    await reader.commit()
                if not self._may_go_on(code, "a heartbeat"):
                    return

    def _may_go_on(self, code: ErrorCode, what: str) -> bool:
        """Whether all is well; what else may be said is remembered or reported."""
        if code in LOST_ID:
            self.member_id, self.generation = "", -1
        elif code is not ErrorCode.NONE and code not in LOST_PLACE and code not in COORDINATION:
            self.evidence.history.surprises.append(
                f"{self.client.name} was told {code.name} at {what}"
            )
        return code is ErrorCode.NONE

    async def _leave(self) -> None:
        """Once, politely; a session that nobody renews ends by itself."""
        if not self.member_id:
            return
        request = LeaveGroupRequest(group_id=self.terms.group, member_id=self.member_id)
        if self.versions.leave >= STATIC_LEAVE_VERSION:
            identity = MemberIdentity(self.member_id, self.instance_id)
            request = LeaveGroupRequest(group_id=self.terms.group, members=[identity])
        await self.client.once(request, ApiKey.LEAVE_GROUP, self.versions.leave)

    # -- requests ----------------------------------------------------------------------------

    async def _ask(self, request: object, api_key: ApiKey, version: int) -> Any:
        """With patience for rebalances. Raises Gone."""
        wire = await self.client.wire()
        answer = wire.send(request, api_key, version)
        return await wire.wait(answer, self.terms.rebalance_timeout_ms + 4_000.0)

    def _join_request(self) -> JoinGroupRequest:
        topics = sorted({topic for topic, _ in self.terms.partitions})
        metadata = write_subscription(ConsumerSubscription(topics=topics), 0)
        return JoinGroupRequest(
            group_id=self.terms.group,
            session_timeout_ms=self.terms.session_timeout_ms,
            rebalance_timeout_ms=self.terms.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(PROTOCOL, metadata)],
        )

    def _sync_request(self, joined: Any) -> SyncGroupRequest:
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == self.member_id and not joined.skip_assignment:
            assignments = self._assign(joined.members)
        return SyncGroupRequest(
            group_id=self.terms.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=assignments,
        )

    def _assign(self, members: list[Any]) -> list[SyncGroupRequestAssignment]:
        """Round robin over the members in the order of their names."""
        ordered = sorted(members, key=lambda one: one.group_instance_id or one.member_id)
        assignments = []
        for place, member in enumerate(ordered):
            numbers: dict[str, list[int]] = {}
            for topic, number in self.terms.partitions[place :: len(ordered)]:
                numbers.setdefault(topic, []).append(number)
            owned = [OwnedPartitions(*entry) for entry in numbers.items()]
            content = write_assignment(ConsumerAssignment(assigned_partitions=owned), 0)
            assignments.append(SyncGroupRequestAssignment(member.member_id, content))
        return assignments
