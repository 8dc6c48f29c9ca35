"""The end of the epochs: a producer goes on with another producer id, and knows it (KIP-360, 890).

Producers are given epochs up to 32766. The one above is kept to fence the last of them with.
"""

from __future__ import annotations

import pytest

from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from tests.coordinator.transaction.scene import (
    CLASSIC,
    FIRST_PRODUCER_ID,
    ID,
    NEXT_PRODUCER_ID,
    TIMEOUT_MS,
    Producer,
    begun,
    standing,
)
from tests.coordinator.transaction.tables import example

LIMIT = 32_766


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_producer_at_the_last_epoch_gets_another_producer_id(is_commit: bool) -> None:
    """The largest epoch is reserved for fencing, so the epoch cannot be raised (hazard T-10)."""
    scene = standing(example(TransactionState.ONGOING, LIMIT))
    last = Producer(FIRST_PRODUCER_ID, LIMIT)
    ticket = scene.end(last, is_commit=is_commit)
    scene.settle()

    (markers,) = scene.all_markers
    assert (markers.producer_id, markers.producer_epoch) == (FIRST_PRODUCER_ID, LIMIT + 1)
    assert scene.producer(ticket) == Producer(NEXT_PRODUCER_ID, 0)
    known = scene.metadata()
    assert known is not None
    assert (known.producer_id, known.producer_epoch) == (NEXT_PRODUCER_ID, 0)
    assert (known.previous_producer_id, known.next_producer_id) == (FIRST_PRODUCER_ID, -1)


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_an_end_with_the_last_epoch_can_be_repeated(is_reloaded: bool) -> None:
    """While markers are written, and when the producer id is another one already."""
    scene = standing(example(TransactionState.ONGOING, LIMIT))
    last = Producer(FIRST_PRODUCER_ID, LIMIT)
    scene.end(last)
    scene.give()
    scene.commit()
    scene = scene.reloaded() if is_reloaded else scene
    during = scene.end(last)
    contrary = scene.end(last, is_commit=False)
    told = scene.producer(during), scene.error(contrary)
    scene.settle()
    scene = scene.reloaded() if is_reloaded else scene
    after = scene.end(last)
    contrary_after = scene.end(last, is_commit=False)

    assert told == (Producer(NEXT_PRODUCER_ID, 0), ErrorCode.INVALID_TXN_STATE)
    assert scene.producer(after) == Producer(NEXT_PRODUCER_ID, 0)
    assert scene.error(contrary_after) is ErrorCode.INVALID_TXN_STATE


