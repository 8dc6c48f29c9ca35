"""Acts as a transaction's coordinator in tests of the later steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinating.txn_partition import begin_verification
from ottla.broker.replica.verification import Guard

if TYPE_CHECKING:
    from ottla.broker.partitions.partition import PartitionRuntime


def admit(partition: PartitionRuntime, producer_id: int, producer_epoch: int = 0) -> None:
    """Let the producer begin a transaction in the partition, as its coordinator does."""
    # On the circle of sequences, later than all that tests begin with.
    late = 1 << 29
    guard = begin_verification(partition, producer_id, producer_epoch, 0, base_sequence=late)
    assert isinstance(guard, Guard)
    assert guard.confirm()
