"""Requests about topics and records, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cluster.config_requests import check_settings
from ottla.client.cluster.metadata import PartitionView, TopicView
from ottla.client.records.arguments import INT16_MAX, INT32_MAX, check_text, whole
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.wire.connection import Connection

CREATE_TOPICS = declare(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse, 2)
# 6 also deletes by id, which this client does not use.
DELETE_TOPICS = declare(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse, 1, 5)
CREATE_PARTITIONS = declare(
    ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsResponse
)
DELETE_RECORDS = declare(ApiKey.DELETE_RECORDS, DeleteRecordsRequest, DeleteRecordsResponse)


class NewTopic(NamedTuple):
    """A topic to create.

    Attributes:
        name: The topic's name.
        partition_count: How many partitions; -1 (default) for the broker's ``num.partitions``.
        replication_factor: How many replicas; -1 (default) for the broker's
            ``default.replication.factor``.
        configs: Topic settings by Kafka's names; none by default.
        assignment: The replicas of each partition, leader first, instead of both numbers; None
            (default) lets the controller place them.
    """

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    assignment: Sequence[Sequence[int]] | None = None


def create_request(
    topics: list[NewTopic], timeout_ms: int, validate_only: bool
) -> CreateTopicsRequest:
    """Build the request for new topics."""
    request = CreateTopicsRequest(timeout_ms=timeout_ms, validate_only=validate_only)
    for topic in topics:
        if not isinstance(topic, NewTopic):
            raise TypeError(f"a topic to create is a NewTopic, not {topic!r}")
        check_text("a topic", topic.name)
        whole("the number of partitions", topic.partition_count, -INT32_MAX, INT32_MAX)
        whole("the replication factor", topic.replication_factor, -INT16_MAX, INT16_MAX)
        check_settings(topic.configs)
        creatable = CreatableTopic(
            topic.name,
            topic.partition_count,
            topic.replication_factor,
            configs=[CreatableTopicConfig(key, value) for key, value in topic.configs.items()],
        )
        if topic.assignment is not None:
            creatable.num_partitions = creatable.replication_factor = -1
            creatable.assignments = [
                CreatableReplicaAssignment(number, list(replicas))
                for number, replicas in enumerate(topic.assignment)
            ]
        request.topics.append(creatable)
    return request


def check_created(response: CreateTopicsResponse, connection: Connection) -> None:
    """Raise if the broker was not the controller; other errors are per topic."""
    for topic in response.topics:
        check_controller(topic.error_code, connection, topic.error_message)


def check_controller(code: int, connection: Connection, message: str | None = None) -> None:
    """Raise RequestRefused if the code is NOT_CONTROLLER."""
    if code == ErrorCode.NOT_CONTROLLER:
        raise RequestRefused(ErrorCode.NOT_CONTROLLER, message, broker=str(connection.address))


def created_topics(response: CreateTopicsResponse) -> dict[str, TopicView | RequestRefused]:
    """Return each topic, or why it was not created."""
    results: dict[str, TopicView | RequestRefused] = {}
    for topic in response.topics:
        code = error_code(topic.error_code)
        if code is not ErrorCode.NONE:
            results[topic.name] = RequestRefused(code, topic.error_message, topic=topic.name)
            continue
        view = TopicView(topic.name, topic.topic_id)
        for number in range(max(0, topic.num_partitions)):
            view.partitions[number] = PartitionView(number, -1, -1)
        results[topic.name] = view
    return results


def delete_request(names: list[str], timeout_ms: int) -> DeleteTopicsRequest:
    """Build the request to delete topics by name."""
    return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)


def check_deleted(response: DeleteTopicsResponse, connection: Connection) -> None:
    """Raise if the broker was not the controller; other errors are per topic."""
    for topic in response.responses:
        check_controller(topic.error_code, connection, topic.error_message)


def deleted_topics(response: DeleteTopicsResponse) -> dict[str, RequestRefused | None]:
    """Return None for each deleted topic, or why it was not deleted."""
    results: dict[str, RequestRefused | None] = {}
    for topic in response.responses:
        code, name = error_code(topic.error_code), topic.name or ""
        refused = RequestRefused(code, topic.error_message, topic=name)
        results[name] = None if code is ErrorCode.NONE else refused
    return results


def partitions_request(topic: str, count: int, timeout_ms: int) -> CreatePartitionsRequest:
    """Build the request for that many partitions, placed by the controller."""
    wanted = CreatePartitionsTopic(topic, count, None)
    return CreatePartitionsRequest([wanted], timeout_ms, False)


def check_partitions(response: CreatePartitionsResponse, connection: Connection) -> None:
    """Raise RequestRefused if it was refused."""
    for result in response.results:
        code = error_code(result.error_code)
        if code is not ErrorCode.NONE:
            raise RequestRefused(
                code, result.error_message, broker=str(connection.address), topic=result.name
            )


async def delete_records(
    before: Mapping[TopicPartition, int],
    timeout_ms: int,
    connection: Connection,
    partitions: list[TopicPartition],
) -> dict[TopicPartition, int | RequestRefused]:
    """Send one request to the leader of these partitions; values are new log start offsets."""
    topics: dict[str, DeleteRecordsTopic] = {}
    for where in partitions:
        topic = topics.setdefault(where.topic, DeleteRecordsTopic(where.topic))
        topic.partitions.append(DeleteRecordsPartition(where.partition, before[where]))
    request = DeleteRecordsRequest(list(topics.values()), timeout_ms)
    response = await connection.send(DELETE_RECORDS, request)
    results: dict[TopicPartition, int | RequestRefused] = {}
    for answer in response.topics:
        for part in answer.partitions:
            where = TopicPartition(answer.name, part.partition_index)
            code = error_code(part.error_code)
            if code is ErrorCode.NONE:
                results[where] = part.low_watermark
            else:
                broker = str(connection.address)
                results[where] = RequestRefused.for_partition(code, where, broker)
    return results
