"""A simulated client's requests to the group coordinator, in versions of one age."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.simulation.clients.client import RETRIABLE, Refused
from tests.simulation.groups.evidence import Fetched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ids import Uuid
    from tests.simulation.clients.client import Client
    from tests.simulation.groups.evidence import GroupEvidence
    from tests.simulation.history import Partition
    from tests.simulation.world.random import SimRandom

COORDINATION = RETRIABLE | {ErrorCode.NOT_COORDINATOR, ErrorCode.UNSTABLE_OFFSET_COMMIT}
# Errors that tell a member of KIP-848 that its epoch is outdated.
OUTDATED = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
MANY_GROUPS_VERSION = 8
MANY_KEYS_VERSION = 4


class GroupVersions(NamedTuple):
    """Of one client. Members with a name of their own need newer ones (KIP-345)."""

    find_coordinator: int
    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int

    @staticmethod
    def draw(random: SimRandom, *, is_static: bool) -> GroupVersions:
        """From old to new."""

        def pick(first: int, static: int, last: int) -> int:
            low = static if is_static else first
            return low + random.below(last - low + 1)

        return GroupVersions(
            find_coordinator=pick(0, 0, 4),
            join=pick(0, 5, 9),
            sync=pick(0, 3, 5),
            heartbeat=pick(0, 3, 4),
            leave=pick(0, 3, 5),
            commit=pick(2, 7, 9),
            fetch=pick(1, 1, 9),
        )


async def find_coordinator(client: Client, version: int, group: str) -> bool:
    """Look up the coordinator; return whether there is one now. Raises Gone, Refused."""
    request = FindCoordinatorRequest(key=group)
    if version >= MANY_KEYS_VERSION:
        request = FindCoordinatorRequest(coordinator_keys=[group])
    response = await (await client.wire()).call(request, ApiKey.FIND_COORDINATOR, version)
    answer = response.coordinators[0] if version >= MANY_KEYS_VERSION else response
    code = ErrorCode(answer.error_code)
    if code is not ErrorCode.NONE and code not in COORDINATION:
        raise Refused(code, f"the coordinator of {group}")
    return code is ErrorCode.NONE


async def fetch_offsets(
    client: Client,
    evidence: GroupEvidence,
    version: int,
    group: str,
    partitions: Sequence[Partition],
    member: tuple[str, int] | None = None,
) -> dict[Partition, int] | None:
    """Committed offsets, recorded as evidence; None: not now. Raises Gone, Refused.

    ``member``: id and epoch of the caller, if it is a member of KIP-848.
    """
    asked = evidence.history.tick()
    wire = await client.wire()
    request = _offset_fetch(version, group, partitions)
    if member is not None:
        request.groups[0].member_id, request.groups[0].member_epoch = member
    response = await wire.call(request, ApiKey.OFFSET_FETCH, version)
    answer = response.groups[0] if version >= MANY_GROUPS_VERSION else response
    codes = {ErrorCode(answer.error_code)} if version >= 2 else set()
    found: dict[Partition, int] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            codes.add(ErrorCode(one.error_code))
            found[topic.name, one.partition_index] = one.committed_offset
    codes.discard(ErrorCode.NONE)
    if codes:
        known = COORDINATION if member is None else COORDINATION | OUTDATED
        if not codes <= known:
            raise Refused(min(codes - known), f"offsets of {group}")
        return None
    answered = evidence.history.tick()
    evidence.fetched += [
        Fetched(asked, answered, group, partition, found[partition]) for partition in partitions
    ]
    return found


def _offset_fetch(version: int, group: str, partitions: Sequence[Partition]) -> OffsetFetchRequest:
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    if version < MANY_GROUPS_VERSION:
        topics = [OffsetFetchRequestTopic(*entry) for entry in numbers.items()]
        return OffsetFetchRequest(group_id=group, topics=topics)
    wanted = [
        OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
        for topic, indexes in numbers.items()
    ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)])


async def topic_names(client: Client, topics: Sequence[str]) -> dict[Uuid, str]:
    """Topic names by id, as members of KIP-848 need them; waits until all are known."""
    request = MetadataRequest([MetadataRequestTopic(name=topic) for topic in topics])
    request.allow_auto_topic_creation = False
    while True:
        response = await client.ask(request, ApiKey.METADATA, 12)
        found = {one.topic_id: one.name for one in response.topics if not one.error_code}
        if len(found) == len(topics):
            return found
        await client.pause()


async def describe_consumer(client: Client, group: str) -> Any | None:
    """State and members of a group of KIP-848; None if it is not one now. Raises Gone."""
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    response = await (await client.wire()).call(request, ApiKey.CONSUMER_GROUP_DESCRIBE, 1)
    found = response.groups[0]
    return found if found.error_code == ErrorCode.NONE else None


async def describe(client: Client, group: str) -> Any | None:
    """State and members; None: not now. Raises Gone."""
    request = DescribeGroupsRequest(groups=[group])
    response = await (await client.wire()).call(request, ApiKey.DESCRIBE_GROUPS, 5)
    found = response.groups[0]
    return found if found.error_code == ErrorCode.NONE else None
