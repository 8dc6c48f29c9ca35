"""Two instances of one producer, and one that does not know whether it was heard (KIP-360)."""

from __future__ import annotations

import pytest

from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from tests.coordinator.transaction.scene import A0, begun


@pytest.mark.requirement("TXN-02", "TXN-03")
def test_a_producer_that_is_being_replaced_does_not_come_back() -> None:
    """Its transaction is fenced and its successor waits for the end of that; if it could go on with
    the raised epoch meanwhile, it could do so for ever."""
    scene, old = begun(A0)
    scene.init()
    scene.settle()
    back = [scene.end(old, is_commit=False), scene.init(old)]
    ticket = scene.init()
    scene.settle()

    assert [scene.error(one) for one in back] == [ErrorCode.PRODUCER_FENCED] * 2
    assert scene.producer(ticket).producer_epoch > old.producer_epoch


def test_a_producer_with_an_older_epoch_aborts_nothing() -> None:
    """It has been replaced, and the transaction is its successor's (hazard T-11)."""
    scene, old = begun()
    ticket = scene.init()
    scene.settle()
    new = scene.producer(ticket)
    scene.add(new, A0)
    scene.settle()
    ticket = scene.init(old)
    scene.settle()

    assert scene.error(ticket) is ErrorCode.PRODUCER_FENCED
    assert scene.state is TransactionState.ONGOING


def test_a_lost_answer_is_given_again() -> None:
    """The epoch was raised once; a second time would look like another producer (KIP-360)."""
    scene, producer = begun()
    tickets = [scene.init(producer)]
    scene.settle()
    tickets += [scene.init(producer)]
    scene.settle()
    tickets += [scene.init(producer)]
    scene.settle()

    assert {scene.producer(ticket) for ticket in tickets} == {producer.bumped()}


def test_no_answer_is_given_again_to_a_producer_that_was_replaced() -> None:
    """The epoch after its own belongs to another producer."""
    scene, producer = begun()
    scene.init()
    scene.settle()
    late = scene.init(producer)

    assert scene.error(late) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_producer_that_missed_the_end_initialises_with_the_assigned_epoch(
    is_reloaded: bool,
) -> None:
    """The answer to EndTxn was lost; the record of the end shows the last epoch, also to the next
    coordinator."""
    scene, producer = begun(A0)
    scene.end(producer)
    scene.settle()
    scene = scene.reloaded() if is_reloaded else scene
    ticket = scene.init(producer)
    scene.settle()

    assert scene.producer(ticket) == producer.bumped()
