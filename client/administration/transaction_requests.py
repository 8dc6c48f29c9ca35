"""Requests about transactions of other producers, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.wire.connection import Connection

LIST_TRANSACTIONS = declare(
    ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest, ListTransactionsResponse
)
DESCRIBE_TRANSACTIONS = declare(
    ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest, DescribeTransactionsResponse
)
DESCRIBE_PRODUCERS = declare(
    ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest, DescribeProducersResponse
)
WRITE_MARKERS = declare(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest, WriteTxnMarkersResponse)


class TransactionListing(NamedTuple):
    """One entry of the list; the state is the coordinator's, such as Ongoing."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class TransactionView(NamedTuple):
    """A transactional id as its coordinator sees it.

    ``start_time_ms`` is since 1970, None while no transaction is open; ``partitions`` still lack
    their end marker."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerView(NamedTuple):
    """A producer as a partition's leader remembers it; times are in ms since 1970.

    ``first_offset`` is the beginning of its open transaction, None without one;
    ``coordinator_epoch`` is that of the last marker, -1 before the first."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_time_ms: int
    coordinator_epoch: int
    first_offset: int | None


def listings(response: ListTransactionsResponse, node_id: int) -> list[TransactionListing]:
    """Return the transactions that one broker coordinates."""
    return [
        TransactionListing(one.transactional_id, one.producer_id, one.transaction_state, node_id)
        for one in response.transaction_states
    ]


def described(
    response: DescribeTransactionsResponse, node_id: int, connection: Connection
) -> TransactionView:
    """Return the only transactional id of the answer. Raises RequestRefused."""
    (state,) = response.transaction_states
    code = error_code(state.error_code)
    if code is not ErrorCode.NONE:
        raise RequestRefused(
            code,
            f"transactional id {state.transactional_id!r}: {code.text}",
            broker=str(connection.address),
        )
    partitions = tuple(
        TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions
    )
    start_time_ms = state.transaction_start_time_ms
    return TransactionView(
        state.transactional_id,
        node_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        None if start_time_ms < 0 else start_time_ms,
        partitions,
    )


def topics_of(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition numbers by topic."""
    topics: dict[str, list[int]] = {}
    for where in partitions:
        topics.setdefault(where.topic, []).append(where.partition)
    return topics


async def ask_producers(
    connection: Connection, partitions: list[TopicPartition]
) -> dict[TopicPartition, list[ProducerView] | RequestRefused]:
    """Send one request to the leader of these partitions."""
    request = DescribeProducersRequest(
        [TopicRequest(topic, numbers) for topic, numbers in topics_of(partitions).items()]
    )
    response = await connection.send(DESCRIBE_PRODUCERS, request)
    found: dict[TopicPartition, list[ProducerView] | RequestRefused] = {}
    for topic in response.topics:
        for part in topic.partitions:
            where = TopicPartition(topic.name, part.partition_index)
            code = error_code(part.error_code)
            if code is ErrorCode.NONE:
                found[where] = _producers(part)
            else:
                broker = str(connection.address)
                found[where] = RequestRefused.for_partition(code, where, broker, part.error_message)
    return found


def _producers(part: PartitionResponse) -> list[ProducerView]:
    return sorted(
        ProducerView(
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            None if one.current_txn_start_offset < 0 else one.current_txn_start_offset,
        )
        for one in part.active_producers
    )


class AbortMarker(NamedTuple):
    """The end of an aborted transaction, to be written to partitions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


async def write_marker(
    marker: AbortMarker, connection: Connection, partitions: list[TopicPartition]
) -> dict[TopicPartition, bool | RequestRefused]:
    """Send one request to the leader of these partitions; True for each success.

    A repeated marker changes nothing, so the request may be repeated."""
    producer_id, producer_epoch, coordinator_epoch = marker
    topics = [WritableTxnMarkerTopic(*item) for item in topics_of(partitions).items()]
    wire = WritableTxnMarker(producer_id, producer_epoch, False, topics, coordinator_epoch)
    response = await connection.send(WRITE_MARKERS, WriteTxnMarkersRequest([wire]))
    results: dict[TopicPartition, bool | RequestRefused] = {}
    for answer in response.markers:
        for topic in answer.topics:
            for part in topic.partitions:
                where = TopicPartition(topic.name, part.partition_index)
                code = error_code(part.error_code)
                refused = RequestRefused.for_partition(code, where, str(connection.address))
                results[where] = code is ErrorCode.NONE or refused
    return results
