"""The requests of a transactional producer to coordinators, as values. Pure.

``transaction`` decides which of these is next; ``transaction_link`` sends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sending.sequences import ProducerIdentity
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.records.committed import Committed, ConsumerGroupMetadata
    from ottla.protocol.ids import TopicPartition

NO_IDENTITY = ProducerIdentity(-1, -1)


class AskIdentity(NamedTuple):
    """InitProducerId: begin a session, or continue ``identity`` with the next epoch (KIP-360),
    which fails if another producer has taken it over."""

    identity: ProducerIdentity


class AskPartitions(NamedTuple):
    """AddPartitionsToTxn: the producer is about to write to these partitions. Version 1 only."""

    partitions: tuple[TopicPartition, ...]


class AskGroup(NamedTuple):
    """AddOffsetsToTxn: the producer is about to commit offsets of this group. Version 1 only."""

    group_id: str


class AskOffsets(NamedTuple):
    """TxnOffsetCommit. Compared by identity: the same offsets may be sent twice."""

    group: ConsumerGroupMetadata
    offsets: Mapping[TopicPartition, Committed]


class AskEnd(NamedTuple):
    """EndTxn, in the version of the protocol in which the transaction began."""

    is_commit: bool


Ask = AskIdentity | AskPartitions | AskGroup | AskOffsets | AskEnd
