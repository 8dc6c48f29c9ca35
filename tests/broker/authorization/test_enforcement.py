"""What answers leave out and hide, and what a revoked right ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.authorization.authorizer import AclAuthorizer
from ottla.broker.authorization.index import AclIndex
from ottla.protocol.acls import (
    CLUSTER_NAME,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    Permission,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.support.groups import coordinated
from tests.broker.support.requests import batch, create, topic_id_of
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

ME = "User:ANONYMOUS"
TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
O = Operation  # noqa: E741
INT_MIN = -(2**31)


class Scene:
    """A broker with an authorizer, and a client of it."""

    def __init__(self, running: RunningBroker, client: RawClient) -> None:
        self.running, self.client = running, client
        authorizer = running.broker.parts.authorization.authorizer
        assert isinstance(authorizer, AclAuthorizer)
        self.authorizer = authorizer

    def allow(self, *rights: tuple[Operation, AclResourceType, str]) -> None:
        """These are all rules."""
        self.authorizer.take(
            AclIndex.of(
                AclRule(AclPattern(kind, name), ME, "*", operation, Permission.ALLOW)
                for operation, kind, name in rights
            )
        )


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """With topics t and u."""
    settings = {"authorizer.class.name": "ottla.acl"}
    async with running_broker(settings) as running, running.connect() as client:
        made = Scene(running, client)
        made.allow((O.ALL, CLUSTER, CLUSTER_NAME), (O.ALL, TOPIC, "*"))
        for topic in ("t", "u"):
            await create(client, topic)
        yield made


async def test_lists_leave_out_what_the_caller_may_not_see(scene: Scene) -> None:
    """Without an error, and without a line in the audit log for each."""
    scene.allow((O.READ, TOPIC, "t"))
    lines = scene.running.broker.parts.audit.line_count

    everything = await scene.client.call(12, MetadataRequest(None))
    groups = await scene.client.call(4, ListGroupsRequest())

    assert [topic.name for topic in everything.topics] == ["t"]
    assert (groups.error_code, groups.groups) == (ErrorCode.NONE, [])
    assert scene.running.broker.parts.audit.line_count == lines


async def test_operations_are_listed_when_they_are_asked_for(scene: Scene) -> None:
    """Not asked for: the smallest number; asked for by a caller without Describe: none."""
    scene.allow((O.READ, TOPIC, "t"))
    plain = await scene.client.call(0, DescribeClusterRequest())
    hidden = await scene.client.call(0, DescribeClusterRequest(True))
    scene.allow((O.DESCRIBE, CLUSTER, CLUSTER_NAME), (O.READ, TOPIC, "t"))
    shown = await scene.client.call(0, DescribeClusterRequest(True))
    wanted = MetadataRequest(
        [MetadataRequestTopic(name="t")],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    metadata = await scene.client.call(9, wanted)
    without = await scene.client.call(9, MetadataRequest([MetadataRequestTopic(name="t")]))

    assert plain.cluster_authorized_operations == INT_MIN
    assert hidden.cluster_authorized_operations == 0
    assert shown.cluster_authorized_operations == 1 << O.DESCRIBE
    assert metadata.cluster_authorized_operations == 1 << O.DESCRIBE
    assert metadata.topics[0].topic_authorized_operations == 1 << O.READ | 1 << O.DESCRIBE
    assert without.topics[0].topic_authorized_operations == INT_MIN


async def test_who_asks_by_id_is_not_told_the_name(scene: Scene) -> None:
    """Ids are no secret, names may be."""
    topic_id = await topic_id_of(scene.client, "t")
    scene.allow()
    by_id = MetadataRequest([MetadataRequestTopic(topic_id=topic_id, name=None)])
    by_name = MetadataRequest([MetadataRequestTopic(name="t")])
    (found,) = (await scene.client.call(12, by_id)).topics
    (named,) = (await scene.client.call(12, by_name)).topics
    doomed = DeleteTopicsRequest([DeleteTopicState(None, topic_id)], timeout_ms=100)
    (deleted,) = (await scene.client.call(6, doomed)).responses

    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (found.error_code, found.name, found.topic_id) == (refused, None, topic_id)
    assert (named.error_code, named.name, named.topic_id) == (refused, "t", bytes(16))
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (refused, None, topic_id)


async def test_a_missing_topic_and_a_hidden_one_look_the_same(scene: Scene) -> None:
    """Otherwise names could be found by trying them."""
    scene.allow()
    wanted = MetadataRequest([MetadataRequestTopic(name=name) for name in ("t", "missing")])

    answer = await scene.client.call(12, wanted)

    assert {topic.error_code for topic in answer.topics} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


async def test_settings_of_a_new_topic_are_shown_to_those_who_may_see_them(scene: Scene) -> None:
    """To create is one right, DescribeConfigs another."""
    request = CreateTopicsRequest([CreatableTopic("n", 1, 1)], 100, validate_only=True)
    scene.allow((O.CREATE, TOPIC, "n"))
    (hidden,) = (await scene.client.call(7, request)).topics
    scene.allow((O.CREATE, TOPIC, "n"), (O.DESCRIBE_CONFIGS, TOPIC, "n"))
    (shown,) = (await scene.client.call(7, request)).topics

    assert hidden.error_code == shown.error_code == ErrorCode.NONE
    assert hidden.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (hidden.num_partitions, hidden.replication_factor, hidden.configs) == (-1, -1, [])
    assert (shown.topic_config_error_code, shown.num_partitions) == (ErrorCode.NONE, 1)
    assert shown.configs


async def _produced(client: RawClient, topic: str, transactional_id: str | None) -> int:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch(b"x"))])
    request = ProduceRequest(transactional_id, 1, 1_000, [data])
    client.send(9, request, client_id="__admin_client")
    (answer,) = (await client.answer(9, request)).responses
    return int(answer.partition_responses[0].error_code)


async def test_a_label_that_the_client_chooses_grants_nothing(scene: Scene) -> None:
    """Kafka's tools may write to internal topics by their client id alone."""
    await create(scene.client, "__consumer_offsets")
    assert await _produced(scene.client, "t", None) == ErrorCode.NONE

    error = await _produced(scene.client, "__consumer_offsets", None)

    assert error == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_transaction_is_refused_before_its_topics(scene: Scene) -> None:
    """As by Kafka; with the right on the transaction, the topic is what is missing."""
    scene.allow()
    neither = await _produced(scene.client, "t", "x")
    scene.allow((O.WRITE, AclResourceType.TRANSACTIONAL_ID, "x"))
    no_topic = await _produced(scene.client, "t", "x")

    assert neither == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert no_topic == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_waiting_fetch_delivers_nothing_after_its_right_has_gone(scene: Scene) -> None:
    """It was allowed when it came; the record comes after the rule was removed."""
    asked = FetchTopic(topic="t", partitions=[FetchPartition(0, fetch_offset=0)])
    request = FetchRequest(max_wait_ms=30_000, min_bytes=1, topics=[asked])
    scene.allow((O.READ, TOPIC, "t"), (O.WRITE, TOPIC, "t"))
    async with scene.running.connect() as reader:
        waiting = asyncio.ensure_future(reader.call(12, request))
        async with asyncio.timeout(30):
            while not scene.running.broker.parts.shared.waiting.count:
                await asyncio.sleep(0.005)
        scene.allow((O.WRITE, TOPIC, "t"))

        assert await _produced(scene.client, "t", None) == ErrorCode.NONE

        (part,) = (await waiting).responses[0].partitions
    assert part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not part.records
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (-1, -1, -1)


async def test_an_expression_of_a_group_matches_topics_that_the_member_may_describe(
    scene: Scene,
) -> None:
    """Its assignment would tell it the ids and partition counts of the others (KIP-848)."""
    scene.allow((O.READ, AclResourceType.GROUP, "g"), (O.READ, TOPIC, "t"))
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_regex=".*",
        topic_partitions=[],
    )
    await coordinated(scene.client, "g")
    answer = await scene.client.call(1, joining)

    assert answer.assignment is not None
    found = [one.topic_id for one in answer.assignment.topic_partitions]
    assert found == [await topic_id_of(scene.client, "t")]
