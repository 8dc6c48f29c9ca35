"""Finding coordinators, the internal topics behind them, and being told that one is elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.api.table import TABLE
from ottla.broker.authorization.authorizer import Authorizer
from ottla.coordinator.hashing import partition_for
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.records.builder import encode_batch
from tests.broker.support.requests import create, created_meanwhile, produce, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestCaller
    from tests.support.raw_client import RawClient

OFFSETS = "__consumer_offsets"
GROUP = "my-group"
PARTITION = partition_for(GROUP, 50)


def served(*keys: ApiKey) -> list[tuple[ApiKey, int]]:
    """Each version that is answered."""
    return [
        (key, version)
        for key in keys
        for version in range(TABLE[key].max_version + 1)
        if TABLE[key].serves(version)
    ]


async def found(client: RawClient, version: int, group_id: str = GROUP, kind: int = 0) -> Any:
    """One answer of FindCoordinator, whatever the version's shape."""
    batched = version >= 4
    request = FindCoordinatorRequest(
        key="" if batched else group_id,
        key_type=kind,
        coordinator_keys=[group_id] if batched else [],
    )
    response = await client.call(version, request)
    return response.coordinators[0] if batched else response


async def found_at_last(client: RawClient, group_id: str = GROUP) -> Any:
    """As a client asks: again, while there is none yet."""
    async with asyncio.timeout(60):
        while True:
            answer = await found(client, 4, group_id)
            if answer.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return answer
            await asyncio.sleep(0.02)


async def test_the_coordinator_is_the_leader_of_the_groups_partition() -> None:
    """The first question makes the topic; every version then gives host, port and id."""
    async with running_broker() as running, running.connect() as client:
        first = await found(client, 0)
        await found_at_last(client)
        answers = [await found(client, version) for version in range(7)]

        assert first.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        address = running.broker.address
        assert {(one.node_id, one.host, one.port) for one in answers} == {
            (1, address.host, address.port)
        }
        assert {one.error_code for one in answers} == {ErrorCode.NONE}


async def test_many_groups_are_found_at_once(client: RawClient) -> None:
    """Each key has its own answer (KIP-699)."""
    await found_at_last(client)

    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b", "c"])
    response = await client.call(4, request)

    assert [one.key for one in response.coordinators] == ["a", "b", "c"]


@pytest.mark.parametrize("version", [1, 4])
async def test_a_transactional_id_has_no_coordinator_yet(client: RawClient, version: int) -> None:
    """A retriable code: producers keep asking instead of failing for good."""
    answer = await found(client, version, "t", kind=1)
    nonsense = await found(client, version, "t", kind=9)

    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert nonsense.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [5, 6])
async def test_a_share_group_has_no_coordinator(client: RawClient, version: int) -> None:
    """Refused for good, as by a Kafka without share groups; other keys of version 6 are found."""
    share = await found(client, version, "group:id:0", kind=2)
    transaction = await found(client, version, "t", kind=1)

    assert share.error_code == ErrorCode.INVALID_REQUEST
    assert (share.node_id, share.port) == (-1, -1)
    assert transaction.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_the_offsets_topic_is_made_as_kafka_makes_it(client: RawClient) -> None:
    """Retention would delete the positions of every group that does not commit all week."""
    await found_at_last(client)

    response = await client.call(13, MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS)]))
    (topic,) = response.topics
    resource = DescribeConfigsResource(
        resource_type=2,
        resource_name=OFFSETS,
        configuration_keys=["cleanup.policy", "compression.type", "segment.bytes"],
    )
    described = await client.call(4, DescribeConfigsRequest(resources=[resource]))

    assert topic.is_internal
    assert len(topic.partitions) == 50
    values = {entry.name: entry.value for entry in described.results[0].configs}
    assert values == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


async def test_a_client_that_asks_for_its_metadata_makes_it_no_other_way(
    client: RawClient,
) -> None:
    """Auto-creation with the defaults of ordinary topics would make a topic of one partition that
    retention empties."""
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=OFFSETS)], allow_auto_topic_creation=True
    )
    await client.call(9, wanted)

    response = await created_meanwhile(client, OFFSETS)

    assert len(response.topics[0].partitions) == 50


async def test_an_administrator_cannot_make_it_wrongly(client: RawClient) -> None:
    """What is left out is filled in, what would lose positions is refused."""
    refused = await create(client, OFFSETS, 3, cleanup_policy="delete")
    made = await create(client, OFFSETS, 3, segment_bytes="1000000")
    enlarged = await client.call(
        3, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=OFFSETS, count=9)])
    )

    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert made.error_code == ErrorCode.NONE
    values = {config.name: config.value for config in made.configs}
    assert (values["cleanup.policy"], values["segment.bytes"]) == ("compact", "1000000")
    assert enlarged.results[0].error_code == ErrorCode.INVALID_PARTITIONS


