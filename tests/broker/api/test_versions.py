"""Every served version of every API, with good and with bad answers, can be written down.

An encoder refuses to lose a field that a version has no place for; a handler that sets one gives
its clients a closed connection instead of an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.api.table import TABLE
from ottla.protocol.apis import API, ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.support.requests import batch, create, fetched, listed, produced

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient


def served(key: ApiKey) -> list[int]:
    """The versions that are answered."""
    api = TABLE[key]
    return [version for version in range(api.max_version + 1) if api.serves(version)]


def test_every_codec_has_a_handler() -> None:
    """A codec that no broker uses would rot."""
    assert set(API) == set(TABLE)


@pytest.mark.parametrize("version", served(ApiKey.PRODUCE))
async def test_a_refused_produce_can_be_told(client: RawClient, version: int) -> None:
    """Record errors and messages have a place from version 8 on only."""
    await create(client, cleanup_policy="compact")

    keyless = await produced(client, batch(b"x"), version)
    unknown = await produced(client, batch(b"x"), version, topic="missing")

    no_topic = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID
    assert keyless.error_code == ErrorCode.INVALID_RECORD
    assert unknown.error_code == no_topic


@pytest.mark.parametrize("version", served(ApiKey.FETCH))
async def test_a_refused_fetch_can_be_told(client: RawClient, version: int) -> None:
    """And so can an empty one for a read_committed reader."""
    await create(client)

    beyond = await fetched(client, 5, version)
    unknown = await fetched(client, 0, version, topic="missing")
    committed = await fetched(client, 0, version, isolation_level=1)

    no_topic = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID
    assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert unknown.error_code == no_topic
    assert (committed.error_code, committed.aborted_transactions) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("version", served(ApiKey.LIST_OFFSETS))
async def test_refused_offsets_can_be_told(client: RawClient, version: int) -> None:
    """For a topic that does not exist."""
    answer = await listed(client, -1, version, topic="missing")

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", served(ApiKey.CREATE_TOPICS))
async def test_topics_are_made_in_every_version(client: RawClient, version: int) -> None:
    """One good topic and one bad in the same request."""
    good = CreatableTopic(name="good", num_partitions=1, replication_factor=1)
    bad = CreatableTopic(name="bad/name", num_partitions=1, replication_factor=1)

    answer = await client.call(version, CreateTopicsRequest(topics=[good, bad], timeout_ms=5000))

    assert [topic.error_code for topic in answer.topics] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


@pytest.mark.parametrize("version", served(ApiKey.DELETE_TOPICS))
async def test_topics_are_deleted_in_every_version(client: RawClient, version: int) -> None:
    """By name; version 6 has another place for it."""
    await create(client)
    names = ["t", "missing"]
    if version >= 6:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], timeout_ms=5000
        )
    else:
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=5000)

    answer = await client.call(version, request)

    assert [one.error_code for one in answer.responses] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize("version", served(ApiKey.CREATE_PARTITIONS))
async def test_partitions_are_added_in_every_version(client: RawClient, version: int) -> None:
    """To a topic that is there and to one that is not."""
    await create(client)
    wanted = [
        CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("t", "missing")
    ]

    answer = await client.call(version, CreatePartitionsRequest(topics=wanted, timeout_ms=5000))

    assert [one.error_code for one in answer.results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize("version", served(ApiKey.DELETE_RECORDS))
async def test_records_are_deleted_in_every_version(client: RawClient, version: int) -> None:
    """Of a partition that is there and of one that is not."""
    await create(client)
    await produced(client, batch(b"x"))
    wanted = [DeleteRecordsPartition(partition_index=index, offset=1) for index in (0, 7)]
    topics = [DeleteRecordsTopic(name="t", partitions=wanted)]

    answer = await client.call(version, DeleteRecordsRequest(topics=topics, timeout_ms=5000))

    assert [(p.low_watermark, p.error_code) for p in answer.topics[0].partitions] == [
        (1, ErrorCode.NONE),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("version", served(ApiKey.DESCRIBE_CONFIGS))
async def test_settings_are_described_in_every_version(client: RawClient, version: int) -> None:
    """With synonyms and documentation where the version has them, and with all defaults."""
    await create(client, retention_ms="7777")
    resources = [
        describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        for kind, name in ((2, "t"), (4, "1"), (4, ""), (2, "missing"), (99, "x"), (4, "12"))
    ]
    request = describe_configs.DescribeConfigsRequest(
        resources=resources, include_synonyms=version >= 1, include_documentation=version >= 3
    )

    topic, broker, dynamic, missing, odd, other = (await client.call(version, request)).results

    settings = {config.name: config for config in topic.configs}
    retention = settings["retention.ms"]
    assert retention.value == "7777"
    if version:
        assert retention.config_source == 1
        assert [synonym.value for synonym in retention.synonyms][:1] == ["7777"]
    else:
        assert (retention.is_default, settings["cleanup.policy"].is_default) == (False, True)
    assert len(settings) > 30
    assert len(broker.configs) > 200
    assert dynamic.configs == []
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert odd.error_code == other.error_code == ErrorCode.INVALID_REQUEST
    if version >= 3:
        assert retention.config_type == 5
        assert all(config.documentation for config in topic.configs)


@pytest.mark.parametrize("version", served(ApiKey.ALTER_CONFIGS))
async def test_settings_are_replaced_in_every_version(client: RawClient, version: int) -> None:
    """AlterConfigs replaces the whole set: what it does not name falls back to the default."""
    await create(client, retention_ms="7777")
    configs = [alter_configs.AlterableConfig(name="segment.ms", value="5000")]
    resources = [
        alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=configs)
        for name in ("t", "missing")
    ]
    request = alter_configs.AlterConfigsRequest(resources=resources)

    done, missing = (await client.call(version, request)).responses

    assert (done.error_code, missing.error_code) == (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    assert await settings_of(client) == {"segment.ms": "5000"}


async def settings_of(client: RawClient) -> dict[str, str]:
    """Returns the settings of the topic itself."""
    resource = describe_configs.DescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=None
    )
    request = describe_configs.DescribeConfigsRequest(resources=[resource])
    (result,) = (await client.call(4, request)).results
    return {one.name: one.value for one in result.configs if one.config_source == 1}


@pytest.mark.parametrize("version", served(ApiKey.INCREMENTAL_ALTER_CONFIGS))
async def test_single_settings_are_changed_in_every_version(
    client: RawClient, version: int
) -> None:
    """Set, delete and append; a bad change changes nothing; a dry run neither (KIP-339)."""
    await create(client, retention_ms="7777", cleanup_policy="delete")

    async def change(*steps: tuple[str, int, str | None], dry: bool = False) -> ErrorCode:
        configs = [
            incremental_alter_configs.AlterableConfig(name=n, config_operation=o, value=v)
            for n, o, v in steps
        ]
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=2, resource_name="t", configs=configs
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=dry
        )
        return ErrorCode((await client.call(version, request)).responses[0].error_code)

    assert await change(("segment.ms", 0, "5000"), ("retention.ms", 1, None)) == ErrorCode.NONE
    assert await change(("cleanup.policy", 2, "compact")) == ErrorCode.NONE
    assert await change(("segment.ms", 0, "soon")) == ErrorCode.INVALID_CONFIG
    assert await change(("segment.millis", 0, "1")) == ErrorCode.INVALID_CONFIG
    assert await change(("segment.ms", 0, "9000"), dry=True) == ErrorCode.NONE
    assert await settings_of(client) == {"segment.ms": "5000", "cleanup.policy": "delete,compact"}
