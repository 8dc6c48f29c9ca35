"""What is asked of the machine in values of our own, where the wire's shape is of no use to it.

AddPartitionsToTxn asks about many transactional ids at once and AddOffsetsToTxn names a group: the
faces take them apart. InitProducerId and EndTxn come as they are on the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import TopicPartition


class AddToTransaction(NamedTuple):
    """Make partitions part of the transaction, or only say whether they are (KIP-890).

    Answered with ``Added``. ``transaction_version`` is 2 where the producer bumps its epoch with
    each transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    is_verification: bool = False
    transaction_version: int = 1


class Added(NamedTuple):
    """The verdict of each partition that was asked for, in the codes of the newest version:
    faces of older ones map them."""

    errors: dict[TopicPartition, ErrorCode]


class DescribeTransaction(NamedTuple):
    """Answered with a ``describe_transactions.TransactionState``."""

    transactional_id: str
