"""Requests to a transaction shard that differ from their form on the wire.

AddPartitionsToTxn names many transactional ids and AddOffsetsToTxn a group: the request handlers
split them. InitProducerId and EndTxn are passed as they are on the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import TopicPartition


class AddToTransaction(NamedTuple):
    """Add partitions to the transaction, or only verify that they are part of it (KIP-890).

    Answered with ``Added``. ``transaction_version`` is 2 if the producer raises its epoch with each
    transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    is_verification: bool = False
    transaction_version: int = 1


class Added(NamedTuple):
    """The error code of each requested partition, as in the newest version: request handlers map
    them for older ones."""

    errors: dict[TopicPartition, ErrorCode]


class DescribeTransaction(NamedTuple):
    """Answered with a ``describe_transactions.TransactionState``."""

    transactional_id: str
