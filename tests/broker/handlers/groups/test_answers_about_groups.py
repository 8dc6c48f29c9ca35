"""Answers to unusual requests on groups and the cluster, as Apache Kafka 3.9 and 4.1 give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.compile import decode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.metadata import MetadataRequest
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
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.support.groups import coordinated
from tests.broker.support.requests import create

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

_INVALID = ErrorCode.INVALID_REQUEST
_BROKER = 4


async def _altered(client: RawClient, broker: object, name: str, value: str) -> int:
    """The error of setting one thing, which is only judged."""
    resource = AlterConfigsResource(_BROKER, str(broker), [AlterableConfig(name, value)])
    response = await client.call(2, AlterConfigsRequest([resource], validate_only=True))
    return int(response.responses[0].error_code)


@pytest.mark.parametrize("version", range(10))
async def test_who_is_refused_has_no_protocol(client: RawClient, version: int) -> None:
    """Null where the version knows it, else empty."""
    await coordinated(client, "g")
    request = JoinGroupRequest(group_id="", session_timeout_ms=10_000, protocol_type="consumer")

    response = await client.call(version, request)

    assert response.error_code == ErrorCode.INVALID_GROUP_ID
    assert response.protocol_name == (None if version >= 7 else "")


async def test_positions_that_cannot_be_there_are_not_forgotten(client: RawClient) -> None:
    """An administrator who mistypes a topic is told so."""
    await create(client)
    await coordinated(client, "g")
    await _committed(client, [OffsetCommitRequestPartition(0, 5)])
    wanted = [("t", 0), ("t", 9), ("nope", 0)]
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index)])
        for name, index in wanted
    ]

    response = await client.call(0, OffsetDeleteRequest(group_id="g", topics=topics))
    nameless = await client.call(0, OffsetDeleteRequest(group_id="", topics=topics))
    missing = await client.call(0, OffsetDeleteRequest(group_id="nobody", topics=topics))

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [
        (topic.name, part.partition_index, part.error_code)
        for topic in response.topics
        for part in topic.partitions
    ] == [("t", 0, 0), ("t", 9, unknown), ("nope", 0, unknown)]
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_each_commit_of_a_partition_has_its_own_verdict(client: RawClient) -> None:
    """Also beside a partition that is not there."""
    await create(client)
    await coordinated(client, "g")

    codes = await _committed(
        client,
        [
            OffsetCommitRequestPartition(0, 5),
            OffsetCommitRequestPartition(9, 5),
            OffsetCommitRequestPartition(0, 6, committed_metadata="x" * 5_000),
        ],
    )

    assert codes == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]


async def _committed(client: RawClient, parts: list[OffsetCommitRequestPartition]) -> list[int]:
    topic = OffsetCommitRequestTopic(name="t", partitions=parts)
    response = await client.call(8, OffsetCommitRequest(group_id="g", topics=[topic]))
    return [part.error_code for topic in response.topics for part in topic.partitions]


async def test_syncing_in_version_5_names_the_protocol(client: RawClient) -> None:
    """What is null there is no protocol that the group could have."""
    for kind, name in ((None, "range"), ("consumer", None)):
        request = SyncGroupRequest(
            group_id="g", generation_id=1, member_id="m", protocol_type=kind, protocol_name=name
        )
        response = await client.call(5, request)
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_no_group_has_an_empty_id(client: RawClient) -> None:
    """It is not one that could be created meanwhile."""
    response = await client.call(1, ConsumerGroupDescribeRequest(group_ids=[""]))

    assert [group.error_code for group in response.groups] == [ErrorCode.INVALID_GROUP_ID]


@pytest.mark.parametrize("epoch", [-3, -7])
async def test_an_impossible_member_epoch_is_no_missing_group(
    client: RawClient, epoch: int
) -> None:
    """A client that heard of a missing group would join again with the same mistake."""
    await coordinated(client, "g")
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)

    assert (await client.call(1, request)).error_code == _INVALID


async def test_a_coordinator_is_found_with_a_message_in_the_words_of_the_version(
    client: RawClient,
) -> None:
    """Clients that show the message of each answer have one."""
    await coordinated(client, "g")

    single = await client.call(3, FindCoordinatorRequest(key="g"))
    batched = await client.call(4, FindCoordinatorRequest(coordinator_keys=["g"]))

    assert (single.error_code, single.error_message) == (0, "NONE")
    assert [(one.error_code, one.error_message) for one in batched.coordinators] == [(0, "")]


async def test_settings_of_another_broker_are_refused(client: RawClient) -> None:
    """Also of one that is not there; a plug-in's own settings are taken."""
    me = (await client.call(9, MetadataRequest(topics=[]))).brokers[0].node_id
    assert await _altered(client, me + 1, "log.cleaner.threads", "2") == _INVALID
    assert await _altered(client, me, "log.cleaner.threads", "x") == _INVALID
    assert await _altered(client, me, "my.plug.in", "x") == ErrorCode.NONE
    assert await _altered(client, "", "leader.replication.throttled.rate", "9") == ErrorCode.NONE


async def test_synonyms_are_those_of_the_setting_that_counts(client: RawClient) -> None:
    """An unset setting in milliseconds must not name the default of one in hours as its synonym."""
    await create(client)
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(2, "t", ["retention.ms", "max.message.bytes"])],
        include_synonyms=True,
    )

    (result,) = (await client.call(4, request)).results

    assert (result.error_code, result.error_message) == (0, "")
    named = {entry.name: [one.name for one in entry.synonyms] for entry in result.configs}
    assert named == {"retention.ms": [], "max.message.bytes": ["message.max.bytes"]}


async def test_an_unsupported_version_of_api_versions_is_told_of_that_api_alone(
    client: RawClient,
) -> None:
    """All that such a client needs (KIP-511)."""
    client.send_frame(b"\x00\x12\x7f\xff\x00\x00\x00\x07\xff\xff")

    frame = await client.frame()

    response = decode(ApiVersionsResponse, 0, memoryview(frame)[4:])
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version) for one in response.api_keys] == [(18, 0)]


async def test_features_named_twice_fail_and_none_is_no_fault(client: RawClient) -> None:
    """As in 4.x."""
    key = FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=1)

    twice = await client.call(1, UpdateFeaturesRequest(5_000, [key, key]))
    nothing = await client.call(2, UpdateFeaturesRequest(5_000, []))

    assert twice.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert nothing.error_code == ErrorCode.NONE


async def test_a_refused_endpoint_type_is_not_repeated(client: RawClient) -> None:
    """The answer describes brokers, so it names their type."""
    response = await client.call(1, DescribeClusterRequest(endpoint_type=2))

    assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert response.endpoint_type == 1