async def test_only_the_admin_client_may_produce_to_it(client: RawClient) -> None:
    """One stray record would be taken for a commit. Kafka's own tools name themselves."""
    await found_at_last(client)
    records = encode_batch([(0, b"\x00\x63", b"x", ())])

    refused = await produced(client, records, topic=OFFSETS)
    client.send(9, produce(records, topic=OFFSETS), "__admin_client")
    allowed = await client.answer(9, produce(records, topic=OFFSETS))

    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert allowed.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def request_of(key: ApiKey, version: int) -> Any:
    """A request about the group in that version's shape."""
    commits = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    forgotten = [OffsetDeleteRequestPartition(partition_index=0)]
    batched = version >= 8
    requests = {
        ApiKey.JOIN_GROUP: JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=10_000, member_id="m", protocol_type="consumer"
        ),
        ApiKey.SYNC_GROUP: SyncGroupRequest(
            group_id=GROUP,
            generation_id=1,
            member_id="m",
            protocol_type="consumer",
            protocol_name="range",
        ),
        ApiKey.HEARTBEAT: HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"),
        ApiKey.LEAVE_GROUP: LeaveGroupRequest(
            group_id=GROUP,
            member_id="m" if version < 3 else "",
            members=[MemberIdentity(member_id="m")] if version >= 3 else [],
        ),
        ApiKey.OFFSET_COMMIT: OffsetCommitRequest(
            group_id=GROUP, topics=[OffsetCommitRequestTopic(name="t", partitions=commits)]
        ),
        ApiKey.OFFSET_FETCH: OffsetFetchRequest(
            group_id="" if batched else GROUP,
            topics=[OffsetFetchRequestTopic("t", [0])] if not batched else [],
            groups=[OffsetFetchRequestGroup(GROUP, topics=[OffsetFetchRequestTopics("t")])]
            if batched
            else [],
        ),
        ApiKey.DESCRIBE_GROUPS: DescribeGroupsRequest(groups=[GROUP]),
        ApiKey.DELETE_GROUPS: DeleteGroupsRequest(groups_names=[GROUP]),
        ApiKey.OFFSET_DELETE: OffsetDeleteRequest(
            group_id=GROUP, topics=[OffsetDeleteRequestTopic(name="t", partitions=forgotten)]
        ),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="m", subscribed_topic_names=["t"], topic_partitions=[]
        ),
        ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRequest(group_ids=[GROUP]),
    }
    return requests[key]


def error_of(response: Any) -> int:
    """The one error that such an answer carries, wherever its version has a place for it."""
    for name in ("groups", "results"):
        for part in getattr(response, name, ()):
            return int(part.error_code)
    code = int(getattr(response, "error_code", 0))
    if code == ErrorCode.NONE:
        for topic in getattr(response, "topics", ()):
            for part in topic.partitions:
                return int(part.error_code)
    return code


ASKED = served(
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
)

# Their positions are in the metadata store, which no broker coordinates.
IN_THE_STORE = ((ApiKey.OFFSET_COMMIT, 0), (ApiKey.OFFSET_FETCH, 0))


async def test_every_version_can_say_that_the_coordinator_is_elsewhere(client: RawClient) -> None:
    """A closed connection instead of the code would be taken for a failing broker (U-03)."""
    await create(client, "t")

    for key, version in ASKED:
        if (key, version) in IN_THE_STORE:
            continue
        response = await client.call(version, request_of(key, version))

        assert error_of(response) == ErrorCode.NOT_COORDINATOR, (key, version)


class ClosedTo(Authorizer):
    """Refuses every operation on resources of one type."""

    def __init__(self, closed: AclResourceType) -> None:
        self.closed = closed

    def is_allowed(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        return resource is not self.closed


async def test_every_version_can_say_that_the_caller_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The authorizer is asked before the group."""
    monkeypatch.setattr(
        "ottla.broker.authorization.setup.Authorizer", lambda: ClosedTo(AclResourceType.GROUP)
    )
    async with running_broker() as running, running.connect() as client:
        await create(client, "t")

        for key, version in ASKED:
            response = await client.call(version, request_of(key, version))

            assert error_of(response) == ErrorCode.GROUP_AUTHORIZATION_FAILED, (key, version)


async def test_a_broker_without_groups_lists_none(client: RawClient) -> None:
    """Admin tools ask every broker, also those that coordinate nothing."""
    for version in range(6):
        response = await client.call(version, ListGroupsRequest())

        assert (response.error_code, response.groups) == (ErrorCode.NONE, [])
