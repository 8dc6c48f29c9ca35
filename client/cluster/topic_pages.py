"""Describes partitions page by page (DescribeTopicPartitions, KIP-966).

Brokers report more details here than in Metadata, and a topic of ten thousand partitions needs no
huge response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.cluster.routing import Router
    from ottla.wire.connection import Connection

DESCRIBE_TOPIC_PARTITIONS = declare(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
# The most that Kafka's brokers return, whatever is requested.
PAGE_PARTITIONS = 2_000


class PartitionDetail(NamedTuple):
    """One partition. ``eligible_leaders`` are replicas out of sync that may still be elected, since
    they have every committed record; empty with brokers that do not track them."""

    partition: TopicPartition
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    eligible_leaders: tuple[int, ...]
    last_known_eligible_leaders: tuple[int, ...]


async def describe_partitions(
    router: Router, names: Iterable[str] | None, page_partitions: int
) -> dict[TopicPartition, PartitionDetail]:
    """Return the partitions of these topics, or of all, page after page. Raises RequestRefused."""
    wanted = [] if names is None else sorted(set(names))
    found: dict[TopicPartition, PartitionDetail] = {}
    if names is not None and not wanted:
        # A request without names would return every topic.
        return found
    cursor: Cursor | None = None
    while True:
        topics = [TopicRequest(name) for name in wanted]
        request = DescribeTopicPartitionsRequest(topics, page_partitions, cursor)
        response = await router.to_any(DESCRIBE_TOPIC_PARTITIONS, request, check)
        for topic in response.topics:
            for part in topic.partitions:
                where = TopicPartition(topic.name or "", part.partition_index)
                found[where] = detail_of(where, part)
        cursor = response.next_cursor
        if cursor is None:
            return found


def check(response: DescribeTopicPartitionsResponse, connection: Connection) -> None:
    """Raise RequestRefused for the first topic that cannot be described."""
    for topic in response.topics:
        code = error_code(topic.error_code)
        if code is not ErrorCode.NONE:
            raise RequestRefused(code, broker=str(connection.address), topic=topic.name)


def detail_of(
    where: TopicPartition, part: DescribeTopicPartitionsResponsePartition
) -> PartitionDetail:
    """Return one partition of the response."""
    return PartitionDetail(
        where,
        part.leader_id,
        part.leader_epoch,
        tuple(part.replica_nodes),
        tuple(part.isr_nodes),
        tuple(part.offline_replicas),
        tuple(part.eligible_leader_replicas or ()),
        tuple(part.last_known_elr or ()),
    )
