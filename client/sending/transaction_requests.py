"""Requests of a transactional producer, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.wire.api import declare
from ottla.wire.errors import UnsupportedByBroker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.sending.coordinator_requests import AskOffsets
    from ottla.client.sending.sequences import ProducerIdentity
    from ottla.wire.connection import Connection

INIT_PRODUCER_ID = declare(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse)
# From 4 on only brokers send it.
ADD_PARTITIONS = declare(
    ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, 0, 3
)
ADD_OFFSETS = declare(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse)
END = declare(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse, 0, 4)
END_WITH_EPOCH = declare(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse, 5, 5)
COMMIT_OFFSETS = declare(
    ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse, 0, 4
)
COMMIT_OFFSETS_IMPLICIT = declare(
    ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse, 5, 5
)
TRANSACTION_VERSION = "transaction.version"
# The first version of InitProducerId that can raise the epoch of a living producer, and of
# TxnOffsetCommit that names the committing member.
RENEWING_VERSION = 3
MEMBER_VERSION = 3


def protocol_level(connection: Connection) -> int:
    """Return the transaction version of the cluster: 1, or 2 (KIP-890)."""
    return 2 if connection.features.level_of(TRANSACTION_VERSION) >= 2 else 1


def can_renew(connection: Connection) -> bool:
    """Return whether the coordinator can raise the epoch of a living producer."""
    return connection.version_of(INIT_PRODUCER_ID) >= RENEWING_VERSION


def by_topic(partitions: Iterable[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    """Return partitions in the form of AddPartitionsToTxn."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for where in partitions:
        topic = topics.setdefault(where.topic, AddPartitionsToTxnTopic(where.topic))
        topic.partitions.append(where.partition)
    return list(topics.values())


def added_partitions(response: AddPartitionsToTxnResponse) -> dict[TopicPartition, ErrorCode]:
    """Return the code of each partition."""
    return {
        TopicPartition(topic.name, part.partition_index): error_code(part.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    }


def offsets_request(
    transactional_id: str, identity: ProducerIdentity, ask: AskOffsets
) -> TxnOffsetCommitRequest:
    """Build the request that stores positions as part of the transaction."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for where, committed in ask.offsets.items():
        topic = topics.setdefault(where.topic, TxnOffsetCommitRequestTopic(where.topic))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                where.partition, committed.offset, committed.leader_epoch, committed.metadata
            )
        )
    group = ask.group
    return TxnOffsetCommitRequest(
        transactional_id,
        group.group_id,
        identity.producer_id,
        identity.producer_epoch,
        group.generation_id,
        group.member_id,
        group.group_instance_id,
        list(topics.values()),
    )


def check_member_version(connection: Connection, version: int, ask: AskOffsets) -> None:
    """Raise UnsupportedByBroker if the request cannot name the committing member to this broker,
    which then could not refuse a replaced member."""
    if version < MEMBER_VERSION and ask.group.names_a_member:
        raise UnsupportedByBroker(
            f"the broker at {connection.address} cannot check the member of group "
            f"{ask.group.group_id!r}; with the group's name alone offsets can be sent"
        )


def committed_offsets(response: TxnOffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
    """Return the code of each position."""
    return {
        TopicPartition(topic.name, part.partition_index): error_code(part.error_code)
        for topic in response.topics
        for part in topic.partitions
    }
