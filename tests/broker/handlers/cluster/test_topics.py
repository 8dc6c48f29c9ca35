"""Creating, deleting, enlarging and configuring topics, with Kafka's codes for what goes wrong."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
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
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.support.requests import (
    batch,
    create,
    created_meanwhile,
    fetched,
    listed,
    produced,
)
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient


async def metadata_of(client: RawClient, *names: str, version: int = 9, **more: Any) -> Any:
    """The metadata answer for these topics; they are not created."""
    wanted = [MetadataRequestTopic(name=name) for name in names]
    return await client.call(
        version,
        MetadataRequest(topics=wanted or None, allow_auto_topic_creation=False, **more),
    )


async def test_a_created_topic_can_be_used_at_once(client: RawClient) -> None:
    """When the answer is out, leaders are there: no client has to wait and guess."""
    result = await create(client, partitions=3)
    (topic,) = (await metadata_of(client, "t", version=12)).topics

    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 1)
    assert result.topic_id != ZERO_UUID
    assert topic.topic_id == result.topic_id
    assert [part.partition_index for part in topic.partitions] == [0, 1, 2]
    assert {part.leader_id for part in topic.partitions} == {
        node.node_id for node in (await metadata_of(client)).brokers
    }


async def test_defaults_are_the_brokers() -> None:
    """-1 asks for num.partitions and default.replication.factor (KIP-464)."""
    async with running_broker({"num.partitions": "4"}) as running, running.connect() as client:
        result = await create(client, partitions=-1)

    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 4)


async def test_the_answer_tells_the_settings(client: RawClient) -> None:
    """Version 5 and later: values, sources, and what the request has set (KIP-525)."""
    result = await create(client, retention_ms="1234")

    configs = {config.name: config for config in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1234", 1)
    assert configs["cleanup.policy"].value == "delete"


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreatableTopic:
    """One topic of a request."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def assigned(name: str, *placed: tuple[int, list[int]]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=broker_ids)
            for index, broker_ids in placed
        ],
    )


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("taken"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("none", partitions=0), ErrorCode.INVALID_PARTITIONS),
        (topic("many", replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("config", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (topic("unknown", retention_millis="1"), ErrorCode.INVALID_CONFIG),
        (assigned("nowhere", (0, [999])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("twice", (0, [1]), (0, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("gap", (0, [1]), (2, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_a_bad_wish_is_refused_and_the_others_are_granted(
    client: RawClient, wanted: CreatableTopic, code: ErrorCode
) -> None:
    """One bad topic in a request is its own problem."""
    await create(client, "taken")
    request = CreateTopicsRequest(topics=[wanted, topic("fine")], timeout_ms=5000)

    answer = await client.call(7, request)

    codes = {result.name: result.error_code for result in answer.topics}
    assert codes == {wanted.name: code, "fine": ErrorCode.NONE}
    assert all(result.error_message for result in answer.topics if result.error_code)


async def test_a_name_longer_by_one_is_refused(client: RawClient) -> None:
    """249 characters fit a directory's name with its suffixes; 250 do not."""
    assert (await create(client, "x" * 249)).error_code == ErrorCode.NONE
    assert (await create(client, "x" * 250)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_name_twice_in_a_request_is_refused(client: RawClient) -> None:
    """The request does not say which of the two it means."""
    answer = await client.call(
        7, CreateTopicsRequest(topics=[topic("a"), topic("a", 2)], timeout_ms=5000)
    )

    assert {result.error_code for result in answer.topics} == {ErrorCode.INVALID_REQUEST}


async def test_validate_only_makes_nothing(client: RawClient) -> None:
    """A dry run answers as the real one would."""
    request = CreateTopicsRequest(topics=[topic("dry", 2)], timeout_ms=5000, validate_only=True)

    (result,) = (await client.call(7, request)).topics

    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 2)
    (found,) = (await metadata_of(client, "dry")).topics
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def delete(client: RawClient, *names: str) -> list[int]:
    """Delete topics by name; their error codes."""
    answer = await client.call(5, DeleteTopicsRequest(topic_names=list(names), timeout_ms=5000))
    return [result.error_code for result in answer.responses]


async def test_a_topic_that_is_to_be_deleted_twice_is_kept(client: RawClient) -> None:
    """By name or by id: a client that names a topic twice may have meant another one."""
    made = await create(client, "kept")
    await create(client, "other")
    topics = [DeleteTopicState(name="kept"), DeleteTopicState(topic_id=made.topic_id)]

    assert await delete(client, "kept", "other", "kept") == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]
    answer = await client.call(6, DeleteTopicsRequest(topics=topics, timeout_ms=5000))

    assert {result.error_code for result in answer.responses} == {ErrorCode.INVALID_REQUEST}
    (found,) = (await metadata_of(client, "kept")).topics
    assert found.error_code == ErrorCode.NONE


async def test_a_deleted_topic_is_gone_and_its_name_is_free(client: RawClient) -> None:
    """The new topic of that name has another id and none of the old records (KIP-516)."""
    first = await create(client)
    await produced(client, batch(b"old"))

    codes = await delete(client, "t", "missing")
    second = await create(client)
    answer = await fetched(client, 0)

    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert first.topic_id != second.topic_id
    assert (answer.high_watermark, bytes(answer.records)) == (0, b"")


async def test_a_topic_is_deleted_by_its_id(client: RawClient) -> None:
    """Version 6; an unknown id is UNKNOWN_TOPIC_ID."""
    made = await create(client)
    wanted = [DeleteTopicState(topic_id=made.topic_id), DeleteTopicState(topic_id=b"\x07" * 16)]

    answer = await client.call(6, DeleteTopicsRequest(topics=wanted, timeout_ms=5000))

    codes = [(result.name, result.error_code) for result in answer.responses]
    assert codes == [("t", ErrorCode.NONE), (None, ErrorCode.UNKNOWN_TOPIC_ID)]


async def test_deletion_can_be_switched_off() -> None:
    """delete.topic.enable=false, with the code that each version knows."""
    settings = {"delete.topic.enable": "false"}
    async with running_broker(settings) as running, running.connect() as client:
        await create(client)
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000)
        new = (await client.call(5, request)).responses[0].error_code
        old = (await client.call(2, request)).responses[0].error_code

    assert (new, old) == (ErrorCode.TOPIC_DELETION_DISABLED, ErrorCode.INVALID_REQUEST)


async def test_partitions_can_be_added_and_never_taken(client: RawClient) -> None:
    """The count is the new total."""
    await create(client, partitions=2)

    codes = []
    for total in (3, 3, 1):
        wanted = CreatePartitionsTopic(name="t", count=total, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=5000)
        codes.append((await client.call(3, request)).results[0].error_code)

    assert codes == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_PARTITIONS,
    ]
    (found,) = (await metadata_of(client, "t")).topics
    assert len(found.partitions) == 3
    assert (await produced(client, batch(b"x"), partition=2)).base_offset == 0


async def test_missing_topics_are_created_where_that_is_allowed(client: RawClient) -> None:
    """auto.create.topics.enable is Kafka's default; a client may still forbid it."""
    forbidden = (await metadata_of(client, "auto")).topics[0]
    wanted = [MetadataRequestTopic(name="auto")]
    allowed = (await client.call(9, MetadataRequest(topics=wanted))).topics[0]

    assert forbidden.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # As Kafka does: the topic is on its way, and the client asks again.
    assert allowed.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (made,) = (await created_meanwhile(client, "auto")).topics
    assert [part.leader_id >= 0 for part in made.partitions] == [True]


async def test_a_fleet_that_asks_for_a_missing_topic_at_once_finds_one_topic() -> None:
    """Each of them may have it created; one creation is enough."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="auto")])
    async with running_broker() as running, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(running.connect()) for _ in range(30)]
        for client in clients:
            client.send(9, request)
        first = [(await client.answer(9, request)).topics[0] for client in clients]
        await created_meanwhile(clients[0], "auto")
        answers = [(await client.call(9, request)).topics[0] for client in clients]

    assert {answer.error_code for answer in first} <= {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    assert {len(answer.partitions) for answer in answers} == {1}


@pytest.mark.parametrize("version", range(14))
async def test_every_version_of_metadata_answers(client: RawClient, version: int) -> None:
    """Old clients send old versions for ever; in version 0 an empty list means all topics."""
    await create(client)
    request = MetadataRequest(topics=[] if version == 0 else None)

    answer = await client.call(version, request)

    assert [found.name for found in answer.topics] == ["t"]
    assert len(answer.brokers) == 1
    if version >= 1:
        assert answer.controller_id == answer.brokers[0].node_id


async def test_topics_are_found_by_their_id(client: RawClient) -> None:
    """Version 12 and later; before that an id in the request is refused."""
    made = await create(client)
    wanted = [MetadataRequestTopic(topic_id=made.topic_id, name=None)]

    new = (await client.call(12, MetadataRequest(topics=wanted))).topics[0]
    old = (await client.call(10, MetadataRequest(topics=wanted))).topics[0]

    assert (new.name, new.error_code) == ("t", ErrorCode.NONE)
    assert old.error_code == ErrorCode.INVALID_REQUEST


async def _delete_before(client: RawClient, offset: int, topic: str = "t") -> Any:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [DeleteRecordsTopic(name=topic, partitions=[wanted])]
    answer = await client.call(2, DeleteRecordsRequest(topics=topics, timeout_ms=5000))
    return answer.topics[0].partitions[0]


async def test_deleted_records_stay_deleted(client: RawClient) -> None:
    """The log start moves up, is told, and bounds every later read (hazard S-19)."""
    await create(client)
    for _ in range(5):
        await produced(client, batch(b"x", b"y"))

    assert (await _delete_before(client, 4)).low_watermark == 4
    assert (await _delete_before(client, 2)).low_watermark == 4
    assert (await listed(client, -2)).offset == 4
    assert (await fetched(client, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await _delete_before(client, 11)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await _delete_before(client, -1)).low_watermark == 10
    assert (await produced(client, batch(b"z"))).base_offset == 10


@pytest.mark.parametrize(
    ("topic", "policy", "error"),
    [
        ("t", "compact", ErrorCode.POLICY_VIOLATION),
        ("t", "compact,delete", ErrorCode.NONE),
        ("__consumer_offsets", "compact", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__transaction_state", "compact", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_records_that_have_to_be_kept_cannot_be_deleted(
    client: RawClient, topic: str, policy: str, error: ErrorCode
) -> None:
    """A group's positions, or the newest value of a key, would be gone at the next start."""
    await create(client, topic, cleanup_policy=policy)

    answer = await _delete_before(client, 0, topic)

    assert answer.error_code == error
    assert answer.low_watermark == (-1 if error else 0)
