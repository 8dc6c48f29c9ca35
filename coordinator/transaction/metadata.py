"""The state of one transactional id, as a record of the log stores it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.ids import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
EPOCH_MAX = 2**15 - 1
LAST_USABLE_EPOCH = EPOCH_MAX - 1
"""Producers never get the largest epoch: one must be left to fence the last of them with."""

EPOCH_BUMPS_SINCE = 2
"""The transaction version that raises the epoch with each transaction (KIP-890)."""


class TransactionMetadata(NamedTuple):
    """State of one transactional id; replaced as a whole when a record is committed.

    ``producer_epoch`` is -1 before a producer has one. ``previous_producer_id`` is the one before
    the last change, ``next_producer_id`` the one that follows a prepared transaction because the
    epochs are used up. ``last_producer_epoch`` is the one that a retried request may still carry;
    it is not in the log. Times are wall clock milliseconds, -1 if no transaction has begun."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    last_update_wall_ms: int = -1
    start_wall_ms: int = -1
    client_version: int = 0
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH

    @property
    def is_exhausted(self) -> bool:
        """Whether the epochs of this producer id are used up."""
        return is_exhausted(self.producer_epoch)

    @property
    def bumps_epochs(self) -> bool:
        return self.client_version >= EPOCH_BUMPS_SINCE

    @property
    def needs_tags(self) -> bool:
        """Whether the record needs fields that its first version lacks."""
        return (
            self.bumps_epochs
            or self.next_producer_id != NO_PRODUCER_ID
            or self.previous_producer_id not in (NO_PRODUCER_ID, self.producer_id)
        )


def is_exhausted(producer_epoch: int) -> bool:
    """Whether a producer with that epoch needs another producer id."""
    return producer_epoch >= LAST_USABLE_EPOCH
