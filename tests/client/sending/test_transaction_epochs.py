"""Which epoch a transactional producer uses next."""

from __future__ import annotations

import pytest

from ottla.client.sending.coordinator_requests import (
    NO_IDENTITY,
    AskEnd,
    AskGroup,
    AskIdentity,
)
from ottla.client.sending.sequences import ProducerIdentity
from ottla.client.sending.transaction_states import ProducerTransactionState
from ottla.protocol.errors import ErrorCode
from tests.client.sending.test_transaction import FIRST, ME, NONE, OFFSETS, opened


def test_version_2_goes_on_with_the_epoch_of_the_answer() -> None:
    """Even with another producer id, when the epochs are used up."""
    machine = opened(2, FIRST)
    machine.commit()
    ask = machine.advance(unresolved=False)
    assert isinstance(ask, AskEnd)
    machine.ended(ask, NONE, ProducerIdentity(8, 0))

    assert (machine.state, machine.identity) == (
        ProducerTransactionState.READY,
        ProducerIdentity(8, 0),
    )


@pytest.mark.parametrize("was_numbered", [True, False])
def test_version_1_renews_its_epoch_where_a_number_may_be_in_a_log(was_numbered: bool) -> None:
    """Hazard T-09: used again, it would be taken for what was aborted, and the record lost."""
    machine = opened(1, FIRST)
    machine.abort()
    machine.dropped(was_numbered=was_numbered)
    ask = machine.advance(unresolved=False)
    assert isinstance(ask, AskEnd)
    machine.ended(ask, NONE, NO_IDENTITY)

    assert machine.outcome is False
    if was_numbered:
        assert machine.advance(unresolved=False) == AskIdentity(ME)
        machine.initialized(NONE, ProducerIdentity(7, 1))
    assert machine.state is ProducerTransactionState.READY
    assert machine.identity.producer_epoch == int(was_numbered)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_positions_that_are_lost_on_their_way_cannot_join_the_next_transaction(
    version: int, is_commit: bool
) -> None:
    """They would overwrite newer positions: records are read twice, or never (T-12)."""
    machine = opened(version)
    machine.parts.send_offsets(OFFSETS)
    ask = machine.advance(unresolved=True)
    if version == 1:
        assert isinstance(ask, AskGroup)
        machine.added(ask, [NONE])
        ask = machine.advance(unresolved=True)
    assert ask is OFFSETS
    machine.lost(ask)
    machine.added(ask, [NONE])
    machine.commit() if is_commit else machine.abort()
    end = machine.advance(unresolved=False)
    assert end == AskEnd(is_commit)
    machine.ended(end, NONE, NO_IDENTITY if version == 1 else ProducerIdentity(7, 1))

    renewed = AskIdentity(ME) if version == 1 else None
    assert machine.advance(unresolved=False) == renewed


def test_a_predecessor_that_wakes_up_while_renewing_is_fenced() -> None:
    """It sends its old epoch, so that it cannot take the id back (KIP-360)."""
    machine = opened(1, FIRST)
    machine.batch_failed(ErrorCode.MESSAGE_TOO_LARGE)
    machine.abort()
    ask = machine.advance(unresolved=False)
    assert isinstance(ask, AskEnd)
    machine.ended(ask, NONE, NO_IDENTITY)
    machine.initialized(ErrorCode.PRODUCER_FENCED, NO_IDENTITY)

    assert machine.state is ProducerTransactionState.FATAL
    assert machine.outcome is False
