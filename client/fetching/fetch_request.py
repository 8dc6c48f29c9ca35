"""Builds Fetch requests from positions, and reads Fetch responses by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.fetching.fetch_session import ConsumerFetchSession, RequestedPartition
from ottla.client.settings.config import Isolation
from ottla.protocol.apis import ApiKey
from ottla.protocol.fetch_session import FINAL_EPOCH, NO_SESSION, SessionDelta
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

# 18 only adds fields of followers.
FETCH = declare(ApiKey.FETCH, FetchRequest, FetchResponse, 4, 17)
# The last version that names topics instead of giving their ids.
LAST_BY_NAME = 12
FRAMING_BYTES_MAX = 1024 * 1024
# A broker keeps a limited number of sessions; fewer partitions than this make small requests.
SESSION_PARTITIONS_MIN = 8


class WantedPartition(NamedTuple):
    """One partition's part of a fetch request.

    ``turn``, the leader's epoch at that time and ``is_of_replica`` (the broker is not the leader)
    are handed back with the answer."""

    partition: TopicPartition
    turn: int
    offset: int
    limit_bytes: int
    leader_epoch: int = -1
    is_of_replica: bool = False


def answer_room_bytes(config: ConsumerConfig) -> int:
    """Return how many bytes of records fit into a response, besides its framing."""
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
    """Build one request for these partitions of a broker; in a session it has only what changed.

    ``by_leader``: the leader must not refer the consumer to a nearer replica."""
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
    """Return the newest version that can name all wanted topics."""
    version = connection.version_of(FETCH)
    for want in wanted:
        view = metadata.topics.get(want.partition.topic)
        if view is None or view.topic_id == ZERO_UUID:
            return min(version, LAST_BY_NAME)
    return version


def parts_of(
    wanted: list[WantedPartition], metadata: ClusterMetadata, response: FetchResponse
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Yield each partition's part of the response; topics that were not asked for are left out."""
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
