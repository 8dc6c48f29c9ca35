"""Answers to unusual requests about topics, as Apache Kafka 3.9 and 4.1 give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from ottla.protocol.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.support.requests import batch, create, produced

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

_ILLEGAL = ["", "a b", ".", "..", "x" * 250]
_INVALID_TOPIC = ErrorCode.INVALID_TOPIC_EXCEPTION
_INVALID = ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [2, 3, 4, 7])
async def test_minus_one_means_the_brokers_defaults_in_every_version(
    client: RawClient, version: int
) -> None:
    """kafkajs sends version 2 or 3 with -1 by default."""
    wanted = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1)

    response = await client.call(version, CreateTopicsRequest(topics=[wanted], timeout_ms=20_000))

    assert response.topics[0].error_code == ErrorCode.NONE


async def test_a_setting_without_a_value_is_a_bad_setting(client: RawClient) -> None:
    """And no topic that was not made has settings, where a version has a place for them."""
    wanted = CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig("retention.ms", None)],
    )

    (answer,) = (await client.call(7, CreateTopicsRequest(topics=[wanted]))).topics

    assert (answer.error_code, answer.configs) == (ErrorCode.INVALID_CONFIG, [])


@pytest.mark.parametrize("name", _ILLEGAL)
async def test_an_illegal_name_is_told_by_every_request_about_topics(
    client: RawClient, name: str
) -> None:
    """A client that waits for such a topic would wait for ever."""
    topic = MetadataRequestTopic(name=name)
    for creates in (False, True):
        metadata = await client.call(
            12, MetadataRequest(topics=[topic], allow_auto_topic_creation=creates)
        )
        assert metadata.topics[0].error_code == _INVALID_TOPIC
    configs = await client.call(
        4, DescribeConfigsRequest(resources=[DescribeConfigsResource(2, name)])
    )
    assert configs.results[0].error_code == _INVALID_TOPIC
    producers = await client.call(0, DescribeProducersRequest([TopicRequest(name, [0])]))
    assert producers.topics[0].partitions[0].error_code == _INVALID_TOPIC
    described = await client.call(0, DescribeTopicPartitionsRequest([DescribedTopic(name)]))
    assert described.topics[0].error_code == _INVALID_TOPIC


async def test_deletion_tells_a_missing_name_from_a_missing_topic(client: RawClient) -> None:
    """With neither a name nor an id the request does not say which topic it means."""
    nobody = DeleteTopicState(name=None, topic_id=ZERO_UUID)

    neither = await client.call(6, DeleteTopicsRequest(topics=[nobody], timeout_ms=5_000))
    unnamed = await client.call(1, DeleteTopicsRequest(topic_names=[""], timeout_ms=5_000))

    assert neither.responses[0].error_code == _INVALID
    assert unnamed.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_named_twice_is_answered_once(client: RawClient) -> None:
    """In Metadata and DeleteRecords, whose answers clients read by name."""
    await create(client)
    await produced(client, batch(b"x"))
    part = DeleteRecordsPartition(partition_index=0, offset=1)
    topic = DeleteRecordsTopic(name="t", partitions=[part, part])

    metadata = await client.call(9, MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 2))
    deleted = await client.call(2, DeleteRecordsRequest(topics=[topic, topic], timeout_ms=5_000))

    assert len(metadata.topics) == 1
    (answered,) = deleted.topics
    assert [(one.error_code, one.low_watermark) for one in answered.partitions] == [(0, 1)]


async def test_a_topic_id_before_version_12_refuses_the_whole_request(client: RawClient) -> None:
    """Nothing else is said: what the client meant is unknown."""
    topic = MetadataRequestTopic(name="t", topic_id=b"1" * 16)

    response = await client.call(10, MetadataRequest(topics=[topic]))

    assert [one.error_code for one in response.topics] == [_INVALID]
    assert response.brokers == []


@pytest.mark.parametrize(
    ("cursor", "names"),
    [(Cursor("t", -1), ["t"]), (Cursor("other", 0), ["t"]), (Cursor("t", -1), [])],
)
async def test_a_cursor_that_names_nothing_of_what_is_asked_for_is_refused(
    client: RawClient, cursor: Cursor, names: list[str]
) -> None:
    """Going on from somewhere else would leave topics out."""
    await create(client)
    request = DescribeTopicPartitionsRequest(
        topics=[DescribedTopic(name) for name in names], cursor=cursor
    )

    response = await client.call(0, request)

    assert [topic.error_code for topic in response.topics] == [_INVALID]


@pytest.mark.parametrize("limit", [0, -1])
async def test_an_answer_has_at_least_one_partition(client: RawClient, limit: int) -> None:
    """Otherwise a client that follows the cursors would never finish."""
    await create(client, partitions=3)

    response = await client.call(0, DescribeTopicPartitionsRequest(response_partition_limit=limit))

    assert [len(topic.partitions) for topic in response.topics] == [1]
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("t", 1)
