"""Assigns producer id, epoch and sequence numbers to a partition's batches (KIP-98). Pure.

Sequences start at 0 and rise by one per record, for each partition separately. When a partition's
sequence is broken (a batch was given up, or the broker has forgotten the producer), the partition
restarts at 0 under the next epoch. The epoch is raised for that partition alone: brokers keep
producers per partition, and raising it everywhere would renumber batches of other partitions whose
fate is unknown, which duplicates them (hazard T-08).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.ids import TopicPartition

PRODUCER_EPOCH_LAST = 2**15 - 1
SEQUENCE_MODULUS = 2**31


class ProducerIdentity(NamedTuple):
    """The producer id and epoch from an InitProducerId response."""

    producer_id: int
    producer_epoch: int


class Stamp(NamedTuple):
    """The identity and sequence of one batch; without idempotence all three are -1."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


NO_STAMP = Stamp(-1, -1, -1)


@dataclass(slots=True)
class _Place:
    identity: ProducerIdentity
    next_sequence: int


def add_to_sequence(sequence: int, record_count: int) -> int:
    """Return the sequence that many records later; 2^31 - 1 is followed by 0 (hazard T-03)."""
    assert 0 <= sequence < SEQUENCE_MODULUS
    assert record_count >= 0
    return (sequence + record_count) % SEQUENCE_MODULUS


class Sequences:
    """The sequence numbers of one idempotent producer. Owned by its ``Deliveries``."""

    __slots__ = ("_places", "identity")

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None
        self._places: dict[TopicPartition, _Place] = {}

    def adopt(self, identity: ProducerIdentity) -> None:
        """Use this identity for partitions that have none yet."""
        assert identity.producer_id >= 0
        assert 0 <= identity.producer_epoch <= PRODUCER_EPOCH_LAST
        self.identity = identity

    def begin(self, identity: ProducerIdentity) -> None:
        """Number every partition from 0 under this identity.

        Only while no batch is unresolved, for the reason given in ``restart``."""
        self._places.clear()
        self.adopt(identity)

    def has_identity(self, partition: TopicPartition) -> bool:
        """Return whether a batch of this partition can be numbered now."""
        return partition in self._places or self.identity is not None

    def assign(self, partition: TopicPartition, record_count: int) -> Stamp:
        """Number the partition's next batch. Needs ``has_identity``."""
        assert record_count > 0
        place = self._places.get(partition)
        if place is None:
            assert self.identity is not None
            place = self._places[partition] = _Place(self.identity, 0)
        stamp = Stamp(*place.identity, place.next_sequence)
        place.next_sequence = add_to_sequence(place.next_sequence, record_count)
        return stamp

    def restart(self, partition: TopicPartition) -> None:
        """Restart the partition at 0 under the next epoch.

        Only while no batch of the partition is unresolved: one that may have been appended under
        the old numbers would be appended again under the new ones. When the epochs are used up the
        partition needs a fresh producer id."""
        place = self._places.get(partition)
        if place is None:
            return
        producer_id, producer_epoch = place.identity
        if producer_epoch < PRODUCER_EPOCH_LAST:
            place.identity = ProducerIdentity(producer_id, producer_epoch + 1)
            place.next_sequence = 0
            return
        self.forget(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Number the partition with a fresh producer id next time: its broker refuses this one."""
        place = self._places.pop(partition, None)
        if place is not None and self.identity is not None:
            spent = place.identity.producer_id
            if self.identity.producer_id == spent:
                self.identity = None
