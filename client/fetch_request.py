"""Positions to Fetch requests, and Fetch answers to parts per partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.client.api import declare
from ottla.client.config import Isolation
from ottla.protocol.apis import ApiKey
from ottla.protocol.ids import ZERO_UUID, TopicPartition
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.client.config import ConsumerConfig
    from ottla.client.connection import Connection
    from ottla.client.state.metadata import Metadata

# 18 only adds what followers say.
FETCH = declare(ApiKey.FETCH, FetchRequest, FetchResponse, 4, 17)
# The last version that names topics instead of giving their ids.
LAST_BY_NAME = 12


class Wanted(NamedTuple):
    """What one partition is asked for; ``turn`` is handed back with the answer."""

    partition: TopicPartition
    turn: int
    offset: int
    limit_bytes: int


def build_request(wanted: list[Wanted], metadata: Metadata, config: ConsumerConfig) -> FetchRequest:
    """One request to the leader of these partitions, without a session (KIP-227)."""
    topics: dict[str, FetchTopic] = {}
    for want in wanted:
        name, number = want.partition
        topic = topics.get(name)
        if topic is None:
            view = metadata.topics.get(name)
            topic_id = ZERO_UUID if view is None else view.topic_id
            topic = topics[name] = FetchTopic(name, topic_id)
        known = metadata.partition(want.partition)
        leader_epoch = -1 if known is None else known.leader_epoch
        topic.partitions.append(
            FetchPartition(
                number,
                leader_epoch,
                want.offset,
                partition_max_bytes=want.limit_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=config.fetch_wait_ms,
        min_bytes=config.fetch_bytes_min,
        max_bytes=config.fetch_bytes_max,
        isolation_level=Isolation(config.isolation).value,
        topics=list(topics.values()),
        rack_id=config.rack,
    )


def version_for(connection: Connection, request: FetchRequest) -> int:
    """The newest version that can name all topics of the request."""
    version = connection.version_of(FETCH)
    if any(topic.topic_id == ZERO_UUID for topic in request.topics):
        return min(version, LAST_BY_NAME)
    return version


def parts_of(
    request: FetchRequest, response: FetchResponse
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Each partition's part of the answer; a topic that was not asked for is left out."""
    names = {topic.topic_id: topic.topic for topic in request.topics}
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is not None:
            for part in topic.partitions:
                yield TopicPartition(name, part.partition_index), part
