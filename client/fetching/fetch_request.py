"""Positions to Fetch requests, and Fetch answers to parts per partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.fetching.fetch_session import (
    FINAL_EPOCH,
    NO_SESSION,
    ConsumerFetchSession,
    RequestedPartition,
    SessionDelta,
)
from ottla.client.settings.config import Isolation
from ottla.protocol.apis import ApiKey
from ottla.protocol.ids import ZERO_UUID, TopicPartition
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.client.cluster.metadata import ClusterMetadata
    from ottla.client.settings.config import ConsumerConfig
    from ottla.wire.connection import Connection

# 18 only adds what followers say.
FETCH = declare(ApiKey.FETCH, FetchRequest, FetchResponse, 4, 17)
# The last version that names topics instead of giving their ids.
LAST_BY_NAME = 12
FRAMING_BYTES_MAX = 1024 * 1024
# A broker keeps a limited number of sessions; fewer partitions than these are said quickly.
SESSION_PARTITIONS_MIN = 8


class WantedPartition(NamedTuple):
    """What one partition is asked for; ``turn`` is handed back with the answer, and so is the
    epoch of the leader at that time, and whether another replica is asked in its place."""

    partition: TopicPartition
    turn: int
    offset: int
    limit_bytes: int
    leader_epoch: int = -1
    is_of_replica: bool = False


def answer_room_bytes(config: ConsumerConfig) -> int:
    """How many bytes of records fit an answer, beside what stands between them."""
    limit_bytes = config.response_bytes_max
    return max(1, limit_bytes - min(limit_bytes // 8, FRAMING_BYTES_MAX))


def build_request(
    wanted: list[WantedPartition],
    metadata: ClusterMetadata,
    config: ConsumerConfig,
    session: ConsumerFetchSession | None = None,
    *,
    by_leader: bool = False,
) -> FetchRequest:
    """One request to the leader of these partitions; in a session it says what has changed.

    ``by_leader``: it shall answer itself, however near another replica is."""
    asked = {}
    for want in wanted:
        view = metadata.topics.get(want.partition.topic)
        known = metadata.partition(want.partition)
        asked[want.partition] = RequestedPartition(
            want.offset,
            want.limit_bytes,
            -1 if known is None else known.leader_epoch,
            ZERO_UUID if view is None else view.topic_id,
        )
    delta = SessionDelta(NO_SESSION, FINAL_EPOCH, list(asked), [])
    if session is not None and len(asked) >= SESSION_PARTITIONS_MIN:
        delta = session.next(asked)
    elif session is not None and (ended := session.end()) is not None:
        delta = delta._replace(session_id=ended.session_id)
    topics: dict[str, FetchTopic] = {}
    for where in delta.changed:
        offset, limit_bytes, leader_epoch, topic_id = asked[where]
        topic = topics.get(where.topic)
        if topic is None:
            topic = topics[where.topic] = FetchTopic(where.topic, topic_id)
        topic.partitions.append(
            FetchPartition(where.partition, leader_epoch, offset, partition_max_bytes=limit_bytes)
        )
    return FetchRequest(
        max_wait_ms=config.fetch_wait_ms,
        min_bytes=config.fetch_bytes_min,
        max_bytes=min(config.fetch_bytes_max, answer_room_bytes(config)),
        isolation_level=Isolation(config.isolation).value,
        session_id=delta.session_id,
        session_epoch=delta.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=[
            ForgottenTopic(where.topic, topic_id, [where.partition])
            for where, topic_id in delta.forgotten
        ],
        rack_id="" if by_leader else config.rack,
    )


def version_for(
    connection: Connection, wanted: list[WantedPartition], metadata: ClusterMetadata
) -> int:
    """The newest version that can name the topics of all that is wanted."""
    version = connection.version_of(FETCH)
    for want in wanted:
        view = metadata.topics.get(want.partition.topic)
        if view is None or view.topic_id == ZERO_UUID:
            return min(version, LAST_BY_NAME)
    return version


def parts_of(
    wanted: list[WantedPartition], metadata: ClusterMetadata, response: FetchResponse
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Each partition's part of the answer; a topic that was not asked for is left out."""
    names: dict[bytes, str] = {}
    for want in wanted:
        view = metadata.topics.get(want.partition.topic)
        if view is not None:
            names[view.topic_id] = want.partition.topic
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is not None:
            for part in topic.partitions:
                yield TopicPartition(name, part.partition_index), part