def test_a_producer_id_of_long_ago_repeats_nothing() -> None:
    """Only right after the change, at epoch 0, is the last epoch of the one before a repetition."""
    known = example(TransactionState.COMPLETE_COMMIT)._replace(previous_producer_id=7)
    scene = standing(known)

    ticket = scene.end(Producer(7, LIMIT))

    assert scene.error(ticket) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_without_a_producer_id_to_go_on_with_nothing_ends() -> None:
    """The producer retries and finds an unchanged state."""
    scene = standing(example(TransactionState.ONGOING, LIMIT))
    last = Producer(FIRST_PRODUCER_ID, LIMIT)
    refused = scene.end(last)
    meanwhile = scene.end(last)
    scene.give_nothing(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    again = scene.end(last)
    scene.settle()

    assert scene.error(refused) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert scene.error(meanwhile) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert scene.error(again) is ErrorCode.NONE


def test_a_producer_id_that_was_drawn_in_vain_is_used_the_next_time() -> None:
    """A log that takes no records must not use up all producer ids there are (hazard T-10)."""
    scene = standing(example(TransactionState.ONGOING, LIMIT))
    last = Producer(FIRST_PRODUCER_ID, LIMIT)
    scene.end(last)
    scene.give()
    for _ in range(3):
        scene.fail()
        ticket = scene.end(last)
    scene.settle()

    assert scene.producer(ticket) == Producer(NEXT_PRODUCER_ID, 0)
    assert scene.next_producer_id == NEXT_PRODUCER_ID + 1


def test_a_classic_producer_ends_with_the_last_epoch_as_with_any_other() -> None:
    """Its epoch is not raised, so it lacks nothing."""
    scene = standing(example(TransactionState.ONGOING, LIMIT))
    last = Producer(FIRST_PRODUCER_ID, LIMIT)
    ticket = scene.end(last, api_version=CLASSIC)
    scene.settle()

    assert scene.error(ticket) is ErrorCode.NONE
    known = scene.metadata()
    assert known is not None
    assert (known.producer_id, known.producer_epoch) == last


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_epoch_beyond_the_limit_is_let_go_of(is_commit: bool) -> None:
    """Only another's fault writes it; it must not stop the coordinator."""
    scene = standing(example(TransactionState.ONGOING, LIMIT + 1))
    ticket = scene.end(Producer(FIRST_PRODUCER_ID, LIMIT + 1), is_commit=is_commit)
    scene.settle()

    assert scene.producer(ticket) == Producer(NEXT_PRODUCER_ID, 0)


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_producer_that_missed_another_producer_id_is_given_it(is_reloaded: bool) -> None:
    """It still has the last epoch of the one before."""
    scene = standing(example(TransactionState.ONGOING, LIMIT))
    last = Producer(FIRST_PRODUCER_ID, LIMIT)
    scene.end(last)
    scene.settle()
    scene = scene.reloaded() if is_reloaded else scene
    tickets = [scene.init(last)]
    scene.settle()
    tickets += [scene.init(last)] if not is_reloaded else []
    scene.settle()

    assert {scene.producer(ticket) for ticket in tickets} == {Producer(NEXT_PRODUCER_ID, 0)}


def test_a_rotation_can_be_asked_for_again() -> None:
    """The same for a producer id that InitProducerId itself has changed."""
    scene = standing(example(TransactionState.EMPTY, LIMIT))
    last = Producer(FIRST_PRODUCER_ID, LIMIT)
    tickets = [scene.init(last)]
    scene.settle()
    tickets += [scene.init(last)]
    scene.settle()
    fenced = scene.init(Producer(FIRST_PRODUCER_ID, LIMIT - 1))

    assert {scene.producer(ticket) for ticket in tickets} == {Producer(NEXT_PRODUCER_ID, 0)}
    assert scene.error(fenced) is ErrorCode.PRODUCER_FENCED


def test_a_new_producer_ends_the_retries_of_one_at_the_last_epoch() -> None:
    """A rotation that was requested without an epoch is not for the previous producer."""
    scene = standing(example(TransactionState.EMPTY, LIMIT))
    scene.init()
    scene.settle()
    late = scene.init(Producer(FIRST_PRODUCER_ID, LIMIT))

    assert scene.error(late) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("is_replaced", [False, True])
def test_fencing_the_last_epoch_leaves_another_producer_id(is_replaced: bool) -> None:
    """The fence takes the epoch that was kept for it; no producer is ever given that one."""
    scene = standing(example(TransactionState.ONGOING, LIMIT))
    if is_replaced:
        scene.init()
    else:
        scene.advance(TIMEOUT_MS)
    scene.settle()
    (markers,) = scene.all_markers
    repeated = scene.end(Producer(FIRST_PRODUCER_ID, LIMIT), is_commit=False)
    ticket = scene.init()
    scene.settle()

    assert (markers.producer_id, markers.producer_epoch) == (FIRST_PRODUCER_ID, LIMIT + 1)
    assert scene.producer(ticket) == Producer(NEXT_PRODUCER_ID, 1)
    if is_replaced:
        assert scene.error(repeated) is ErrorCode.PRODUCER_FENCED
    else:
        assert scene.producer(repeated) == Producer(NEXT_PRODUCER_ID, 0)


def test_the_epoch_that_is_kept_for_fencing_is_never_given_away() -> None:
    """A record that has it anyway leads to another producer id, or to a refusal."""
    known = example(TransactionState.COMPLETE_ABORT, LIMIT + 1)
    scene = standing(known)
    late = scene.init(Producer(FIRST_PRODUCER_ID, LIMIT))
    ticket = scene.init()
    scene.settle()

    assert scene.error(late) is ErrorCode.PRODUCER_FENCED
    assert scene.producer(ticket) == Producer(NEXT_PRODUCER_ID, 0)


def test_a_producer_id_is_used_once() -> None:
    """The first one of an id must not be taken for one that waits when its epochs are used up."""
    scene, _ = begun()
    transaction = scene.shard.scope.transactions[ID]
    assert transaction.metadata is not None
    transaction.metadata = transaction.metadata._replace(producer_epoch=LIMIT)
    ticket = scene.init()
    scene.settle()

    assert scene.producer(ticket) == Producer(FIRST_PRODUCER_ID + 1, 0)
