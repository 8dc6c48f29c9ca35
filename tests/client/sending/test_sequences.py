"""Producer ids, epochs and sequence numbers."""

from __future__ import annotations

import pytest

from ottla.client.sending.sequences import ProducerIdentity, Sequences, Stamp, add_to_sequence
from ottla.protocol.ids import TopicPartition

FIRST = TopicPartition("t", 0)
SECOND = TopicPartition("t", 1)


def numbered(producer_id: int = 7, producer_epoch: int = 0) -> Sequences:
    """Sequences that have an identity."""
    sequences = Sequences()
    sequences.adopt(ProducerIdentity(producer_id, producer_epoch))
    return sequences


@pytest.mark.requirement("IDM-03")
def test_sequences_start_at_zero_and_rise_by_one_per_record_in_each_partition() -> None:
    """A broker accepts exactly the next number, so each partition counts alone."""
    sequences = numbered()

    stamps = [
        sequences.assign(FIRST, 3),
        sequences.assign(FIRST, 1),
        sequences.assign(SECOND, 5),
        sequences.assign(FIRST, 1),
    ]

    assert stamps == [Stamp(7, 0, 0), Stamp(7, 0, 3), Stamp(7, 0, 0), Stamp(7, 0, 4)]


def test_sequences_wrap_after_the_largest_number() -> None:
    """Hazard T-03: after 2^31 - 1 comes 0, not a negative number."""
    assert add_to_sequence(2**31 - 2, 1) == 2**31 - 1
    assert add_to_sequence(2**31 - 2, 2) == 0
    assert add_to_sequence(2**31 - 2, 5) == 3


def test_nothing_can_be_numbered_before_a_broker_has_given_an_identity() -> None:
    """The shell asks for one and lets the batches wait."""
    sequences = Sequences()

    assert not sequences.has_identity(FIRST)
    sequences.adopt(ProducerIdentity(7, 0))
    assert sequences.has_identity(FIRST)


def test_a_restart_raises_the_epoch_of_its_partition_alone() -> None:
    """Hazard T-08: renumbering other partitions duplicates what they have in flight."""
    sequences = numbered()
    sequences.assign(FIRST, 3)
    sequences.assign(SECOND, 3)

    sequences.restart(FIRST)

    assert sequences.assign(FIRST, 1) == Stamp(7, 1, 0)
    assert sequences.assign(SECOND, 1) == Stamp(7, 0, 3)


def test_a_partition_whose_epochs_are_used_up_needs_a_fresh_producer_id() -> None:
    """Hazard T-10: past 32767 a producer could never be fenced again."""
    sequences = numbered(producer_epoch=2**15 - 1)
    sequences.assign(FIRST, 1)

    sequences.restart(FIRST)

    assert not sequences.has_identity(FIRST)
    sequences.adopt(ProducerIdentity(8, 0))
    assert sequences.assign(FIRST, 1) == Stamp(8, 0, 0)


def test_other_partitions_keep_counting_while_a_fresh_id_is_asked_for() -> None:
    """Their batches are numbered under the old id until they need another themselves."""
    sequences = numbered()
    sequences.assign(FIRST, 1)
    sequences.assign(SECOND, 1)

    sequences.forget(FIRST)

    assert not sequences.has_identity(FIRST)
    assert sequences.assign(SECOND, 1) == Stamp(7, 0, 1)


def test_forgetting_an_old_id_keeps_a_newer_one() -> None:
    """Two partitions that are refused one after the other need one new id, not two."""
    sequences = numbered()
    sequences.assign(FIRST, 1)
    sequences.assign(SECOND, 1)
    sequences.forget(FIRST)
    sequences.adopt(ProducerIdentity(8, 0))

    sequences.forget(SECOND)

    assert sequences.assign(SECOND, 1) == Stamp(8, 0, 0)
