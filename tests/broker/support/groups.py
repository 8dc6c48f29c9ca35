"""Short ways to be a member of a group over a raw connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

# A rebalance of a test need not wait three seconds for members that never come.
QUICK = {"group.initial.rebalance.delay.ms": "0"}
GROUP = "my-group"
SUBSCRIPTION = bytes.fromhex("00000000000100027431ffffffff")


async def coordinated(client: RawClient, group_id: str = GROUP) -> None:
    """Return when the group's coordinator is there and has loaded."""
    async with asyncio.timeout(60):
        while True:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
            answer = (await client.call(4, request)).coordinators[0]
            if answer.error_code == ErrorCode.NONE:
                fetched = await positions(client, group_id)
                if fetched.error_code == ErrorCode.NONE:
                    return
            await asyncio.sleep(0.01)


def join_request(
    member_id: str = "", group_id: str = GROUP, session_timeout_ms: int = 10_000
) -> JoinGroupRequest:
    """A request of a member that supports one protocol."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", SUBSCRIPTION)],
    )


class Member:
    """One classic member on a connection of its own."""

    def __init__(self, client: RawClient, group_id: str = GROUP) -> None:
        self.client = client
        self.group_id = group_id
        self.member_id = ""
        self.generation_id = -1
        self.session_timeout_ms = 10_000

    async def take_id(self) -> None:
        """Sends a first join without an id, which is answered with a member id (KIP-394)."""
        request = join_request("", self.group_id, self.session_timeout_ms)
        answer = await self.client.call(9, request)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        self.member_id = answer.member_id

    async def join(self) -> Any:
        """Join, whatever it takes."""
        if not self.member_id:
            await self.take_id()
        request = join_request(self.member_id, self.group_id, self.session_timeout_ms)
        answer = await self.client.call(9, request)
        self.generation_id = answer.generation_id
        return answer

    async def sync(self, assignments: dict[str, bytes] | None = None) -> Any:
        """Hand out the assignments as a leader, or wait for one's own."""
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id, assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        return await self.client.call(5, request)

    async def enter(self) -> None:
        """Be the only member, and have an assignment."""
        await self.join()
        answer = await self.sync({self.member_id: b"all of it"})
        assert answer.error_code == ErrorCode.NONE

    @property
    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id
        )

    @property
    def leave_request(self) -> LeaveGroupRequest:
        return LeaveGroupRequest(
            group_id=self.group_id, members=[MemberIdentity(member_id=self.member_id)]
        )

    async def heartbeat(self) -> int:
        """The error code."""
        answer = await self.client.call(4, self.heartbeat_request)
        return int(answer.error_code)


async def commit(
    client: RawClient,
    offsets: dict[tuple[str, int], int],
    group_id: str = GROUP,
    member: Member | None = None,
    version: int = 8,
) -> dict[tuple[str, int], int]:
    """Commit positions; the error of each."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata="note"
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1 if member is None else member.generation_id,
        member_id="" if member is None else member.member_id,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()
        ],
    )
    response = await client.call(version, request)
    return {
        (topic.name, part.partition_index): part.error_code
        for topic in response.topics
        for part in topic.partitions
    }


async def positions(
    client: RawClient, group_id: str = GROUP, topics: dict[str, list[int]] | None = None
) -> Any:
    """The group's part of the answer of OffsetFetch 8; all topics unless some are named."""
    wanted = None
    if topics is not None:
        wanted = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=wanted)])
    return (await client.call(8, request)).groups[0]


async def committed(client: RawClient, group_id: str = GROUP) -> dict[tuple[str, int], int]:
    """All positions of the group."""
    answer = await positions(client, group_id)
    assert answer.error_code == ErrorCode.NONE
    return {
        (topic.name, part.partition_index): part.committed_offset
        for topic in answer.topics
        for part in topic.partitions
    }
