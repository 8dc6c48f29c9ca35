"""What comes behind a refused batch of an idempotent producer."""

from __future__ import annotations

from ottla.broker.replica.refusals import BEHIND_MAX, PRODUCERS_MAX, Refusals
from ottla.protocol.errors import ErrorCode
from tests.broker.replica.support.batches import data_batch

TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS


def test_what_was_in_flight_behind_a_refused_batch_is_refused_for_the_same_reason() -> None:
    """Out of order would make librdkafka number anew what it has in flight, stored or not."""
    refusals = Refusals()
    refusals.note(data_batch(7), TOO_FEW)

    assert [refusals.error_behind(data_batch(sequence)) for sequence in (8, 9)] == [TOO_FEW] * 2


def test_a_retried_batch_that_is_out_of_order_gets_that_error() -> None:
    """Its predecessor was given up, and the producer must begin with a new epoch."""
    refusals = Refusals()
    refusals.note(data_batch(7), TOO_FEW)
    refusals.error_behind(data_batch(8))

    assert refusals.error_behind(data_batch(8)) is None


def test_a_second_refusal_excuses_those_behind_it_once_more() -> None:
    """The producer has sent all of them again, and the ISR is still too small."""
    refusals = Refusals()
    refusals.note(data_batch(7), TOO_FEW)
    refusals.error_behind(data_batch(8))
    refusals.note(data_batch(7), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert refusals.error_behind(data_batch(8)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_only_batches_behind_it_are_excused() -> None:
    """Not itself, not one before it, nor one of another producer or epoch."""
    refusals = Refusals()
    refusals.note(data_batch(7, epoch=1), TOO_FEW)
    others = [
        data_batch(7, epoch=1),
        data_batch(6, epoch=1),
        data_batch(8, epoch=2),
        data_batch(8, epoch=1, producer_id=6),
    ]

    assert [refusals.error_behind(other) for other in others] == [None] * len(others)


def test_sequences_go_round() -> None:
    """Zero comes behind the last one."""
    refusals = Refusals()
    refusals.note(data_batch((1 << 31) - 1), TOO_FEW)

    assert refusals.error_behind(data_batch(0)) is TOO_FEW


def test_refusals_that_will_not_pass_excuse_nothing() -> None:
    """The producer gives such a batch up, and what is behind it is out of order for good."""
    refusals = Refusals()
    refusals.note(data_batch(7), ErrorCode.MESSAGE_TOO_LARGE)

    assert refusals.error_behind(data_batch(8)) is None


def test_little_is_remembered() -> None:
    """As many as are in flight behind one, of the producers that were refused last."""
    refusals = Refusals()
    for producer_id in range(PRODUCERS_MAX + 1):
        refusals.note(data_batch(7, producer_id=producer_id), TOO_FEW)
    forgotten = refusals.error_behind(data_batch(8, producer_id=0))
    excused = [
        refusals.error_behind(data_batch(8 + number, producer_id=1))
        for number in range(BEHIND_MAX + 1)
    ]

    assert forgotten is None
    assert excused == [TOO_FEW] * BEHIND_MAX + [None]
