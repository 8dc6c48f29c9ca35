"""Looks up offsets: the first, the last, or the first at or after a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.client.fetching.positions import LATEST_TIMESTAMP
from ottla.client.records.arguments import by_partition, whole
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import ClientError, RequestRefused, UnsupportedByBroker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.cluster.routing import Router
    from ottla.client.fetching.positions import Positions
    from ottla.client.settings.config import Isolation
    from ottla.wire.connection import Connection

LIST_OFFSETS = declare(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse, 1, 10)
CONSUMER_REPLICA_ID = -1
# Special timestamps besides the two ends, and their first versions: -3 asks for the record of the
# highest timestamp (KIP-734), -4 and -5 for the bounds of tiered logs (KIP-405, KIP-1005). Older
# brokers would take them for times, and answer with the first record.
SPECIAL_VERSIONS = {-3: 7, -4: 8, -5: 9}
SPECIAL_TIMESTAMP_MIN = min(SPECIAL_VERSIONS)


class OffsetAt(NamedTuple):
    """An offset and its record's timestamp; both -1 if there is no record that late.

    The timestamp is -1 for the first and the last offset, too."""

    offset: int
    timestamp: int


def check_times(times: Mapping[TopicPartition, int]) -> None:
    """Raise TypeError or ValueError for values that cannot be looked up."""
    for time in by_partition("times", times).values():
        whole("a time in milliseconds", time, SPECIAL_TIMESTAMP_MIN)


async def list_offsets(
    router: Router, wanted: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, OffsetAt | ClientError]:
    """Ask the leaders for offsets, by partition.

    A value is a timestamp in ms, -1 for the end, -2 for the beginning or one of
    ``SPECIAL_VERSIONS``, which is UnsupportedByBroker if a leader does not know it. The end is the
    high watermark, or the last stable offset with read_committed."""
    ask = partial(ask_leader, router, wanted, isolation)
    return await router.by_leader(wanted, ask, is_repeatable=True)


async def look_up(
    router: Router, positions: Positions, isolation: Isolation, now_ms: float
) -> list[tuple[TopicPartition, int, ClientError]]:
    """Look up the positions that need it; return the failures with their turns then."""
    wanted = positions.to_look_up(now_ms)
    turns = {where: positions[where].turn for where in wanted}
    try:
        found = await list_offsets(router, wanted, isolation)
    except ClientError as error:
        found = dict.fromkeys(wanted, error)
    failed = []
    for where, answer in found.items():
        position, turn = positions.get(where), turns[where]
        if isinstance(answer, ClientError):
            failed.append((where, turn, answer))
        elif answer.offset >= 0:
            positions.looked_up(where, turn, answer.offset)
        elif position is not None and position.turn == turn:
            # No record is that late: continue at the end.
            positions.seek_timestamp(where, LATEST_TIMESTAMP)
    return failed


async def ask_leader(
    router: Router,
    wanted: Mapping[TopicPartition, int],
    isolation: Isolation,
    connection: Connection,
    partitions: list[TopicPartition],
) -> dict[TopicPartition, OffsetAt | ClientError]:
    """Send one request to the leader of these partitions."""
    version = connection.version_of(LIST_OFFSETS)
    found: dict[TopicPartition, OffsetAt | ClientError] = {}
    topics: dict[str, ListOffsetsTopic] = {}
    for where in partitions:
        if version < SPECIAL_VERSIONS.get(wanted[where], 0):
            found[where] = UnsupportedByBroker(
                f"the broker at {connection.address} does not know what {wanted[where]} stands "
                "for in place of a time"
            )
            continue
        topic = topics.setdefault(where.topic, ListOffsetsTopic(where.topic))
        view = router.cluster.metadata.partition(where)
        leader_epoch = -1 if view is None else view.leader_epoch
        topic.partitions.append(ListOffsetsPartition(where.partition, leader_epoch, wanted[where]))
    config = router.cluster.config
    timeout_ms = int(config.request_timeout_ms)
    request = ListOffsetsRequest(
        CONSUMER_REPLICA_ID, isolation.value, list(topics.values()), timeout_ms
    )
    if not topics:
        return found
    if version < 2:
        request.isolation_level = 0
    response = await connection.send(LIST_OFFSETS, request, version=version)
    for answer in response.topics:
        for part in answer.partitions:
            where = TopicPartition(answer.name, part.partition_index)
            code = error_code(part.error_code)
            if code is ErrorCode.NONE:
                found[where] = OffsetAt(part.offset, part.timestamp)
            else:
                broker = str(connection.address)
                found[where] = RequestRefused.for_partition(code, where, broker)
    return found
